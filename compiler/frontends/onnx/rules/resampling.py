"""Rules for resampling images: Upsample and Resize."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal, TypeAlias

import numpy as np

from stepwell.dialects.core.sizes import Size, holds, is_static, static_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.resampling import WHOLE, Resampling, common_scale, fitted_sizes, resampled, resampled_at_run_time, scaled
from stepwell.frontends.blocks.resampling_taps import Method
from stepwell.frontends.blocks.slicing import split_axis
from stepwell.frontends.builder import Value, dims_of, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once

Coordinates: TypeAlias = Literal["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
Rounding: TypeAlias = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
EarlyMode: TypeAlias = Literal["nearest", "linear", "bilinear"]
"""The modes of resampling before opset 11."""


def simple(b: ImportBuilder, x: Value, scales: Sequence[float], mode: EarlyMode) -> Value:
    """Resampling before opset 11, which had no choice of coordinates.

    The specification did not define the nearest element. As in ONNX Runtime, it is rounded up if a dimension shrinks, and otherwise down.
    """
    rank = type_of(x).rank
    if len(scales) != rank:
        raise ModelError(f"scales must have {rank} entries for an input of rank {rank}, got {list(scales)}")
    return (in_two_steps if mode == "nearest" else rounded_once(in_two_steps))(b, x, scales, mode.replace("bilinear", "linear"))


def in_two_steps(b: ImportBuilder, x: Value, scales: Sequence[float], mode: str) -> Value:
    """`x` shrunk along some dimensions, then enlarged along others."""
    for rounding, factors in (("ceil", [min(s, 1.0) for s in scales]), ("floor", [max(s, 1.0) for s in scales])):
        dims = dims_of(x)
        sizes = [scaled(d, s) for d, s in zip(dims, factors, strict=True)]
        if is_free(dims, sizes):
            x = resampled(b, x, [Resampling(n, s) for n, s in zip(sizes, factors, strict=True)], Method(mode, "asymmetric", rounding))
        elif any(s != 1.0 for s in factors):
            wanted = tuple(n if isinstance(n, int) else -1 for n in sizes)
            x = b.resize(x, sizes=wanted, scales=tuple(map(float, factors)), **asdict(Method(mode, "asymmetric", rounding)), roi=())
    return x


def scales_of(b: ImportBuilder, scales: Value) -> np.ndarray | list[Value]:
    """The scales, as scalars if they are computed at run time. Raises NotConstantError if they follow from few input numbers."""
    found = b.constant_value(scales)
    if found is not None:
        return found
    b.require_if_given([scales], "scales")
    kind = type_of(scales)
    if kind.rank != 1 or not kind.is_static:
        return b.known(scales, "scales")
    parts = split_axis(b, scales, 0, [1] * kind.elements)
    return [b.with_shape(part, ()) for part in parts]


@onnx_rule("Upsample", since=7)
def upsample_by_attribute(b: ImportBuilder, x: Value, *, scales: Sequence[float], mode: EarlyMode = "nearest") -> Value:
    return simple(b, x, scales, mode)


@onnx_rule("Upsample", since=9)
@onnx_rule("Resize", since=10)
def resize_by_scales(b: ImportBuilder, x: Value, scales: Value, *, mode: EarlyMode = "nearest") -> Value:
    numbers = scales_of(b, scales)
    if not isinstance(numbers, list):
        return simple(b, x, numbers.reshape(-1).tolist(), mode)
    if len(numbers) != type_of(x).rank:
        raise ModelError(f"scales must have {type_of(x).rank} entries for {type_of(x)}, got {len(numbers)}")
    resample = in_two_steps_at_run_time if mode == "nearest" else rounded_once(in_two_steps_at_run_time)
    return resample(b, x, numbers, mode.replace("bilinear", "linear"))


def in_two_steps_at_run_time(b: ImportBuilder, x: Value, scales: Sequence[Value], mode: str) -> Value:
    """Like `in_two_steps`, by scales that are known only at run time."""
    for rounding, limit in (("ceil", b.minimum), ("floor", b.maximum)):
        limited = [limit(n, b.scalar(1, like=n)) for n in scales]
        x = resampled_at_run_time(b, x, range(len(scales)), limited, Method(mode, "asymmetric", rounding), [WHOLE] * len(scales))
    return x


@onnx_rule("Resize", since=11)
def resize(
    b: ImportBuilder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    coordinate_transformation_mode: Coordinates = "half_pixel",
    nearest_mode: Rounding = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch",
) -> Value:
    dims = dims_of(x)
    rank = len(dims)
    chosen = list(range(rank)) if axes is None else [normalized_axis(a, rank, "axes") for a in axes]
    found: np.ndarray | list[Value] = [] if scales is None else scales_of(b, scales)
    wanted = [] if sizes is None else list(wanted_sizes(b, sizes))
    method = Method(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias), extrapolation_value)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    bounds = bounds_of(b, roi if crops else None, len(chosen))
    if isinstance(found, list) and found:
        if len(found) != len(chosen) or wanted or antialias or keep_aspect_ratio_policy != "stretch":
            what = f"{len(found)} scales computed at run time for {len(chosen)} axes, with sizes, antialias or a policy for the aspect ratio"
            raise UnsupportedError(f"{what}, are not supported; supported: scales known at compile time")
        return resampled_at_run_time(b, x, chosen, found, method, bounds)
    factors = [float(s) for s in np.reshape(found, -1)]
    if len(factors or wanted) != len(chosen) or (factors and wanted):
        raise ModelError(f"one of scales and sizes must have {len(chosen)} entries, got {factors} and {wanted}")
    if not all(math.isfinite(f) and f > 0 for f in factors):
        raise ModelError(f"scales must be finite and positive, got {factors}")
    old = [dims[a] for a in chosen]
    asked = wanted or [scaled(d, s) for d, s in zip(old, factors, strict=True)]
    plans = planned(b, old, asked, factors, bounds, "stretch" if factors else keep_aspect_ratio_policy)
    if any(plan is not None and not is_static([have, plan.want]) for have, plan in zip(old, plans, strict=True)):
        by_axis = dict(zip(chosen, plans, strict=True))
        return resampled(b, x, [by_axis.get(axis) for axis in range(rank)], method)
    fixed = [i for i, axis in enumerate(chosen) if isinstance(dims[axis], int)]  # the others stay unchanged
    numbers = static_sizes(asked[i] for i in fixed)
    if wanted:
        factors, numbers = fitted(static_sizes(dims[chosen[i]] for i in fixed), numbers, keep_aspect_ratio_policy)
    else:
        factors = [factors[i] for i in fixed]
    full_scales, full_sizes, ends = [1.0] * rank, [d if isinstance(d, int) else -1 for d in dims], [0.0] * rank + [1.0] * rank
    for i, factor, size in zip(fixed, factors, numbers, strict=True):
        axis = chosen[i]
        full_scales[axis], full_sizes[axis] = factor, size
        ends[axis], ends[rank + axis] = bounds[i]
    return b.resize(x, sizes=tuple(full_sizes), scales=tuple(full_scales), **asdict(method), roi=tuple(ends) if crops else ())


def wanted_sizes(b: ImportBuilder, sizes: Value) -> Sequence[int | Size]:
    """The requested sizes: numbers, or expressions of sizes of inputs."""
    found = b.known_sizes(sizes, "sizes")
    return b.bound_sizes(sizes, "sizes") if found is None else found


def is_free(dims: Sequence[int | Size], wanted: Sequence[int | Size]) -> bool:
    """Whether a changing dimension has a dynamic size, before or after."""
    return any(have != want and not is_static([have, want]) for have, want in zip(dims, wanted, strict=True))


def bounds_of(b: ImportBuilder, roi: Value | None, axes: int) -> list[tuple[float, float]]:
    """The beginning and end of the region of interest along each axis; by default everything."""
    region = [] if roi is None else [float(r) for r in b.known(roi, "roi").reshape(-1)]
    return list(zip(region[:axes], region[axes:], strict=True)) if len(region) == 2 * axes else [WHOLE] * axes


def planned(
    b: ImportBuilder,
    dims: Sequence[int | Size],
    asked: Sequence[int | Size],
    factors: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    policy: str,
) -> list[Resampling | None]:
    """How each dimension is resampled by scales, or to sizes if there are none; None for one that stays unchanged, or if everything is static."""
    if is_static([*dims, *asked]):
        return [None] * len(dims)
    if policy == "stretch":
        plans: list[Resampling | None] = []
        for i, (have, want, ends) in enumerate(zip(dims, asked, bounds, strict=True)):
            scale = factors[i] if factors else None
            stays = have == want and scale in (None, 1) and ends == WHOLE
            plans.append(None if stays else Resampling(want, scale, ends))
        return plans
    if not all(holds(size, ">", 0) for size in dims):
        raise ModelError(f"sizes {list(dims)} cannot be resampled")
    common, ratios = common_scale(b, dims, asked, policy), list(zip(dims, asked, strict=True))
    return [Resampling(size, common, ends, ratios) for size, ends in zip(fitted_sizes(dims, asked, policy), bounds, strict=True)]


def fitted(dims: Sequence[int], wanted: Sequence[int], policy: str) -> tuple[list[float], list[int]]:
    """Scales and sizes for the requested sizes, with one common scale if the policy keeps the aspect ratio."""
    if any(d < 1 for d in dims):
        raise ModelError(f"sizes {list(dims)} cannot be resampled")
    scales = [w / d for w, d in zip(wanted, dims, strict=True)]
    if policy == "stretch":
        return scales, list(wanted)
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [scale] * len(dims), static_sizes(fitted_sizes(dims, wanted, policy))
