"""A simulated device: times, noise and faults are functions of a seed and of the request, so that searches and races can be tested anywhere."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepwell.database.records import State
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.errors import InputError, shown
from stepwell.tuning.device import Built, Contest, Fault, Measurement, Sample, Turns
from stepwell.tuning.statistics import FloatArray

__all__ = ["SimulatedDevice", "SimulatedKernel", "SimulatedNetwork", "SimulatedSite"]

MESSAGES = {
    State.FAILED: "simulated: the build fails",
    State.CRASHED: "simulated: the process ends with signal 11",
    State.TIMED_OUT: "simulated: the process was stopped",
    State.DIFFERS: "simulated: element 0 of result 0 has other bits",
}


@dataclass(frozen=True)
class SimulatedKernel:
    """A candidate of a site: the request to build it, and its code."""

    site: str
    text: str


@dataclass(frozen=True)
class SimulatedNetwork:
    """The whole network with some candidates in place of defaults: the request to build it, and its code."""

    choices: tuple[tuple[str, str], ...] = ()
    """Pairs of a site and the text of its candidate."""


@dataclass(frozen=True)
class SimulatedSite:
    """A kernel of the simulated network."""

    seconds: float
    """The time of its default."""
    default: str = "default"
    """The text of its default, which never fails by chance."""
    log_ratios: Mapping[str, float] = field(default_factory=dict)
    """The true log ratio to the default's time of some candidates; that of others is random."""
    faults: Mapping[str, State] = field(default_factory=dict)
    """The faults of some candidates."""


