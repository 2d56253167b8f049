"""Code for machines that this one is not: it can be written to files with the target's instructions, and nothing runs what would end the process."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import Commands
from elftools.elf.elffile import ELFFile
from every import every
from quantized_networks import Net

import stepwell
from stepwell.backends.llvm_cpu.disassemble import disassemble
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.target.host import host, runs_here
from stepwell.dialects.target.registry import resolve, target_names
from stepwell.runtime.model import CompiledModel

FOREIGN = [name for name in target_names() if not runs_here(resolve(name))]
OURS = [name for name in FOREIGN if resolve(name).family == host().family]


def network() -> onnx.ModelProto:
    """A product of bytes, then a softmax and a product of floats: what dot products, AMX and exponentials have instructions for."""
    net = Net(5)
    x = net.quantised("x", 0.02, 100)
    w = net.dequantised(net.weight(net.rng.integers(-128, 128, (64, 48)).astype(np.int8)), [net.weight(np.float32(0.01)), net.weight(np.int8(0))])
    soft = net.op("Softmax", [net.op("MatMul", [x, w])], axis=-1)
    return net.model(net.op("MatMul", [soft, net.weight(net.rng.normal(size=(48, 32)).astype(np.float32))]), (12, 64))


def compiled(target: str, precision: str = "f32") -> CompiledModel | str:
    """The network for a target, or why it is refused."""
    try:
        return stepwell.compile(network(), target=target, precision=precision, cache=False)
    except StepwellError as error:
        return f"{error.code}: {error}"


@pytest.mark.skipif(not OURS, reason="this machine runs code for all targets of its family")
@every("target", OURS)
@every("precision", ["f32", "bf16"])
def test_a_model_runs_or_is_refused(target: str, precision: str) -> None:
    """Schedules alone run anywhere. What calls instructions that this machine lacks says which, before anything is run."""
    made = compiled(target, precision)
    if isinstance(made, str):
        assert "this one lacks" in made
        assert any(feature in made for feature in resolve(target).features - host().features), made
        return
    x = np.random.default_rng(1).normal(size=(12, 64)).astype(np.float32)
    want = stepwell.compile(network())(x)
    assert np.abs(made(x)[0] - want[0]).max() <= (2e-2 if precision == "bf16" else 1e-5) * np.abs(want[0]).max()


@every("target", [name for name in FOREIGN if name not in OURS])
def test_no_code_is_made_for_another_family(target: str) -> None:
    made = compiled(target)
    assert not isinstance(made, str) or (resolve(target).family in made and host().family in made), made


@pytest.mark.skipif("x86-64-v4-amx" not in OURS, reason="this machine has AMX, or is no x86-64")
def test_files_have_the_instructions_of_the_target(commands: Commands, tmp_path: Path) -> None:
    """Where LLVM is not told what a target has, it ends the process at the first instruction that this machine lacks."""
    model, made = tmp_path / "model.onnx", tmp_path / "model.o"
    onnx.save(network(), model)
    ended = commands.stepwell("compile", str(model), "--target", "x86-64-v4-amx", "--emit", "obj", "-o", str(made))
    assert ended.status == 0, ended.err
    assert products_of_tiles(made.read_bytes()) > 0
    listed = commands.stepwell("compile", str(model), "--target", "x86-64-v4-vnni", "--emit", "asm")
    assert listed.status == 0, listed.err
    assert "vpdpbusd" in listed.out
    refused = commands.stepwell("run", str(model), "--target", "x86-64-v4-amx")
    refused.refused(1, "amx-int8", "this one lacks")


@every("target", [name for name in FOREIGN if name not in OURS])
def test_an_object_is_of_the_family_of_its_target(target: str, commands: Commands, tmp_path: Path) -> None:
    """And a listing is of that object."""
    model, made = tmp_path / "model.onnx", tmp_path / "model.o"
    onnx.save(small(), model)
    ended = commands.stepwell("compile", str(model), "--target", target, "--emit", "obj", "-o", str(made))
    assert ended.status == 0, ended.err
    family, listed = resolve(target).family, commands.stepwell("compile", str(model), "--target", target, "--emit", "asm")
    if family == "wasm32":
        assert made.read_bytes()[:4] == b"\0asm"
        listed.refused(1, "not an ELF object: its disassembly is not supported")
        return
    with made.open("rb") as file:
        assert ELFFile(file)["e_machine"] == {"aarch64": "EM_AARCH64", "riscv64": "EM_RISCV", "x86_64": "EM_X86_64"}[family]
    if family == "riscv64":
        listed.refused(1, "the disassembly of EM_RISCV is not supported")
        return
    assert listed.status == 0, listed.err
    vectors = {"aarch64": r"fadd +v\d+\.4s", "x86_64": r"vaddps +[xyz]mm"}[family]
    assert re.search(vectors, listed.out), listed.out
    assert re.search(r"node 0: sum", listed.out)


@pytest.mark.skipif("avx-vnni" not in OURS or "avx512f" not in host().features, reason="needs a machine with AVX-512 and without AVX-VNNI")
def test_an_object_has_no_instructions_that_its_target_lacks(commands: Commands, tmp_path: Path) -> None:
    model, made = tmp_path / "model.onnx", tmp_path / "model.o"
    onnx.save(small(), model)
    for target, wide in (("host", True), ("avx-vnni", False)):
        ended = commands.stepwell("compile", str(model), "--target", target, "--emit", "obj", "-o", str(made))
        assert ended.status == 0, ended.err
        assert ("zmm" in disassemble({"main": made.read_bytes()}, ["a"] * 9)) == wide


def small() -> onnx.ModelProto:
    """A sum of many numbers, which takes the widest vectors that there are."""
    sides = [[onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [64, 64])] for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "x"], ["y"], "sum")], "g", *sides)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)


def products_of_tiles(data: bytes) -> int:
    """How many instructions of an object are `tdpbusd`: VEX.128.66.0F38.W0 5E (Intel, "Software Developer's Manual", volume 2)."""
    return sum(data[i] == 0xC4 and data[i + 1] & 0x1F == 2 and data[i + 2] & 0x83 == 1 and data[i + 3] == 0x5E for i in range(len(data) - 3))
