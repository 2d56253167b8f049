"""Buffers around images: padding and spreading, for the lowerings of windowed ops."""

import itertools
from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import ir, tensor
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.slices import operands_of
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult


def padded(
    b: LinalgBuilder,
    x: ir.Value,
    dtype: str,
    low: Sequence[OpFoldResult],
    high: Sequence[OpFoldResult],
    value: Any,
    known: Sequence[Dim] = (),
) -> ir.Value:
    """`x` with `low[i]` elements `value` before and `high[i]` after each dimension; `known` are the sizes, of which numbers are taken."""
    if all(isinstance(n, int) and n == 0 for n in (*low, *high)):
        return x
    sizes = [b.sum_of_sizes(s, b.sum_of_sizes(after, before)) for s, before, after in zip(b.sizes(x), low, high, strict=True)]
    sizes = [given if isinstance(given, int) else size for size, given in itertools.zip_longest(sizes, known)]
    return b.insert(x, b.filled(value, dtype, sizes), list(low))


def spread(b: LinalgBuilder, x: ir.Value, dtype: str, offsets: Sequence[int], strides: Sequence[int], sizes: Sequence[OpFoldResult]) -> ir.Value:
    """The elements of `x` (N, C, spatial…) `strides` apart from `offsets` on, zeros elsewhere, in spatial dimensions of `sizes`."""
    have = b.sizes(x)
    out = b.filled(0, dtype, [*have[:2], *sizes])
    dynamic, static = operands_of(have)
    return tensor.InsertSliceOp(x, out, [], dynamic, [], [0, 0, *offsets], static, [1, 1, *strides]).result
