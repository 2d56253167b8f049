"""Packed products, whose right-hand side is stored in panels: strips of neighbouring columns that are contiguous in memory."""

from collections.abc import Iterator

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import FLOATS, TensorType, is_float
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result
from stepwell.dialects.graph.flops import two_per_product
from stepwell.dialects.graph.inference import expect_dim, expect_dtype, expect_rank, expect_rank_at_least, expect_same_dtype, expect_shape
from stepwell.dialects.graph.numerics import contract, narrow, wide
from stepwell.dialects.graph.products import SumOfProducts
from stepwell.dialects.graph.traits import SumsProducts
from stepwell.dialects.packed.dialect import Packed
from stepwell.dialects.support.errors import InferenceError

NIBBLES = 8
"""Numbers of 4 bits in a 32-bit word."""
GROUP = (2, 4)
"""The layout of such a word as a group of bytes: two halves of four neighbours each, as many as dot products of bytes add up in a lane."""
ROWS_AT_ONCE = 1024  # rows that are copied together, so that the parts of a transposed matrix fit a cache


def in_panels(matrix: np.ndarray, width: int, filling: int = 0) -> Iterator[np.ndarray]:
    """The N / width panels (K + filling, width) of a matrix (K, N); each ends in `filling` rows of zeros, and zero columns pad the last one.

    This is how matrix products pack their operands since Goto and van de Geijn, "Anatomy of High-Performance Matrix
    Multiplication", ACM TOMS 34(3), 2008: the innermost loops read each panel from its first byte to its last.
    """
    rows, columns = matrix.shape
    for first in range(0, columns, width):
        part = matrix[:, first : first + width]
        panel = np.empty((rows + filling, width), matrix.dtype)
        panel[:, part.shape[1] :] = panel[rows:] = 0
        for start in range(0, rows, ROWS_AT_ONCE):
            piece = part[start : start + ROWS_AT_ONCE]
            panel[start : start + len(piece), : part.shape[1]] = piece
        yield panel


