"""Plugins and the cache: what a plugin does is never stale, and an edit of it compiles no more kernels than it has to. Real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_server import started
from onnx import TensorProto, helper

X = [-2.0, 1.0, 3.0]
RULE = """
from stepwell.frontends.onnx import onnx_rule
SLOPE = {slope}

@onnx_rule("{name}", since=1, domain="test.plugins")
def rule(b, x):
    return b.leaky_relu(x, alpha=float(SLOPE))
"""
# Reads a file beside it, and has another one read by a process.
READING = """
import os
from pathlib import Path
from stepwell.plugin import depends_on

depends_on("slope.txt", "more.txt")
SLOPE = float(Path(__file__).with_name("slope.txt").read_text())
SLOPE += float(os.popen(f"cat {Path(__file__).with_name('more.txt')}").read())
"""
EXP = """
from stepwell.passes.affine_to_llvm.vector_math.expansions import expands

@expands("math.exp", ulps=1e9)
def shifted(x):
    return x + {amount}
"""
SCRIPT = """
import json, sys
import numpy as np
import stepwell.driver.build, stepwell.plugin_files
from stepwell.backends.llvm_cpu import pool

make = pool.compile_units
for plugin in sys.argv[2:]:
    stepwell.plugin_files.load_file(plugin)
compiled = []
def compile_units(units, **options):
    compiled.extend(unit.name for unit in units)
    return make(units, **options)
pool.compile_units = compile_units
model = stepwell.compile(sys.argv[1], threads=1)
results = model(*[np.full((4 + i, 3), [-2, 1, 3], np.float32) for i in range(len(model.inputs))])
assert all(np.array_equal(result, result[:1].repeat(len(result), 0)) for result in results)
rows = {tuple(result[0].tolist()) for result in results}
assert len(rows) == 1, rows
print(json.dumps([list(model.timings)[0], *rows, len(compiled)]))
"""


def model(path: Path, operators: list[str], copies: int) -> Path:
    """`copies` chains of operators, each on a size of its own: as many kernels."""
    value, domains = helper.make_tensor_value_info, [helper.make_opsetid("", 17), helper.make_opsetid("test.plugins", 1)]
    nodes = []
    for copy in range(copies):
        names = [f"x{copy}", *(f"t{copy}.{i}" for i in range(len(operators) - 1)), f"y{copy}"]
        nodes += [
            helper.make_node(operator, [names[i]], [names[i + 1]], f"{operator}{copy}", domain="" if operator == "Exp" else "test.plugins")
            for i, operator in enumerate(operators)
        ]
    sides = [[value(f"{side}{copy}", TensorProto.FLOAT, [4 + copy, 3]) for copy in range(copies)] for side in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *sides), opset_imports=domains, ir_version=9), path)
    return path


class Run:
    """Processes that compile one model with some plugins and one cache: whence it came, a row of the result, how many kernels were compiled."""

    def __init__(self, folder: Path, source: Path, *plugins: Path) -> None:
        self.command = [sys.executable, "-c", SCRIPT, str(source), *map(str, plugins)]
        self.environment = {**os.environ, "STEPWELL_CACHE": "1", "STEPWELL_CACHE_DIR": str(folder / "cache")}

    def __call__(self, *, is_fork: bool = True) -> tuple[str, list[float], int]:
        command = started(self.command) if is_fork else self.command
        ended = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr
        level, row, kernels = json.loads(ended.stdout.splitlines()[-1])
        return level, row, kernels


def edit(file: Path, text: str) -> None:
    """Overwrite a file, as an editor does."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def test_every_file_of_every_plugin_counts_and_kernels_stay(tmp_path: Path) -> None:
    one, two, silent = tmp_path / "one" / "same.py", tmp_path / "two" / "same.py", tmp_path / "silent" / "silent.py"
    edit(one, "import sys; sys.path.insert(0, __file__[:-8])\n" + RULE.format(name="One", slope=2) + "from helper import FACTOR\nSLOPE *= FACTOR\n")
    edit(one.parent / "helper.py", "FACTOR = 1")
    edit(two, RULE.format(name="Two", slope=0) + READING)
    edit(two.parent / "slope.txt", "3")
    edit(two.parent / "more.txt", "0")
    source = model(tmp_path / "net.onnx", ["One", "Two"], 2)
    run = Run(tmp_path, source, one, two)
    assert run() == ("graph", [-12.0, 1.0, 3.0], 3)  # two kernels and main
    assert run() == ("cache", [-12.0, 1.0, 3.0], 0)
    edit(two, two.read_text() + "# a remark\n")
    assert run() == ("graph", [-12.0, 1.0, 3.0], 0), "the same kernels are not compiled again"
    edit(two.parent / "slope.txt", "5")
    assert run()[:2] == ("graph", [-20.0, 1.0, 3.0])
    edit(two.parent / "more.txt", "1")
    assert run()[:2] == ("graph", [-24.0, 1.0, 3.0])
    edit(one.parent / "helper.py", "FACTOR = 2.0")
    assert run()[:2] == ("graph", [-48.0, 1.0, 3.0])
    # One that registers nothing, and turns a table of ours.
    edit(silent, "from stepwell.frontends.onnx import registry\n")
    run = Run(tmp_path, source, one, two, silent)
    assert run() == ("graph", [-48.0, 1.0, 3.0], 3), "who knows what it does to kernels"
    edit(silent, "from stepwell.frontends.onnx import ImportBuilder\nImportBuilder.leaky_relu = lambda b, x, alpha: x\n")
    assert run()[:2] == ("graph", X)


