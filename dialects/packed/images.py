"""Ops on the lanes of channel-blocked images (N, C / b, spatial…, b), except convolutions."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import holds
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Pure, Result, SingleOperand, VariadicOperand
from stepwell.dialects.graph.elementwise import NumericBinary
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.graph.inference import expect_at_least, expect_length, expect_rank_at_least
from stepwell.dialects.graph.normalization import LrnOp
from stepwell.dialects.graph.windows import blocked, unblocked
from stepwell.dialects.packed.dialect import Packed
from stepwell.dialects.support.errors import InferenceError


class RelayoutOp(GraphOp, dialect=Packed, name="relayout", fusion=Fusion.COMPLEX, flops=no_arithmetic, traits=[Pure]):
    """Rearrange lanes of blocked images (N, B, spatial…, a) into (N, B', spatial…, block).

    The lanes of all operands are numbered consecutively, block after block. The result consists of stretches of them: `sizes[i]` lanes
    starting at lane `starts[i]`, or as many zeros if `starts[i]` is -1.
    """

    inputs: VariadicOperand
    result: Result
    starts: ir.DenseI64ArrayAttr
    sizes: ir.DenseI64ArrayAttr
    block: ir.IntegerAttr

    @staticmethod
    def infer(inputs: Sequence[TensorType], *, starts: Sequence[int], sizes: Sequence[int], block: int) -> InferredTypes:
        if not inputs:
            raise InferenceError("takes at least one operand, got none")
        first = inputs[0]
        expect_rank_at_least("inputs", first, 3)
        expect_length("sizes", sizes, len(starts), "one for each stretch")
        expect_at_least("starts", starts, -1)
        expect_at_least("sizes", sizes, 1)
        around = [0, *range(2, first.rank - 1)]
        shape = list(first.shape)
        for i, x in enumerate(inputs):
            if x.dtype != first.dtype or x.rank != first.rank or not all(holds(x.shape[d], "==", shape[d]) for d in around):
                raise InferenceError(f"operand {i} must have the element type, images and positions of operand 0 ({first}), got {x}")
            shape = [x.shape[d] if size is None else size for d, size in enumerate(shape)]
        if block < 1 or sum(sizes) % block:
            raise InferenceError(f"attribute 'block' must divide the {sum(sizes)} lanes of the result, got {block}")
        counts = [x.shape[1] * x.shape[-1] for x in inputs if x.shape[1] is not None and x.shape[-1] is not None]
        last = max((a + n for a, n in zip(starts, sizes, strict=True) if a >= 0), default=0)
        if len(counts) == len(inputs) and not holds(last, "<=", sum(counts)):
            raise InferenceError(f"the operands have {sum(counts)} lanes, but lane {last - 1} is read")
        return first.with_shape((shape[0], sum(sizes) // block, *shape[2:-1], block))

    @staticmethod
    def reference(inputs: Sequence[np.ndarray], *, starts: Sequence[int], sizes: Sequence[int], block: int) -> np.ndarray:
        lanes = np.concatenate([unblocked(x) for x in inputs], axis=1)
        zeros = np.zeros_like(lanes[:, :1])
        parts = [np.repeat(zeros, n, axis=1) if a < 0 else lanes[:, a : a + n] for a, n in zip(starts, sizes, strict=True)]
        return np.ascontiguousarray(blocked(np.concatenate(parts, axis=1), block))


class MaskedOp(NumericBinary, dialect=Packed, name="masked"):
    """`lhs` where `rhs` is nonzero, otherwise 0, even if `lhs` is infinite or NaN there."""

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return np.where(rhs != 0, lhs, np.zeros((), lhs.dtype))


class PackedLrnOp(SingleOperand, dialect=Packed, name="lrn", fusion=Fusion.COMPLEX, traits=[Pure]):
    """Like `lrn`, on blocked `x` (N, C / b, spatial…, b) whose channels are in order. Lanes after the last of the `channels` count as zero
    and are zero in the result.
    """

    channels: ir.IntegerAttr
    size: ir.IntegerAttr
    alpha: ir.FloatAttr
    beta: ir.FloatAttr
    bias: ir.FloatAttr

    @staticmethod
    def infer(x: TensorType, *, channels: int, size: int, alpha: float, beta: float, bias: float) -> InferredTypes:
        expect_rank_at_least("x", x, 3)
        LrnOp.infer(x, size=size, alpha=alpha, beta=beta, bias=bias)
        blocks, block = x.shape[1], x.shape[-1]
        if channels < 1 or (blocks is not None and block is not None and not 0 <= blocks * block - channels < block):
            raise InferenceError(f"attribute 'channels' must end in the last block of operand 'x' ({x}), got {channels}")
        return x

    @staticmethod
    def reference(x: np.ndarray, *, channels: int, size: int, alpha: float, beta: float, bias: float) -> np.ndarray:
        plain = unblocked(x)
        normal = np.zeros_like(plain)
        normal[:, :channels] = LrnOp.reference(plain[:, :channels], size=size, alpha=alpha, beta=beta, bias=bias)
        return np.ascontiguousarray(blocked(normal, x.shape[-1]))

    @staticmethod
    def flops(x: TensorType, *, result: TensorType, size: int, **attributes: object) -> int:
        return LrnOp.flops(x, result=result, size=size)
