"""Every option with values that make no sense, and every command with standard streams that are closed, full or for another locale."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from commands import Commands, process
from kept_kernels import kept_kernels
from onnx import TensorProto, helper

from stepwell.cli import main, opt

WRONG = ("", "nonsense", "-1", "99999999999999999999", "\udcff=\udcff", "x=1x", os.devnull + "/x")
IR = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
NEEDS = {
    "compile": ("--emit", "graph"), "inspect --target": ("--memory",), "inspect --schedule": ("--memory",),
    "tune": ("--budget", "0.05s", "--floor", "graph", "--quiet"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model and IR that are right."""
    monkeypatch.chdir(tmp_path)
    value = helper.make_tensor_value_info
    sides = [[value(name, TensorProto.FLOAT, [3])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="é")], "g", *sides)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "net.onnx")
    (tmp_path / "net.mlir").write_text(IR)
    return tmp_path


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    [commands] = [action for action in main.make_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return {**commands.choices, "opt": opt.make_parser()}


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[None]:
    """What is no wrong value after all compiles the model again."""
    with kept_kernels(tmp_path / "cache"):
        yield


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("command", [*main.COMMANDS, "opt"])
def test_wrong_values_are_one_line(commands: Commands, folder: Path, command: str) -> None:
    wrong = []
    for action in parsers()[command]._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        option = action.option_strings[-1] if action.option_strings else None
        for value in WRONG if action.nargs != 0 else ("=1", " nonsense nonsense"):
            arguments = [value]
            if option is not None:
                file = [] if command == "cache" else ["net.mlir" if command == "opt" else "net.onnx"]
                arguments = [*file, f"{option}{'=' if action.nargs != 0 and option.startswith('--') else ''}{value}"]
            needs = [] if option == "--emit" else [*NEEDS.get(command, ()), *NEEDS.get(f"{command} {option}", ())]
            ended = (commands.opt if command == "opt" else lambda *given: commands.stepwell(command, *given))(*arguments, *needs)
            errors = [line for line in ended.err.splitlines() if ": error: " in line]
            told = ended.status in (1, 2) and len(errors) == 1 and "internal error" not in ended.err and "Traceback" not in ended.err
            if not told and (ended.status, errors) != (0, []):
                wrong.append(f"{command} {arguments!a}: {ended.status} {ended.err}")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("run", "net.onnx", "--threads", "0"), "--threads"),
        (("run", "net.onnx", "--repeat", "many"), "--repeat"),
        (("run", "net.onnx", "--check", "magic"), "--check"),
        (("run", "net.onnx", "--from", "cellar"), "--from"),
        (("run", "net.onnx", "--shape", "x"), "--shape"),
        (("run", "net.onnx", "--disable", "everything"), "--disable"),
        (("run", "net.onnx", "--target", "abacus"), "--target"),
        (("run", "net.onnx", "--limit", "money=1"), "--limit"),
        (("compile", "net.onnx", "--emit", "gold"), "--emit"),
        (("run",), "MODEL"),
        (("dance",), "dance"),
        ((), "expected a command"),
    ],
)
def test_wrong_command_lines_are_2(commands: Commands, folder: Path, arguments: tuple[str, ...], part: str) -> None:
    commands.stepwell(*arguments).refused(2, part)


# Each case in a child of one process that has imported what the cases need: a command with its standard streams as the case says.
STREAMS = """
import json, os, sys
from stepwell.cli import main, opt
if sys.argv[2] == "compile":
    from stepwell.cli import checks, compile, execute, inspect, optimize, run
    from stepwell.frontends.onnx import import_model

def child(case, arguments):
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    if case == "closed":
        os.close(1)
        sys.stdout = None
    elif case == "all closed":
        for number in range(3):
            os.close(number)
        sys.stdin = sys.stdout = sys.stderr = None
    elif case == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    elif case == "gone":
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.close(reading)
        os.close(writing)
    else:
        os.dup2(os.open("out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        sys.stdout = open(1, "w", encoding="ascii", closefd=False)
    program, *rest = arguments
    sys.exit((opt if program == "stepwell-opt" else main).main(rest))

results = []
for case, arguments in json.loads(sys.argv[1]):
    pid = os.fork()
    if pid == 0:
        child(case, arguments)  # and out by the way that every process goes
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    results.append([status, open("log").read()])
print(json.dumps(results))
"""
SHOWN = [
    "stepwell --help", "stepwell --version", "stepwell run --help", "stepwell compile --help", "stepwell-opt net.mlir", "stepwell inspect --help",
    "stepwell cache --help", "stepwell-opt --help", "stepwell compile net.onnx --emit graph", "stepwell-opt --version", "stepwell-opt --list-passes",
    "stepwell-opt --show-dialects", "stepwell cache", "stepwell cache path", "stepwell run net.mlir --from graph", "stepwell inspect net.onnx",
]  # fmt: skip
LIGHT = ("--help", "--version", "cache")
"""Commands with one of these words need little of the compiler."""


def test_streams_that_are_closed_or_full(folder: Path) -> None:
    import json

    every = ("closed", "all closed", "full", "gone", "ascii")
    cases = [(case, line.split()) for i, line in enumerate(SHOWN) for case in (every if i % 8 == 0 else (every[i % 5],))]
    environment = {**os.environ, "PYTHONUNBUFFERED": "", "STEPWELL_CACHE_DIR": str(folder / "cache")}
    light = [case for case in cases if any(word in LIGHT for word in case[1])]  # as it ends, a process takes apart all that it has imported
    cases = [*light, *(case for case in cases if case not in light)]
    ends: list[tuple[int, str]] = []
    for kind, chosen in (("show", light), ("compile", cases[len(light) :])):
        command = [sys.executable, "-c", STREAMS, json.dumps(chosen), kind]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr
        ends += json.loads(ended.stdout.splitlines()[-1])
    wrong = []
    for (case, arguments), (status, said) in zip(cases, ends, strict=True):
        errors = [line for line in said.splitlines() if ": error: " in line]
        if case in ("closed", "full"):
            right = status == 1 and len(errors) == 1 and "standard output: " in errors[0]
        elif case == "gone":
            right = status == 1 and errors == []
        else:
            right = status == (1 if case == "all closed" else 0) and errors == []
        if not right or "Traceback" in said or "Exception ignored" in said or "internal" in said:
            wrong.append(f"{case}: {' '.join(arguments)}: {status} {said}")
    assert wrong == [], "\n".join(wrong)


def test_an_ascii_locale(folder: Path) -> None:
    """Help has letters replaced that cannot be shown; what is compiled is UTF-8 all the same, so that it reads back."""
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    helped = process("main", "inspect", "--help", **environment)
    assert (helped.status, helped.err) == (0, "")
    assert "1x3x224x224" in helped.out
    written = process("main", "compile", "net.onnx", "--emit", "asm", **environment)
    assert written.status == 0, written.err
    assert "# node 0: é\n" in written.out
