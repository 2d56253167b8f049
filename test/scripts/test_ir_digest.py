"""scripts/ir_digest.py: what leaves the IR alone is told from what does not."""

import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from command_server import started
from ir_digest import in_order, renamed

ROOT = Path(__file__).resolve().parents[2]
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
small (float[2, 3] x, float[2, 3] y) => (float[2, 3] z) { s = Add(x, y)  z = Relu(s) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A checkout beside this one."""
    folder = tmp_path / "other"
    for name in ("compiler", "dialects", "passes"):
        shutil.copytree(ROOT / name, folder / name)  # bytecode too, which is valid as times are kept
    return folder


def digest(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "scripts" / "ir_digest.py"), *map(str, arguments)]
    return subprocess.run(started(command), capture_output=True, text=True, check=False)


def replace(folder: Path, old: str, new: str) -> None:
    """Write another word in all files."""
    found = [path for path in folder.rglob("*.py") if old in path.read_text()]
    assert found, old
    for path in found:
        path.write_text(path.read_text().replace(old, new))


def test_the_names_of_attributes_do_not_count(model: Path, other: Path) -> None:
    replace(other, "stepwell.workspace_bytes", "stepwell.a_scratch_size")
    done = digest(model, "--against", other)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["graph", "graph-opt", "linalg", "scheduled", "affine", "llvm"]
    assert all(line.endswith("operations  the same") for line in done.stdout.splitlines())
    assert [line.replace("  the same", "") for line in done.stdout.splitlines()] == digest(model).stdout.splitlines()


def test_another_operation_is_shown_at_the_level_that_has_it_first(model: Path, other: Path) -> None:
    replace(other, "graph.ReluOp: lambda s, x: s.maximum(x, s.const(0))", "graph.ReluOp: lambda s, x: s.maximum(x, s.const(1))")
    done = digest(model, "--against", other)
    assert (done.returncode, done.stderr) == (1, "")
    verdicts = {line.split()[1]: line.split()[-1] for line in done.stdout.splitlines() if line.startswith("small")}
    assert verdicts == {"graph": "same", "graph-opt": "same", "linalg": "DIFFER", "scheduled": "DIFFER", "affine": "DIFFER", "llvm": "DIFFER"}


def test_whole_words_get_new_names() -> None:
    line = "graph.plus(%0 %1) [] {graph.plus, my.graph.plus, graph.plus.one, graph.plus_two} : tensor<2xf32>"
    want = "graph.add(%0 %1) [] {graph.add, my.graph.plus, graph.plus.one, graph.plus_two} : tensor<2xf32>"
    assert renamed(line, [("graph.plus", "graph.add"), ("tensor", "tensor")]) == want


def test_new_names_may_change_the_order_of_entries() -> None:
    old, new = "#a<[{dim = array<i64: 2, 1>, slots = 3 : i64}]>", "#a<[{chunks = 3 : i64, dim = array<i64: 2, 1>}]>"
    assert in_order(renamed(old, [("slots", "chunks")])) == in_order(new) == new