@dataclass(frozen=True)
class SimulatedDevice:
    """A `Device` without kernels. It can be pickled, and its answers do not depend on the order of the requests or on the process that asks."""

    sites: Mapping[str, SimulatedSite]
    seed: int = 0
    rest: float = 0.0
    """Seconds of the network outside the sites."""
    spread: float = 0.1
    """The standard deviation of the log ratio of a random candidate to its default."""
    handicap: float = 1.0
    """By how many standard deviations random candidates are slower than the default in the mean."""
    noise: float = 0.01
    """The standard deviation of the log time of a sample."""
    place: float = 0.003
    """The standard deviation of the log time of an arm from process to process, by where its code lies."""
    drift: float = 0.02
    """The standard deviation of the log frequency of the clock at the end of a measurement, which walks at random from its begin."""
    outliers: float = 0.0
    """The probability that a sample takes longer, by a log ratio with an exponential distribution of mean 0.5."""
    load: float = 0.0
    """The probability that other processes disturb a run: wall times double in the mean, CPU times grow by 2 %."""
    steps_back: float = 0.0
    """The probability that the clocks step back during a sample."""
    failing: float = 0.0
    """The probability that a candidate cannot be built."""
    crashing: float = 0.0
    hanging: float = 0.0
    differing: float = 0.0
    """The probability that its results have other bits."""
    delay: float = 0.0
    """Real seconds that pass for each simulated second of a measurement."""

    def __post_init__(self) -> None:
        for name in ("outliers", "load", "steps_back", "failing", "crashing", "hanging", "differing"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}: expected a probability, got {shown(getattr(self, name))}")

    def log_ratio(self, site: str, text: str) -> float:
        """The true logarithm of a candidate's time relative to its default's."""
        known = self._site(site)
        if text == known.default:
            return 0.0
        if text in known.log_ratios:
            return known.log_ratios[text]
        return self.spread * float(self._random("time", site, text).standard_normal() + self.handicap)

    def fate(self, site: str, text: str) -> State:
        """How a candidate ends: `BUILT`, or its fault."""
        known = self._site(site)
        if text in known.faults:
            return known.faults[text]
        if text == known.default:
            return State.BUILT
        chance = float(self._random("fate", site, text).random())
        for state, probability in self._probabilities:
            if chance < probability:
                return state
            chance -= probability
        return State.BUILT

    @property
    def _probabilities(self) -> tuple[tuple[State, float], ...]:
        """The probability of each fault."""
        return (
            (State.FAILED, self.failing), (State.CRASHED, self.crashing), (State.TIMED_OUT, self.hanging), (State.DIFFERS, self.differing),
        )  # fmt: skip

    def build(self, requests: Sequence[object], timeout: float) -> list[Built | Fault]:
        """The code of each `SimulatedKernel` or `SimulatedNetwork`. Raises InputError for another request or site."""
        return [self._build(request) for request in requests]

    def _build(self, request: object) -> Built | Fault:
        fate = next((fate for site, text in self._choices(request) if (fate := self.fate(site, text)) is State.FAILED), State.BUILT)
        return Built(key_of(repr(request)), request, 0.5) if fate is State.BUILT else Fault(fate, MESSAGES[fate])

    def check(self, contests: Sequence[Contest], timeout: float) -> dict[str, list[Fault | None]]:
        """For each contest by name and each of its arms, None or its fault."""
        return {contest.name: [self._fault(arm.built.code, *MESSAGES) for arm in contest.arms] for contest in contests}

    def measure(self, measurement: Measurement) -> Turns | Fault:
        """The times of all contests, with the noise of one process. A fault if an arm that runs crashes or hangs, or past the time-out."""
        used = {contest.name: sorted({turn[contest.name] for turn in measurement.turns}) for contest in measurement.contests}
        for contest in measurement.contests:
            for arm in used[contest.name]:
                fault = self._fault(contest.arms[arm].built.code, State.CRASHED, State.TIMED_OUT)
                if fault is not None:
                    return fault
        count = len(measurement.turns)
        orders = {contest.name: np.array([turn[contest.name] for turn in measurement.turns], np.int32) for contest in measurement.contests}
        digests = [
            key_of(contest.name, orders[contest.name].tobytes(), *(arm.built.digest for arm in contest.arms)) for contest in measurement.contests
        ]
        random = self._random("process", str(measurement.threads), *digests)
        frequency = np.cumsum(random.standard_normal(count)) * self.drift / max(1.0, count**0.5)
        disturbed = random.random(count) < self.load
        columns, total = [], np.full(count, self.rest)
        for contest in measurement.contests:
            places = np.array([self._log_seconds(arm.built.code, random) for arm in contest.arms])
            cpu = places[orders[contest.name]] + frequency + self.noise * random.standard_normal(count)
            cpu += (random.random(count) < self.outliers) * random.exponential(0.5, count)
            wall = cpu + 0.1 * self.noise * np.abs(random.standard_normal(count)) + disturbed * np.log1p(random.exponential(1.0, count))
            total += np.exp(wall)
            columns.append(self._samples(cpu + 0.02 * disturbed, wall, random, measurement.threads))
        seconds = float(total.sum())
        if seconds > measurement.timeout:
            return Fault(State.TIMED_OUT, MESSAGES[State.TIMED_OUT])
        if self.delay:
            time.sleep(self.delay * seconds)
        names = list(orders)
        return Turns([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], disturbed.tolist(), seconds)

    def _samples(self, cpu: FloatArray, wall: FloatArray, random: np.random.Generator, threads: int) -> list[Sample]:
        """Samples out of log times."""
        broken = random.random(len(cpu)) < self.steps_back
        return [
            Sample(None, None) if lost else Sample(None if threads > 1 else used, passed)
            for used, passed, lost in zip(np.exp(cpu).tolist(), np.exp(wall).tolist(), broken.tolist(), strict=True)
        ]

    def _log_seconds(self, code: object, random: np.random.Generator) -> float:
        """The logarithm of the time of an arm, with a random place for each of its kernels."""
        whole = isinstance(code, SimulatedNetwork)
        choices = {name: site.default for name, site in self.sites.items()} | dict(self._choices(code)) if whole else dict(self._choices(code))
        seconds = self.rest if whole else 0.0
        for site, text in choices.items():
            seconds += self.sites[site].seconds * math.exp(self.log_ratio(site, text) + self.place * float(random.standard_normal()))
        return math.log(seconds)

    def _fault(self, code: object, *states: State) -> Fault | None:
        """The fault of code when it runs: the first of its candidates that ends in one of some states."""
        fate = next((fate for site, text in self._choices(code) if (fate := self.fate(site, text)) in states), None)
        return None if fate is None else Fault(fate, MESSAGES[fate])

    def _choices(self, code: object) -> tuple[tuple[str, str], ...]:
        """The candidates in code, with their sites."""
        if isinstance(code, SimulatedKernel):
            return ((code.site, code.text),)
        if isinstance(code, SimulatedNetwork):
            return code.choices
        raise InputError(f"code: expected a SimulatedKernel or a SimulatedNetwork, got {shown(code)}")

    def _site(self, name: str) -> SimulatedSite:
        """The site of that name."""
        if name not in self.sites:
            raise InputError(f"site: expected one of {', '.join(self.sites)}, got {shown(name)}")
        return self.sites[name]

    def _random(self, *parts: str) -> np.random.Generator:
        """Random numbers that depend on the seed and on `parts` alone."""
        return np.random.default_rng(int(key_of(str(self.seed), *parts)[:16], 16))
