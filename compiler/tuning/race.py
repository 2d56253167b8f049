"""A race of one contest: arms are measured in blocks, losers are dropped early, and it ends when the best arm is known well enough."""

import math
from dataclasses import dataclass

import numpy as np

from stepwell.analysis.estimates import Statistic
from stepwell.dialects.support.errors import InputError, shown
from stepwell.tuning.statistics import BlockEffects, FloatArray, block_effects, mixture_radius

__all__ = ["Race", "Rules"]

PRIOR_FREEDOM = 5.0
"""The weight of the two deviations below against measured ones, in degrees of freedom: one process says little about how processes differ."""
PRIOR_SAMPLE = 0.02
"""The standard deviation of the log time of one sample before anything is measured."""
PRIOR_PLACE = 0.005
"""The standard deviation of the log time of an arm from process to process, before it is measured: its code and data lie elsewhere."""
TUNED = 0.02
"""The log ratio that the confidence sequence finds soonest: most losers lose by more, and it is a little wide for closer ones."""


@dataclass(frozen=True)
class Rules:
    """When arms are dropped, and when a race ends."""

    useful: float = 0.005
    """The smallest gain that is worth having, as a log ratio: an arm that cannot gain as much against the incumbent is dropped."""
    tie: float = 0.005
    """The log ratio by which the winner may be slower than another arm: closer arms are not told apart."""
    alpha: float = 0.05
    """The probability that the best arm is dropped."""

    def __post_init__(self) -> None:
        for name in ("useful", "tie", "alpha"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise InputError(f"{name}: expected a number between 0 and 1, got {shown(value)}")


class Race:
    """The race of one contest: arm 0 is the incumbent, arm 1 its twin, the others are candidates.

    Each call of `add` brings the blocks of one process. The code of an arm lies elsewhere in each process, which changes its time a little, so
    processes, not blocks, are the independent units: the mean log time of an arm in a process varies with the samples and with the place. Both
    variances are estimated over all arms. Arms are compared by a confidence sequence (`mixture_radius`), so a look after each process costs no
    validity.
    """

    def __init__(self, arms: int, rules: Rules) -> None:
        if arms < 2:
            raise InputError(f"arms: expected the incumbent and its twin at least, got {arms}")
        self.rules = rules
        self.arms = arms
        self.live = tuple(range(arms))
        """The arms that are still in the race; the incumbent and its twin always are."""
        self.decided = arms == 2
        self._effects: list[BlockEffects] = []
        self._place, self._place_doubt = PRIOR_PLACE**2, 0.0
        self._sample, self._sample_doubt = PRIOR_SAMPLE**2, 0.0

    @property
    def processes(self) -> int:
        """The number of processes that were added."""
        return len(self._effects)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The live arms without the incumbent and its twin."""
        return self.live[2:]

    def add(self, log_times: FloatArray) -> None:
        """Add the blocks of one process (see `Blocks`), a column for each arm, and drop losers. Blocks without any time count for nothing."""
        if log_times.ndim != 2 or log_times.shape[1] != self.arms:
            raise InputError(f"log_times: expected a column for each of {self.arms} arms, got shape {log_times.shape}")
        effects = block_effects(log_times)
        if np.isnan(effects.means[0]):
            return
        self._effects.append(effects)
        self._estimate_variances()
        if self.decided:
            return
        level = self.rules.alpha / (2 * self.arms)  # half for the incumbent's comparisons, half for those with each other arm
        against_incumbent, radius = self._relative(0, level)
        losers = {arm for arm in self.candidates if against_incumbent[arm] - radius[arm] > -self.rules.useful}
        best = self._fastest(against_incumbent)
        if best is not None:
            against_best, radius = self._relative(best, level)
            losers |= {arm for arm in self.candidates if arm != best and against_best[arm] - radius[arm] > 0}
        self.live = tuple(arm for arm in self.live if arm not in losers)
        self._decide()

    def drop(self, arm: int) -> None:
        """Take a candidate out of the race, because it failed."""
        self.live = tuple(other for other in self.live if other != arm or arm < 2)
        self._decide()

    def best(self) -> int:
        """The fastest arm so far: a live candidate with half a useful gain, or the incumbent."""
        if not self._effects:
            return 0
        ratios, _ = self._relative(0, self.rules.alpha)
        fastest = self._fastest(ratios)
        return fastest if fastest is not None and ratios[fastest] < -self.rules.useful / 2 else 0

    def estimates(self) -> tuple[Statistic | None, ...]:
        """For each arm, its time relative to the incumbent's, with an interval that contains it at all times with probability 95 %.

        None for an arm without times.
        """
        if not self._effects:
            return (None,) * self.arms
        means, radii = self._relative(0, 0.05)
        # Wider than e^700, a ratio is no number.
        return tuple(
            None if np.isnan(mean) else Statistic(math.exp(mean), math.exp(max(mean - radius, -700.0)), math.exp(min(mean + radius, 700.0)))
            for mean, radius in zip(means.tolist(), radii.tolist(), strict=True)
        )

    def deviation(self, blocks: float) -> float:
        """The standard deviation of the log ratio of two arms in a process of `blocks` blocks."""
        return math.sqrt(2 * self._place + 2 * self._sample / blocks)

    def _fastest(self, ratios: FloatArray) -> int | None:
        """The live candidate with the smallest log ratio."""
        measured = [arm for arm in self.candidates if not np.isnan(ratios[arm])]
        return min(measured, key=lambda arm: ratios[arm], default=None)

    def _relative(self, reference: int, alpha: float) -> tuple[FloatArray, FloatArray]:
        """The log ratios of all arms to one of them, and the radii of their confidence sequences; NaN and infinite without a common process.

        The sequences are for known variances. Estimated ones are raised by one standard error, since the intervals would be too narrow at first.
        """
        place, sample = self._place * (1 + self._place_doubt), self._sample * (1 + self._sample_doubt)
        counts = np.array([effects.counts for effects in self._effects])
        means = np.array([effects.means for effects in self._effects])
        ratios = means - means[:, [reference]]
        known = ~np.isnan(ratios)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(known, 1 / (2 * place + sample * (1 / counts + 1 / counts[:, [reference]])), 0.0)
            information = weights.sum(axis=0)
            mean = np.sum(np.where(known, ratios, 0.0) * weights, axis=0) / information
        radius = mixture_radius(information, alpha, 2 * math.log(1 / alpha) / TUNED**2)
        radius[reference] = 0.0
        return mean, radius

    def _estimate_variances(self) -> None:
        """Estimate the variance of a sample, and that of an arm between processes by the method of moments; both are pooled with their priors."""
        freedom = PRIOR_FREEDOM + sum(effects.freedom for effects in self._effects)
        self._sample = (PRIOR_FREEDOM * PRIOR_SAMPLE**2 + sum(effects.squares for effects in self._effects)) / freedom
        self._sample_doubt = math.sqrt(2 / freedom)
        counts = np.array([effects.counts for effects in self._effects])
        rest = np.array([effects.means for effects in self._effects])
        known = ~np.isnan(rest)
        raced = known.any(axis=0)
        rest, known, counts = rest[:, raced], known[:, raced], counts[:, raced]
        for _ in range(3):  # least squares for effects of processes and arms: at once if all arms are in all processes, else almost
            rest = rest - np.nanmean(rest, axis=1)[:, None]
            centre = np.nanmean(rest, axis=0)
            if raced[1]:
                centre[:2] = np.nanmean(rest[:, :2])  # the twin is the incumbent
            rest = rest - centre
        between = int(known.sum()) - len(rest) - int(raced.sum()) + 1 + int(raced[1])
        squares = float(np.nansum(rest**2)) - between * self._sample * float(np.mean(1 / counts[known]))
        freedom = PRIOR_FREEDOM + between
        self._place = (PRIOR_FREEDOM * PRIOR_PLACE**2 + max(0.0, squares)) / freedom
        self._place_doubt = math.sqrt(2 / freedom)

    def _decide(self) -> None:
        """The race ends if no candidate is left, or if the best one is known to be within a tie of all others and its own gain is known."""
        if not self.candidates:
            self.decided = True
            return
        if not self._effects:
            return
        level = self.rules.alpha / (2 * self.arms)
        ratios, radius = self._relative(0, level)
        best = self._fastest(ratios)
        if best is None or any(np.isnan(ratios[arm]) for arm in self.candidates):
            return
        if ratios[best] + radius[best] >= 0 and radius[best] > self.rules.useful:
            return
        others = [arm for arm in self.candidates if arm != best]
        against_best, radius = self._relative(best, level)
        self.decided = all(radius[arm] - against_best[arm] <= self.rules.tie for arm in others)
