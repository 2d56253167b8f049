"""Small networks in ONNX's Q/DQ format, with random integers, scales and zero points, and machines that pretend to have instructions."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from stepwell.dialects.core.mlir import arith, ir, vector
from stepwell.dialects.target import dot_products
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import Tile, intrinsic
from stepwell.dialects.target.registry import resolve

F = np.float32


class Net:
    """Builds a network node by node: floats between DequantizeLinear and QuantizeLinear, weights stored as integers."""

    def __init__(self, seed: int, activations: Any = np.uint8, per_channel: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.activations, self.per_channel = activations, per_channel
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def op(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        return name

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def quantised(self, x: str, scale: float, zero: int) -> str:
        """`x` through a QuantizeLinear and a DequantizeLinear."""
        return self.dequantised(self.op("QuantizeLinear", [x, *(both := self.parameters(scale, zero))]), both)

    def parameters(self, scale: float, zero: int) -> list[str]:
        return [self.weight(np.array(scale, F)), self.weight(np.array(zero, self.activations))]

    def dequantised(self, x: str, parameters: list[str], **attributes: Any) -> str:
        return self.op("DequantizeLinear", [x, *parameters], **attributes)

    def filters(self, *shape: int, axis: int = 0) -> tuple[str, np.ndarray]:
        """Dequantised weights, and the scale of each."""
        numbers = self.rng.integers(-127, 128, shape).astype(np.int8)
        scale = self.rng.uniform(0.001, 0.01, shape[axis] if self.per_channel else ()).astype(F)
        zero = np.zeros(scale.shape, np.int8)
        return self.dequantised(self.weight(numbers), [self.weight(scale), self.weight(zero)], axis=axis), scale

    def bias(self, size: int, scale: np.ndarray) -> str:
        """A bias in i32 with the scale of the product that it is added to."""
        numbers = self.rng.integers(-3000, 3000, size).astype(np.int32)
        return self.dequantised(self.weight(numbers), [self.weight(scale.astype(F)), self.weight(np.zeros(scale.shape, np.int32))], axis=0)

    def conv(self, x: str, scale: float, *shape: int, **attributes: Any) -> str:
        """A convolution with a bias, of data of one scale."""
        w, own = self.filters(*shape)
        return self.op("Conv", [x, w, self.bias(shape[0], (own * F(scale)).astype(F))], **attributes)

    def model(self, result: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        """A model of one input, `x`."""
        self.nodes[-1].output[0] = "y"
        assert result == f"v{len(self.nodes) - 1}"
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        stored = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(domain, 1) for domain in {node.domain for node in self.nodes} - {""})]
        made = helper.make_model(helper.make_graph(self.nodes, "g", [x], [y], stored), opset_imports=opsets, ir_version=10)
        return onnx.shape_inference.infer_shapes(made)


# --- machines that have what this one lacks: the dot product is spelled out, everything around it is as it would be there


def spelled_out(depth: int, signed: tuple[bool, bool]) -> Callable[[ir.Value, ir.Value, ir.Value], ir.Value]:
    """A dot product of bytes in plain vector ops."""

    def emit(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        lanes = acc.type.shape[0]
        wide = ir.VectorType.get([lanes * depth], acc.type.element_type)
        sides = [(arith.extsi if sign else arith.extui)(wide, side) for sign, side in zip(signed, (x, y), strict=True)]
        products = arith.muli(*sides)
        for i in range(depth):
            acc = arith.addi(acc, vector.ShuffleOp(products, products, [lane * depth + i for lane in range(lanes)]).result)
        return acc

    return emit


def spelled_out_bf16(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """A dot product of pairs of bf16 in plain vector ops: exact products, the second one added first, as `vdpbf16ps` does."""
    lanes = acc.type.shape[0]
    wide = ir.VectorType.get([2 * lanes], acc.type.element_type)
    sides = [arith.extf(wide, vector.bitcast(ir.VectorType.get([2 * lanes], ir.BF16Type.get()), side)) for side in (x, y)]
    products = arith.mulf(*sides)
    for i in (1, 0):
        acc = arith.addf(acc, vector.ShuffleOp(products, products, [lane * 2 + i for lane in range(lanes)]).result)
    return acc


HALVES, BYTE_TILES, HALF_TILES = "pretends-bf16", "tiles of bytes", "tiles of bf16"
PRETENDED = {
    "vnni in 512 bits": ("pretends-vnni-512", 16, ("u8", "s8"), 512, 32), "vnni in 256 bits": ("pretends-vnni-256", 8, ("u8", "s8"), 256, 16),
    "sdot": ("pretends-sdot", 4, ("s8", "s8"), 128, 32),
}  # fmt: skip


def matrix(element: ir.Type, rows: int, columns: int) -> ir.Type:
    return ir.VectorType.get([rows, columns], element)


def zero_matrix(element: ir.Type, rows: int, columns: int) -> ir.Value:
    """Sums of a register of two dimensions, as a vector of two."""
    number = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    return arith.constant(matrix(element, rows, columns), ir.DenseElementsAttr.get_splat(matrix(element, rows, columns), number))


def further(place: Sequence[ir.Value], elements: int) -> list[ir.Value]:
    """A place so many elements behind another in memory."""
    return [*place[:-1], arith.addi(place[-1], arith.constant(ir.IndexType.get(), elements))]


def load_matrix(memory: ir.Value, place: Sequence[ir.Value], stride: int, rows: int, columns: int) -> ir.Value:
    """Rows of memory, `stride` elements apart."""
    element = ir.MemRefType(memory.type).element_type
    found = zero_matrix(element, rows, columns)
    for row in range(rows):
        loaded = vector.LoadOp(ir.VectorType.get([columns], element), memory, further(place, row * stride)).result
        found = vector.insert(loaded, found, [], [row])
    return found


def store_matrix(tile: ir.Value, memory: ir.Value, place: Sequence[ir.Value], stride: int) -> None:
    """The rows of a tile to memory."""
    for row in range(ir.VectorType(tile.type).shape[0]):
        vector.StoreOp(vector.extract(tile, [], [row]), memory, further(place, row * stride))


def multiply_matrices(depth: int, emit: Callable[[ir.Value, ir.Value, ir.Value], ir.Value]) -> Callable[[ir.Value, ir.Value, ir.Value], ir.Value]:
    """The sums of tiles by dot products, one for each row of sums and each step."""

    def multiply(acc: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        (rows, lanes), steps = ir.VectorType(acc.type).shape, ir.VectorType(y.type).shape[0]
        for row in range(rows):
            total, mine = vector.extract(acc, [], [row]), vector.extract(x, [], [row])
            for step in range(steps):
                group = vector.ShuffleOp(mine, mine, [step * depth + i for _ in range(lanes) for i in range(depth)]).result
                total = emit(total, group, vector.extract(y, [], [step]))
            acc = vector.insert(total, acc, [], [row])
        return acc

    return multiply


SMALL_TILE = Tile(4, 3, zero_matrix, load_matrix, store_matrix)  # so small that most sizes leave something over


@contextmanager
def pretending() -> Iterator[dict[str, Target]]:
    """Machines by what they pretend to have, whose code runs on every x86-64 with AVX2."""
    base, before = resolve("x86-64-v3"), {i.name: i for i in dot_products.all_dot_products()}
    targets = {}
    try:
        for name, (feature, lanes, operands, bits, registers) in PRETENDED.items():
            emit = spelled_out(4, (operands[0][0] == "s", operands[1][0] == "s"))
            emit.__qualname__ = feature
            intrinsic(feature, features={feature}, lanes=lanes, depth=4, operands=operands)(emit)
            targets[name] = replace(base, name=feature, features=base.features | {feature}, vector_bits=bits, vector_registers=registers)
        emit = spelled_out_bf16
        intrinsic(HALVES, features={HALVES}, lanes=16, depth=2, operands=("b16", "b16"), result="f32")(emit)
        targets["bf16"] = replace(base, name=HALVES, features=base.features | {HALVES}, vector_bits=512, vector_registers=32)
        for feature, depth, operands, result in ((BYTE_TILES, 4, ("u8", "s8"), "i32"), (HALF_TILES, 2, ("b16", "b16"), "f32")):
            emit = multiply_matrices(depth, spelled_out_bf16 if result == "f32" else spelled_out(depth, (False, True)))
            emit.__qualname__ = feature
            intrinsic(feature, features={feature}, lanes=8, depth=depth, operands=operands, result=result, tile=SMALL_TILE)(emit)
            targets[feature] = replace(base, name=feature, features=base.features | {feature})
        yield targets
    finally:
        dot_products._INTRINSICS.clear()
        dot_products._INTRINSICS.update(before)
