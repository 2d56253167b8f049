"""Resampling of tensors, one dimension at a time: nearest, linear or cubic."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import NUMERIC, TensorType
from stepwell.dialects.graph.base import InferredTypes, Pure, SingleOperand
from stepwell.dialects.graph.inference import expect_at_least, expect_choice, expect_dtype, expect_floats, expect_length
from stepwell.dialects.graph.numerics import is_floating, narrow, wide
from stepwell.dialects.support.errors import InferenceError

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
ROUNDING = 1e-6  # relative rounding error of the product of a size and an f32 scale
TAPS_AT_A_TIME = 1 << 20  # number of taps computed at once, which bounds the memory


class ResizeOp(SingleOperand, name="resize", traits=[Pure]):
    """`x` resampled to `sizes` (-1 keeps a dimension), as ONNX's Resize defines it; integers are rounded.

    `scales` are the factors used to compute coordinates (they need not be exactly the quotients of the sizes). `coordinates` selects the mapping from
    positions in the result to positions in `x`. Only "tf_crop_and_resize" uses `roi` (starts, then ends) and `extrapolation`.
    """

    sizes: ir.DenseI64ArrayAttr
    scales: ir.ArrayAttr
    mode: ir.StringAttr
    coordinates: ir.StringAttr
    rounding: ir.StringAttr
    cubic_coefficient: ir.FloatAttr
    exclude_outside: ir.BoolAttr
    antialias: ir.BoolAttr
    roi: ir.ArrayAttr
    extrapolation: ir.FloatAttr

    @staticmethod
    def infer(
        x: TensorType, *, sizes: Sequence[int], scales: Sequence[float], roi: Sequence[float],
        mode: str, coordinates: str, rounding: str, **others: object,
    ) -> InferredTypes:  # fmt: skip
        expect_dtype("x", x, NUMERIC)
        expect_length("sizes", sizes, x.rank, "one for each dimension")
        expect_at_least("sizes", sizes, -1)
        expect_floats("scales", scales, x.rank, "one for each dimension")
        if not all(s > 0 for s in scales):
            raise InferenceError(f"the entries of attribute 'scales' must be positive, got {list(scales)}")
        expect_choice("mode", mode, MODES)
        expect_choice("coordinates", coordinates, COORDINATES)
        expect_choice("rounding", rounding, ROUNDINGS)
        if coordinates == "tf_crop_and_resize":
            expect_floats("roi", roi, 2 * x.rank, "the start of each dimension, then the end of each")
        for dim, (have, want) in enumerate(zip(x.shape, sizes, strict=True)):
            if have == 0 and want > 0:
                raise InferenceError(f"dimension {dim} of operand 'x' ({x}) has no elements to resample")
        return x.with_shape(tuple(d if s == -1 else s for d, s in zip(x.shape, sizes, strict=True)))

    @staticmethod
    def reference(
        x: np.ndarray,
        *,
        sizes: Sequence[int],
        scales: Sequence[float],
        mode: str,
        coordinates: str,
        rounding: str,
        cubic_coefficient: float,
        exclude_outside: bool,
        antialias: bool,
        roi: Sequence[float],
        extrapolation: float,
    ) -> np.ndarray:
        out = wide(x) if is_floating(x.dtype) else x.astype(np.float64)
        if mode == "nearest":
            out = x
        outside = np.zeros((), dtype=bool)
        for dim, (want, scale) in enumerate(zip(sizes, scales, strict=True)):
            have = x.shape[dim]
            size = have if want == -1 else want
            bounds = (roi[dim], roi[x.ndim + dim]) if coordinates == "tf_crop_and_resize" else (0.0, 1.0)
            if size == have and scale == 1 and bounds == (0.0, 1.0):
                outside = outside[..., np.newaxis]
                continue
            places = source_places(have, size, scale, coordinates, bounds)
            if coordinates == "tf_crop_and_resize":
                outside = outside[..., np.newaxis] | (places < 0) | (places > have - 1)
            else:
                outside = outside[..., np.newaxis]
            if mode == "nearest":
                out = np.take(out, nearest(places, rounding, have), axis=dim)
            else:
                out = weighted_sums(out, dim, *sampling_taps(places, have, scale, mode, cubic_coefficient, exclude_outside, antialias))
        if outside.any():
            out = np.where(outside, np.array(extrapolation).astype(out.dtype), out)
        if not is_floating(x.dtype) and mode != "nearest":
            limits = np.iinfo(x.dtype)
            out = np.clip(np.rint(out), limits.min, limits.max)
        return narrow(out, x.dtype)

    @staticmethod
    def flops(x: TensorType, *, result: TensorType, mode: str, **attributes: object) -> int:
        return 0 if mode == "nearest" else 2 * (2 if mode == "linear" else 4) * result.elements


def source_places(have: int, size: int, scale: float, coordinates: str, bounds: tuple[float, float]) -> np.ndarray:
    """The source positions, in a dimension of `have` elements, of the `size` elements of the result.

    Computed in f32, as in the runtimes, because the result of "nearest" at a tie depends on the rounding.
    """
    real = np.float32
    i, half = np.arange(size, dtype=real), real(0.5)
    if coordinates == "asymmetric":
        return i / real(scale)
    if coordinates == "align_corners":
        span = stretched(have, scale) - 1
        return i * real(have - 1) / real(span) if span else np.zeros_like(i)
    if coordinates == "tf_crop_and_resize":
        start, end = real(bounds[0]), real(bounds[1])
        if size == 1:
            return np.full_like(i, half * (start + end) * real(have - 1))
        return start * real(have - 1) + i * (end - start) * real(have - 1) / real(size - 1)
    if coordinates == "pytorch_half_pixel" and size == 1:
        return np.zeros_like(i)
    places = (i + half) / real(scale) - half
    if coordinates == "half_pixel_symmetric":  # `size` is the integer part of scale * have; centre the remainder
        places = real(have) / 2 * (1 - real(size) / (real(scale) * real(have))) + (i + half) / real(scale) - half
    return places


def stretched(have: int, scale: float) -> float:
    """The fractional length of a dimension of `have` elements after scaling; rounded to an integer if it differs only by rounding error."""
    length = have * scale
    return round(length) if abs(length - round(length)) < ROUNDING * length else length


def nearest(places: np.ndarray, rounding: str, have: int) -> np.ndarray:
    """The index of the element nearest to each position; `rounding` selects the treatment of ties and fractions."""
    if rounding == "floor":
        chosen = np.floor(places)
    elif rounding == "ceil":
        chosen = np.ceil(places)
    elif rounding == "round_prefer_ceil":
        chosen = np.floor(places + 0.5)
    else:
        chosen = np.ceil(places - 0.5)
    return np.clip(chosen, 0, have - 1).astype(np.int64)


def sampling_taps(
    places: np.ndarray, have: int, scale: float, mode: str, cubic_coefficient: float, exclude_outside: bool, antialias: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The sampling of one dimension: for each position the source indices, ascending, and their factors in f64, both (result, taps).

    Sources outside the dimension count as the outermost elements, or not at all. A position with fewer taps than others repeats its first one with
    the factor 0. Such a tap must be skipped, since an infinite element times 0 is NaN.
    """
    if not len(places):
        return np.zeros((0, 1), np.int64), np.zeros((0, 1))
    stretch = max(1.0, 1.0 / scale) if antialias else 1.0
    reach = int(np.ceil((1 if mode == "linear" else 2) * stretch))
    offsets = np.arange(-reach, reach + 1)
    rows = max(1, TAPS_AT_A_TIME // len(offsets))
    parts = []
    for block in (places[i : i + rows, np.newaxis] for i in range(0, len(places), rows)):
        sources = np.floor(block).astype(np.int64) + offsets
        distance = np.abs(block - sources) / stretch
        weights = np.maximum(1 - distance, 0) if mode == "linear" else cubic(distance, cubic_coefficient)
        if exclude_outside or antialias:
            weights = np.where((sources >= 0) & (sources < have), weights, 0) if exclude_outside else weights
            weights = weights / np.sum(weights, axis=1, keepdims=True)
        parts.append(_gathered(np.clip(sources, 0, have - 1), weights))
    taps = max(sources.shape[1] for sources, _ in parts)
    sources = np.concatenate([np.concatenate([s, np.repeat(s[:, :1], taps - s.shape[1], axis=1)], axis=1) for s, _ in parts])
    return sources, np.concatenate([np.pad(factors, ((0, 0), (0, taps - factors.shape[1]))) for _, factors in parts])


def _gathered(sources: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compact rows of sources that ascend by at most one: the weights of equal sources are added, and zero weights are removed."""
    first = sources[:, :1]
    band = np.zeros_like(weights)
    np.add.at(band, (np.arange(len(sources))[:, np.newaxis], sources - first), weights)
    counts = np.count_nonzero(band, axis=1)[:, np.newaxis]
    columns = np.argsort(band == 0, axis=1, kind="stable")[:, : max(1, int(np.max(counts)))]
    columns = np.where(np.arange(columns.shape[1]) < counts, columns, columns[:, :1])
    unused = np.arange(columns.shape[1]) >= counts
    return first + columns, np.where(unused, 0, np.take_along_axis(band, columns, axis=1))


def weighted_sums(x: np.ndarray, dim: int, sources: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """`x` with dimension `dim` replaced by sums of `factors` times the elements at `sources`, both (result, taps); taps are added in order."""
    results, taps = sources.shape
    ahead = np.moveaxis(x, dim, 0)
    weights = factors.astype(x.dtype).reshape(results, taps, *[1] * (x.ndim - 1))
    used = weights != 0
    out = np.zeros((results, *ahead.shape[1:]), x.dtype)
    if taps <= results:
        for tap in range(taps):
            out += weights[:, tap] * np.where(used[:, tap], ahead[sources[:, tap]], 0)
    else:  # few positions that each depend on many sources
        for i in range(results):
            out[i] = np.sum(weights[i] * np.where(used[i], ahead[sources[i]], 0), axis=0)
    return np.moveaxis(out, 0, dim)


def cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel with coefficient `a` (R. Keys, 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
