"""Products with weights in few bits, natively: bytes or nibbles, whatever their blocks, zero points and orientation, for every number of rows."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from covering import each
from every import every
from native_checks import Arrays, check_model, natively_together
from onnx import TensorProto, helper, numpy_helper

import stepwell

RNG = np.random.default_rng(41)


def model(weights: dict[str, np.ndarray], nodes: list[onnx.NodeProto], shape: tuple[Any, ...]) -> onnx.ModelProto:
    sides = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", *sides, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def blockwise(depth: int, columns: int, block: int, bits: int, zero: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Numbers (K, N), scales and zero points (K / block, N), and the matrix in f64."""
    top = (1 << bits) - 1
    numbers = RNG.integers(0, top + 1, (depth, columns)).astype(np.uint8)
    numbers.flat[::17], numbers.flat[1::17] = 0, top
    scale = RNG.uniform(0.001, 0.02, (depth // block, columns)).astype(np.float32)
    middle = np.full(scale.shape, (top + 1) // 2)
    zeros = (RNG.integers(0, top + 1, scale.shape) if zero == "each" else middle).astype(np.uint8)
    matrix = (numbers.astype(np.float64) - np.repeat(zeros, block, 0)) * np.repeat(scale, block, 0)
    return numbers, scale, zeros, matrix


def check(made: onnx.ModelProto, x: np.ndarray, want: np.ndarray, terms: np.ndarray, **options: Any) -> None:
    def judge(got: Arrays) -> None:
        assert (np.abs(got["y"] - want) <= allowed(x, terms)).all()

    check_model(made, {"x": x}, judge, threads=[2], **options)


def allowed(x: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """What products of f32 may be off: `terms` is the sum of the absolute values of numbers and zero points, times `x`."""
    return np.asarray(4 * (x.shape[-1] + 8) * np.finfo(np.float32).eps * terms)


@natively_together
@each({
    ("rows", "turned"): [(rows, turned) for rows in ((1,), (3,), (2, 4), (20,)) for turned in (False, True)],
    ("depth", "columns", "block", "bits", "zero"): [
        (64, 33, 32, 4, "middle"), (128, 48, 16, 4, "each"), (96, 20, 96, 8, "middle"), (256, 40, 128, 8, "each"), (64, 16, 16, 8, "middle"),
    ],
})  # fmt: skip
def test_dequantised_weights(rows: tuple[int, ...], depth: int, columns: int, block: int, bits: int, zero: str, turned: bool) -> None:
    """As the blocks of DequantizeLinear, in either orientation, with a bias and an activation behind."""
    numbers, scale, zeros, matrix = blockwise(depth, columns, block, bits, zero)
    bias = RNG.normal(size=columns).astype(np.float32)
    turn = (lambda a: np.ascontiguousarray(a.T)) if turned else (lambda a: a)
    stored = {"w": turn(numbers), "s": turn(scale), "z": turn(zeros), "b": bias}
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=int(turned), block_size=block)]
    nodes += [helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0])] if turned else []
    nodes += [helper.make_node("MatMul", ["x", "t" if turned else "d"], ["p"])]
    nodes += [helper.make_node("Add", ["p", "b"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    made, x = model(stored, nodes, (*rows, depth)), RNG.normal(size=(*rows, depth)).astype(np.float32)
    text = stepwell.lower(made, "graph-opt").text()
    assert "packed.low_bit_matmul" in text
    assert f"bits = {bits} : i64" in text
    largest = np.abs(numbers.astype(np.float64) * np.repeat(scale, block, 0)) + np.abs(np.repeat(zeros * scale.astype(np.float64), block, 0))
    check(made, x, np.maximum(x @ matrix + bias, 0), np.abs(x) @ largest + np.abs(bias))


@each({"bits": [4, 8], "block": [16, 32, 128]})
def test_matmul_n_bits(bits: int, block: int) -> None:
    """The weights take no more memory than their bits."""
    depth, columns = 256, 64
    made, matrix, largest, scale = matmul_n_bits(1, depth, columns, bits, block)
    x = RNG.normal(size=(1, depth)).astype(np.float32)
    compiled = stepwell.compile(made, threads=2)
    assert (np.abs(compiled.run({"x": x})["y"] - x @ matrix) <= allowed(x, np.abs(x) @ largest)).all()
    assert compiled.memory.weights_bytes <= depth * columns * bits // 8 + scale.nbytes + 512


@each({"bits": [4, 8], "rows": [1, 3]})
def test_more_blocks_than_sums_at_once(bits: int, rows: int) -> None:
    """The sums of some blocks wait for their scales, then those of the next ones in the same place; what is left over comes last."""
    block, columns = 16, 70
    depth = 149 * block  # 149 is no multiple of any group
    numbers, scale, zeros, matrix = blockwise(depth, columns, block, bits, "each")
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=block), helper.make_node("MatMul", ["x", "d"], ["y"])]
    made, x = model({"w": numbers, "s": scale, "z": zeros}, nodes, (rows, depth)), RNG.normal(size=(rows, depth)).astype(np.float32)
    assert "packed.low_bit_matmul" in stepwell.lower(made, "graph-opt").text()
    largest = np.repeat((scale * zeros).astype(np.float64), block, 0) + numbers * np.repeat(scale.astype(np.float64), block, 0)
    compiled = stepwell.compile(made, threads=2)
    assert (np.abs(compiled.run({"x": x})["y"] - x @ matrix) <= allowed(x, np.abs(x) @ largest)).all()
    at_once = compiled.memory.workspace_bytes - 2 * x.nbytes
    assert at_once < rows * columns * 149 * 4 // 2, "less than half of the sums of all blocks"


@pytest.mark.parametrize("bits", [4, 8])
def test_any_number_of_rows(bits: int) -> None:
    """One code for all: a version for few rows, and one that makes floats of some panels at a time."""
    depth, columns = 1024, 1120  # 70 panels, of which 64 fill what is made of floats at once
    made, matrix, largest, _ = matmul_n_bits("n", depth, columns, bits, 32)
    text = stepwell.lower(made, "graph-opt", specialise="never", target="x86-64-v3").text()
    assert 'stepwell.version = {most = 8 : i64, of = "packed_low_bit_matmul' in text
    model = stepwell.compile(made, specialise="never", threads=2, target="x86-64-v3")
    for rows in (1, 3, 8, 9, 40, 0):
        x = RNG.normal(size=(rows, depth)).astype(np.float32)
        assert (np.abs(model.run({"x": x})["y"] - x @ matrix) <= allowed(x, np.abs(x) @ largest)).all(), rows


def matmul_n_bits(rows: Any, depth: int, columns: int, bits: int, block: int) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray, np.ndarray]:
    """A model of one MatMulNBits; its matrix, the same of absolute values before the zero point is taken off, and its scales."""
    numbers, scale, _, matrix = blockwise(depth, columns, block, bits, "middle")
    apart = numbers.T.reshape(columns, depth // block, block)
    packed = apart if bits == 8 else apart[..., 0::2] | apart[..., 1::2] << 4
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=block)
    made = model({"w": np.ascontiguousarray(packed), "s": np.ascontiguousarray(scale.T)}, [node], (rows, depth))
    return made, matrix, np.repeat(scale.astype(np.float64), block, 0) * (1 << bits), scale


