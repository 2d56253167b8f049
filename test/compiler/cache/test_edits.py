"""After an edit of Stepwell's source, of a plugin or of IR the result is new, and only kernels that differ are compiled. Real processes."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from checkouts import linked
from command_server import started
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.backends.llvm_cpu.backend import LLVMOnCPU
from stepwell.cache.fingerprint import _CODE_GENERATION

ROOT = Path(__file__).resolve().parents[3]
FOLD = Path("passes", "graph", "simplification", "fold_batch_norm.py")
MATCH = "    scaled, factor = scale_of(op, rw)\n"
DECLINE = '    if type_of(op.result).shape[1] == {channels}:\n        return NoMatch("it is too small")\n'
PLUGIN = """
from dataclasses import dataclass
from stepwell.plugin import NoMatch, PatternPass, graph, pattern, register_pass, type_of

CHANNELS = {channels}

@pattern(graph.ReluOp)
def leak(op, rw):
    \"\"\"rewrite: relu(x) -> leaky_relu(x)  where there are as many channels\"\"\"
    if type_of(op.result).shape[1] != CHANNELS:
        return NoMatch("it has other channels")
    return rw.leaky_relu(op.x, alpha=0.5)

@register_pass("leak", level="graph", after="fold-batch-norm")
@dataclass
class Leak(PatternPass):
    \"\"\"Put other activations in the place of some.\"\"\"

    patterns = (leak,)
"""
# Which units are compiled goes to the file named first; the rest is the command line.
SCRIPT = """
import json, sys
from pathlib import Path
from stepwell.cli.main import main
from stepwell.backends.llvm_cpu import pool

compiled, told = [], Path(sys.argv[1])
make = pool.compile_units
def compile_units(units, **options):
    compiled.extend(unit.name for unit in units)
    return make(units, **options)
pool.compile_units = compile_units
status = main(sys.argv[2:])
told.write_text(json.dumps(compiled))
sys.exit(status)
"""


DECLARED = "from stepwell.plugin import depends_on\ndepends_on('table.txt')\n"
# As a compiler process does it: prints which files of ours took part.
COMPILE = """
import json, pickle, sys
from stepwell.backends.llvm_cpu.objects import compile_unit, make_engine_context

with open(sys.argv[1], "rb") as file:
    compile_unit(pickle.load(file), make_engine_context())
print(json.dumps([m.__file__ for name, m in sys.modules.items() if name.partition(".")[0] == "stepwell" and getattr(m, "__file__", None)]))
"""
EDITED = """
import sys
import time
import stepwell
from stepwell.plugin_files import load_file

load_file(sys.argv[2])
time.sleep(0.1)
with open({file!r}, "r+") as file:
    text = file.read()
    file.seek(0)
    file.write("5" if text == "2" else text + "# another")
