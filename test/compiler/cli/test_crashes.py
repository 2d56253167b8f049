"""Native code that dies in a pass: where it was is said, and a small file dies in the same way. In real processes, as it ends them."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import DIGITS

from stepwell.cli.crashes import RECORDING, _alone, described, reproducer
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.passes.framework import crash_record

PLUGIN = """
import ctypes, os
from dataclasses import dataclass
from stepwell.passes.framework.registry import Pass, passes, register_pass
from stepwell.passes.framework.rewriting import PatternPass, pattern

@pattern("graph.relu")
def reads_nowhere(op, rw):
    "Reads memory that is not there."
    ctypes.string_at(0)

@register_pass("die-in-pattern", level="graph")
@dataclass
class DieInPattern(PatternPass):
    "Dies at the first relu."
    patterns = (reads_nowhere,)

@register_pass("die-in-function", level="graph", anchor="func.func")
@dataclass
class DieInFunction(Pass):
    "Dies in the function @two."
    def run(self, op, state):
        if "two" in str(op.attributes["sym_name"]):
            os.abort()

if "DIES" in os.environ:
    passes()[os.environ["DIES"]].run = lambda self, op, state: os.abort()
"""
IR = """
func.func @one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "graph.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  return %0 : tensor<4xf32>
}
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @one(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "graph.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("the relu")
  return %1 : tensor<4xf32>
}
"""


def ended(module: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from stepwell.cli.{module} import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    given = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=given)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "in.mlir").write_text(IR)
    (tmp_path / "dies.py").write_text(PLUGIN)
    return tmp_path / "dies.py"


def test_a_pattern_that_dies_is_named_and_reproduced_by_its_function_alone(plugin: Path, tmp_path: Path) -> None:
    made = tmp_path / "small.mlir"
    crashed = ended("opt", "--load", plugin, "--canonicalize", "--die-in-pattern", tmp_path / "in.mlir", f"--reproducer={made}")
    assert crashed.returncode < 0, "the status is that of the signal"
    where = f"pass 'die-in-pattern', pattern 'reads_nowhere' ({plugin}, line 7) on 'graph.relu' at loc(\"the relu\"), function @two"
    assert f"stepwell-opt: error: native code died (SIGSEGV) in {where}; reproducer: {made}; run it with: stepwell-opt " in crashed.stderr
    text = made.read_text()
    assert "func.func private @one(tensor<4xf32>) -> tensor<4xf32>" in text, "which is called: a declaration of it is left"
    assert "graph.neg" not in text
    command = shlex.split(text.splitlines()[0].removeprefix("// "))
    assert command[:2] == ["stepwell-opt", "--pass-pipeline=die-in-pattern"]


@pytest.mark.nightly
def test_a_pass_that_dies_in_the_compilation_of_a_model_is_named_and_reproduced(plugin: Path) -> None:
    for name in ("fold-batch-norm", "lower-to-affine"):
        crashed = ended("main", "compile", DIGITS, "--shape", "image=1x1x8x8", "--emit", "affine", "-o", os.devnull, "--load", plugin, DIES=name)
        assert crashed.returncode < 0
        [line] = [line for line in crashed.stderr.splitlines() if ": error: " in line]
        assert f"pass '{name}'" in line
        command = line.partition("run it with: ")[2]
        again = ended("opt", *shlex.split(command)[1:], DIES=name, **{RECORDING: str(plugin.parent)})
        assert again.returncode < 0
        Path(shlex.split(command)[-1]).unlink()


@pytest.mark.nightly
def test_the_library_leaves_a_traceback_that_names_the_pass(plugin: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import stepwell.passes; from stepwell import plugin_files; plugin_files.load_file(sys.argv[1])\n"
        "from stepwell.dialects.core.mlir import make_context, parse_module\n"
        "from stepwell.passes.framework.registry import PassState\n"
        "from stepwell.passes.framework.runner import PassRunner\n"
        "PassRunner(PassState()).run(parse_module(Path(sys.argv[2]).read_text(), make_context()), 'die-in-function', level='graph')\n"
    )
    command = [sys.executable, "-c", code, str(plugin), str(tmp_path / "in.mlir")]
    crashed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert crashed.returncode < 0
    assert f'File "{plugin}", line' in crashed.stderr
    assert "in pass 'die-in-function' of level graph" in crashed.stderr


def test_a_function_alone_keeps_declarations_of_what_it_calls() -> None:
    alone = _alone(IR, "two")
    module = parse_module(alone, make_context())
    assert [str(f.sym_name) for f in module.body.operations] == ['"one"', '"two"']
    assert "graph.neg" not in alone
    assert "@two" not in _alone(IR, "one")


def test_what_does_not_die_again_has_no_reproducer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidates are tried from the smallest on."""
    (tmp_path / crash_record.IR).write_text(IR)
    tried: list[str] = []
    monkeypatch.setattr("stepwell.cli.crashes._run", lambda command, folder: tried.append(Path(command[-1]).read_text()) or 0)
    record = {"pass": "cse", "pipeline": "cse", "line": "", "level": "graph", "function": ""}
    assert reproducer(record, tmp_path, []) is None
    assert [("@one(" in text, "@two(" in text) for text in tried] == [(True, False), (True, True), (True, True)]
    assert ["graph.neg" in text for text in tried] == [True, False, True]
    assert described(record) == "level graph, pass 'cse'"
    assert RECORDING == crash_record.FOLDER
