"""Lowerings of contractions: multiply-accumulate generics that differ only in their indexing maps."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.core.sizes import is_static, maximum
from stepwell.dialects.graph.windows import window_sizes
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.casts import cast
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.reduction import narrowed
from stepwell.passes.graph_to_linalg.reshaping import reshape_to
from stepwell.passes.graph_to_linalg.scalars import Scalars
from stepwell.passes.graph_to_linalg.windows import spread


def contract(
    b: LinalgBuilder,
    lhs: ir.Value,
    lhs_map: Sequence[Any],
    rhs: ir.Value,
    rhs_map: Sequence[Any],
    dtype: str,
    sizes: Sequence[OpFoldResult],
    reductions: int,
    part: int = 0,
    kinds: Sequence[str] = (),
) -> ir.Value:
    """The sum over the last `reductions` loops of the products of elements of `lhs` and `rhs`; the other loops are the result's dimensions.

    Narrow floats are multiplied and summed in f32 and rounded once at the end. If `part` is not 0 and there are more products than that, groups of
    `part` products are summed separately. `kinds` are the element types of `lhs` and `rhs` if these are integers narrower than `dtype`.
    """
    s = Scalars(b, dtype)
    out = b.filled(0, s.dtype, sizes)
    maps = [lhs_map, rhs_map, dims(*range(len(sizes)))]

    def body(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        left, right = (cast(b, v, kind, dtype, False) for v, kind in zip((x, y), kinds, strict=True)) if kinds else (b.widen(x), b.widen(y))
        return s.multiply_accumulate(left, right, total)

    total = b.generic([lhs, rhs], out, maps, reductions, body)
    if part:
        ScheduleInfo(total.owner).part = part
    return narrowed(b, total, dtype)


def widened(b: LinalgBuilder, value: ir.Value, products: int | None) -> ir.Value:
    """An operand (a narrow float) of a contraction with that many products, in the type of the products; unchanged if it is seldom read.

    Widening an element takes as long as multiplying it. A scalar that meets a vector is widened for each register tile that reads it.
    """
    kind = value.type
    if not isinstance(kind.element_type, (ir.F16Type, ir.BF16Type)) or products is None or not kind.has_static_shape:
        return value
    if products < b.state.machine.costs.widening_reads * prod(kind.shape):
        return value
    return b.staged(b.elementwise([value], "f32", b.sizes(value), lambda x: x))


@lowering(graph.MatmulOp)
def lower_matmul(op: graph.MatmulOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Loops: batch dimensions, rows, columns; then the reduction dimension."""
    result = op.result_types()[0]
    sizes = b.given_all(result.shape)
    lhs, rhs = (widened(b, v, products_of(op)) for v in operands)
    return matrix_product(b, lhs, rhs, result.dtype, sizes)


def matrix_product(b: LinalgBuilder, lhs: ir.Value, rhs: ir.Value, dtype: str, sizes: Sequence[OpFoldResult]) -> ir.Value:
    """The product of the last two dimensions, with these `sizes`; the others broadcast."""
    rank = len(sizes)
    if sizes[-1] == 1 and rank > 1 and rhs.type.rank > 1:
        return _matrix_vector_product(b, lhs, rhs, dtype, sizes)
    row, column, summed = dims(rank - 2, rank - 1, rank)
    batches = [b.broadcast_map(v, [*sizes[:-2], *v.type.shape[-2:]])[:-2] for v in (lhs, rhs)]
    return contract(b, lhs, [*batches[0], row, summed], rhs, [*batches[1], summed, column], dtype, sizes, 1)


def products_of(op: graph.GraphOp) -> int | None:
    """The number of products that a contraction of static sizes sums; None if a size is dynamic."""
    types, result = op.operand_types(), op.result_types()[0]
    return int(op.flops(*types, result=result, **op.attribute_values())) // 2 if all(t.is_static for t in (*types, result)) else None