def in_groups(matrix: np.ndarray, depth: int, width: int) -> np.ndarray:
    """The panels (N / width, K / depth, width, depth) of an integer matrix (K, N), where K is a multiple of `depth`.

    `depth` neighbours of a column are contiguous, as dot-product instructions read them.
    """
    rows, columns = matrix.shape
    grouped = matrix.reshape(rows // depth, depth, columns).transpose(0, 2, 1).reshape(rows // depth, columns * depth)
    return np.stack([panel.reshape(-1, width, depth) for panel in in_panels(grouped, width * depth)])


class PackedMatmulOp(GraphOp, dialect=Packed, name="matmul", fusion=Fusion.COMPLEX, flops=two_per_product, traits=[Pure, SumsProducts]):
    """The matrix product of `x` (…, M, K) and one matrix in panels `w` (N / b, K, b); the result is (…, M, N / b, b), with columns in order.

    Panels may also be (N / b, K / d, b, d), and always are for integers (i32): each d neighbours of a column are contiguous.
    """

    x: Operand
    w: Operand
    result: Result

    @staticmethod
    def infer(x: TensorType, w: TensorType) -> InferredTypes:
        expect_dtype("x", x, (*FLOATS, "i32"))
        expect_same_dtype(x=x, w=w)
        expect_rank_at_least("x", x, 2)
        expect_rank("w", w, 3 if is_float(x.dtype) and w.rank != 4 else 4)
        columns, depth = x.shape[-1], 1 if w.rank == 3 else w.shape[3]
        if depth is None or (columns is not None and columns % max(depth, 1)):
            raise InferenceError(f"the columns of operand 'x' ({x}) must be groups of as many as the last dimension of operand 'w' ({w})")
        expect_dim("w", w, 1, columns and columns // max(depth, 1), f"as many as the groups of columns of operand 'x' ({x})")
        return TensorType(x.dtype, (*x.shape[:-1], w.shape[0], w.shape[2]))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        if w.ndim == 4:
            panels, groups, width, depth = w.shape
            w = w.transpose(0, 1, 3, 2).reshape(panels, groups * depth, width)
        return narrow(contract(wide(x), wide(w), axes=([x.ndim - 1], [1])), x.dtype)

    def sum_of_products(self) -> SumOfProducts:
        """Panels and their columns are the last dimensions of the result."""
        (x, w), rank = self.operand_types(), self.result_types()[0].rank
        return SumOfProducts((*range(x.rank - 1), None), (rank - 2, None, rank - 1, None)[: w.rank], rank, x.shape[-1])


class LowBitMatmulOp(GraphOp, dialect=Packed, name="low_bit_matmul", fusion=Fusion.COMPLEX, flops=two_per_product, traits=[Pure]):
    """The product of `x` (…, M, K) in f32 with quantised weights in panels; the result is (…, M, N / b, b), with columns in order.

    Weights are blocks of B neighbours of a column, `(number - zero point) * scale`, with a scale and a zero point for each block. `scale` is
    (N / b, K / B, b); `zero_point` is too, or is one number for all. With `bits` = 8, `w` is (N / b, K / B, B, b) of i8 or ui8. With `bits` = 4,
    words hold eight neighbours of a column, (N / b, K / B, B / 8, b) of ui32, the first one in the lowest bits, and zero points are ui8.
    Alternatively four bytes hold them, (N / b, K / B, B / 8, b, 4) of ui8, as dot-product instructions of bytes read them: the first four in the
    lower halves, the others in the upper halves.
    """

    x: Operand
    w: Operand
    scale: Operand
    zero_point: Operand
    result: Result
    bits: ir.IntegerAttr

    @staticmethod
    def infer(x: TensorType, w: TensorType, scale: TensorType, zero_point: TensorType, *, bits: int) -> InferredTypes:
        expect_dtype("x", x, ("f32",))
        expect_same_dtype(x=x, scale=scale)
        if bits not in (4, 8):
            raise InferenceError(f"attribute 'bits' must be 4 or 8, got {bits}")
        grouped = bits == 4 and w.rank == 5
        expect_dtype("w", w, ("i8", "ui8") if bits == 8 else ("ui8",) if grouped else ("ui32",))
        expect_dtype("zero_point", zero_point, (w.dtype if bits == 8 else "ui8",))
        expect_rank_at_least("x", x, 2)
        expect_rank("w", w, 5 if grouped else 4)
        panels, blocks, size, width = w.shape[:4]
        if grouped:
            expect_dim("w", w, 4, 4, "bytes of two neighbours each")
        expect_shape("scale", scale, (panels, blocks, width), f"as operand 'w' ({w}) has")
        if zero_point.rank:
            expect_shape("zero_point", zero_point, (panels, blocks, width), f"as operand 'w' ({w}) has")
        if blocks is not None and size is not None:
            expect_dim("x", x, x.rank - 1, blocks * size * (1 if bits == 8 else 8), f"the numbers of a column of operand 'w' ({w})")
        return TensorType(x.dtype, (*x.shape[:-1], panels, width))

    @staticmethod
    def reference(x: np.ndarray, w: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, *, bits: int) -> np.ndarray:
        numbers = w if bits == 8 else neighbours_of(w)
        centred = numbers.astype(np.int32) - (zero_point[:, :, np.newaxis] if zero_point.ndim else zero_point).astype(np.int32)
        weights = centred.astype(np.float32) * scale[:, :, np.newaxis]
        return PackedMatmulOp.reference(x, weights.reshape(len(w), -1, w.shape[3]))


def neighbours_of(w: np.ndarray) -> np.ndarray:
    """The 4-bit numbers (N / b, K / B, B, b) in words, or in groups of four bytes."""
    if w.ndim == 4:
        apart = np.stack([w >> 4 * i & 15 for i in range(NIBBLES)], axis=3)
    else:
        apart = np.concatenate([w & 15, w >> 4], axis=4).swapaxes(3, 4)
    return apart.reshape(*w.shape[:2], -1, w.shape[3])


def in_blocks(numbers: np.ndarray, block: int, width: int, bits: int, *, grouped: bool = False) -> np.ndarray:
    """The weights of `packed.low_bit_matmul` for a matrix (K, N) of bytes or 4-bit numbers; in groups of four bytes if `grouped`.

    K is a multiple of `block`, and `block` is a multiple of 8 for 4-bit numbers.
    """
    panels = np.stack(list(in_panels(numbers, width)))
    apart = panels.reshape(len(panels), -1, block, width)
    if bits == 8:
        return apart
    if grouped:
        low, high = np.moveaxis(apart.reshape(*apart.shape[:2], block // NIBBLES, *GROUP, width), 3, 0).astype(np.uint8)
        return np.ascontiguousarray((low | high << 4).swapaxes(3, 4))
    words = np.zeros((*apart.shape[:2], block // NIBBLES, width), np.uint32)
    for i in range(NIBBLES):
        words |= apart[:, :, i::NIBBLES].astype(np.uint32) << 4 * i
    return words
