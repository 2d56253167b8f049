"""What the documentation shows is what happens: its commands are run as a reader would, and their output is compared with what is shown."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import bench
import compile_time
import doc_examples
import free_sizes
import generate
import onnx
import pytest
import quantize_real
from command_server import commands_folder, started
from covering import by_day
from kept_kernels import switch_on_cache
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
AT_NIGHT = ("sizes.md", "quantizer.md", "schedules.md", "tuning.md")  # half of the cost of all; `scripts/test --for` runs a page that changed
# Commands that are not run as they stand, by how they begin, and what is done instead.
INSTEAD = {
    "scripts/demo": "test -x scripts/demo",  # makes an environment; test_digits.py runs what it runs
    "scripts/test": "test -x scripts/test",  # this is part of what it runs
    "stepwell tune ": "{} --budget 2s",  # the last one counts
    ".venv/bin/pytest": "{} --collect-only -q",  # so are these tests
    ".venv/bin/python examples/serve/server.py": "timeout 5 {} --port 0; test $? = 124",  # it runs until it is told to end
    ".venv/bin/python scripts/check_ops.py": "{} --row 1",  # one case in place of all
}
# Those that take minutes, and an idle machine: their options are checked.
LONG = {f".venv/bin/python scripts/{script.__name__}.py": script for script in (bench, compile_time, free_sizes, generate, quantize_real)}
# What these print was measured: the words are compared, and not the numbers.
MEASURED = (".venv/bin/python examples/schedules/steps.py",)
# Snippets of Python that quote a file; the others are run.
QUOTES = {
    ("README.md", "class SoftShrinkOp"): "examples/plugins/op.py",
    ("backends.md", "register_level"): "examples/plugins/own_level.py",
    ("kernels.md", "class VersionSerial"): "examples/plugins/own_version.py",
    ("kernels.md", "@register_dialect"): "examples/plugins/own_dialect.py",
    ("layouts.md", "@layout_rule"): "examples/plugins/layout_rule.py",
    ("ops.md", "class RowProductOp"): "examples/plugins/product_op.py",
    ("ops.md", "class InterleaveOp"): "examples/plugins/product_op.py",
    ("plans.md", "class SlowMemory"): "examples/plugins/own_cost_model.py",
    ("tuning-strategies.md", "class Beam"): "examples/plugins/own_strategy.py",
    ("tuning-strategies.md", "class SlowMemory"): "examples/plugins/own_cost_model.py",
    ("vector-math.md", "@expands"): "passes/affine_to_llvm/vector_math/exponential.py",
    ("benchmarks.md", "@register_pass"): None,  # decorators with nothing below them
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What readers have too: the kernels of the commands that they ran before. Many examples are about one network."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout to work in, with models of the names that the pages use; its Python is a fork that has imported the compiler."""
    switch_on_cache(monkeypatch, cache)
    monkeypatch.setenv("STEPWELL_TUNING", str(tmp_path / "tuning.sqlite"))
    for entry in ROOT.iterdir():
        if entry.name not in (".venv", "build", ".git"):
            (tmp_path / entry.name).symlink_to(entry)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for entry in (Path(sys.prefix) / "bin").iterdir():
        if entry.name != "python":
            (programs / entry.name).symlink_to(entry)
    (programs / "python").write_text(f'#!/bin/sh\nexec {shlex.join(started([sys.executable]))} "$@"\n')
    (programs / "python").chmod(0o755)
    value = helper.make_tensor_value_info
    sides = [[value("x", TensorProto.FLOAT, [24, 16]), value("w", TensorProto.FLOAT, [16, 40])], [value("y", TensorProto.FLOAT, [24, 40])]]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", *sides)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "net.onnx")
    return tmp_path


@pytest.mark.page
@pytest.mark.parametrize("page", by_day(PAGES, lambda page: page.name not in AT_NIGHT), ids=lambda page: page.name)
def test_a_page(folder: Path, page: Path) -> None:
    commands, snippets = doc_examples.read(page)
    path = os.pathsep.join(map(str, (commands_folder(folder), Path(sys.executable).parent, os.environ.get("PATH", ""))))
    environment = {**os.environ, "PATH": path, "COLUMNS": "200"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)

    wrong = []
    for command in commands:
        where = f"{page.name}:{command.line}: {command.text}"
        text = command.text
        long = next((script for start, script in LONG.items() if text.startswith(start)), None)
        if long is not None:
            long.make_parser().parse_args(shlex.split(text, comments=True)[2:])
            continue
        instead = next((INSTEAD[start] for start in INSTEAD if text.startswith(start)), "{}")
        ended = run("bash", "-c", instead.format(text.partition("  #")[0]))
        if ended.returncode != 0:
            wrong.append(f"{where}\n{ended.stdout}{ended.stderr}")
        elif (different := doc_examples.difference(command.shown, ended.stdout, measured=text.startswith(MEASURED))) is not None:
            wrong.append(f"{where}\n{different}")
    for snippet in snippets:
        if snippet.language != "python":
            continue
        source = next((file for (name, part), file in QUOTES.items() if page.name == name and part in snippet.text), "")
        if source:
            missing = doc_examples.quoted(snippet.text, (ROOT / source).read_text())
            if missing is not None:
                wrong.append(f"{page.name}:{snippet.line}: {source} has no line, after those before it, that says\n{missing}")
        elif source == "":
            (folder / "snippet.py").write_text(snippet.text)
            ended = run(*started([sys.executable, "snippet.py"]))
            if ended.returncode != 0:
                wrong.append(f"{page.name}:{snippet.line}: {ended.stderr}")
    assert wrong == [], "\n\n".join(wrong)


def test_snippets_import_public_modules_alone() -> None:
    """Those that are run. What quotes a file is that file's affair."""
    for page in PAGES:
        for snippet in doc_examples.read(page)[1]:
            names = re.findall(r"^(?:from|import) (?:\w+, )*(stepwell[\w.]*)", snippet.text, flags=re.MULTILINE)
            assert set(names) <= {"stepwell", "stepwell.plugin", "stepwell.quantizer"}, f"{page.name}:{snippet.line}"


def test_elisions() -> None:
    assert doc_examples.difference(["a … c", "…", "z"], "a b c\nx\n\ny\nz\n") is None
    assert doc_examples.difference(["a … c", "z"], "a b c\nx\nz\n") is not None
    assert doc_examples.difference(["one   two", "────"], "one two\n──\n") is None
    assert doc_examples.difference(["a"], "a\nb\n") is not None
    assert doc_examples.difference([], "anything") is None
    assert doc_examples.difference(["a 5.3 ms"], "a 17 s", measured=True) is None
    assert doc_examples.difference(["a 5.3 ms"], "b 5.3 ms", measured=True) is not None
    assert doc_examples.quoted("def f(x): ...  # so\n\ny = 1", "import z\ndef f(x):\n    return x\ny = 1  # or\n") is None
    assert doc_examples.quoted("y = 1\nx = 2", "x = 2\ny = 1") == "x = 2"
