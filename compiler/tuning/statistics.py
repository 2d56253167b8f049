"""Statistics of measured times: effects in blocks, confidence sequences, tests of one ratio, and Holm's correction. All of it is pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stepwell.analysis.estimates import Statistic

__all__ = [
    "BlockEffects", "FloatArray", "RatioTest", "block_effects", "holm", "mixture_radius", "processes_needed", "student_cdf", "student_quantile",
    "t_test",
]  # fmt: skip

FloatArray: TypeAlias = NDArray[np.float64]

CLIP = 3.0
"""Residuals of blocks are clipped at this many robust standard deviations (winsorised), so that an interrupt in one run moves no mean."""
MAD_SCALE = 1.4826
"""The standard deviation of a normal variable divided by its median absolute deviation."""


@dataclass(frozen=True)
class BlockEffects:
    """The effects of arms in one process."""

    means: FloatArray
    """For each arm, its mean log time, up to a constant that all arms share; NaN without a sample."""
    counts: FloatArray
    """For each arm, the number of its samples."""
    squares: float
    """The sum of squares of the residuals."""
    freedom: int
    """The degrees of freedom of the residuals."""


def block_effects(log_times: FloatArray) -> BlockEffects:
    """Split log times (a row for each block, a column for each arm, NaN for what is missing) into effects of blocks and of arms.

    A block holds one sample of each arm, so whatever slows a whole block cancels in the differences of arms. A median polish (Tukey 1977) finds the
    outliers, which are clipped; then least squares fit both effects.
    """
    arms = log_times.shape[1]
    counts = np.sum(~np.isnan(log_times), axis=0).astype(np.float64)
    kept = log_times[~np.all(np.isnan(log_times), axis=1)]
    present = counts > 0
    means = np.full(arms, np.nan)
    if not present.any():
        return BlockEffects(means, counts, 0.0, 0)
    table = kept[:, present]
    by_arm = _median(table, axis=0)
    rest = table - _median(table - by_arm, axis=1)[:, None]
    by_arm = _median(rest, axis=0)
    residuals = rest - by_arm
    limit = CLIP * _pair_deviation(table)
    if limit > 0:
        residuals = np.clip(residuals, -limit, limit)
    residuals = residuals - np.nanmean(residuals, axis=1)[:, None]
    correction = np.nanmean(residuals, axis=0)
    means[present] = by_arm + correction
    residuals = residuals - correction
    freedom = max(0, int(np.sum(~np.isnan(residuals))) - len(kept) - int(present.sum()) + 1)
    return BlockEffects(means, counts, float(np.nansum(residuals**2)), freedom)


def _median(values: FloatArray, axis: int) -> FloatArray:
    """The median without NaN, as `numpy.nanmedian`, which takes ten times as long on small arrays; NaN if there is nothing else."""
    ordered = np.sort(values, axis=axis)  # NaN come last
    counts = np.sum(~np.isnan(values), axis=axis, keepdims=True)
    middle = [np.take_along_axis(ordered, np.maximum(0, position), axis) for position in ((counts - 1) // 2, counts // 2)]
    return np.squeeze(middle[0] + middle[1], axis=axis) / 2


def _pair_deviation(table: FloatArray) -> float:
    """A robust standard deviation of one sample, from the differences of each arm to the one before it in the same block."""
    blocks = len(table)
    if blocks < 2 or table.shape[1] < 2:
        return 0.0
    differences = np.diff(table, axis=1)
    differences = differences[:, ~np.all(np.isnan(differences), axis=0)]
    if not differences.size:
        return 0.0
    deviation = _median(np.abs(differences - _median(differences, axis=0)).ravel(), axis=0)
    # Few blocks leave a median absolute deviation too small: a factor for small samples after Croux and Rousseeuw (1992).
    return float(deviation) * MAD_SCALE * blocks / (blocks - 0.8) / math.sqrt(2)


def mixture_radius(information: FloatArray, alpha: float, tuned: float) -> FloatArray:
    """Half the width of a confidence sequence of a mean: it holds at all times at once with probability 1 - `alpha`.

    The boundary of the two-sided normal mixture, equation (14) of Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic
    confidence sequences" (Annals of Statistics 49, 2021). `information` is the sum of the inverse variances of the samples so far (zero or more;
    the radius at zero is infinite); the sequence is tightest about where the information is `tuned`.
    """
    rho = tuned / (2 * math.log(1 / alpha) + math.log1p(2 * math.log(1 / alpha)))
    with np.errstate(divide="ignore"):
        return np.sqrt((information + rho) * np.log((information + rho) / (rho * alpha**2))) / information


def student_cdf(t: float, freedom: float) -> float:
    """The distribution function of Student's t distribution."""
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    tail = _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2
    return 1.0 - tail if t > 0 else tail


@cache  # the tests of a run need it for a few numbers of processes only
def student_quantile(probability: float, freedom: float) -> float:
    """The inverse of `student_cdf` for a probability between 0 and 1, both excluded, by bisection."""
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < probability:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by the continued fraction 8.17.22 of the Digital Library of Mathematical Functions."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below this point only
        return 1 - _incomplete_beta(1 - x, b, a)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    tiny = 1e-300  # in the place of a zero denominator (Lentz's algorithm, as modified by Thompson and Barnett 1986)
    numerator, denominator = 1.0, 1 - (a + b) * x / (a + 1)
    denominator = 1 / (denominator or tiny)
    value = denominator
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / ((1 + term * denominator) or tiny)
            numerator = (1 + term / numerator) or tiny
            value *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            break
    return math.exp(logarithm) * value / a


@dataclass(frozen=True)
class RatioTest:
    """A ratio of two times."""

    ratio: Statistic
    """The ratio, and its confidence interval."""
    p: float
    """The p-value of the hypothesis that the ratio is 1 or more."""


def t_test(log_ratios: Sequence[float], level: float = 0.95) -> RatioTest:
    """Student's t test on independent log ratios, one for each process, with the confidence interval of the ratio at `level`.

    With fewer than two log ratios nothing is known: the p-value is 1, and the interval contains all ratios.
    """
    count = len(log_ratios)
    if count < 2:
        return RatioTest(Statistic(math.exp(log_ratios[0]) if count else 1.0, 0.0, math.inf), 1.0)
    mean = math.fsum(log_ratios) / count
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in log_ratios) / (count - 1) / count)
    if error == 0:
        return RatioTest(Statistic(math.exp(mean), math.exp(mean), math.exp(mean)), 0.0 if mean < 0 else 1.0)
    reach = student_quantile((1 + level) / 2, count - 1) * error
    return RatioTest(Statistic(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)), student_cdf(mean / error, count - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number (Holm 1979): reject what is at most alpha, and with probability 1 - alpha no rejection is wrong."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def processes_needed(log_ratio: float, deviation: float, alpha: float, power: float = 0.9) -> float:
    """How many processes let `t_test` reject at `alpha` with probability `power`, if their log ratios have this mean and deviation.

    Infinite unless the mean is below 0.
    """
    if log_ratio >= 0:
        return math.inf
    normal = NormalDist()
    quantile = normal.inv_cdf(1 - alpha)
    # The last term corrects for the estimated deviation (Guenther 1981).
    return ((quantile + normal.inv_cdf(power)) * deviation / log_ratio) ** 2 + quantile**2 / 2
