"""Fits the costs of a target, as far as the model of loop nests depends on them, to measured times of schedules.

Only ratios of times within a workload count, so no constant sets the unit: a cycle is what the target's pipes make of it, and pipes, caches and
registers stay as they are. The other constants of the formula (`passes.schedule.quantities`) move, as logarithms, until the predicted logarithms of
ratios are close to the measured ones: by least squares with a loss that grows linearly for outliers (soft L1), within a factor of `MOST` of the
present values, and with a pull towards these. Constants that no record depends on stay as they are.

How well the fitted constants predict shows in networks that they were not fitted to: each network is left out once.
"""

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray

from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.target.costs import Costs
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.numbers import Pipes
from stepwell.passes.schedule.candidates import SCHEDULE
from stepwell.passes.schedule.quantities import TILES, Quantities, Work, quantities_of
from stepwell.tuning.outcomes import Record, tried
from stepwell.tuning.ranking_quality import BEST, FEWEST_RANKED, rank_correlation, regret_of_best

RATES = "bytes_per_cycle"
FITTED = ("exposed", "window", "tile_start", "loop_start", "fold", "threads_start")
"""The constants that are fitted, beside the three of `RATES`: those of `Costs` that only the model of loop nests depends on."""
MOST = 4.0
"""The largest factor by which a constant may change."""
TYPICAL_ERROR, LEAST_ERROR = 0.1, 0.01
"""The typical error of the logarithm of a predicted ratio, before the first fit shows it, and the smallest one that is assumed after it.

Larger errors count as outliers: linearly, not squared.
"""
TYPICAL_FACTOR = 2.0
"""A constant that moves by this factor costs as much as one typical error."""
FEWEST_NETWORKS, FEWEST_WORKLOADS, FEWEST_CANDIDATES = 2, 8, 64
"""The fewest records for a fit: several schedules for each constant, of several kernels, and a network to leave out."""
TO_DEVIATION = 1.4826
"""The standard deviation of a normal distribution, in medians of the distance from its median."""
DIGITS = 3
"""The significant digits of fitted constants."""
UNSEEN = 1e-6
"""The largest change of an error, in `TYPICAL_ERROR`, by a change of a constant by a factor of e that is rounding."""
SAME = 9
"""Predictions whose logarithms have so many equal decimal places are equal: their difference is rounding."""
UNUSED, AT_BOUND = "no record depends on it", "at its bound"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """The measured schedules of a workload."""

    networks: frozenset[str]
    quantities: tuple[Quantities[float], ...]
    log_ratios: tuple[float, ...]
    """The logarithm of the time of each, relative to that of one of them."""


@dataclass(frozen=True)
class Quality:
    """How well predictions order the schedules of a workload, on average: weighted by the number of schedules."""

    correlation: float | None
    """Spearman's rank correlation of predicted and measured times; None if no workload has enough schedules."""
    regret: float | None
    """The time of the fastest of the `BEST` schedules predicted to be the fastest, relative to the fastest of all: a geometric mean, at least 1.

    None if no workload has more schedules than that.
    """


@dataclass(frozen=True)
class HeldOut:
    """The quality of predictions for one network: by the present costs, and by those fitted to the other networks."""

    network: str
    workloads: int
    candidates: int
    before: Quality
    after: Quality


@dataclass(frozen=True)
class Constant:
    """A constant that was fitted."""

    name: str
    before: float
    after: float
    note: str = ""
    """`UNUSED`, `AT_BOUND`, or nothing."""


@dataclass(frozen=True)
class Training:
    """The result of a fit."""

    target: Target
    """The target with its present costs."""
    costs: Costs
    """The fitted costs."""
    constants: tuple[Constant, ...]
    held_out: tuple[HeldOut, ...]
    workloads: int
    candidates: int
    unusable: int
    """The number of measured schedules of the target whose features lack the quantities."""
    before: Quality
    """Over all networks, each predicted by the present costs."""
    after: Quality
    """Over all networks, each predicted by costs that were fitted to the others."""

    @property
    def is_better(self) -> bool:
        """Whether the rank correlation rises in networks that were left out."""
        return self.before.correlation is not None and self.after.correlation is not None and self.after.correlation > self.before.correlation


