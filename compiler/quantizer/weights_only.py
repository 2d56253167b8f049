"""Stores the weights of matrix products in 4 or 8 bits, with a scale for each block of a column; activations stay in floats."""

from collections.abc import Iterable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, NodeProto

from stepwell.arguments import checked_by
from stepwell.dialects.support.errors import InputError, UnsupportedError, shown
from stepwell.quantizer import arguments
from stepwell.quantizer.graphs import GraphEditor, attribute, operand, replace
from stepwell.quantizer.options import QuantizeOptions
from stepwell.quantizer.plan import Layer, candidates
from stepwell.quantizer.prepare import OPSET, Source, drop_unused, prepared

BITS = (4, 8)
BLOCKS = (16, 32, 64, 128)
FORMS = ("MatMulNBits", "DequantizeLinear")
OPSET_WITH_BLOCKS = 21  # the first opset in which DequantizeLinear has blocks, and types of 4 bits
MICROSOFT = "com.microsoft"
STEPS = 12  # of the search for the scale of a block
NARROWEST = 0.72  # the smallest fraction of a block's range that is tried


@dataclass(frozen=True)
class Blocks:
    """A matrix of K rows and N columns as integers: `(numbers - zeros) * scales`, block by block of its columns."""

    numbers: np.ndarray
    """Unsigned, uint8[blocks, rows of a block, N]; beyond row K, the number that represents 0."""
    scales: np.ndarray
    """f32[blocks, N]."""
    zeros: np.ndarray
    """uint8[blocks, N]."""
    rows: int
    """K."""

    def floats(self) -> np.ndarray:
        """The matrix that the integers represent, f32[K, N]."""
        whole = (self.numbers.astype(np.float32) - self.zeros[:, None]) * self.scales[:, None]
        return np.asarray(whole.reshape(-1, whole.shape[2])[: self.rows])


@checked_by(
    model=arguments.source, bits=arguments.whole(1), block=arguments.whole(1), zero_points=arguments.like("keep"), form=arguments.like("text"),
    keep_float=arguments.names,
)  # fmt: skip
def quantize_weights(
    model: Source, *, bits: int = 4, block: int = 32, zero_points: bool = False, form: str = FORMS[0], keep_float: Iterable[str] = ()
) -> ModelProto:
    """The network with the stored matrices of its MatMul and Gemm nodes in `bits` bits; computation stays in floats.

    Each column has a scale for every `block` rows, and with `zero_points` a zero point, else one in the middle. `form` is their encoding: as
    MatMulNBits of com.microsoft, or as ONNX's own DequantizeLinear with blocks (opset 21). Nodes that `keep_float` names, by name or pattern, stay
    unchanged. Raises InputError for invalid options, UnsupportedError for a model without such matrices, or one that cannot be prepared.
    """
    for name, value, known in (("bits", bits, BITS), ("block", block, BLOCKS), ("form", form, FORMS)):
        if value not in known:
            raise InputError(f"{name}: expected {', '.join(map(str, known))}, got {shown(value)}")
    options = QuantizeOptions(keep_float=frozenset(keep_float), op_types=frozenset({"MatMul", "Gemm"}))
    made = prepared(model, opset=OPSET if form == "MatMulNBits" else OPSET_WITH_BLOCKS)
    writer = _Writer(made, bits, block, zero_points, form)
    layers = [layer for layer in candidates(made, options) if writer.matrix(layer) is not None]
    if not layers:
        raise UnsupportedError("the model has no weights to store in few bits: expected MatMul or Gemm nodes with a stored matrix of f32")
    for layer in layers:
        if not options.keeps(layer.node):
            writer.write(layer)
    writer.finish()
    return made