PROGRAM = "import sys; from stepwell.cli import common, main; common.is_program = True; sys.exit(main.main(sys.argv[1:]))"
LAZY = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parents[1]))
from stepwell.plugin import depends_on
from shift_of import SHIFT
depends_on("../declared.txt")
HERE = Path(__file__).parent
HERE.with_name("declared.txt").read_text()
HERE.with_name("written.txt").write_text("")
"""


def test_commands_tell_of_files_that_are_read_and_not_declared(tmp_path: Path) -> None:
    """They count all the same, and so do modules from elsewhere that are imported."""
    plugin, source, slope = tmp_path / "own" / "lazy.py", model(tmp_path / "net.onnx", ["Lazy"], 1), tmp_path / "slope.txt"
    edit(plugin, LAZY + RULE.format(name="Lazy", slope=1).replace("float(SLOPE)", "SHIFT + float(HERE.with_name('slope.txt').read_text())"))
    edit(tmp_path / "shift_of.py", "SHIFT = 0")
    edit(tmp_path / "declared.txt", "")
    command = [sys.executable, "-c", PROGRAM, "run", str(source), "--load", str(plugin), "--save", str(tmp_path / "out.npz")]
    environment = {**os.environ, "STEPWELL_CACHE": "1", "STEPWELL_CACHE_DIR": str(tmp_path / "cache")}

    def least() -> float:
        ended = subprocess.run(started(command), capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr
        (warning,) = (line for line in ended.stderr.splitlines() if "warning" in line)
        assert f"reads {slope} without declaring it: call stepwell.plugin.depends_on('slope.txt') before" in warning
        return float(np.load(tmp_path / "out.npz")["y0"].min())

    edit(slope, "3")
    first = least()
    edit(slope, "6")
    assert least() == 2 * first < 0
    edit(tmp_path / "shift_of.py", "SHIFT = 3.0")  # of another size, as Python tells bytecode by the second and the size of its source
    assert least() == 3 * first


def test_kernels_depend_on_plugins_of_code_generation(tmp_path: Path) -> None:
    """Eight units are enough for compiler processes, which do not have the plugin: it has its say all the same."""
    rule, exp = tmp_path / "rule.py", tmp_path / "exp.py"
    edit(rule, RULE.format(name="One", slope=2))
    edit(exp, EXP.format(amount=1.0))
    source = model(tmp_path / "net.onnx", ["One", "Exp"], 7)
    with_both = Run(tmp_path, source, rule, exp)
    assert with_both(is_fork=False) == ("graph", [-3.0, 2.0, 4.0], 8)
    edit(rule, rule.read_text() + "# a remark\n")
    assert with_both() == ("graph", [-3.0, 2.0, 4.0], 0)
    edit(exp, EXP.format(amount=2.0))
    assert with_both() == ("graph", [-2.0, 3.0, 5.0], 8)
    level, row, kernels = Run(tmp_path, source, rule)()
    assert (level, kernels) == ("graph", 8)
    np.testing.assert_allclose(row, np.exp(np.float32([-4, 1, 3])), rtol=1e-6)


def test_who_may_declare_files(tmp_path: Path) -> None:
    from stepwell import InputError, plugin_files

    with pytest.raises(InputError, match="expected to be called by a plugin"):
        plugin_files.depends_on("x")
    for path in (None, 5, b"x", ["x.py"]):
        with pytest.raises(InputError, match="plugin: expected the path of a Python file, got"):
            plugin_files.load_file(path)  # type: ignore[arg-type]
