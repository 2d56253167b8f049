"""The pass that turns the padding of convolutions and poolings into separate ops, which fuse into their producers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.sizes import Size, is_static, maximum, minimum
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder, GraphOp
from stepwell.dialects.graph.numerics import narrow
from stepwell.dialects.graph.windows import overhang
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import replace_results
from stepwell.passes.graph.matching import new_weight


@register_pass("make-padding-explicit", level="graph")
class MakePaddingExplicit(Pass):
    """Write the padding of convolutions and poolings as `graph.pad`; afterwards their `pads` are 0 and `ceil_mode` is off.

    rewrite: conv(x, w, pads)                    -> conv(pad(x, 0), w)
    rewrite: max_pool(x, pads, ceil_mode)        -> max_pool(pad(x, lowest value))
    rewrite: avg_pool(x, pads, ceil_mode, …)     -> avg_pool(pad(x, 0)) * c  with c = elements of a window / elements that count, where it is not 1
    rewrite: avg_pool(x, pads, ceil_mode, …)     -> avg_pool(pad(x, 0)) / avg_pool(pad(1, 0)) / …    where sizes are known only at run time

    Equal pads of one value are created once.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        made: dict[Any, ir.Value] = {}
        for inner in ops_below(op):
            fill = inner.opview.padding_value() if isinstance(inner.opview, GraphOp) else None
            if fill is None:
                continue
            attributes = inner.opview.attribute_values()
            if not any(attributes["pads"]) and not attributes.get("ceil_mode", False):
                continue
            with state.attempt(self.name, inner):
                with ir.InsertionPoint(inner), inner.location:
                    value = _rewrite(inner.opview, attributes, fill, GraphBuilder(state.weights), made)
                state.did(self.name, inner, f"its padding {list(attributes['pads'])} is an op of its own, of {fill}")
                replace_results(inner, [value], GraphBuilder(state.weights))
                inner.erase()
                state.count(self.name)


def _rewrite(op: Any, attributes: dict[str, Any], fill: float, b: GraphBuilder, made: dict[Any, ir.Value]) -> ir.Value:
    """The replacement for an op, with `fill` around its image. Raises NoMatch if there is none."""
    x, pads, spatial = op.x, attributes["pads"], type_of(op.x).rank - 2
    window = {name: attributes[name] for name in ("strides", "pads", "dilations")}
    correction = None
    high: Sequence[int | Size] = pads[spatial:]
    counted: list[ir.Value] = []
    if is_static((*type_of(op.x).shape[2:], *type_of(op.result).shape[2:])):
        sizes, positions = spatial_shape(op.x), spatial_shape(op.result)
        kernel = attributes.get("kernel") or spatial_shape(op.w)
        high = overhang(sizes, kernel, positions, **window)
        if op.mnemonic() == "avg_pool":
            correction = divisor_correction(sizes, positions, **{k: v for k, v in attributes.items() if k != "ceil_mode"})
    elif attributes.get("ceil_mode", False) or not attributes.get("count_include_pad", True):
        if None in (*type_of(x).shape, *type_of(op.result).shape):
            raise NoMatch("how many elements of a window lie outside follows from a size that is not known")
        if attributes["ceil_mode"]:
            high = reached_by_last(op, attributes)
        if op.mnemonic() == "avg_pool":
            counted = [parts_that_count(op, attributes, i, high[i], b) for i in range(spatial)]
    around: dict[str, Any] = {"low": (0, 0, *pads[:spatial]), "high": (0, 0, *high), "mode": "constant", "value": fill}
    key = (x, op.operation.block, *around.values())
    if any(n != 0 for n in (*around["low"], *around["high"])):
        if key not in made:
            made[key] = b.pad(x, **around)
        x = made[key]
    plain = {"pads": (0,) * (2 * spatial), "ceil_mode": False, "count_include_pad": True}
    others = list(op.operation.operands)[1:]
    value: ir.Value = b.create(type(op), [x, *others], {k: plain.get(k, v) for k, v in attributes.items()}).operation.results[0]
    if correction is not None:
        value = b.mul(value, new_weight(b, None, narrow(correction, to_numpy(type_of(x).dtype))))
    for part in counted:
        value = b.div(value, part)
    return value


def reached_by_last(op: Any, attributes: dict[str, Any]) -> list[int | Size]:
    """The number of elements by which the last windows exceed the end of each spatial dimension of dynamic size. Raises NoMatch if it is unknown."""
    found: list[int | Size] = []
    sizes, counts = type_of(op.x).shape[2:], type_of(op.result).shape[2:]
    numbers = zip(attributes["pads"], attributes["kernel"], attributes["strides"], attributes["dilations"], strict=False)
    for size, positions, (low, taps, stride, dilation) in zip(sizes, counts, numbers, strict=True):
        span = dilation * (taps - 1) + 1
        if stride > span or size is None or positions is None:
            raise NoMatch("its windows leave gaps, so that where the last one ends is known only at run time")
        found.append((positions - 1) * stride + span - size - low)
    return found


def parts_that_count(op: Any, attributes: dict[str, Any], dim: int, reach: int | Size, b: GraphBuilder) -> ir.Value:
    """For each position along a spatial dimension, the fraction of the window whose elements count: [1, …, positions, …, 1].

    `reach` is how far windows reach beyond its end; with `count_include_pad` the elements of `pads` count too.
    """
    x, spatial, pads = type_of(op.x), len(attributes["kernel"]), attributes["pads"]
    size, low, high = x.shape[2 + dim], pads[dim], pads[spatial + dim]
    assert size is not None
    inside, around = size, [low, reach]
    if attributes["count_include_pad"]:
        inside, around = size + low + minimum(high, reach), [0, maximum(reach - high, 0)]
    ones = b.expand(b.literal(np.ones((1,) * x.rank, to_numpy(x.dtype))), shape=[inside if i == 2 + dim else 1 for i in range(x.rank)])
    if any(n != 0 for n in around):
        before, after = ([n if i == 2 + dim else 0 for i in range(x.rank)] for n in around)
        ones = b.pad(ones, low=before, high=after, mode="constant", value=0.0)
    own = {name: [attributes[name][dim] if i == dim else 1 for i in range(spatial)] for name in ("kernel", "strides", "dilations")}
    return b.avg_pool(ones, pads=(0,) * (2 * spatial), ceil_mode=False, count_include_pad=True, **own)


def spatial_shape(value: ir.Value) -> tuple[int, ...]:
    """The known sizes after the batch and channel dimensions."""
    return tuple(d for d in type_of(value).shape[2:] if isinstance(d, int))


def divisor_correction(
    sizes: Sequence[int],
    positions: Sequence[int],
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    count_include_pad: bool,
) -> np.ndarray | None:
    """The factor [1, 1, positions…] that turns a mean over whole windows into a mean over the elements that count; None if it is 1.

    Each dimension is independent: an element counts if it lies inside, or with `count_include_pad` in `pads`.
    """
    correction = np.ones((1, 1, *positions))
    for i, size in enumerate(sizes):
        before, after = (pads[i], pads[len(sizes) + i]) if count_include_pad else (0, 0)
        places = np.arange(positions[i])[:, None] * strides[i] + np.arange(kernel[i])[None, :] * dilations[i] - pads[i]
        counted = np.sum((places >= -before) & (places < size + after), axis=1)
        correction = correction * (kernel[i] / counted).reshape([-1 if d == i + 2 else 1 for d in range(correction.ndim)])
    return None if (correction == 1).all() else correction