stepwell.compile(sys.argv[1], threads=1)
"""
EDITS = {
    "graph-opt": ("graph.relu", "graph.neg"), "scheduled": ("arith.maximumf", "arith.minimumf"),
    "affine": ("arith.maximumf", "arith.minimumf"), "llvm": ('llvm.fcmp "ogt"', 'llvm.fcmp "olt"'),
}  # fmt: skip


@dataclass
class Answer:
    """What a command did."""

    compiled: list[str]
    """The functions that were compiled."""
    found: bool
    """Whether the whole model was in the cache."""
    outputs: dict[str, np.ndarray]


class Commands:
    """Processes of the command with one cache, of this package or of a copy."""

    def __init__(self, folder: Path, package: Path | None = None) -> None:
        self.folder = folder
        self.environment = {**os.environ, "STEPWELL_CACHE": "1", "STEPWELL_CACHE_DIR": str(folder / "cache")}
        if package is not None:
            self.environment["PYTHONPATH"] = str(package)

    def __call__(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-c", SCRIPT, self.folder / "told.json", *arguments]  # of a copy, it is no fork: its PYTHONPATH is another
        how = {"capture_output": True, "text": True, "env": self.environment, "cwd": self.folder, "timeout": 300}
        ended = subprocess.run(started(command), check=False, **how)
        assert ended.returncode == 0, ended.stderr + ended.stdout
        self.out = ended.stdout

    def run(self, *arguments: str | Path) -> Answer:
        self("run", *arguments, "--threads", "1", "--save", self.folder / "out.npz")
        with np.load(self.folder / "out.npz") as archive:
            outputs = {name: archive[name] for name in archive.files}
        return Answer(json.loads((self.folder / "told.json").read_text()), ": cache " in self.out, outputs)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three convolutions beside each other, of 2, 3 and 5 channels, each with a scale for each channel and an activation: as many kernels."""
    random = np.random.default_rng(3)
    nodes, weights, value = [], {}, helper.make_tensor_value_info
    for c in (2, 3, 5):
        weights |= {f"w{c}": random.standard_normal((c, 3, 1, 1), np.float32), f"k{c}": random.random((1, c, 1, 1), np.float32) + 0.5}
        nodes += [
            helper.make_node("Conv", ["x", f"w{c}"], [f"c{c}"], f"conv{c}"),
            helper.make_node("Mul", [f"c{c}", f"k{c}"], [f"m{c}"], f"scale{c}"),
            helper.make_node("Relu", [f"m{c}"], [f"y{c}"], f"relu{c}"),
        ]
    sides = [value("x", TensorProto.FLOAT, [1, 3, 4, 5])], [value(f"y{c}", TensorProto.FLOAT, [1, c, 4, 5]) for c in (2, 3, 5)]
    graph = helper.make_graph(nodes, "g", *sides, [numpy_helper.from_array(array, name) for name, array in weights.items()])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, Commands]:
    """A checkout that may be edited, and commands that run it."""
    checkout = tmp_path / "checkout"
    for name in ("compiler", "dialects", "passes"):
        shutil.copytree(ROOT / name, checkout / name)  # bytecode too, which is valid as times are kept
    return checkout, Commands(tmp_path, linked(checkout, tmp_path))


def edit(file: Path, change: Callable[[str], str]) -> None:
    """Overwrite a file, as an editor does."""
    text = file.read_text()
    changed = change(text)
    assert changed != text
    file.write_text(changed)


def assert_close(got: Answer, want: Answer) -> None:
    for name, array in want.outputs.items():
        np.testing.assert_allclose(got.outputs[name], array, rtol=1e-4, atol=1e-4)


def kernels(names: Sequence[str]) -> list[str]:
    """The functions that were compiled, @main aside, which calls kernels by their names and so changes with any."""
    return [name for name in names if name != "main"]


def test_an_edit_of_a_graph_pass_compiles_the_kernels_that_differ(copied: tuple[Path, Commands], source: Path) -> None:
    checkout, commands = copied
    first = commands.run(source)
    assert len(kernels(first.compiled)) >= 3
    assert commands.run(source).found
    edit(checkout / FOLD, lambda text: text + "# a remark\n")
    again = commands.run(source)
    assert (again.compiled, again.found) == ([], False), "the model is compiled again, and comes out the same"
    edit(checkout / FOLD, lambda text: text.replace(MATCH, DECLINE.format(channels=3) + MATCH))
    edited = commands.run(source)
    assert len(kernels(edited.compiled)) == 1, "only the one that is scaled now"
    assert_close(edited, first)
    edit(checkout / FOLD, lambda text: text.replace(DECLINE.format(channels=3), ""))
    assert commands.run(source).found


@pytest.mark.nightly  # by day the edit of a graph pass
def test_an_edit_of_what_makes_objects_compiles_all(copied: tuple[Path, Commands], source: Path) -> None:
    checkout, commands = copied
    first = commands.run(source)
    assert len(kernels(first.compiled)) >= 3
    for file in ("passes/affine_to_llvm/limit_unrolling.py", "compiler/backends/llvm_cpu/objects.py", "dialects/core/locations.py"):
        edit(checkout / file, lambda text: text + "# who knows what this does\n")
        assert commands.run(source).compiled == first.compiled, file