def train(records: Iterable[Record], target: Target) -> Training:
    """Fit the costs of `target` to the records of its schedules. Raises InputError if there are too few, or without scipy."""
    if importlib.util.find_spec("scipy") is None:
        raise InputError("a fit needs the package scipy: pip install 'stepwell[tune]'")
    measured, unusable = measured_schedules(records, target)
    check_enough(measured, unusable, target)
    held_out, before, after = [], [], []
    for network in sorted({name for one in measured for name in one.networks}):
        others = [one for one in measured if network not in one.networks]
        ours = [one for one in measured if network in one.networks]
        costs, _ = fit(others, target.pipes, target.costs)
        qualities = [[_ranked(one, target.pipes, used) for one in ours] for used in (target.costs, costs)]
        candidates = sum(len(one.log_ratios) for one in ours)
        held_out.append(HeldOut(network, len(ours), candidates, *map(_mean, qualities)))
        before += qualities[0]
        after += qualities[1]
    costs, notes = fit(measured, target.pipes, target.costs)
    fitted = constants_of(costs)
    constants = tuple(Constant(name, value, fitted[name], notes[name]) for name, value in constants_of(target.costs).items())
    candidates = sum(len(one.log_ratios) for one in measured)
    return Training(target, costs, constants, tuple(held_out), len(measured), candidates, unusable, _mean(before), _mean(after))


def measured_schedules(records: Iterable[Record], target: Target) -> tuple[list[Measured], int]:
    """The measured schedules for a target, by workload, and the number of those whose features lack the quantities."""
    found, unusable = [], 0
    for one in tried(record for record in records if (record[0].kind, record[0].target) == (SCHEDULE, target.digest)):
        timed = [(quantities_of(out.candidate.features), out.log_time) for out in one.outcomes if out.log_time is not None]
        usable = [(made, time) for made, time in timed if made is not None and made.cycles(target.pipes, target.costs, max) > 0]
        unusable += len(timed) - len(usable)
        if len(usable) > 1:
            quantities, times = zip(*usable, strict=True)
            found.append(Measured(one.networks, quantities, times))
    return found, unusable


def check_enough(measured: Sequence[Measured], unusable: int, target: Target) -> None:
    """Raise InputError, with the numbers that are needed and that are there, if there are too few records for a fit."""
    networks = len({name for one in measured for name in one.networks})
    candidates = sum(len(one.log_ratios) for one in measured)
    if networks >= FEWEST_NETWORKS and len(measured) >= FEWEST_WORKLOADS and candidates >= FEWEST_CANDIDATES:
        return
    needed = f"at least {FEWEST_CANDIDATES} measured schedules of {FEWEST_WORKLOADS} ops in {FEWEST_NETWORKS} networks"
    there = f"{candidates} of {len(measured)} in {networks}" + (f", and {unusable} without the quantities that a fit needs" if unusable else "")
    raise InputError(f"records: expected {needed} for target {shown(target.name)}, got {there}; `stepwell tune` makes more")


def fit(measured: Sequence[Measured], pipes: Pipes, costs: Costs) -> tuple[Costs, dict[str, str]]:
    """The costs that explain the measured ratios best, and a note on each constant."""
    names = list(constants_of(costs))
    if not measured:
        return costs, dict.fromkeys(names, UNUSED)
    from scipy.optimize import least_squares  # imported here, because it takes long to load

    present = constants_of(costs)
    stacked = _stacked([quantities for one in measured for quantities in one.quantities])
    observed = np.array([ratio for one in measured for ratio in one.log_ratios])
    sizes = np.array([len(one.log_ratios) for one in measured])

    def differences(moves: Array) -> Array:
        moved = with_constants(costs, {name: present[name] * exp(move) for name, move in zip(names, moves, strict=True)})
        return _from_medians(np.log(stacked.cycles(pipes, moved, _largest)) - observed, sizes)

    def errors(moves: Array, typical: float) -> Array:
        """The error of each ratio, in typical errors; then the move of each constant, in `TYPICAL_FACTOR`."""
        scaled = differences(moves) / typical
        return np.concatenate([scaled * np.sqrt(2 / (1 + np.sqrt(1 + scaled**2))), moves / log(TYPICAL_FACTOR)])

    upper = np.array([max(1.0, min(MOST, _largest_value(name) / present[name])) for name in names])
    bounds = (np.full(len(names), -log(MOST)), np.log(upper))
    first = least_squares(errors, np.zeros(len(names)), bounds=bounds, args=(TYPICAL_ERROR,))
    typical = min(TYPICAL_ERROR, max(LEAST_ERROR, TO_DEVIATION * float(np.median(np.abs(differences(first.x))))))
    solved = least_squares(errors, first.x, bounds=bounds, args=(typical,))
    used = np.abs(solved.jac[: len(observed)]).max(axis=0) > UNSEEN
    values, notes = dict(present), dict.fromkeys(names, "")
    for place, name in enumerate(names):
        if not used[place]:
            notes[name] = UNUSED
            continue
        values[name] = float(f"{present[name] * exp(solved.x[place]):.{DIGITS}g}")
        notes[name] = AT_BOUND if solved.active_mask[place] else ""
    return with_constants(costs, values), notes


