"""Operations on state: buffers that are kept between calls and of which each call writes a part."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, holds
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, Pure, Result, Sizes
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.graph.inference import expect_at_least, expect_dtype, expect_length, expect_rank
from stepwell.dialects.support.errors import InferenceError


class OverwriteOp(GraphOp, name="overwrite", flops=no_arithmetic, traits=[Pure]):
    """`x` with `part` replacing its elements from `starts` on.

    If `x` is memory that is kept between calls (`append-in-place`), the kernel writes there, and nothing is copied.
    """

    x: Operand
    part: Operand
    result: Result
    starts: Sizes

    @staticmethod
    def infer(x: TensorType, part: TensorType, *, starts: Sequence[int | Size]) -> InferredTypes:
        expect_dtype("part", part, (x.dtype,))
        expect_rank("part", part, x.rank)
        expect_length("starts", starts, x.rank, "one for each dimension")
        expect_at_least("starts", [start for start in starts if isinstance(start, int)], 0)
        for have, start, more in zip(x.shape, starts, part.shape, strict=True):
            if have is not None and more is not None and not holds(start + more, "<=", have):
                raise InferenceError(f"operand 'part' ({part}) from {list(starts)} on must lie in operand 'x' ({x})")
        return x

    @staticmethod
    def reference(x: np.ndarray, part: np.ndarray, *, starts: Sequence[int]) -> np.ndarray:
        written = x.copy()
        written[tuple(slice(start, start + size) for start, size in zip(starts, part.shape, strict=True))] = part
        return written

    def copied_operands(self) -> list[ir.Value]:
        """`part`: memory that is kept between calls already holds the rest."""
        return [self.part]
