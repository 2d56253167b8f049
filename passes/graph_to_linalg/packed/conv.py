"""Lowerings of convolutions on channel-blocked data: contractions whose innermost loop runs over a block of channels."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import is_integer, type_of
from stepwell.dialects.graph.borders import borders
from stepwell.dialects.packed import BorderedConvOp, PackedConvOp, PackedDepthwiseConvOp
from stepwell.dialects.packed.conv import are_in_groups, group_sets
from stepwell.passes.graph.integer_products import HALF
from stepwell.passes.graph.matching import producer
from stepwell.passes.graph_to_linalg.casts import cast as converted
from stepwell.passes.graph_to_linalg.contraction import contract, products_of, widened
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.packed.images import sizes_of_result


@lowering(PackedConvOp)
def lower_packed_conv(op: PackedConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Loops: image, groups, block of filters, positions, filter of the block; then block of channels, taps, channel of the block.

    Dimensions of size 1 have no loop: groups, filters of a group if there are several groups, taps. For integers, the channels of a block are split
    into groups of neighbours and positions in a group.
    """
    sizes = sizes_of_result(op, b)
    x, w = (widened(b, v, products_of(op)) for v in operands)
    return _convolved(b, staged_image(b, op.x, x), w, op.result_types()[0].dtype, sizes, **op.attribute_values())


def staged_image(b: LinalgBuilder, image: ir.Value, x: ir.Value) -> ir.Value:
    """`x`, the converted `image`, behind a boundary. If it widens integers or bf16, those are behind one, and widening happens at the product."""
    cast, op = producer(image, "cast"), defining_op(x)
    if cast is None or op is None or op.name != "linalg.generic" or not (is_integer(type_of(image).dtype) or type_of(cast.x).dtype == HALF):
        return b.staged(x)
    source, wide = type_of(cast.x).dtype, type_of(image).dtype
    return b.elementwise([b.staged(op.operands[0])], wide, b.sizes(x), lambda v: converted(b, v, source, wide, True), exact=True)


@lowering(BorderedConvOp)
def lower_bordered_conv(op: BorderedConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """The same loops for each run of positions of each dimension, over the taps that reach the inside from there."""
    sizes = sizes_of_result(op, b)
    x, w = (widened(b, v, products_of(op)) for v in operands)
    attributes, result = op.attribute_values(), op.result_types()[0]
    types, zeros = op.operand_types(), attributes.pop("zeros")
    window = {"strides": attributes["strides"], "dilations": attributes["dilations"], "zeros": zeros}
    x, out = staged_image(b, op.x, x), b.empty(result.dtype, sizes)
    for stretches in product(*(dim.stretches() for dim in borders(types[0], types[1], result, **window))):
        mine = b.window(w, 2, [s.first for s in stretches], [s.taps for s in stretches])
        seen = [s.seen(step, apart) for s, step, apart in zip(stretches, attributes["strides"], attributes["dilations"], strict=True)]
        part = [*sizes[:2], *(s.positions for s in stretches), sizes[-1]]
        made = _convolved(b, b.window(x, 2, *zip(*seen, strict=True)), mine, result.dtype, part, **attributes)
        out = b.insert(made, out, [0, 0, *(s.low for s in stretches), 0])
    return out


def _convolved(
    b: LinalgBuilder,
    x: ir.Value,
    w: ir.Value,
    dtype: str,
    sizes: Sequence[OpFoldResult],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    group: int,
) -> ir.Value:
    """The convolution of `x` with `w`, to a result of `sizes`."""
    spatial, filters, in_groups = len(strides), w.type.shape, are_in_groups(x.type.rank, w.type.rank)
    depth = filters[-1] if in_groups else 1
    of_lanes = filters[-3 if in_groups else -2] * depth
    is_blocked = x.type.rank == 3 + spatial
    sets, side_by_side = group_sets(x.type.shape[1], filters[1], group) if is_blocked else (1, 1)
    of_group = {"set": sets, "side": side_by_side, "m": filters[0] // group}
    split = [name for name, size in of_group.items() if size > 1] or ["m"]
    places = [f"o{i}" for i in range(spatial)]
    taps = {f"k{i}": filters[2 + i] for i in range(spatial)}
    parallel = ["n", *split, *places, "f"]
    reductions = ["c", *(name for name, size in taps.items() if size > 1), *(["lane"] if is_blocked else []), *(["place"] if in_groups else [])]
    loop = dict(zip([*parallel, *reductions], dims(*range(len(parallel) + len(reductions))), strict=True))
    zero = ir.AffineConstantExpr.get(0)

    def tap(name: str) -> Any:
        return loop.get(name, zero)

    window = [loop[o] * s + loop[k] * d if k in loop else loop[o] * s for o, k, s, d in zip(places, taps, strides, dilations, strict=True)]
    channel = loop["set"] * filters[1] + loop["c"] if "set" in loop else loop["c"]
    inside = loop["lane"] * depth + loop["place"] if in_groups else loop.get("lane", zero)
    lane = [loop["side"] * of_lanes + inside if "side" in loop else inside] if is_blocked else []
    if is_blocked and side_by_side == 1 and x.type.shape[-1] != of_lanes:
        x = b.first(x, [*b.sizes(x)[:-1], of_lanes])  # a loop that is an index by itself must go over the whole dimension
    w_map = [*(loop[name] for name in split), loop["c"], *(tap(k) for k in taps), *([loop["lane"]] if is_blocked else []), loop["f"]]
    w_map += [loop["place"]] if in_groups else []
    counts = [of_group[name] for name in split]
    merged = [[*range(len(split))], *([i] for i in range(len(split), len(split) + len(filters) - 1))]
    w = b.reshape(w, merged, [*counts, *filters[1:]])
    images, _, *positions = sizes
    total = contract(b, x, [loop["n"], channel, *window, *lane], w, w_map, dtype, [images, *counts, *positions], len(reductions))
    return b.reshape(total, [[0], [1 + i for i in merged[0]], *([len(split) + 1 + i] for i in range(spatial + 1))], sizes)


@lowering(PackedDepthwiseConvOp)
def lower_packed_depthwise_conv(op: PackedDepthwiseConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Loops: image, block of channels, positions, channel of the block; then taps."""
    sizes = sizes_of_result(op, b)
    attributes, result = op.attribute_values(), op.result_types()[0]
    spatial = len(attributes["strides"])
    n, block, *positions = dims(*range(2 + spatial))
    c, *taps = dims(*range(2 + spatial, 3 + 2 * spatial))
    window = [o * s + t * d for o, t, s, d in zip(positions, taps, attributes["strides"], attributes["dilations"], strict=True)]
    return contract(b, operands[0], [n, block, *window, c], operands[1], [block, *taps, c], result.dtype, sizes, spatial)