def _matrix_vector_product(b: LinalgBuilder, lhs: ir.Value, rhs: ir.Value, dtype: str, sizes: Sequence[OpFoldResult]) -> ir.Value:
    """The product with a single column, which is contiguous in memory: vectors can run along it, as along the rows."""
    rank, given = len(sizes), rhs.type.rank
    merged = [*([i] for i in range(given - 2)), [given - 2, given - 1]]
    vector = b.reshape(rhs, merged, b.sizes(rhs)[:-1])
    row, summed = dims(rank - 2, rank - 1)
    batches = [b.broadcast_map(v, [*sizes[:-2], *v.type.shape[-2:]])[:-2] for v in (lhs, rhs)]
    product = contract(b, lhs, [*batches[0], row, summed], vector, [*batches[1], summed], dtype, sizes[:-1], 1)
    return b.reshape(product, [*([i] for i in range(rank - 2)), [rank - 2, rank - 1]], sizes)


@lowering(graph.ConvOp)
def lower_conv(op: graph.ConvOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Loops: image, group, filter, positions; then channel of the group, taps. Groups of one filter or channel have no loop for it."""
    attributes, result = op.attribute_values(), op.result_types()[0]
    if any(attributes["pads"]):
        return NoMatch(f"its pads {list(attributes['pads'])} are not zero; run make-padding-explicit before")
    if not is_static((*op.operand_types()[0].shape[1:2], *result.shape[1:2])) or not op.operand_types()[1].is_static:
        return NoMatch(f"its channels, image and filters must have static sizes, got {' and '.join(map(str, op.operand_types()))}")
    sizes = b.given_all(result.shape[1:])
    strides, dilations = attributes["strides"], attributes["dilations"]

    def index(position: Any, tap: Any, dim: int) -> Any:
        return position * strides[dim] + tap * dilations[dim]

    x, w = (widened(b, v, products_of(op)) for v in operands)
    return convolve(b, x, w, result.dtype, attributes["group"], [b.size(operands[0], 0), *sizes], index)


@lowering(graph.ConvTransposeOp)
def lower_conv_transpose(op: graph.ConvTransposeOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """A convolution over the image spread out by the strides, with zeros in between, whose taps run backwards."""
    attributes, result = op.attribute_values(), op.result_types()[0]
    image, filters = op.operand_types()
    if None in image.shape or not is_static((*image.shape[1:2], *result.shape[1:2])) or not filters.is_static:
        return NoMatch(f"its channels and filters must have static sizes, got {image} and {filters}")
    given = b.given_all(result.shape)
    (x, w), spatial = operands, result.rank - 2
    strides, dilations, pads = attributes["strides"], attributes["dilations"], attributes["pads"]
    # Element i of the image goes to index i * stride + before of the spread one; position o and tap t meet at o + shift - t * dilation.
    before = [max(0, d * (taps - 1) - pad) for d, taps, pad in zip(dilations, filters.static_shape[2:], pads[:spatial], strict=True)]
    shift = [pad + space for pad, space in zip(pads[:spatial], before, strict=True)]
    if any(shift) or image.shape[2:] != result.shape[2:]:  # strides show in the sizes
        ends = [space + (n - 1) * s + 1 for space, n, s in zip(before, image.shape[2:], strides, strict=True) if n is not None]
        sizes = b.given_all([maximum(end, n + move) for end, n, move in zip(ends, result.shape[2:], shift, strict=True) if n is not None])
        x = spread(b, x, image.dtype, before, strides, sizes)

    def index(position: Any, tap: Any, dim: int) -> Any:
        return position + tap * -dilations[dim] + shift[dim]

    return convolve(b, x, w, result.dtype, attributes["group"], given, index, channels_first=True)


@lowering(graph.Col2ImOp)
def lower_col2im(op: graph.Col2ImOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Loops: image, channel, positions; then taps. Each position and tap reads the matching element of a window, if there is one."""
    (x,), result, attributes = operands, op.result_types()[0], op.attribute_values()
    image, kernel, strides, pads, dilations = (attributes[key] for key in ("image", "kernel", "strides", "pads", "dilations"))
    given = b.given_all(result.shape)
    spatial, s = len(image), Scalars(b, result.dtype)
    positions = window_sizes(image, kernel, strides=strides, pads=pads, dilations=dilations)
    counts = b.given_all(positions)
    lasts = b.given_all([None if n is None else (n - 1) * step for n, step in zip(positions, strides, strict=True)])

    def fold(_: ir.Value, total: ir.Value) -> ir.Value:
        inside, row, column = b.scalar(True, "i1"), b.loop_index(1), b.index(0)
        for i in range(spatial):
            place, tap = b.loop_index(2 + i), b.loop_index(2 + spatial + i)
            start = arith.subi(arith.addi(place, b.index(pads[i])), arith.muli(tap, b.index(dilations[i])))
            last = b.index_of(lasts[i])
            position = arith.divui(arith.minsi(arith.maxsi(start, b.index(0)), last), b.index(strides[i]))
            inside = arith.andi(inside, arith.cmpi(arith.CmpIPredicate.eq, start, arith.muli(position, b.index(strides[i]))))
            row = arith.addi(arith.muli(row, b.index(kernel[i])), tap)
            column = arith.addi(arith.muli(column, b.index_of(counts[i])), position)
        value = b.widen(b.extract(x, [b.loop_index(0), row, column]))
        return s.add(total, s.select(inside, value, s.const(0)))

    out = b.filled(0, s.dtype, given)
    maps = [dims(*range(2 + spatial, 2 + 2 * spatial)), dims(*range(2 + spatial))]
    return narrowed(b, b.generic([b.empty(s.dtype, kernel)], out, maps, spatial, fold), result.dtype)


def convolve(
    b: LinalgBuilder,
    x: ir.Value,
    w: ir.Value,
    dtype: str,
    group: int,
    sizes: Sequence[Any],
    index: Callable[[Any, Any, int], Any],
    channels_first: bool = False,
) -> ir.Value:
    """A grouped convolution to `sizes` (images, filters, positions…) that reads `x` at `index(position, tap, spatial dimension)`.

    `w` is (filters, channels of a group, taps…); with `channels_first` (channels, filters of a group, taps…).
    """
    spatial = len(sizes) - 2
    filters, channels = sizes[1] // group, x.type.shape[1] // group
    names = ["n", *(["g"] if group > 1 else []), *(["f"] if group == 1 or filters > 1 else []), *(f"o{i}" for i in range(spatial))]
    parallel = len(names)
    by_channel = group > 1 and channels == 1  # vectors lie along columns: with rows innermost they are the same for the next window
    names += [*(["c"] if group == 1 or channels > 1 else []), *(f"k{i}" for i in (reversed(range(spatial)) if by_channel else range(spatial)))]
    loop = {name: ir.AffineExpr.get_dim(i) for i, name in enumerate(names)}

    inner = {"g": group, "f": filters, "c": channels}
    order = ["g", "c", "f"] if channels_first else ["g", "f", "c"]
    w = reshape_to(b, w, [*(inner[name] for name in order if name in loop), *w.type.shape[2:]])
    w_map = [*(loop[name] for name in order if name in loop), *(loop[f"k{i}"] for i in range(spatial))]
    if group > 1 and channels > 1:
        split = [[0], [1, 2], *([i] for i in range(3, 3 + spatial))]
        x = b.reshape(x, split, [b.size(x, 0), group, channels, *b.sizes(x)[2:]])
    x_map = [loop["n"], *(loop[name] for name in ("g", "c") if name in loop)]
    x_map += [index(loop[f"o{i}"], loop[f"k{i}"], i) for i in range(spatial)]
    grouped = [sizes[0], *(inner[name] for name in ("g", "f") if name in loop), *sizes[2:]]
    total = contract(b, x, x_map, w, w_map, dtype, grouped, len(names) - parallel)
    return b.reshape(total, [[0], [1, 2], *([i] for i in range(3, 3 + spatial))], sizes)
