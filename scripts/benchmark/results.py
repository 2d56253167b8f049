"""The results of a benchmark run: its samples, the statistics on them, and their JSON file."""

import dataclasses
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmark.jobs import Contestant

if TYPE_CHECKING:
    from benchmark.operators import Case
    from stepwell.analysis.estimates import Statistic

__all__ = ["SEVEN", "SIZES", "TOLERANCE", "Cell", "Comparison", "Start", "geometric_mean", "means", "plural", "to_json"]

SEVEN = ("vgg19", "alexnet", "resnet50v2", "densenet121", "mobilenetv2", "shufflenet", "squeezenet")
"""The networks of the classical comparison that the goals are stated for."""

TOLERANCE = 1e-4
"""The largest error that counts as right, of the scale of an output."""


SIZES = ("arena", "workspace")
"""The memory of stepwell for a model: all weights, and the workspace of a call."""


@dataclass
class Cell:
    """A network in an engine on a number of threads."""

    rounds: list[list[float]] = field(default_factory=list)
    """Seconds of each timed run, by round."""
    latencies: list[float] = field(default_factory=list)
    """Seconds from each request to its answer, of all rounds, if there are several callers. A round then has one number: its seconds per request."""
    error: float | None = None
    """Largest difference from ONNX Runtime's outputs, over their largest absolute value; None if it was not compared."""
    memory: dict[str, int] = field(default_factory=dict)
    """Bytes of the process after its runs, by the system's names; `before` is before the import of the engine. For stepwell also SIZES."""
    settings: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    lack: str | None = None
    """Why the engine took no part, where that is no fault of ours: it lacks an operator, or has it wrong."""

    def fail(self, why: str, is_fault: bool) -> None:
        """Leave the engine out. A time of one that took no part is not kept, as nothing shall be compared with it."""
        self.failure, self.lack = (why, None) if is_fault else (None, why)
        if not is_fault:
            self.rounds.clear()


@dataclass
class Start:
    """How long an engine takes to its first result in a process of its own, in seconds, importing the engine not counted."""

    cold: float | None = None
    """A start without any cache."""
    warm: float | None = None
    """A start with the cache that the cold start filled, if the engine has one."""
    importing: float | None = None
    """The import of the engine in the warm start."""
    failure: str | None = None


