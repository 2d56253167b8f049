"""Resampling of dimensions of any size: the places that elements come from are computed at run time, by which they are gathered."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import is_float, type_of
from stepwell.dialects.graph.resize import nearest, source_places
from stepwell.importer.builder import ImportBuilder, NotConstantError, Value, dims_of
from stepwell.importer.rules.slicing import counting, size_scalar

LARGEST_DENOMINATOR = 64  # of a scale that is a ratio: then sizes times the scale round as real numbers do
SAMPLE = 8  # elements; the places of so many show whether each element is taken as often as the factor says


@dataclass(frozen=True)
class Resampling:
    """How a dimension is resampled."""

    want: int | Size
    """The size of the result."""
    scale: float | Value | None
    """None where it is what the sizes say; a scalar of f32 where it is computed."""
    mode: str
    coordinates: str
    rounding: str


def scaled(size: int | Size, scale: float) -> int | Size:
    """The whole part of a size times a scale."""
    if isinstance(size, int):
        return math.floor(size * scale)
    ratio = Fraction(scale).limit_denominator(LARGEST_DENOMINATOR)
    if float(ratio) != scale:
        what = f"a scale of {scale} for {size} elements, a number known only at run time, is not supported; supported: simple ratios"
        raise NotConstantError(what, sizes=[size])
    return size * ratio.numerator // ratio.denominator


def scaled_when_run(b: ImportBuilder, x: Value, axes: Sequence[int], scales: Sequence[Value]) -> Sequence[int | Size]:
    """The whole parts of sizes times scales that are computed, scalars of f32, as sizes that a run tells."""
    wide = [b.convert(scale, "f64") for scale in scales]
    wanted = [b.floor(b.mul(scale, size_scalar(b, dims_of(x)[axis], scale))) for axis, scale in zip(axes, wide, strict=True)]
    whole = b.concat([b.with_shape(b.convert(number, "i64"), (1,)) for number in wanted], axis=0)
    return b.bound_sizes(whole, "scales")


def resampled(b: ImportBuilder, x: Value, plans: Sequence[Resampling | None]) -> Value:
    """`x` with each dimension that has a plan resampled. Raises UnsupportedError for what is for known sizes only."""
    for dim, plan in enumerate(plans):
        if plan is None:
            continue
        if plan.mode == "cubic" or plan.coordinates == "tf_crop_and_resize" or (plan.mode == "linear" and not is_float(type_of(x).dtype)):
            what = f"mode={plan.mode!r} with {plan.coordinates!r} of {type_of(x)}"
            raise NotConstantError(
                f"{what} is not supported; supported: 'nearest', and 'linear' for floats, or an input of static shape",
                sizes=[size for size in (dims_of(x)[dim], plan.want) if isinstance(size, Size)],
            )
        factor = _repeats(plan)
        x = _repeated(b, x, dim, factor) if factor is not None else (_nearest if plan.mode == "nearest" else _linear)(b, x, dim, plan)
    return x


def _repeats(plan: Resampling) -> int | None:
    """How often each element is taken in a row; None if it is not that simple."""
    if plan.mode != "nearest" or not isinstance(plan.scale, float) or plan.scale != round(plan.scale):
        return None
    if plan.coordinates in ("align_corners", "half_pixel_symmetric"):  # whose places depend on the size
        return None
    factor = round(plan.scale)
    places = nearest(source_places(SAMPLE, SAMPLE * factor, plan.scale, plan.coordinates, (0.0, 1.0)), plan.rounding, SAMPLE)
    return factor if np.array_equal(places, np.arange(SAMPLE * factor) // factor) else None


def _repeated(b: ImportBuilder, x: Value, dim: int, factor: int) -> Value:
    shape = list(dims_of(x))
    apart = b.with_shape(x, [*shape[: dim + 1], 1, *shape[dim + 1 :]])
    spread = b.expand(apart, shape=(*shape[: dim + 1], factor, *shape[dim + 1 :]))
    return b.with_shape(spread, [*shape[:dim], shape[dim] * factor, *shape[dim + 1 :]])


def _places(b: ImportBuilder, have: int | Size, plan: Resampling) -> Value:
    """Where each element of the result is taken from, as a vector of f32, computed as `source_places` does."""
    want = plan.want
    here = b.convert(counting(b, want), "f32")

    def number(value: float) -> Value:
        return b.scalar(value, like=here)

    def size(value: int | Size) -> Value:
        return size_scalar(b, value, here)

    scale = b.div(size(want), size(have)) if plan.scale is None else number(plan.scale) if isinstance(plan.scale, float) else plan.scale
    if plan.coordinates == "asymmetric":
        return b.div(here, scale)
    if plan.coordinates == "align_corners":
        length = size(want) if plan.scale is None else b.mul(size(have), scale)
        span = b.sub(length, number(1))
        return b.select(b.equal(span, number(0)), number(0), b.div(b.mul(here, b.sub(size(have), number(1))), span))
    middle = b.div(b.add(here, number(0.5)), scale)
    centred = b.sub(middle, number(0.5))
    if plan.coordinates == "pytorch_half_pixel":
        return b.select(b.equal(size(want), number(1)), number(0), centred)
    if plan.coordinates == "half_pixel_symmetric":
        covered = b.div(size(want), b.mul(scale, size(have)))
        return b.sub(b.add(b.mul(b.div(size(have), number(2)), b.sub(number(1), covered)), middle), number(0.5))
    return centred


def _inside(b: ImportBuilder, places: Value, have: int | Size) -> Value:
    """Whole numbers as indices of a dimension, those outside as the nearest one inside."""
    whole = b.cast(places, to="i64", saturate=True)
    last = b.sub(size_scalar(b, have, whole), b.scalar(1, like=whole))
    return b.minimum(b.maximum(whole, b.scalar(0, like=whole)), last)


_ROUNDED: dict[str, Callable[[ImportBuilder, Value], Value]] = {
    "floor": lambda b, v: b.floor(v), "ceil": lambda b, v: b.ceil(v),
    "round_prefer_ceil": lambda b, v: b.floor(b.add(v, b.scalar(0.5, like=v))),
    "round_prefer_floor": lambda b, v: b.ceil(b.sub(v, b.scalar(0.5, like=v))),
}  # fmt: skip


def _nearest(b: ImportBuilder, x: Value, dim: int, plan: Resampling) -> Value:
    have = dims_of(x)[dim]
    return b.gather(x, _inside(b, _ROUNDED[plan.rounding](b, _places(b, have, plan)), have), axis=dim)


def _linear(b: ImportBuilder, x: Value, dim: int, plan: Resampling) -> Value:
    """The two elements beside each place, the nearer one counting for more."""
    have, rank = dims_of(x)[dim], type_of(x).rank
    places = _places(b, have, plan)
    below = b.floor(places)
    part = b.with_shape(b.convert(b.sub(places, below), type_of(x).dtype), [plan.want if i == dim else 1 for i in range(rank)])
    first, second = (b.gather(x, _inside(b, where, have), axis=dim) for where in (below, b.add(below, b.scalar(1, like=below))))
    one, zero = b.scalar(1, like=part), b.scalar(0, like=part)
    mixed = b.add(b.mul(first, b.sub(one, part)), b.mul(second, part))
    return b.select(b.equal(part, zero), first, mixed)  # infinity times 0 is not nothing