@pytest.mark.parametrize("signed", [False, True])
def test_weights_of_four_bit_types(signed: bool) -> None:
    """ONNX's own types of four bits, two in a byte."""
    depth, columns, block = 64, 40, 32
    numbers, scale, zeros, matrix = blockwise(depth, columns, block, 4, "each")
    kind, shift = (ml_dtypes.int4, 8) if signed else (ml_dtypes.uint4, 0)
    stored = {"w": (numbers.astype(np.int8) - shift).astype(kind), "s": scale, "z": (zeros.astype(np.int8) - shift).astype(kind)}
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=block), helper.make_node("MatMul", ["x", "d"], ["y"])]
    made, x = model(stored, nodes, (2, depth)), RNG.normal(size=(2, depth)).astype(np.float32)
    assert "bits = 4 : i64" in stepwell.lower(made, "graph-opt").text()
    check(made, x, x @ matrix, np.abs(x) @ (np.repeat(scale.astype(np.float64), block, 0) * 16))


@natively_together
@every("case", ["small blocks", "many rows", "left side", "two products"])
def test_what_becomes_floats(case: str) -> None:
    numbers, scale, _, matrix = blockwise(64, 48, 8 if case == "small blocks" else 32, 4, "middle")
    rows = 100 if case == "many rows" else 2
    zeros = np.full(scale.shape, 8, np.uint8)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=64 // len(scale))]
    if case == "left side":
        nodes += [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["d", "u"], ["p"])]
        nodes += [helper.make_node("MatMul", ["t", "p"], ["q"])]
        nodes += [helper.make_node("ReduceSum", ["q"], ["y"], keepdims=0)]
        extra = {"u": RNG.normal(size=(48, 5)).astype(np.float32)}
        made = model({"w": numbers, "s": scale, "z": zeros, **extra}, nodes, (64, rows))
    else:
        nodes += [helper.make_node("MatMul", ["x", "d"], ["y" if case != "two products" else "p"])]
        nodes += [helper.make_node("Mul", ["p", "p"], ["y"])] if case == "two products" else []
        made = model({"w": numbers, "s": scale, "z": zeros}, nodes, (rows, 64))
    text = stepwell.lower(made, "graph-opt").text()
    assert ("packed.low_bit_matmul" in text) == (case == "two products")
    x = RNG.normal(size=(64, rows) if case == "left side" else (rows, 64)).astype(np.float32)
    want = (x.T @ (matrix @ extra["u"])).sum() if case == "left side" else x @ matrix

    def judge(got: Arrays) -> None:
        np.testing.assert_allclose(got["y"], want**2 if case == "two products" else want, rtol=2e-4, atol=2e-4)

    check_model(made, {"x": x}, judge)
