"""Records of schedules from a machine whose costs are known: times are those of the model with other constants, and noise."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from random import Random

from nest_ops import blocked, half_weights, product, strided, sums, windows

from stepwell.database.records import Candidate, Phase, Samples, State, Workload, WorkloadInfo
from stepwell.dialects.target.costs import Costs
from stepwell.dialects.target.numbers import Caches
from stepwell.dialects.target.registry import resolve
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.candidates import ScheduleSpace
from stepwell.passes.schedule.quantities import quantities_of
from stepwell.passes.schedule.schedulers import choose
from stepwell.tuning.outcomes import Record

MACHINE = replace(resolve("x86-64-v3"), name="planted", cores=2, caches=Caches(8 << 10, 64 << 10, 256 << 10))
"""Its caches are so small that transfers count."""
NETWORKS: Mapping[str, Sequence[Callable[[], AbstractContextManager[Structured]]]] = {
    "products": (lambda: product(512, 512, 1024), lambda: product(65, 1000, 512), lambda: half_weights(64, 640, 512)),
    "convolutions": (lambda: blocked(3, 56, 56, 12), lambda: windows(3, rows_inside=False), lambda: strided(2, 7)),
    "mixed": (lambda: product(49, 256, 128), lambda: blocked(16, 28, 28, 5), lambda: strided(4, 7)),
    "small": (lambda: blocked(5, 13, 11, 6), lambda: windows(5, rows_inside=True), lambda: sums(2000, 109)),
}
CANDIDATES = 24
"""The number of schedules of each op."""
BLOCKS = 3
"""The number of log ratios of each schedule."""


@cache
def schedules() -> Mapping[tuple[str, int], Sequence[tuple[str, Mapping[str, float]]]]:
    """Some schedules of each op, the default first: their texts and features."""
    found = {}
    for network, ops in NETWORKS.items():
        for number, make in enumerate(ops):
            with make() as op:
                space, random = ScheduleSpace(op, MACHINE, choose(op, MACHINE)), Random(f"{network} {number}")
                default, *near = space.all()
                random.shuffle(near)
                further = [one for name in near[:4] for one in space.near(name.name)]
                random.shuffle(further)
                chosen = [default, *near[: CANDIDATES // 2], *further]
            texts = {one.name: one.features for one in chosen}
            found[network, number] = list(texts.items())[:CANDIDATES]
    return found


def records(costs: Costs, noise: float = 0.0, outliers: float = 0.0, networks: Sequence[str] = tuple(NETWORKS), seed: int = 0) -> Iterator[Record]:
    """Records of a machine with these costs. `noise` is the standard deviation of a log ratio, `outliers` the share of wrong measurements."""
    random = Random(seed)
    for (network, number), candidates in schedules().items():
        if network not in networks:
            continue
        workload, info = Workload("schedule", f"{network}:{number}", "", MACHINE.digest, 1), WorkloadInfo(f"op {number}", network)
        default, usual = candidates[0][0], seconds(candidates[0][1], costs)
        for text, features in candidates:
            candidate = Candidate(text, "default" if text == default else "random", State.BUILT, features=features)
            wrong = random.choice((-1.0, 1.5)) if random.random() < outliers else 0.0
            ratios = tuple(math.log(seconds(features, costs) / usual) + wrong + random.gauss(0, noise) for _ in range(BLOCKS))
            samples = [] if text == default else [Samples(text, default, Phase.SEARCH, ratios, 1e-3, "cpu")]
            yield workload, info, candidate, samples, network


def seconds(features: Mapping[str, float], costs: Costs) -> float:
    """The time of a schedule on a machine with these costs."""
    quantities = quantities_of(features)
    assert quantities is not None
    return quantities.cycles(MACHINE.pipes, costs, max) / costs.clock
