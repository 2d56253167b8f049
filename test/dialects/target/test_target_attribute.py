"""IR says which machine it is for, from the first pass that asks on, and goes further for that machine alone."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import stepwell
from stepwell.cli.main import main as command
from stepwell.cli.opt import main as opt
from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.support.errors import IRError
from stepwell.dialects.target.dialect import TargetInfo
from stepwell.dialects.target.registry import resolve, target_names
from stepwell.pipelines.routes import CPU_PATH

NARROW_AND_WIDE = ("x86-64-v2", "x86-64-v4")


def network() -> onnx.ModelProto:
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 40])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"], name="tanh")], "net", *sides)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def nest(text: str) -> str:
    return text.partition("#sched.nest<")[2].partition(">}")[0]


@pytest.mark.parametrize("name", target_names())
def test_a_description_survives_text(name: str) -> None:
    target = replace(resolve(name), vector_maths=False) if name == "host" else resolve(name)
    module = parse_module("module {}", make_context())
    assert TargetInfo(module).target is None
    with module.context, ir.Location.unknown():
        TargetInfo(module).target = target
    assert TargetInfo(parse_module(str(module), make_context())).target == target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"256 : i64": '"wide"'}, 'field .vector_bits. must be a whole number from 1, got "wide"'),
        ({"256 : i64": "0 : i64"}, "field 'vector_bits' must be a whole number from 1, got 0"),
        ({"vector_bits =": "bits ="}, "there is no field 'bits', expected name, triple, cpu"),
        ({'triple = "x86_64-unknown-linux-gnu", ': ""}, "field 'triple' is missing"),
        ({"l1d = 32768 : i64, ": ""}, "field 'caches': field 'l1d' is missing"),
        ({'["avx", ': "[3 : i64, "}, "field 'features' must be a list of strings"),
        ({"#target.description<": "#sched.nest<"}, r"must be a #target.description<\{…\}>, got #sched.nest"),
        ({"fma = true": "fma = dense<1> : tensor<1xi64>"}, "field 'fma' must be true or false"),
    ],
)
def test_what_describes_no_machine(change: dict[str, str], message: str) -> None:
    lowered = stepwell.lower(network(), "linalg", target="x86-64-v3")
    text = lowered.text()
    for old, new in change.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(IRError, match=f"mine.*{TargetInfo.target.name}.*{message}"):
        stepwell.read_ir(text, "linalg", lowered.weights, name="mine")


def test_the_levels_that_say_it() -> None:
    lowered = stepwell.lower(network(), CPU_PATH.last, target="x86-64-v2")
    said = {level: TargetInfo(op).target for level, op in lowered.snapshots.items()}
    assert said == {"graph": None, **dict.fromkeys(CPU_PATH.stages, resolve("x86-64-v2"))}


def test_ir_goes_on_for_its_own_machine() -> None:
    lowered = stepwell.lower(network(), "scheduled", target="x86-64-v2")
    again = stepwell.read_ir(lowered.text(), "scheduled", lowered.weights)
    assert again.target == resolve("x86-64-v2")
    assert 'target_cpu = "x86-64-v2"' in stepwell.descend(again, "llvm").text()
    same = replace(resolve("x86-64-v2"), cores=77, name="mine")
    assert stepwell.read_ir(lowered.text(), "scheduled", lowered.weights, target=same).target == resolve("x86-64-v2")
    for other, message in (
        ("x86-64-v3", "x86-64-v2 has cpu x86-64-v2, x86-64-v3 has x86-64-v3"),
        (replace(same, features=same.features | {"avx"}), "mine has avx"),
        (replace(same, contraction=False), "x86-64-v2 has contraction True, mine has False"),
    ):
        with pytest.raises(IRError, match=f"mine: the IR is for another target than the one asked for: {message}"):
            stepwell.read_ir(lowered.text(), "scheduled", lowered.weights, name="mine", target=other)


def test_ir_that_does_not_say_it_is_for_the_one_asked_for() -> None:
    lowered = stepwell.lower(network(), "graph")
    assert TargetInfo(stepwell.read_ir(lowered.text(), "graph", lowered.weights, target="x86-64-v2").module).target is None
    below = stepwell.lower(network(), "linalg")
    del TargetInfo(below.module).target
    again = stepwell.read_ir(below.text(), "linalg", below.weights, target="x86-64-v2")
    assert TargetInfo(again.module).target == again.target == resolve("x86-64-v2")


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    ir, graph = str(tmp_path / "net.mlir"), str(tmp_path / "graph.mlir")
    assert command(["compile", str(tmp_path / "net.onnx"), "--target", "x86-64-v2", "--emit", "linalg", "-o", ir]) == 0
    assert command(["compile", str(tmp_path / "net.onnx"), "--emit", "graph", "-o", graph]) == 0
    capsys.readouterr()
    assert command(["run", ir, "--from", "linalg", "--check", f"onnxruntime:{tmp_path / 'net.onnx'}"]) == 0
    assert command(["run", ir, "--from", "linalg", "--target", "x86-64-v3"]) == 1
    assert "SW008 " + ir + ": the IR is for another target than the one asked for: x86-64-v2 has" in capsys.readouterr().err
    assert opt([ir, "--pass-pipeline=scheduled"]) == 0
    nests = [nest(text) for text in (capsys.readouterr().out, *(stepwell.lower(network(), "scheduled", target=t).text() for t in NARROW_AND_WIDE))]
    assert nests[0] == nests[1] != nests[2], "the schedule is for the machine that the IR is for"
    assert opt([ir, "--target", "x86-64-v3", "--canonicalize"]) == 1
    assert "the IR is for another target than the one asked for" in capsys.readouterr().err
    assert opt([graph, "--target", "x86-64-v3", "--attach-target"]) == 0
    assert 'cpu = "x86-64-v3"' in capsys.readouterr().out


def test_one_object_of_all(tmp_path: Path) -> None:
    """The compiler's own context has no dialect of ours."""
    onnx.save(network(), tmp_path / "net.onnx")
    assert command(["compile", str(tmp_path / "net.onnx"), "--emit", "obj", "-o", str(tmp_path / "net.o")]) == 0
    assert (tmp_path / "net.o").stat().st_size > 0
