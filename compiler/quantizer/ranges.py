"""Ranges of activations from histograms of them, and the scale and zero point of a range."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from stepwell.quantizer.histogram import BINS, Histogram
from stepwell.quantizer.options import QuantizeOptions

SMALLEST_SCALE = 2.0**-60
"""The smallest scale, so that a product of two scales is a normal number in f32."""
STEPS = 100  # steps in which the search for the smallest squared error narrows a range to a tenth
LEVELS = 128  # levels of the distribution that entropy compares with: those of one sign
OFTEN = 16  # a bin repeats a single number if it holds this many times as much as half of the bins around it


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, including 0."""

    low: float
    high: float

    @staticmethod
    def covering(low: float, high: float) -> "Range":
        """The smallest range with these numbers and 0, which must be a quantised number, since padding and relu produce it."""
        return Range(min(low, 0.0), max(high, 0.0))

    def joined(self, others: "Iterable[Range]") -> "Range":
        """The smallest range that contains this one and others."""
        every = [self, *others]
        return Range(min(r.low for r in every), max(r.high for r in every))

    @property
    def size(self) -> float:
        """The distance of its ends."""
        return self.high - self.low


@dataclass(frozen=True)
class Parameters:
    """The quantisation of numbers: `round(x / scale) + zero_point`, saturated in the type of `zero_point`."""

    scale: np.float32
    zero_point: np.uint8 | np.int8

    @property
    def range(self) -> Range:
        """The range that is quantised without saturation, except for half a step on both sides."""
        info = np.iinfo(self.zero_point.dtype)
        return Range(*(float(self.scale) * (bound - int(self.zero_point)) for bound in (info.min, info.max)))


def parameters(wanted: Range, *, symmetric: bool) -> Parameters:
    """The finest scale and the zero point for a range: uint8, or int8 around 0."""
    if symmetric:
        return Parameters(np.float32(max(max(-wanted.low, wanted.high) / 127, SMALLEST_SCALE)), np.int8(0))
    scale = np.float32(max(wanted.size / 255, SMALLEST_SCALE))
    zero = int(np.clip(np.rint(-wanted.low / float(scale)), 0, 255))
    return Parameters(scale, np.uint8(zero))


def range_of(histogram: Histogram, options: QuantizeOptions) -> Range:
    """The range by the chosen method for a histogram; {0} for a histogram without counts."""
    if histogram.total == 0:
        return Range(0.0, 0.0)
    return _METHODS[options.method](histogram, options)


def _minmax(histogram: Histogram, options: QuantizeOptions) -> Range:
    """The range of all counted numbers."""
    return Range.covering(histogram.low, histogram.high)


def _percentile(histogram: Histogram, options: QuantizeOptions) -> Range:
    """The range after cutting off a share of the numbers on each side; numbers are assumed to be evenly distributed in their bins.

    McKinstry et al., "Discovering Low-Precision Networks Close to Full-Precision Networks for Efficient Embedded Inference", 2018.
    """
    part = options.percentile / 100
    shares = np.concatenate([[0.0], np.cumsum(histogram.counts)]) / histogram.total
    edges = np.clip(histogram.edges, histogram.low, histogram.high)
    low, high = (float(np.interp(share, shares, edges)) for share in (1 - part, part))
    return Range.covering(low, high)


def _mse(histogram: Histogram, options: QuantizeOptions) -> Range:
    """The range with the smallest squared error of rounding and clipping together; each end is moved in turn, twice.

    Nagel et al., "A White Paper on Neural Network Quantization", 2021, section 3.1.
    """
    whole = _minmax(histogram, options)
    seen = np.flatnonzero(histogram.counts)
    x, weight = histogram.centres[seen], histogram.counts[seen].astype(np.float64)

    def error(candidate: Range) -> float:
        used = parameters(candidate, symmetric=options.symmetric_activations)
        scale, bounds = float(used.scale), used.range
        rounded = np.rint(np.clip(x, bounds.low, bounds.high) / scale) * scale
        return float(weight @ np.square(rounded - x))

    parts = np.linspace(1.0, 0.1, STEPS).tolist()
    if options.symmetric_activations:
        return min((Range(whole.low * part, whole.high * part) for part in parts), key=error)
    best = whole
    for _ in range(2):
        best = min((Range(best.low, whole.high * part) for part in parts), key=error) if whole.high > 0 else best
        best = min((Range(whole.low * part, best.high) for part in parts), key=error) if whole.low < 0 else best
    return best


def _entropy(histogram: Histogram, options: QuantizeOptions) -> Range:
    """The threshold of magnitudes at which quantising the distribution to few levels loses least, by Kullback and Leibler's divergence.

    Migacz, "8-bit Inference with TensorRT", GTC 2017. Numbers beyond the threshold count for the last level.

    A number that occurs again and again, such as a layer's response to a blank background, is not a density: the divergence from any level with other
    numbers in it is large, and no threshold rounds it worse than the others. It counts only where it is cut off.
    """
    whole = _minmax(histogram, options)
    top = max(-whole.low, whole.high)
    seen = np.flatnonzero(histogram.counts)
    bins = min(max(LEVELS, int(np.ceil(top / histogram.width))), BINS)  # a narrow range far from 0 has finer ones
    sizes = np.abs(histogram.centres[seen])
    counts = np.bincount(np.minimum((sizes / top * bins).astype(np.int64), bins - 1), histogram.counts[seen], bins) if top else np.zeros(bins)
    counts[0] = 0  # zeros, of which relu makes many, are exact under every threshold
    spread = np.where(_repeated(counts), 0, counts)
    if not spread.any():
        return whole
    step = max(1, (bins - LEVELS) // 256)
    thresholds = range(bins, LEVELS - 1, -step)
    best = min(thresholds, key=lambda threshold: _divergence(spread, threshold, counts[threshold:].sum())) / bins * top
    return Range(max(whole.low, -best), min(whole.high, best))


def _repeated(counts: np.ndarray) -> np.ndarray:
    """Which bins hold a repeated number: many more counts than those within a level of the whole range around them."""
    around = len(counts) // LEVELS // 2
    beside = np.lib.stride_tricks.sliding_window_view(np.pad(counts, around, mode="reflect"), 2 * around + 1)
    return np.asarray(counts > OFTEN * (np.median(beside, axis=1) + 1))


def _divergence(counts: np.ndarray, threshold: int, beyond: float) -> float:
    """Kullback and Leibler's divergence of the first bins, with all `beyond` in the last one, from their approximation by few levels."""
    kept = counts[:threshold]
    clipped = kept.copy()
    clipped[-1] += beyond
    if kept.sum() == 0:
        return float("inf")
    starts = np.arange(LEVELS) * threshold // LEVELS
    filled = (kept > 0).astype(np.float64)
    per_level, places = np.add.reduceat(kept, starts), np.add.reduceat(filled, starts)
    means = np.divide(per_level, places, out=np.zeros(LEVELS), where=places > 0)
    coarse = np.repeat(means, np.diff([*starts, threshold])) * filled
    p, q = clipped / clipped.sum(), coarse / coarse.sum()
    positive = p > 0
    return float(np.sum(p[positive] * np.log(p[positive] / np.maximum(q[positive], 1e-12))))


_METHODS: dict[str, Callable[[Histogram, QuantizeOptions], Range]] = {
    "minmax": _minmax, "percentile": _percentile, "entropy": _entropy, "mse": _mse,
}  # fmt: skip
