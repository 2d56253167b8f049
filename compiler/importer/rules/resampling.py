"""Rules for resampling images: Upsample and Resize."""

import math
from collections.abc import Sequence

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.importer.builder import ImportBuilder, Value, normalized_axis, static_dims
from stepwell.importer.registry import onnx_rule

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def supported(name: str, value: str, choices: Sequence[str]) -> str:
    """A string attribute. Raises UnsupportedError if it is not one of `choices`."""
    if value not in choices:
        raise UnsupportedError(f"{name}={value!r} is not supported; supported: {', '.join(choices)}")
    return value


def simple(b: ImportBuilder, x: Value, scales: Sequence[float], mode: str) -> Value:
    """Resampling before opset 11, which had no choice of coordinates.

    The specification did not define the nearest element. As in ONNX Runtime, round up where a dimension shrinks, down elsewhere.
    """
    rank = type_of(x).rank
    if len(scales) != rank:
        raise ModelError(f"scales must have {rank} entries for an input of rank {rank}, got {list(scales)}")
    mode = supported("mode", mode.replace("bilinear", "linear"), ("nearest", "linear"))
    for rounding, factors in (("ceil", [min(s, 1.0) for s in scales]), ("floor", [max(s, 1.0) for s in scales])):
        if any(s != 1.0 for s in factors):
            x = b.resize(
                x,
                sizes=tuple(math.floor(d * s) for d, s in zip(static_dims(x, "an input"), factors, strict=True)),
                scales=tuple(map(float, factors)),
                mode=mode,
                coordinates="asymmetric",
                rounding=rounding,
                cubic_coefficient=-0.75,
                exclude_outside=False,
                antialias=False,
                roi=(),
                extrapolation=0.0,
            )
    return x


@onnx_rule("Upsample", since=7)
def upsample_by_attribute(b: ImportBuilder, x: Value, *, scales: Sequence[float], mode: str = "nearest") -> Value:
    return simple(b, x, scales, mode)


@onnx_rule("Upsample", since=9)
@onnx_rule("Resize", since=10)
def resize_by_scales(b: ImportBuilder, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    return simple(b, x, b.known(scales, "scales").reshape(-1).tolist(), mode)


@onnx_rule("Resize", since=11)
def resize(
    b: ImportBuilder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Value:
    dims = static_dims(x, "an input")
    rank = len(dims)
    chosen = list(range(rank)) if axes is None else [normalized_axis(a, rank, "axes") for a in axes]
    factors = [] if scales is None else [float(s) for s in b.known(scales, "scales").reshape(-1)]
    wanted = [] if sizes is None else list(b.known_ints(sizes, "sizes"))
    if len(factors or wanted) != len(chosen) or (factors and wanted):
        raise ModelError(f"one of scales and sizes must have {len(chosen)} entries, got {factors} and {wanted}")
    if not all(math.isfinite(f) and f > 0 for f in factors):
        raise ModelError(f"scales must be finite and positive, got {factors}")
    if wanted:
        factors, wanted = fitted([dims[a] for a in chosen], wanted, keep_aspect_ratio_policy)
    else:
        wanted = [math.floor(dims[a] * s) for a, s in zip(chosen, factors, strict=True)]
    region = [] if roi is None else [float(r) for r in b.known(roi, "roi").reshape(-1)]
    full_scales, full_sizes, bounds = [1.0] * rank, list(dims), [0.0] * rank + [1.0] * rank
    for i, axis in enumerate(chosen):
        full_scales[axis], full_sizes[axis] = factors[i], wanted[i]
        if len(region) == 2 * len(chosen):
            bounds[axis], bounds[rank + axis] = region[i], region[len(chosen) + i]
    coordinates = supported("coordinate_transformation_mode", coordinate_transformation_mode, COORDINATES)
    return b.resize(
        x,
        sizes=tuple(full_sizes),
        scales=tuple(full_scales),
        mode=supported("mode", mode, ("nearest", "linear", "cubic")),
        coordinates=coordinates,
        rounding=supported("nearest_mode", nearest_mode, ROUNDINGS),
        cubic_coefficient=cubic_coeff_a,
        exclude_outside=bool(exclude_outside),
        antialias=bool(antialias),
        roi=tuple(bounds) if coordinates == "tf_crop_and_resize" else (),
        extrapolation=extrapolation_value,
    )


def fitted(dims: Sequence[int], wanted: Sequence[int], policy: str) -> tuple[list[float], list[int]]:
    """Scales and sizes for the requested sizes, with one common scale if the policy keeps the aspect ratio."""
    if any(d < 1 for d in dims):
        raise ModelError(f"sizes {list(dims)} cannot be resampled")
    scales = [w / d for w, d in zip(wanted, dims, strict=True)]
    if policy == "stretch":
        return scales, list(wanted)
    if policy not in ("not_larger", "not_smaller"):
        raise UnsupportedError(f"keep_aspect_ratio_policy={policy!r} is not supported; supported: stretch, not_larger, not_smaller")
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [scale] * len(dims), [math.floor(scale * d + 0.5) for d in dims]