def blocks_of(matrix: np.ndarray, bits: int, block: int, *, zero_points: bool) -> Blocks:
    """An f32[K, N] matrix as integers of `bits` bits; for each block, the scale with the smallest squared error among several.

    With few bits this is better than the range of a block; Lin et al., "AWQ: Activation-aware Weight Quantization", 2023, search likewise.
    """
    rows, columns = matrix.shape
    padded = np.zeros((-(-rows // block) * block, columns), np.float32)
    padded[:rows] = matrix
    parts = padded.reshape(-1, block, columns)
    low, high = np.minimum(parts.min(axis=1), 0), np.maximum(parts.max(axis=1), 0)
    most, middle = (1 << bits) - 1, 1 << (bits - 1)
    scales, zeros, least = np.ones(low.shape, np.float32), np.zeros(low.shape), np.full(low.shape, np.inf)
    for part in np.linspace(1.0, NARROWEST, STEPS) if bits < 8 else (1.0,):
        size = (high - low) * part if zero_points else np.maximum(-low, high) * part
        steps = (size / (most if zero_points else middle - 1)).astype(np.float32)
        steps = np.where(steps > np.finfo(np.float32).smallest_normal, steps, np.float32(1))
        centres = np.clip(np.rint(-low * part / steps), 0, most) if zero_points else np.full(low.shape, middle)
        error = np.square(_rounded(parts, steps, centres, most) - parts).sum(axis=1)
        better = error < least
        scales, zeros, least = np.where(better, steps, scales), np.where(better, centres, zeros), np.where(better, error, least)
    numbers = np.clip(np.rint(parts / scales[:, None]) + zeros[:, None], 0, most).astype(np.uint8)
    return Blocks(numbers, scales.astype(np.float32), zeros.astype(np.uint8), rows)


def _rounded(parts: np.ndarray, scales: np.ndarray, zeros: np.ndarray, most: int) -> np.ndarray:
    numbers = np.clip(np.rint(parts / scales[:, None]) + zeros[:, None], 0, most)
    return np.asarray((numbers - zeros[:, None]) * scales[:, None])


class _Writer(GraphEditor):
    """Rewrites nodes of a prepared model, in place."""

    def __init__(self, model: ModelProto, bits: int, block: int, zero_points: bool, form: str) -> None:
        super().__init__(model)
        self.model, self.bits, self.block, self.zero_points, self.form = model, bits, block, zero_points, form
        self.instead: dict[str, list[NodeProto]] = {}
        self.stored: dict[tuple[str, bool], tuple[str, ...]] = {}

    def matrix(self, layer: Layer) -> np.ndarray | None:
        """The stored matrix that a layer multiplies by, f32[K, N]; None if there is none, or it is the first operand."""
        node = self.nodes[layer.node]
        array = self.links.array(node.input[1]) if layer.weights == node.input[1] else None
        if array is None or array.ndim != 2:
            return None
        return array.T if self._is_transposed(node) else array

    def write(self, layer: Layer) -> None:
        """Let a layer read low-bit weights."""
        node, matrix = self.nodes[layer.node], self.matrix(layer)
        assert matrix is not None
        key = (node.input[1], self._is_transposed(node))
        if key not in self.stored:
            found = blocks_of(matrix, self.bits, self.block, zero_points=self.zero_points)
            self.stored[key] = self._packed(node.input[1], found) if self.form == "MatMulNBits" else self._integers(node, found)
        operands = self.stored[key]
        self.instead[node.name] = (
            self._of_microsoft(node, operands, matrix.shape) if self.form == "MatMulNBits" else self._dequantized(node, operands)
        )

    def finish(self) -> None:
        """Insert the new nodes."""
        replace(self.graph.node, [new for node in self.graph.node for new in self.instead.get(node.name, [node])])
        drop_unused(self.graph)
        if self.form == "MatMulNBits" and not any(entry.domain == MICROSOFT for entry in self.model.opset_import):
            self.model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
        self.model.ir_version = max(self.model.ir_version, 10)  # the first with types of 4 bits

    def _is_transposed(self, node: NodeProto) -> bool:
        return node.op_type == "Gemm" and bool(attribute(node, "transB", 0))

    def _of_microsoft(self, node: NodeProto, operands: tuple[str, ...], shape: tuple[int, ...]) -> list[NodeProto]:
        """rewrite: matmul(x, w) -> matmul_n_bits(x, w in few bits); gemm(x, w, c) -> add(matmul_n_bits(x, w in few bits), c)"""
        bias = operand(node, 2) if node.op_type == "Gemm" else ""
        result = self.names.fresh(f"{node.output[0]}_product") if bias else node.output[0]
        made = onnx.helper.make_node(
            "MatMulNBits", [node.input[0], *operands], [result], name=node.name, domain=MICROSOFT, K=shape[0], N=shape[1], bits=self.bits,
            block_size=self.block,
        )  # fmt: skip
        if not bias:
            return [made]
        return [made, onnx.helper.make_node("Add", [result, bias], list(node.output), name=self.names.fresh(f"{node.name}_bias"))]

    def _packed(self, name: str, found: Blocks) -> tuple[str, ...]:
        """The operands of MatMulNBits: numbers column by column, those of 4 bits in pairs, the first in the lower bits."""
        numbers = _pairs(found.numbers.transpose(2, 0, 1), self.bits)
        scales = np.ascontiguousarray(found.scales.T)
        operands = [self.store(f"{name}_quantized", numbers), self.store(f"{name}_scale", scales.reshape(-1))]
        if self.zero_points:
            operands.append(self.store(f"{name}_zero_point", _pairs(found.zeros.T, self.bits).reshape(-1)))
        return tuple(operands)

    def _dequantized(self, node: NodeProto, operands: tuple[str, ...]) -> list[NodeProto]:
        """rewrite: matmul(x, w) -> matmul(x, dequantize(w in few bits))"""
        floats = self.names.fresh(f"{node.input[1]}_dequantized")
        axis = 1 if self._is_transposed(node) else 0
        made = onnx.helper.make_node(
            "DequantizeLinear", list(operands), [floats], name=self.names.fresh(f"{node.name}_weights"), axis=axis, block_size=self.block
        )
        node.input[1] = floats
        return [made, node]

    def _integers(self, node: NodeProto, found: Blocks) -> tuple[str, ...]:
        """The operands of DequantizeLinear with blocks: signed without zero points, else unsigned.

        Bytes always have zero points: ONNX Runtime, in its exact mode, converts signed ones to unsigned, and fails if they are missing.
        """
        name, middle = node.input[1], 1 << (self.bits - 1)
        numbers = found.numbers.reshape(-1, found.numbers.shape[2])[: found.rows]
        arrays = {"scale": found.scales, "zero_point": found.zeros}
        if self.zero_points:
            kind = ml_dtypes.uint4 if self.bits == 4 else np.uint8
        else:
            kind, numbers = (ml_dtypes.int4 if self.bits == 4 else np.int8), numbers.astype(np.int16) - middle
            arrays["zero_point"] = np.zeros_like(found.zeros)
            if self.bits == 4:
                del arrays["zero_point"]
        whole = {"quantized": numbers, **arrays}
        if self._is_transposed(node):
            whole = {part: array.T for part, array in whole.items()}
        return tuple(self.store(f"{name}_{part}", array if part == "scale" else array.astype(kind)) for part, array in whole.items())


def _pairs(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of 4 bits, two of the last axis in a byte; those of 8 bits unchanged."""
    if bits == 8:
        return np.ascontiguousarray(numbers)
    if numbers.shape[-1] % 2:
        numbers = np.concatenate([numbers, np.zeros((*numbers.shape[:-1], 1), np.uint8)], axis=-1)
    return np.asarray(numbers[..., 0::2] | (numbers[..., 1::2] << 4), np.uint8)