def test_what_compiles_a_kernel_is_in_its_key(tmp_path: Path, source: Path) -> None:
    """Each of our modules that takes a unit from the level affine to an object is among the files whose content the key holds."""
    unit = next(unit for unit in LLVMOnCPU().units(stepwell.lower(source, "affine")) if unit.name != "main")
    assert unit.pipeline
    (tmp_path / "unit").write_bytes(pickle.dumps(unit))
    ended = subprocess.run([sys.executable, "-c", COMPILE, tmp_path / "unit"], capture_output=True, text=True, check=True, timeout=300)
    folders = {"stepwell.dialects": ROOT / "dialects", "stepwell.passes": ROOT / "passes", "stepwell": ROOT / "compiler"}
    counted = {file for package, pattern in _CODE_GENERATION for file in folders[package].glob(pattern)}
    used = {Path(file).resolve() for file in json.loads(ended.stdout)}
    left_out = {file for file in used - counted if file.name != "__init__.py"}
    assert left_out == set()
    assert ROOT / "passes" / "affine_to_llvm" / "expand_math.py" in used


def test_an_edit_of_a_plugins_pass_compiles_the_kernels_that_differ(tmp_path: Path, source: Path) -> None:
    plugin, commands = tmp_path / "leak.py", Commands(tmp_path)
    plain = commands.run(source)
    for channels, others in ((2, (3, 5)), (5, (2, 3))):  # of the same length, within the same second or not
        plugin.write_text(PLUGIN.format(channels=channels))
        edited = commands.run(source, "--load", plugin)
        assert len(kernels(edited.compiled)) == 1
        assert edited.outputs[f"y{channels}"].min() < 0 <= plain.outputs[f"y{channels}"].min()
        assert all(np.array_equal(edited.outputs[f"y{c}"], plain.outputs[f"y{c}"]) for c in others)
        assert commands.run(source, "--load", plugin).found


def test_a_plugin_of_the_same_size_and_time_is_read_again(tmp_path: Path, source: Path) -> None:
    """Python would take the bytecode that it kept: it looks at size and time in seconds."""
    plugin, commands = tmp_path / "leak.py", Commands(tmp_path)
    commands.environment.pop("PYTHONDONTWRITEBYTECODE", None)
    outputs = []
    for channels in (2, 5):
        plugin.write_text(PLUGIN.format(channels=channels))
        os.utime(plugin, (1.7e9, 1.7e9))
        outputs.append(commands.run(source, "--load", plugin).outputs)
    assert not np.array_equal(outputs[0]["y2"], outputs[1]["y2"])
    assert not np.array_equal(outputs[0]["y5"], outputs[1]["y5"])


@pytest.mark.parametrize("what", ["plugin", "table"])
def test_a_plugin_that_changed_since_it_was_loaded_keeps_nothing(tmp_path: Path, source: Path, what: str) -> None:
    """What was loaded runs, and must not be found by who loads the new one."""
    plugin, table, commands = tmp_path / "leak.py", tmp_path / "table.txt", Commands(tmp_path)
    table.write_text("2")
    plugin.write_text(DECLARED + PLUGIN.format(channels="int(open(__file__.replace('leak.py', 'table.txt')).read())"))
    time.sleep(0.1)  # the clock of files is a coarse one
    script = EDITED.format(file=str(plugin if what == "plugin" else table))
    command = [sys.executable, "-c", script, source, plugin]
    subprocess.run(started(command), env=commands.environment, cwd=tmp_path, check=True, timeout=300)
    assert not commands.run(source, "--load", plugin).found
    assert commands.run(source, "--load", plugin).found


@pytest.mark.parametrize("level", EDITS)
def test_ir_takes_its_kernels_from_the_cache(tmp_path: Path, source: Path, level: str) -> None:
    commands, file = Commands(tmp_path), tmp_path / "net.mlir"
    commands("compile", source, "--emit", level, "-o", file)
    first = commands.run(file, "--from", level)
    assert len(kernels(first.compiled)) >= 3
    assert commands.run(file, "--from", level).compiled == []
    if level == "scheduled":
        assert commands.run(file, "--from", level, "--no-cache").compiled == first.compiled
    # In one kernel, the activation becomes another.
    lines = file.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if EDITS[level][0] in line)
    lines[place] = lines[place].replace(*EDITS[level], 1)
    file.write_text("\n".join(lines))
    edited = commands.run(file, "--from", level)
    assert len(kernels(edited.compiled)) == 1
    differing = [name for name, array in edited.outputs.items() if not np.array_equal(array, first.outputs[name])]
    assert len(differing) == 1