@dataclass
class Comparison:
    """All cells of a run. `networks` are in the order they are shown in."""

    networks: list[str]
    contestants: list[Contestant]
    threads: list[int]
    classical: bool = False
    """Whether the number of a cell is the mean of its runs (the median otherwise)."""
    cells: dict[tuple[str, str, int], Cell] = field(default_factory=dict)
    """Cells by network, label of the contestant, threads."""
    starts: dict[tuple[str, str], Start] = field(default_factory=dict)
    """Starts by network, label of the contestant."""
    overhead: "dict[str, Statistic]" = field(default_factory=dict)
    """The overhead of a call by label: the time of a network with almost no work."""
    weights_bytes: dict[str, int] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)
    """The largest error that counts as right, by network, where that is not TOLERANCE."""
    cases: dict[str, "Case"] = field(default_factory=dict)
    """The names of networks that are single operators."""
    same_code: set[tuple[str, str]] = field(default_factory=set)
    """By network, labels of variants of stepwell with the same code as the first contestant, which are not timed."""
    settings: dict[str, Any] = field(default_factory=dict)

    def cell(self, network: str, label: str, threads: int) -> Cell:
        """The cell, made if it is not there."""
        return self.cells.setdefault((network, label, threads), Cell())

    def statistic(self, network: str, label: str, threads: int) -> "Statistic | None":
        """The time of a cell; None if it has no runs."""
        from stepwell.analysis.estimates import Statistic, quartiles  # here, as other checkouts, which may lack it, import this module too

        cell = self.cells.get((network, label, threads), Cell())
        runs = [seconds for turn in cell.rounds for seconds in turn]
        if not runs:
            return None
        return Statistic(self.average(runs), *quartiles(runs))

    def average(self, runs: Sequence[float]) -> float:
        """The one number for some runs."""
        return statistics.fmean(runs) if self.classical else statistics.median(runs)

    def ratio(self, network: str, threads: int, of: str, to: str) -> "Statistic | None":
        """The speed of `to` relative to `of` (labels): the median of that ratio over the rounds, and its quartiles; None without both."""
        from stepwell.analysis.estimates import ratio_of_rounds

        slow, fast = (self.cells.get((network, label, threads), Cell()).rounds for label in (of, to))
        return ratio_of_rounds([self.average(runs) for runs in slow], [self.average(runs) for runs in fast])

    def best_peer(self, network: str, threads: int) -> str | None:
        """The label of the fastest other engine; of another checkout of ours where there is no other engine. None if none ran."""
        others = [c for c in self.contestants if c.engine != "stepwell"] or [c for c in self.contestants if not c.is_ours]
        times = {c.label: self.statistic(network, c.label, threads) for c in others}
        known = {label: statistic.value for label, statistic in times.items() if statistic is not None}
        return min(known, key=known.__getitem__) if known else None

    def best_ratio(self, network: str, threads: int) -> "Statistic | None":
        """The ratio of ours to the best peer's: above 1 ours is faster."""
        peer = self.best_peer(network, threads)
        return None if peer is None else self.ratio(network, threads, of=peer, to="stepwell")

    def above_weights(self, network: str, label: str, threads: int) -> int | None:
        """The growth of the process in bytes since before the import of the engine, less the weights in its file; None if unknown.

        Negative if the engine stores the weights in fewer bits than the file.
        """
        memory, weights = self.cell(network, label, threads).memory, self.weights_bytes.get(network)
        return None if weights is None or not {"VmRSS", "before"} <= memory.keys() else memory["VmRSS"] - memory["before"] - weights

    def part_of_floats(self, network: str, threads: int, what: str) -> float | None:
        """The size of stepwell's `arena` (of weights) or `workspace` for a quantised network, relative to that of the float network.

        None where one of them did not run, or has none.
        """
        floats = next((c.label for c in self.contestants if c.of_floats), None)
        ours = next((c.label for c in self.contestants if c.is_ours), None)
        sizes = [self.cell(network, label, threads).memory.get(what) for label in (ours, floats) if label is not None]
        return sizes[0] / sizes[1] if len(sizes) == 2 and sizes[0] is not None and sizes[1] else None

    def is_wrong(self, network: str, cell: Cell) -> bool:
        """Whether the outputs of a cell differ by more than they may."""
        return cell.error is not None and cell.error > self.tolerances.get(network, TOLERANCE)

    def lacks(self) -> list[str]:
        """The engines that took no part, with the reason, one line each."""
        found = [(key, cell.lack) for key, cell in self.cells.items() if cell.lack]
        return [f"{network}, {label}, {plural(threads, 'thread')}: {' '.join(lack.split())}" for (network, label, threads), lack in found]

    def failures(self) -> list[str]:
        """All failures and wrong results, one line each."""
        lines = []
        for (network, label, threads), cell in self.cells.items():
            wrong = f"its outputs differ by {cell.error:.2g} of their scale" if not cell.lack and self.is_wrong(network, cell) else None
            lines += [f"{network}, {label}, {plural(threads, 'thread')}: {what}" for what in (cell.failure, wrong) if what]
        return lines + [f"{network}, {label}, start: {s.failure}" for (network, label), s in self.starts.items() if s.failure]


def plural(count: int, what: str) -> str:
    """`1 thread`, `2 threads`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


def to_json(comparison: Comparison) -> str:
    """The whole run, with single runs, and the statistics and ratios of the tables."""
    c = comparison
    cells = []
    for (network, label, threads), cell in c.cells.items():
        statistic = c.statistic(network, label, threads)
        ratio = c.ratio(network, threads, of=label, to="stepwell") if label != "stepwell" else None
        record = {"network": network, "engine": label, "threads": threads, **dataclasses.asdict(cell)}
        record |= {"time": _plain(statistic), "stepwell_is_faster_by": _plain(ratio), "above_weights_bytes": c.above_weights(network, label, threads)}
        cells.append(record)
    starts = [{"network": network, "engine": label, **dataclasses.asdict(start)} for (network, label), start in c.starts.items()]
    cases = [{"network": name, "operator": case.operator, "shape": case.shape, "origin": case.origin} for name, case in c.cases.items()]
    record = {"settings": c.settings, "statistic": "mean" if c.classical else "median", "weights_bytes": c.weights_bytes, "starts": starts}
    record |= {"parts_of_floats": {network: {what: c.part_of_floats(network, max(c.threads), what) for what in SIZES} for network in c.networks}}
    record |= {"cases": cases, "means": means(c), "call_overhead": {label: _plain(s) for label, s in c.overhead.items()}, "cells": cells}
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def means(comparison: Comparison) -> list[dict[str, Any]]:
    """Geometric means of the ratios to the best peer, by threads: over the seven and over all networks of the run, where there are several."""
    groups: Mapping[str, Sequence[str]] = {"the seven": SEVEN, "all": comparison.networks}
    found = []
    for threads in comparison.threads:
        for title, members in groups.items():
            ratios = [comparison.best_ratio(name, threads) for name in members if name in comparison.networks]
            values = [ratio.value for ratio in ratios if ratio is not None]
            mean = geometric_mean(values)
            if mean is not None and len(values) > 1:
                found.append({"threads": threads, "group": title, "networks": len(values), "of": len(members), "ratio": mean})
    return found


def _plain(statistic: "Statistic | None") -> dict[str, float] | None:
    return None if statistic is None else dataclasses.asdict(statistic)
