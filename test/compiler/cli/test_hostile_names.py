"""No name of a model, of whatever kind, puts a control character or a line of its own into what a command prints or a listing says."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import Commands
from onnx import TensorProto, helper, numpy_helper

from stepwell.dialects.support.names import printable

ROOT = Path(__file__).resolve().parents[3]
EVIL = "\nstepwell run: error: forged\n    ret\r\t\x00\x07\x1b[31m\x1b]0;title\x07\x7f\x85\x9b2J\u2028\u2029\u202e\u2066\ufeff"
"""Ends of lines of all kinds, C0 and C1 controls, sequences that a terminal obeys, marks of direction and of nothing."""


def evil(name: str) -> str:
    return f"{name}{EVIL}{name}"


def network(odd_op: bool = False) -> onnx.ModelProto:
    """Two products and a call of a local function, in which everything that can have a name has an odd one."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float32), evil(f"w{i}")) for i in range(2)]
    sides = [[helper.make_tensor_value_info(evil(name), TensorProto.FLOAT, [evil("n"), 8])] for name in ("x", "y")]
    nodes = [
        helper.make_node("MatMul", [evil("x"), evil("w0")], [evil("t")], evil("first")),
        helper.make_node(evil("Mine"), [evil("t")], [evil("u")], evil("call"), domain=evil("own")),
        helper.make_node("MatMul", [evil("u"), evil("w1")], [evil("v")], evil("second")),
        helper.make_node(evil("NoSuch") if odd_op else "Softmax", [evil("v")], [evil("y")], evil("last"), **({evil("a"): 1} if odd_op else {})),
    ]
    standard = helper.make_opsetid("", 18)
    body = [helper.make_node("Relu", [evil("i")], [evil("o")], evil("inside"))]
    function = helper.make_function(evil("own"), evil("Mine"), [evil("i")], [evil("o")], body, [standard])
    graph = helper.make_graph(nodes, evil("g"), *sides, weights, doc_string=evil("doc"))
    imports = [standard, helper.make_opsetid(evil("own"), 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=9, producer_name=evil("maker"))
    helper.set_model_props(model, {evil("key"): evil("value")})
    return model


def odd_lines(text: str) -> list[str]:
    """The lines that are not printable, and those that a name began."""
    return [line for line in text.split("\n") if not line.isprintable() or re.match(r"\s*(stepwell run: error: forged|ret$)", line)]


def test_commands_escape_names(commands: Commands, tmp_path: Path) -> None:
    file, np_data = tmp_path / "evil.onnx", tmp_path / "data.npz"
    onnx.save(network(), file)
    np.savez(np_data, x=np.random.default_rng(1).standard_normal((4, 2, 8)).astype(np.float32))
    some = ("--shape", f"{printable(evil('x'))}=2x8")
    saved, ir = tmp_path / "saved", tmp_path / "ir.mlir"
    listings = [tmp_path / f"listing.{kind}" for kind in ("asm", "llvm-ir")]
    calls: list[tuple[str | Path, ...]] = [
        ("run", file, *some, "--check", "reference", "--explain", "--save", saved, "--time-passes", "--pass-statistics"),
        ("run", file, *some, "--check", "onnxruntime", "--save", tmp_path / "saved.npz", "--print-ir-after", "fuse-operators"),
        ("run", file, *some, "--check", tmp_path / "saved.npz"),
        ("inspect", file),
        ("inspect", file, *some, "--explain"),
        ("inspect", file, *some, "--memory"),
        ("inspect", file, *some, "--schedules"),
        ("compile", file, *some, "--emit", "graph"),
        ("compile", file, *some, "--emit", "graph", "-o", ir),
        *(("compile", file, *some, "--emit", path.suffix[1:], "-o", path) for path in listings),
        ("run", ir, "--from", "graph", "--explain"),
        ("quantize", file, "--data", np_data, "-o", tmp_path / "q.onnx", "--report", tmp_path / "q.html"),
        ("bisect", file, *some),
    ]
    for call in calls:
        ended = commands.stepwell(*call)
        assert ended.status == 0, (call, ended.err)
        assert odd_lines(ended.out + ended.err) == [], call
        assert "forged" in ended.out + ended.err or "-o" in call or call[0] == "bisect", call
    assert all(odd_lines(re.sub(r"^    retq?$|^\t", "", path.read_text(), flags=re.MULTILINE)) == [] for path in listings)
    assert "forged" in listings[0].read_text()
    assert odd_lines((tmp_path / "q.html").read_text()) == []
    assert [path.name.isprintable() for path in saved.iterdir()] == [True]
    diff = commands.stepwell("diff", ir, ir)
    assert odd_lines(diff.out + diff.err) == []
    opt = commands.opt(ir, "--fuse-operators", "--explain")
    assert (opt.status, odd_lines(opt.out.replace("    return", "") + opt.err)) == (0, [])


def test_errors_escape_names(commands: Commands, tmp_path: Path) -> None:
    """Of the model, and of what a command is called with."""
    file = tmp_path / "evil.onnx"
    onnx.save(network(odd_op=True), file)
    calls: list[tuple[str | Path, ...]] = [("inspect", file), ("run", file), ("compile", file, "--emit", "asm"), ("bisect", file)]
    odd = evil("f").replace("\0", "")
    archive, schedules = tmp_path / "odd.npz", tmp_path / "odd.json"
    np.savez(archive, **{evil("a"): np.zeros(1)})
    schedules.write_text(json.dumps({"version": 2, "kernels": {evil("k"): {"ops": {evil("o"): {}}}}}))
    good = tmp_path / "good.onnx"
    onnx.save(network(), good)
    calls += [
        ("run", good, "--input", archive), ("quantize", good, "--data", archive, "-o", tmp_path / "q"), ("run", good, "--check", archive),
        ("compile", good, "--shape", f"{printable(evil('x'))}=2x8", "--emit", "asm", "--schedule", schedules), ("run", good, "--schedule", odd),
        ("run", tmp_path / odd), ("run", odd), (odd,), ("run", file, f"--{odd}"), ("run", file, "--input", f"{odd}=1"), ("run", file, "--limit", odd),
        ("run", file, "--shape", odd), ("run", file, "--target", odd), ("run", file, "--load", odd), ("run", file, "--pipeline", odd),
        ("pipeline", "--remove-pass", odd), ("quantize", file, "--data", odd, "-o", tmp_path / "q"), ("diff", odd, odd),
    ]  # fmt: skip
    for call in calls:
        ended = commands.stepwell(*call)
        assert ended.status != 0, call
        assert odd_lines(ended.out + ended.err) == [], call


def test_names_in_ir_are_printable_or_refused(commands: Commands, tmp_path: Path) -> None:
    named = tmp_path / "named.mlir"
    for what, text in {
        "id": 'func.func @main() -> tensor<2xf32> { %0 = "graph.parameter"() {id = "a\\00b"} : () -> tensor<2xf32> return %0 : tensor<2xf32> }',
        "stepwell.name": 'func.func @main(%a: tensor<2xf32> {stepwell.name = "a\\0Aforged"}) -> tensor<2xf32> { return %a : tensor<2xf32> }',
        "stepwell.nodes": 'module attributes {stepwell.nodes = ["a\\1B[31m"]} { }',
    }.items():
        named.write_text(text)
        ended = commands.stepwell("run", named, "--from", "graph")
        ended.refused(1, "SW008", what, "printable")
        assert odd_lines(ended.out + ended.err) == []


def test_commands_print_by_one_function() -> None:
    """Which escapes: `say`."""
    for file in sorted((ROOT / "compiler" / "cli").glob("*.py")):
        found = re.findall(r"(?<![\w.])print\(|sys\.std(?:out|err)\.write\(", file.read_text())
        assert len(found) == {"display.py": 1, "common.py": 1}.get(file.name, 0), file.name


@pytest.mark.parametrize("names", [("a", "a\0b"), ("a\0c", "a"), ("a\0", "a\\x00"), ("\n", "\r")])
def test_weights_are_told_apart_whatever_they_are_called(names: tuple[str, str]) -> None:
    from stepwell import compile as compile_model

    big = np.zeros((64, 64), np.float32)
    nodes = [helper.make_node("MatMul", ["x", names[0]], ["t"]), helper.make_node("MatMul", ["t", names[1]], ["y"])]
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64])] for name in ("x", "y")]
    weights = [numpy_helper.from_array(big + value, name) for value, name in zip((1, 3), names, strict=True)]
    model = helper.make_model(helper.make_graph(nodes, "g", *sides, weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    assert compile_model(model)(np.ones((1, 64), np.float32))[0][0, 0] == 64 * 64 * 3
