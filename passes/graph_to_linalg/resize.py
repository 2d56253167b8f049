"""Lowering of resize: each dimension by itself, with source positions and weights computed at compile time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir, math
from stepwell.dialects.core.types import compute_dtype, is_float, to_numpy
from stepwell.dialects.graph.resize import nearest, sampling_taps, source_places
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.casts import cast
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars


@lowering(graph.ResizeOp)
def lower_resize(op: graph.ResizeOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """Nearest: one generic that reads at each source position. Linear and cubic: for each dimension a weighted sum of a few elements."""
    (x,), kind, result, attributes = operands, op.operand_types()[0], op.result_types()[0], op.attribute_values()
    places: dict[int, np.ndarray] = {}
    for dim in range(result.rank):
        bounds = (attributes["roi"][dim], attributes["roi"][result.rank + dim]) if attributes["coordinates"] == "tf_crop_and_resize" else (0.0, 1.0)
        have, want, scale = kind.shape[dim], result.shape[dim], attributes["scales"][dim]
        if have == want and scale == 1 and bounds == (0.0, 1.0):
            continue
        if not isinstance(have, int) or not isinstance(want, int):
            return NoMatch(f"dimension {dim} must have static sizes to be resampled, got {kind}")
        places[dim] = source_places(have, want, scale, attributes["coordinates"], bounds)
    if attributes["mode"] == "nearest":
        chosen = {dim: nearest(p, attributes["rounding"], kind.shape[dim] or 0) for dim, p in places.items()}
        out = take_places(b, x, result.dtype, chosen)
        dtype = result.dtype
    else:
        dtype = compute_dtype(kind.dtype) if is_float(kind.dtype) else "f64"
        out = b.elementwise([x], dtype, b.sizes(x), lambda v: cast(b, v, compute_dtype(kind.dtype), dtype, False)) if dtype != kind.dtype else x
        for dim, where in places.items():
            taps = sampling_taps(
                where, kind.shape[dim] or 0, attributes["scales"][dim], attributes["mode"], attributes["cubic_coefficient"],
                attributes["exclude_outside"], attributes["antialias"],
            )  # fmt: skip
            out = weighted_sums(b, out, dtype, dim, *taps)
    outside = {}
    if attributes["coordinates"] == "tf_crop_and_resize":
        outside = {dim: (p < 0) | (p > (kind.shape[dim] or 0) - 1) for dim, p in places.items()}
    return finish(b, out, dtype, result.dtype, {dim: mask for dim, mask in outside.items() if mask.any()}, attributes["extrapolation"])


def take_places(b: LinalgBuilder, x: ir.Value, dtype: str, chosen: dict[int, np.ndarray]) -> ir.Value:
    """`x` with each dimension in `chosen` replaced by its elements at these indices."""
    rank = x.type.rank
    sizes = [len(chosen[i]) if i in chosen else b.size(x, i) for i in range(rank)]
    exprs = [affine_places(i, chosen[i]) if i in chosen else ir.AffineExpr.get_dim(i) for i in range(rank)]
    if all(e is not None for e in exprs):
        # A loop that is an index by itself must go over the whole dimension.
        plain = [i in chosen and exprs[i] == ir.AffineExpr.get_dim(i) for i in range(rank)]
        x = b.first(x, [sizes[i] if plain[i] else b.size(x, i) for i in range(rank)])
        return b.generic([x], b.empty(dtype, sizes), [exprs, dims(*range(rank))], 0, lambda v, _: v)
    order = sorted(chosen)
    tables = [b.constant(chosen[dim].astype(np.int64)) for dim in order]

    def body(*found: ir.Value) -> ir.Value:
        where = {dim: b.as_index(v) for dim, v in zip(order, found, strict=True)}
        return b.extract(x, [where[i] if i in where else b.loop_index(i) for i in range(rank)])

    return b.elementwise(tables, dtype, sizes, body, exact=True, loops={n: [dim] for n, dim in enumerate(order)})


def affine_places(loop: int, places: np.ndarray) -> Any:
    """An affine expression of the loop for these indices (integer factors up or down), or None."""
    i = np.arange(len(places))
    here = ir.AffineExpr.get_dim(loop)
    step = int(places[1] - places[0]) if len(places) > 1 else 0
    if np.array_equal(places, i * step + places[0]):
        return here * step + int(places[0])
    factor = int(np.count_nonzero(places == places[0]))
    return ir.AffineExpr.get_floor_div(here, factor) if np.array_equal(places, i // factor) else None


def weighted_sums(b: LinalgBuilder, x: ir.Value, dtype: str, dim: int, places: np.ndarray, weights: np.ndarray) -> ir.Value:
    """`x` with dimension `dim` replaced by sums of its elements at `places` times `weights`, both (result, taps)."""
    sources, factors = b.constant(places), b.constant(weights.astype(to_numpy(dtype)))
    rank, s = x.type.rank, Scalars(b, dtype)
    table = dims(dim, rank)

    def fold(source: ir.Value, factor: ir.Value, total: ir.Value) -> ir.Value:
        value = b.extract(x, [b.as_index(source) if i == dim else b.loop_index(i) for i in range(rank)])
        if not np.all(weights):  # infinity times 0 is not 0
            value = s.select(s.compare("eq", factor, s.const(0)), s.const(0), value)
        return s.multiply_accumulate(value, factor, total)

    out = b.filled(0, dtype, [len(weights) if i == dim else b.size(x, i) for i in range(rank)])
    return b.generic([sources, factors], out, [table, table, dims(*range(rank))], 1, fold)


def finish(b: LinalgBuilder, x: ir.Value, dtype: str, target: str, outside: dict[int, np.ndarray], extrapolation: float) -> ir.Value:
    """`x` with values outside replaced, rounded and clipped to an integer `target`."""
    if dtype == target and not outside:
        return x
    order = sorted(outside)
    masks = [b.constant(outside[dim].astype(np.int8)) for dim in order]
    s = Scalars(b, dtype)

    def body(value: ir.Value, *flags: ir.Value) -> ir.Value:
        flag = Scalars(b, "i8")
        for where in flags:
            value = arith.SelectOp(flag.compare("ne", where, flag.const(0)), b.scalar(extrapolation, dtype), value).result
        if dtype == target:
            return value
        if is_float(target):
            return b.narrow(value, target)
        return cast(b, s.call(math.RoundEvenOp, value), dtype, target, True)

    loops: dict[int, Sequence[int]] = {1 + n: [dim] for n, dim in enumerate(order)}
    return b.elementwise([x, *masks], target, b.sizes(x), body, exact=True, loops=loops)
