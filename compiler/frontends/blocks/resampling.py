"""Resampling of dynamic dimensions: source positions are computed at run time, and elements are gathered from them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce

import numpy as np

from stepwell.dialects.core.sizes import Size, holds, maximum, minimum
from stepwell.dialects.core.types import compute_dtype, is_float, type_of
from stepwell.dialects.graph.resize import ROUNDING, nearest, source_places
from stepwell.frontends.blocks.resampling_taps import Method, Taps, inside, weighted
from stepwell.frontends.blocks.slicing import counting, size_scalar
from stepwell.frontends.builder import ModelBuilder, NotConstantError, Value, dims_of

MOST = 1 << 32  # the largest numerator of a scale: times sizes of up to 31 bits, it fits 64 bits
SAMPLE = 8  # the source positions of this many elements show whether each element is repeated by the factor


@dataclass(frozen=True)
class Resampling:
    """The target of resampling a dimension."""

    want: int | Size
    """The size of the result."""
    scale: float | Value | None
    """None if it follows from the sizes; a scalar if it is computed."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """The beginning and end for "tf_crop_and_resize", as fractions of the dimension."""
    ratios: Sequence[tuple[int | Size, int | Size]] = ()
    """The sizes whose quotient a computed scale is, before and after; for `antialias`."""


def scaled(size: int | Size, scale: float) -> int | Size:
    """The integer part of a size times a scale."""
    if isinstance(size, int):
        return math.floor(size * scale)
    ratio = Fraction(scale)  # exact, because the denominator is a power of two
    if ratio.numerator >= MOST or ratio.denominator >= MOST:
        what = f"a scale of {scale} for {size} elements, a number known only at run time, is not supported; supported: scales of f32"
        raise NotConstantError(what, sizes=[size])
    return size * ratio.numerator // ratio.denominator


def scaled_at_run_time(b: ModelBuilder, x: Value, axes: Sequence[int], scales: Sequence[Value]) -> Sequence[int | Size]:
    """The integer parts of sizes times computed scales (scalars of f32), as sizes that become known at run time."""
    wide = [b.convert(scale, "f64") for scale in scales]
    wanted = [b.floor(b.mul(scale, size_scalar(b, dims_of(x)[axis], scale))) for axis, scale in zip(axes, wide, strict=True)]
    whole = b.concat([b.with_shape(b.convert(number, "i64"), (1,)) for number in wanted], axis=0)
    return b.bound_sizes(whole, "scales")


def fitted_sizes(dims: Sequence[int | Size], wanted: Sequence[int | Size], policy: str) -> list[int | Size]:
    """`dims` times the smallest of the scales to the wanted sizes ("not_larger"), or the largest, rounded to the nearest integers, halves up.

    Rounding keeps the order of the scales, so this is the smallest, or largest, of the results for each scale.
    """
    chosen = minimum if policy == "not_larger" else maximum
    return [chosen(*((2 * want * size + have) // (2 * have) for have, want in zip(dims, wanted, strict=True))) for size in dims]


def common_scale(b: ModelBuilder, dims: Sequence[int | Size], wanted: Sequence[int | Size], policy: str) -> Value:
    """The scale of `fitted_sizes`, a scalar of f64."""
    like = b.literal(np.array(0.0))
    scales = [b.div(size_scalar(b, want, like), size_scalar(b, have, like)) for have, want in zip(dims, wanted, strict=True)]
    return reduce(b.minimum if policy == "not_larger" else b.maximum, scales)


def resampled(b: ModelBuilder, x: Value, plans: Sequence[Resampling | None], method: Method) -> Value:
    """`x` with each dimension that has a plan resampled."""
    dtype = type_of(x).dtype
    if method.mode != "nearest":  # integers are rounded, and numbers of 16 bits narrowed, at the end
        x = b.convert(x, compute_dtype(dtype) if is_float(dtype) else "f64")
    outside = []
    for dim, plan in enumerate(plans):
        if plan is None:
            continue
        have, rank = dims_of(x)[dim], type_of(x).rank
        factor = _repeats(plan, method)
        if factor is not None:
            x = _repeated(b, x, dim, factor)
            continue
        places = _places(b, have, plan, method.coordinates)
        if method.mode == "nearest":
            x = b.gather(x, inside(b, _ROUNDED[method.rounding](b, places), have), axis=dim)
        elif method.mode == "linear" and not method.antialias and not method.exclude_outside:
            x = _linear(b, x, dim, places)
        else:
            x = weighted(b, x, dim, Taps(places, _stretch(b, have, plan, method), _reach(have, plan, method), method))
        if method.coordinates == "tf_crop_and_resize":
            beyond = b.or_(b.less(places, b.scalar(0, like=places)), b.greater(places, _last(b, have, places)))
            outside.append(b.with_shape(beyond, [plan.want if i == dim else 1 for i in range(rank)]))
    for mask in outside:
        x = b.select(mask, b.scalar(method.extrapolation, like=x), x)
    return b.convert(x if is_float(dtype) or method.mode == "nearest" else b.round(x), dtype)


def _stretch(b: ModelBuilder, have: int | Size, plan: Resampling, method: Method) -> Value | None:
    """How much wider than an element the taps of a result element are spread, a scalar of f64: with antialias, if a dimension shrinks."""
    if not method.antialias:
        return None
    one = b.literal(np.array(1.0))
    scale = plan.scale
    if scale is None:
        scale = b.div(size_scalar(b, plan.want, one), size_scalar(b, have, one))
    return b.maximum(one, b.div(one, b.scalar(scale, like=one) if isinstance(scale, float) else b.convert(scale, "f64")))


def _reach(have: int | Size, plan: Resampling, method: Method) -> int | Size | None:
    """The largest distance of a position's taps, rounded down; None without antialias."""
    if not method.antialias:
        return None
    base = 1 if method.mode == "linear" else 2
    if isinstance(plan.scale, float):
        return math.ceil(base * max(1.0, 1.0 / plan.scale))
    ratios = plan.ratios or [(have, plan.want)]
    for _, want in ratios:
        holds(want, ">", 0)  # it is a divisor
    return maximum(base, *(-(-base * size // want) for size, want in ratios))


def _repeats(plan: Resampling, method: Method) -> int | None:
    """The number of times each element is repeated; None if resampling is not that simple."""
    if method.mode != "nearest" or not isinstance(plan.scale, float) or plan.scale != round(plan.scale):
        return None
    if method.coordinates in ("align_corners", "half_pixel_symmetric", "tf_crop_and_resize"):  # whose positions depend on the size
        return None
    factor = round(plan.scale)
    places = nearest(source_places(SAMPLE, SAMPLE * factor, plan.scale, method.coordinates, (0.0, 1.0)), method.rounding, SAMPLE)
    return factor if np.array_equal(places, np.arange(SAMPLE * factor) // factor) else None


def _repeated(b: ModelBuilder, x: Value, dim: int, factor: int) -> Value:
    shape = list(dims_of(x))
    unmerged = b.with_shape(x, [*shape[: dim + 1], 1, *shape[dim + 1 :]])
    spread = b.expand(unmerged, shape=(*shape[: dim + 1], factor, *shape[dim + 1 :]))
    return b.with_shape(spread, [*shape[:dim], shape[dim] * factor, *shape[dim + 1 :]])


def _places(b: ModelBuilder, have: int | Size, plan: Resampling, coordinates: str) -> Value:
    """The source position of each element of the result, as a vector of f32, computed like `source_places`."""
    want = plan.want
    index = b.convert(counting(b, want), "f32")
    number = partial(b.scalar, like=index)

    def size(value: int | Size) -> Value:
        return size_scalar(b, value, index)

    if coordinates == "tf_crop_and_resize":
        return _cropped(b, index, _last(b, have, index), size(want), plan.bounds)
    if coordinates == "align_corners":
        span = b.sub(size(want), number(1)) if plan.scale is None else _span(b, have, plan.scale)
        return b.select(b.equal(span, number(0)), number(0), b.div(b.mul(index, _last(b, have, index)), span))
    scale = (
        b.div(size(want), size(have)) if plan.scale is None else number(plan.scale) if isinstance(plan.scale, float) else b.convert(plan.scale, "f32")
    )
    if coordinates == "asymmetric":
        return b.div(index, scale)
    middle = b.div(b.add(index, number(0.5)), scale)
    centred = b.sub(middle, number(0.5))
    if coordinates == "pytorch_half_pixel":
        return b.select(b.equal(size(want), number(1)), number(0), centred)
    if coordinates == "half_pixel_symmetric":
        covered = b.div(size(want), b.mul(scale, size(have)))
        return b.sub(b.add(b.mul(b.div(size(have), number(2)), b.sub(number(1), covered)), middle), number(0.5))
    return centred


def _last(b: ModelBuilder, have: int | Size, like: Value) -> Value:
    return b.sub(size_scalar(b, have, like), b.scalar(1, like=like))


def _cropped(b: ModelBuilder, index: Value, last: Value, want: Value, bounds: tuple[float, float]) -> Value:
    start, end = (np.float32(bound) for bound in bounds)
    middle = b.mul(b.scalar(np.float32(0.5) * (start + end), like=index), last)
    steps = b.div(b.mul(b.mul(index, b.scalar(end - start, like=index)), last), b.sub(want, b.scalar(1, like=index)))
    return b.select(b.equal(want, b.scalar(1, like=index)), middle, b.add(b.mul(b.scalar(start, like=index), last), steps))


def _span(b: ModelBuilder, have: int | Size, scale: float | Value) -> Value:
    """The distance from the first to the last element of a scaled dimension, a scalar of f32, as in `stretched`."""
    wide = b.literal(np.array(scale)) if isinstance(scale, float) else b.convert(scale, "f64")
    length = b.mul(size_scalar(b, have, wide), wide)
    whole = b.round(length)
    close = b.less(b.abs(b.sub(length, whole)), b.mul(b.scalar(ROUNDING, like=wide), length))
    return b.convert(b.sub(b.select(close, whole, length), b.scalar(1, like=wide)), "f32")


_ROUNDED: dict[str, Callable[[ModelBuilder, Value], Value]] = {
    "floor": lambda b, v: b.floor(v), "ceil": lambda b, v: b.ceil(v),
    "round_prefer_ceil": lambda b, v: b.floor(b.add(v, b.scalar(0.5, like=v))),
    "round_prefer_floor": lambda b, v: b.ceil(b.sub(v, b.scalar(0.5, like=v))),
}  # fmt: skip


def _linear(b: ModelBuilder, x: Value, dim: int, places: Value) -> Value:
    """The two elements next to each position, weighted by proximity."""
    have, rank, want = dims_of(x)[dim], type_of(x).rank, dims_of(places)[0]
    below = b.floor(places)
    part = b.with_shape(b.convert(b.sub(places, below), type_of(x).dtype), [want if i == dim else 1 for i in range(rank)])
    first, second = (b.gather(x, inside(b, where, have), axis=dim) for where in (below, b.add(below, b.scalar(1, like=below))))
    one, zero = b.scalar(1, like=part), b.scalar(0, like=part)
    mixed = b.add(b.mul(first, b.sub(one, part)), b.mul(second, part))
    return b.select(b.equal(part, zero), first, mixed)  # infinity times 0 is not 0


WHOLE = (0.0, 1.0)


def resampled_at_run_time(
    b: ModelBuilder, x: Value, axes: Sequence[int], scales: Sequence[Value], method: Method, bounds: Sequence[tuple[float, float]]
) -> Value:
    """`x` resampled by scales that are known only at run time."""
    plans: list[Resampling | None] = [None] * type_of(x).rank
    for axis, want, scale, ends in zip(axes, scaled_at_run_time(b, x, axes, scales), scales, bounds, strict=True):
        plans[axis] = Resampling(want, scale, ends)
    return resampled(b, x, plans, method)