def constants_of(costs: Costs) -> dict[str, float]:
    """The constants that can be fitted, by name; without those that are 0, which no factor changes."""
    found = {f"{RATES}[{level}]": rate for level, rate in enumerate(costs.bytes_per_cycle)} | {name: float(getattr(costs, name)) for name in FITTED}
    return {name: value for name, value in found.items() if value > 0}


def with_constants(costs: Costs, values: Mapping[str, float]) -> Costs:
    """`costs` with other values of constants, by the names of `constants_of`."""
    first, second, last = (values.get(f"{RATES}[{level}]", rate) for level, rate in enumerate(costs.bytes_per_cycle))
    exposed, window, tile_start, loop_start, fold, threads_start = (values.get(name, getattr(costs, name)) for name in FITTED)
    return replace(
        costs, bytes_per_cycle=(first, second, last), exposed=exposed, window=window, tile_start=tile_start, loop_start=loop_start, fold=fold,
        threads_start=threads_start,
    )  # fmt: skip


def _largest_value(name: str) -> float:
    return 1.0 if name == "exposed" else inf  # a fraction


def _largest(*numbers: Array) -> Array:
    return reduce(np.maximum, numbers)


def _stacked(nests: Sequence[Quantities[float]]) -> Quantities[Array]:
    """The quantities of several nests as arrays; nests with fewer tiles have some without work."""
    rows = np.zeros((max(len(nest.work.tiles) for nest in nests), len(TILES), len(nests)))
    for place, nest in enumerate(nests):
        rows[: len(nest.work.tiles), :, place] = nest.work.tiles
    loops, stores, folds, reloads, crowding = np.array([nest.work[1:] for nest in nests]).T
    first, second, last = np.array([nest.moved for nest in nests]).T
    work = Work([(row[0], row[1], row[2], row[3], row[4]) for row in rows], loops, stores, folds, reloads, crowding)
    imbalance, starts = np.array([(nest.imbalance, nest.starts) for nest in nests]).T
    return Quantities(work, (first, second, last), imbalance, starts)


def _from_medians(values: Array, sizes: NDArray[np.int64]) -> Array:
    """The distance of each value from the median of its group; groups of these sizes follow one another.

    The medians take the place of the default: it was chosen because its prediction is low, so ratios to it would be predicted as too large.
    """
    ends = np.cumsum(sizes)
    group = np.repeat(np.arange(len(sizes)), sizes)
    ordered = values[np.lexsort((values, group))]
    medians = (ordered[ends - sizes + (sizes - 1) // 2] + ordered[ends - sizes + sizes // 2]) / 2
    return values - medians[group]


def _ranked(one: Measured, pipes: Pipes, costs: Costs) -> tuple[int, Quality]:
    """The number of schedules of a workload, and how well costs order them."""
    predicted = [round(log(nest.cycles(pipes, costs, max)), SAME) for nest in one.quantities]
    count, correlation = len(predicted), None
    if count >= FEWEST_RANKED and len(set(one.log_ratios)) > 1:
        correlation = rank_correlation(predicted, one.log_ratios) or 0.0  # equal predictions say nothing about the order
    regret = regret_of_best([-value for value in predicted], one.log_ratios, BEST) if count > BEST else None
    return count, Quality(correlation, regret)


def _mean(found: Sequence[tuple[int, Quality]]) -> Quality:
    """The mean quality of predictions for several workloads, weighted by their numbers of schedules."""
    ranked = [(quality.correlation, count) for count, quality in found if quality.correlation is not None]
    regrets = [(log(quality.regret), count) for count, quality in found if quality.regret is not None]
    return Quality(_weighted(ranked), None if not regrets else exp(_weighted(regrets) or 0.0))


def _weighted(found: Sequence[tuple[float, int]]) -> float | None:
    return sum(value * count for value, count in found) / sum(count for _, count in found) if found else None
