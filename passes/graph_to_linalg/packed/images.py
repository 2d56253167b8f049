"""Lowerings of ops beside convolutions that work on the lanes of channel-blocked images."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.packed import MaskedOp, PackedLrnOp, RelayoutOp
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.elementwise import one_generic
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.normalization import normalised, sums_around
from stepwell.passes.graph_to_linalg.scalars import Scalars
from stepwell.passes.graph_to_linalg.windows import padded


@lowering(RelayoutOp)
def lower_relayout(op: RelayoutOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Insert each piece that lies within one block on both sides into its slice; if zeros are wanted, everything is filled with them first."""
    sizes = sizes_of_result(op, b)
    attributes, result = op.attribute_values(), op.result_types()[0]
    fills = -1 in attributes["starts"]
    out = b.filled(0, result.dtype, sizes) if fills else b.empty(result.dtype, sizes)
    for value, source, into, size in _pieces(operands, attributes["starts"], attributes["sizes"], attributes["block"]):
        places, target = ([0, block, *[0] * (len(sizes) - 3), lane] for block, lane in (source, into))
        out = b.insert(b.part(value, places, [sizes[0], 1, *sizes[2:-1], size]), out, target)
    return out


def _pieces(
    inputs: Sequence[ir.Value], starts: Sequence[int], sizes: Sequence[int], block: int
) -> Iterator[tuple[ir.Value, tuple[int, int], tuple[int, int], int]]:
    """Runs of lanes, without zeros, cut at the ends of blocks: (input, its block and lane, block and lane of the result, number of lanes)."""
    ends = list(accumulate(v.type.shape[1] * v.type.shape[-1] for v in inputs))
    into = 0
    for start, left in zip(starts, sizes, strict=True):
        while left:
            size = min(left, block - into % block)
            if start >= 0:
                index = bisect_right(ends, start)
                value = inputs[index]
                lane = start - (ends[index - 1] if index else 0)
                width = value.type.shape[-1]
                size = min(size, width - lane % width)
                yield value, divmod(lane, width), divmod(into, block), size
                start += size
            into += size
            left -= size


@lowering(MaskedOp)
def lower_masked(op: MaskedOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that selects."""
    return one_generic(op, operands, b, lambda s, x, mask: s.select(s.compare("ne", mask, s.const(0)), x, s.const(0)))


@lowering(PackedLrnOp)
def lower_packed_lrn(op: PackedLrnOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """As for `lrn`, but the squares of all channels of a position are contiguous, so that vectors of neighbours are read across blocks."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    sizes, (_, blocks, *_, block) = b.given_all(result.shape), result.shape
    if not isinstance(blocks, int) or not isinstance(block, int):
        return NoMatch(f"its channels must be static, got {result}")
    (images, _, *places, _), size, channels = sizes, attributes["size"], attributes["channels"]
    s = Scalars(b, result.dtype)
    holds = (np.arange(blocks * block) < channels).reshape(blocks, block)
    filled = [] if holds.all() else [b.constant(holds.astype(to_numpy(s.dtype)))]

    def kept(value: ir.Value, holds_channel: Sequence[ir.Value]) -> ir.Value:
        return s.select(s.compare("ne", holds_channel[0], s.const(0)), value, s.const(0)) if holds_channel else value

    def square(v: ir.Value, *rest: ir.Value) -> ir.Value:
        v = b.widen(v)
        return kept(s.mul(v, v), rest[:-1])

    n, *positions, m, lane = dims(*range(result.rank))  # blocks inside of positions, as the squares lie
    image = [n, m, *positions, lane]
    apart = b.empty(s.dtype, [images, *places, blocks, block])
    squares = b.generic([x, *filled], apart, [image, *([m, lane] for _ in filled), [n, *positions, m, lane]], 0, square)
    merged = [*([i] for i in range(len(places) + 1)), [len(places) + 1, len(places) + 2]]
    squares = b.reshape(squares, merged, [images, *places, blocks * block])
    rest = [0] * (len(places) + 1)
    squares = padded(b, squares, s.dtype, [*rest, (size - 1) // 2], [*rest, size // 2], 0)
    tap = ir.AffineExpr.get_dim(result.rank)
    around = sums_around(b, s, squares, [n, *positions, m * block + lane + tap], image, sizes, size)
    return b.elementwise(
        [x, around, *filled],
        result.dtype,
        sizes,
        lambda v, total, *rest: kept(normalised(s, v, total, attributes), rest),
        loops={2: [1, result.rank - 1]},
    )


def sizes_of_result(op: GraphOp, b: LinalgBuilder) -> list[OpFoldResult]:
    """The sizes of the result of an op on blocked images. Raises NoMatch if those of blocks or filters are dynamic."""
    types = [type_of(v) for v in op.operation.operands]
    images, filters = (types, []) if isinstance(op, RelayoutOp) else (types[:1], types[1:])
    result = op.result_types()[0]
    channels = [size for t in images for size in (*t.shape[1:2], *(t.shape[-1:] if t.rank == result.rank else ()))]
    if not is_static(channels) or not all(t.is_static for t in filters):
        raise NoMatch(f"its channels and filters must have static sizes, got {' and '.join(map(str, types))}")
    return b.given_all(result.shape)
