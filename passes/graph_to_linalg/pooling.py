"""Lowerings of poolings: a fold over windows, whose size comes from the shape of an operand that is not read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.graph.windows import overhang
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.reduction import narrowed, neutral
from stepwell.passes.graph_to_linalg.scalars import Scalars
from stepwell.passes.graph_to_linalg.separable_pooling import Separable
from stepwell.passes.graph_to_linalg.windows import padded


@lowering(graph.MaxPoolOp)
def lower_max_pool(op: graph.MaxPoolOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Loops: image, channel, positions; then taps. Or one dimension after the other (see `Separable`)."""
    result, attributes = op.result_types()[0], op.attribute_values()
    _check_sizes(op.operand_types()[0], attributes)
    separable = Separable.from_pooling(b, operands[0], (op.operand_types()[0], result), attributes)
    if separable is not None:
        return separable.lower()
    return narrowed(b, fold_windows(b, operands[0], result, "maximum", attributes), result.dtype)


@lowering(graph.AvgPoolOp)
def lower_avg_pool(op: graph.AvgPoolOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """The sum over each window, times the reciprocal of the number of elements that count."""
    result = op.result_types()[0]
    x = op.operand_types()[0]
    attributes = op.attribute_values()
    _check_sizes(x, attributes)
    total = fold_windows(b, operands[0], result, "add", attributes)
    s = Scalars(b, result.dtype)
    common = 1
    varying: list[ir.Value] = []
    loops: dict[int, Sequence[int]] = {}
    spatial = len(attributes["kernel"])
    if is_static(x.shape[2 : 2 + spatial]):
        sizes, positions = (static_sizes(t.shape[2 : 2 + spatial]) for t in (x, result))
        each = counted(sizes, positions, attributes)
    else:  # without padding, all windows are whole
        each = [[taps] for taps in attributes["kernel"]]
    for dim, counts in enumerate(each):
        if len(set(counts)) == 1:
            common *= counts[0]
        else:
            loops[1 + len(varying)] = [2 + dim]
            varying.append(b.constant((1 / np.array(counts)).astype(to_numpy(s.dtype))))

    def mean(value: ir.Value, *factors: ir.Value) -> ir.Value:
        for factor in factors:
            value = s.mul(value, factor)
        return s.mul(value, s.const(1 / common)) if common != 1 else value

    return b.elementwise([total, *varying], result.dtype, b.sizes(total), mean, loops=loops)


def _check_sizes(x: TensorType, attributes: dict[str, Any]) -> None:
    """Raise NoMatch for an image of dynamic size with padding, or with windows that hang over."""
    if not is_static(x.shape[1:]) and (any(attributes["pads"]) or attributes["ceil_mode"]):
        raise NoMatch(f"its sizes are known only at run time, {x}, and its padding {list(attributes['pads'])} is not zero, or windows hang over")


def fold_windows(b: LinalgBuilder, x: ir.Value, result: TensorType, name: str, attributes: dict[str, Any]) -> ir.Value:
    """A fold of each window over `x` (N, C, spatial…) or blocked (N, C / b, spatial…, b), ignoring padding; f16 and bf16 become f32."""
    kernel, strides, pads, dilations = (attributes[key] for key in ("kernel", "strides", "pads", "dilations"))
    spatial = len(kernel)
    sizes, block = b.given_all(result.shape[1 : 2 + spatial]), static_sizes(result.shape[2 + spatial :])
    image_sizes = x.type.shape[2 : 2 + spatial]
    if all(size >= 0 for size in image_sizes):
        high = overhang(image_sizes, kernel, static_sizes(result.shape[2 : 2 + spatial]), strides=strides, pads=pads, dilations=dilations)
    else:
        high = (0,) * spatial
    nothing = neutral(name, result.dtype)
    outside = [0] * len(block)
    x = padded(b, b.after_sums(x), result.dtype, [0, 0, *pads[:spatial], *outside], [0, 0, *high, *outside], nothing)
    s = Scalars(b, result.dtype)
    window = b.empty(s.dtype, kernel)
    out = b.filled(nothing, s.dtype, [b.size(x, 0), *sizes, *block])
    n, c, *rest = dims(*range(result.rank))
    positions, inner = rest[:spatial], rest[spatial:]
    taps = dims(*range(result.rank, result.rank + spatial))
    image = [n, c, *(position * strides[i] + taps[i] * dilations[i] for i, position in enumerate(positions)), *inner]
    maps = [image, taps, [n, c, *rest]]
    return b.generic([x, window], out, maps, spatial, lambda value, _, total: s.accumulate(name, b.widen(value), total))


def counted(sizes: Sequence[int], positions: Sequence[int], attributes: dict[str, Any]) -> list[list[int]]:
    """For each spatial dimension and position, the number of taps that an average counts."""
    kernel, strides, pads, dilations = (attributes[key] for key in ("kernel", "strides", "pads", "dilations"))
    out = []
    for i, size in enumerate(sizes):
        low, high = pads[i], pads[len(kernel) + i]
        first, end = (-low, size + high) if attributes["count_include_pad"] else (0, size)
        places = [[o * strides[i] - low + t * dilations[i] for t in range(kernel[i])] for o in range(positions[i])]
        out.append([sum(first <= p < end for p in row) for row in places])
    return out
