"""Lowerings of ops that rearrange a tensor: views if possible, else one generic with maps."""

import math
from collections.abc import Sequence
from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import arith, ir, tensor
from stepwell.dialects.core.sizes import Size, is_static
from stepwell.dialects.graph import GraphOp
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.plain_types import plain_type
from stepwell.passes.graph_to_linalg.reshaping import reshape_dynamic, reshape_to, reshape_types
from stepwell.passes.graph_to_linalg.windows import padded


def in_kernel(op: GraphOp | ir.Operation) -> bool:
    """Whether an op lies in a kernel (else in @main, which only calls, reshapes and concatenates)."""
    function: Any = function_around(op.operation)
    return KernelInfo(function).is_kernel


@lowering(graph.ConstantOp)
def lower_constant(op: graph.ConstantOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """A dense constant; splats of it become scalars in the bodies that use them."""
    return b.constant(op.attribute_values()["value"])


@lowering(graph.ParameterOp)
def lower_parameter(op: graph.ParameterOp, operands: Operands, b: LinalgBuilder) -> NoMatch:
    """Declines: weights are placed earlier."""
    return NoMatch("weights must have their places in the arena; run pack-weights before")


@lowering(graph.ReshapeOp)
def lower_reshape(op: graph.ReshapeOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Dimensions merged, then split."""
    (x,), [source], [result] = operands, op.operand_types(), op.result_types()
    if source.is_static and result.is_static:
        return reshape_to(b, x, result.static_shape)
    if not result.rank:  # all sizes of `x` are assumed to be 1
        return b.reshape(reshape_dynamic(b, x, [1]), [], [])
    return reshape_types(b, x, source.shape, result.shape)


@lowering(graph.TransposeOp)
def lower_transpose(op: graph.TransposeOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads along permuted dimensions."""
    (x,), perm = operands, op.attribute_values()["perm"]
    loop_of = {dim: loop for loop, dim in enumerate(perm)}
    out = b.empty(op.result_types()[0].dtype, [b.size(x, p) for p in perm])
    return b.generic([x], out, [dims(*(loop_of[i] for i in range(len(perm)))), dims(*range(len(perm)))], 0, lambda v, _: v)


@lowering(graph.ExpandOp)
def lower_expand(op: graph.ExpandOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads along the dimensions that `x` has."""
    (x,), result = operands, op.result_types()[0]
    return b.elementwise([x], result.dtype, b.given_all(result.shape), lambda v: v, exact=True)


@lowering(graph.TileOp)
def lower_tile(op: graph.TileOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic over (repeat, element) for each repeated dimension, whose loops are then merged."""
    (x,), result = operands, op.result_types()[0]
    whole = b.given_all(result.shape)
    if 0 in result.shape:  # which no dimensions of other sizes merge to
        return b.empty(result.dtype, whole)
    sizes: list[OpFoldResult] = []
    own, groups = [], []
    for size, times in zip(b.sizes(x), op.attribute_values()["repeats"], strict=True):
        first = len(sizes)
        if times != 1:
            sizes.append(times)
        own.append(len(sizes))
        sizes.append(size)
        groups.append(list(range(first, len(sizes))))
    out = b.generic([x], b.empty(result.dtype, sizes), [dims(*own), dims(*range(len(sizes)))], 0, lambda v, _: v)
    return reshape_to(b, out, result.static_shape) if result.is_static else b.reshape(out, groups, whole)


@lowering(graph.ConcatOp)
def lower_concat(op: graph.ConcatOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """In a kernel, inserts each operand into its slice; in @main, a tensor.concat, so that buffer assignment places the operands."""
    axis, result = op.attribute_values()["axis"], op.result_types()[0]
    if not in_kernel(op):
        joined = ir.RankedTensorType.get(plain_type(op.result.type).shape, operands[0].type.element_type)
        return tensor.ConcatOp(joined, axis, list(operands)).result
    sizes: list[OpFoldResult] = [
        s if isinstance(s, int) else next((b.dim(v, i) for v in operands if v.type.is_dynamic_dim(i)), 0) for i, s in enumerate(result.shape)
    ]
    offsets: list[OpFoldResult] = [0] * result.rank
    places: list[OpFoldResult] = []
    at: OpFoldResult = 0
    for value in operands:
        places.append(at)
        at = b.sum_of_sizes(at, b.size(value, axis))
    sizes[axis] = at
    out = b.empty(result.dtype, sizes)
    for value, place in zip(operands, places, strict=True):
        if 0 not in value.type.shape:
            out = b.insert(value, out, [*offsets[:axis], place, *offsets[axis + 1 :]])
    return out


@lowering(graph.PadOp)
def lower_pad(op: graph.PadOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """A filled tensor with `x` inserted; for modes that copy elements, one generic that computes where each element comes from."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    low, high, mode = attributes["low"], attributes["high"], attributes["mode"]
    if mode != "constant" and any(not isinstance(s, int) and (a, c) != (0, 0) for s, a, c in zip(result.shape, low, high, strict=True)):
        return NoMatch(f"mode '{mode}' is for static dimensions, got {op.operand_types()[0]}")
    if all(n == 0 for n in (*low, *high)):
        return x
    if mode == "constant":
        return padded(b, x, result.dtype, b.given_all(low), b.given_all(high), attributes["value"], result.shape)

    sizes = [s if isinstance(s, int) else b.size(x, i) for i, s in enumerate(result.shape)]
    is_padded = low[-1] or high[-1]
    stretches = stretches_of_last(low[-1], high[-1], x.type.shape[-1]) if is_padded else [(0, sizes[-1], True)]
    out = b.empty(result.dtype, sizes)
    for start, count, inside in stretches:

        def body(*_: ir.Value, start: int = start, inside: bool = inside) -> ir.Value:
            *outer, last = (b.loop_index(i) for i in range(result.rank))
            places = [source_place(b, here, mode, low[i], high[i], x.type.shape[i]) for i, here in enumerate(outer)]
            if inside:
                along = arith.AddIOp(last, b.index(start - low[-1])).result
            else:
                along = source_place(b, arith.AddIOp(last, b.index(start)).result, mode, low[-1], high[-1], x.type.shape[-1])
            return b.extract(x, [*places, along])

        made = b.generic([], b.empty(result.dtype, [*sizes[:-1], count]), [dims(*range(result.rank))], 0, body)
        out = b.insert(made, out, [*[0] * (result.rank - 1), start])
    return out


def stretches_of_last(low: int, high: int, size: int) -> list[tuple[int, OpFoldResult, bool]]:
    """The runs of the last dimension of a padded tensor: start, number of elements, and whether these are contiguous in the operand.

    Neighbours in such a run are neighbours in the operand too, so they are read as vectors; elements of other runs are read one by one.
    """
    end = low + size + high
    first, last = max(low, 0), min(low + size, end)
    if first >= last:
        return [(0, end, False)]
    return [(a, c - a, inside) for a, c, inside in ((0, first, False), (first, last, True), (last, end, False)) if a < c]


def source_place(b: LinalgBuilder, here: ir.Value, mode: str, low: int, high: int, size: int) -> ir.Value:
    """The source index, along a dimension of `size`, of the element at index `here` of the padded tensor."""
    if not low and not high:
        return here
    if mode == "edge":
        inside = arith.MaxSIOp(arith.SubIOp(here, b.index(low)).result, b.index(0)).result
        return arith.MinSIOp(inside, b.index(size - 1)).result
    period = max(1, size if mode == "wrap" else 2 * (size - 1))
    forward = arith.AddIOp(here, b.index(-low % period)).result
    if low + size + high + -low % period <= 2 * period:  # then unsigned wrap-around shows whether to go one period back
        turned: ir.Value = arith.MinUIOp(forward, arith.SubIOp(forward, b.index(period)).result).result
    else:
        turned = arith.RemUIOp(forward, b.index(period)).result
    if mode == "wrap":
        return turned
    mirrored: ir.Value = arith.MinUIOp(turned, arith.SubIOp(b.index(period), turned).result).result
    return mirrored if size > 1 else turned


@lowering(graph.PixelShuffleOp)
def lower_pixel_shuffle(op: graph.PixelShuffleOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """One generic. If all positions are kept, it has a loop over the phases of each dimension; else each position computes its phase."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    image, strides, offsets, group = op.operand_types()[0], attributes["strides"], attributes["offsets"], attributes["group"]
    shape, spatial, channels = b.given_all(result.shape), len(strides), result.shape[1]
    if None in image.shape or not isinstance(channels, int):
        return NoMatch(f"its channels must be static, got {image}")
    each = channels // group
    # The unneeded part is cut off first, as far as it is whole positions of `x`.
    low = [o // s for o, s in zip(offsets, strides, strict=True)]
    kept = [(o + n - 1) // s + 1 - first for o, n, s, first in zip(offsets, result.shape[2:], strides, low, strict=False) if n is not None]
    places_kept = b.given_all(kept)
    if any(low) or kept != list(image.shape[2 : 2 + spatial]):
        x = b.part(x, [0, 0, *low, *[0] * (image.rank - 2 - spatial)], [*b.sizes(x)[:2], *places_kept, *b.sizes(x)[2 + spatial :]])
    offsets = [o % s for o, s in zip(offsets, strides, strict=True)]
    whole = not any(offsets) and all(n == have * s for n, have, s in zip(result.shape[2:], kept, strides, strict=False))
    inside = [n for have, s in zip(places_kept, strides, strict=True) for n in (have, s)] if whole else shape[2 : 2 + spatial]
    sizes = [*shape[:2], *inside, *shape[2 + spatial :]]
    images, channel, *inner = dims(*range(len(sizes)))
    if whole:
        places, phases, block = inner[: 2 * spatial : 2], inner[1 : 2 * spatial : 2], inner[2 * spatial :]
    else:
        moved = [p + o for p, o in zip(inner, offsets, strict=False)]
        places = [ir.AffineExpr.get_floor_div(p, s) for p, s in zip(moved, strides, strict=True)]
        phases, block = [ir.AffineExpr.get_mod(p, s) for p, s in zip(moved, strides, strict=True)], inner[spatial:]
    phase: Any = ir.AffineConstantExpr.get(0)
    for p, s in zip(phases, strides, strict=True):
        phase = phase * s + p
    if group > 1:
        first = ir.AffineExpr.get_floor_div(channel, each)
        source = (first * math.prod(strides) + phase) * each + ir.AffineExpr.get_mod(channel, each)
    else:
        source = phase * each + channel
    out = b.generic([x], b.empty(result.dtype, sizes), [[images, source, *places, *block], dims(*range(len(sizes)))], 0, lambda v, _: v)
    groups = [[0], [1], *([2 + 2 * i, 3 + 2 * i] for i in range(spatial)), *([2 + 2 * spatial + i] for i in range(len(shape) - 2 - spatial))]
    return b.reshape(out, groups, shape)


@lowering(graph.SliceOp)
def lower_slice(op: graph.SliceOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that reads at `start + i * step`, in a view of `x` if the start is dynamic, or the step goes back from it."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    starts, steps = attributes["starts"], attributes["steps"]
    sizes = b.given_all(result.shape)
    if any(not isinstance(start, int) and step != 1 for start, step in zip(starts, steps, strict=True)):
        return sliced_from(b, x, starts, sizes, steps, result.dtype)
    if not is_static(starts):  # no index can express that, so the view begins there
        begins = [0 if isinstance(start, int) else b.given(start) for start in starts]
        extents = [b.size(x, i) if isinstance(start, int) else size for i, (start, size) in enumerate(zip(starts, sizes, strict=True))]
        x = b.part(x, begins, extents)
        starts = [start if isinstance(start, int) else 0 for start in starts]
    entries = list(zip(starts, steps, strict=True))
    # A loop that is an index by itself must go over the whole dimension.
    x = b.first(x, [size if entry == (0, 1) else b.size(x, i) for i, (size, entry) in enumerate(zip(sizes, entries, strict=True))])
    loops = dims(*range(result.rank))
    places = [loop if entry == (0, 1) else loop * entry[1] + entry[0] for loop, entry in zip(loops, entries, strict=True)]
    return b.generic([x], b.empty(result.dtype, sizes), [places, loops], 0, lambda v, _: v)


def sliced_from(
    b: LinalgBuilder, x: ir.Value, starts: Sequence[int | Size], sizes: Sequence[OpFoldResult], steps: Sequence[int], dtype: str
) -> ir.Value:
    """A slice with dynamic starts: along these dimensions each element is read at the computed index."""
    first = b.given_all(starts)
    if all(step == 1 for step in steps):
        return b.copy(b.part(x, first, sizes))

    def body() -> ir.Value:
        along = enumerate(zip(first, steps, strict=True))
        return b.extract(x, [arith.addi(b.index_of(start), arith.muli(b.loop_index(i), b.index(step))) for i, (start, step) in along])

    return b.elementwise([], dtype, sizes, body, exact=True)
