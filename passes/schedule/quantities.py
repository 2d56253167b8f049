"""The quantities of a loop nest, which follow from its op and schedule, and the formula that turns them into cycles with the costs of a machine.

The compiler and `stepwell tuning train` share the formula. The compiler evaluates it for one nest. The trainer evaluates it for all recorded nests at
once, with arrays for numbers, and with other costs than those that the schedules were chosen by.

`passes.schedule.cost_model` counts the quantities and explains the model. They depend on the structure of the machine, such as its vectors,
registers, caches and intrinsics, but on none of its costs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite, nan
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from stepwell.dialects.target.costs import COMMON, Costs
from stepwell.dialects.target.numbers import Pipes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

N = TypeVar("N", float, "NDArray[np.float64]")
"""Numbers of one nest, or arrays of those of several."""

LEVELS = ("bytes.l1", "bytes.l2", "bytes.l3")


Tiles: TypeAlias = tuple[N, N, N, N, N]
"""Equal register tiles of a nest, over all iterations, by `TILES`. Tiles along a summed dimension have an entry for each width of their vectors."""
TILES = ("arithmetic", "loads", "chained", "instructions", "starts")
"""The numbers of `Tiles`: vector instructions of arithmetic, vector loads, iterations that wait for the sum of the previous one (0 without a
reduction), instructions of one tile (0 if its loops are unrolled and interleaved with the next tile's, which hides all latency), tiles that begin."""


class Work(NamedTuple, Generic[N]):
    """The arithmetic and the accesses to registers and the first cache."""

    tiles: Sequence[Tiles[N]]
    loops: N
    """Loops over reduction dimensions inside a tile."""
    stores: N
    """Vector stores of results."""
    folds: N
    """Additions of the upper half of an accumulator's lanes to the lower half."""
    reloads: N
    """Vectors of partial sums that are stored and loaded again between blocks of a reduction."""
    crowding: N
    """A factor for accumulators that crowd the registers; 1 if they do not."""


@dataclass(frozen=True)
class Quantities(Generic[N]):
    """Everything about a nest that its predicted time depends on, apart from costs of the machine."""

    work: Work[N]
    moved: tuple[N, N, N]
    """Bytes moved into each cache, the first one first."""
    imbalance: N
    """The work of the busiest thread divided by the average; 1 for one thread."""
    starts: N
    """How often threads are started once more, for remainders."""

    def cycles(self, pipes: Pipes, costs: Costs, largest: Callable[..., N]) -> N:
        """The predicted time in cycles of one core. `largest` is `max`, or for arrays the largest number of each place."""
        compute, traffic = compute_cycles(self.work, pipes, costs, largest), traffic_cycles(self.moved, costs)
        return nest_cycles(compute, traffic, self.imbalance, self.starts * costs.threads_start, costs.exposed, largest)


@dataclass(frozen=True)
class Cost:
    """The predicted time of a nest, in cycles of one core."""

    compute: float
    """Arithmetic and loads from the first cache."""
    traffic: tuple[float, float, float]
    """Transfers into each cache."""
    threads: float = 1.0
    """The work of the busiest thread divided by the average; 1 for one thread."""
    start: float = 0.0
    """Cycles to start threads."""
    exposed: float = COMMON.exposed
    """The part of a transfer that does not overlap with anything."""

    @property
    def cycles(self) -> float:
        return nest_cycles(self.compute, self.traffic, self.threads, self.start, self.exposed, max)


def features_of(quantities: Quantities[float]) -> dict[str, float]:
    """The quantities as features of a candidate, from which `quantities_of` makes them again."""
    work = quantities.work
    return {
        **{_tile_key(n, name): float(value) for n, tiles in enumerate(work.tiles) for name, value in zip(TILES, tiles, strict=True)},
        **{name: float(value) for name, value in zip(Work._fields[1:], work[1:], strict=True)},
        **dict(zip(LEVELS, quantities.moved, strict=True)),
        "imbalance": float(quantities.imbalance),
        "starts": float(quantities.starts),
    }


def quantities_of(features: Mapping[str, float]) -> Quantities[float] | None:
    """The quantities in a candidate's features; None if they are not all there, or are no finite nonnegative numbers."""
    keys = (*Work._fields[1:], *LEVELS, "imbalance", "starts")
    count = next(n for n in range(len(features) + 1) if _tile_key(n, TILES[0]) not in features)
    names = [[_tile_key(n, name) for name in TILES] for n in range(count)]
    if not count or not all(isfinite(features.get(key, nan)) and features[key] >= 0 for key in (*keys, *chain(*names))):
        return None
    loops, stores, folds, reloads, crowding, first, second, last, imbalance, starts = (features[key] for key in keys)
    tiles = [(features[a], features[b], features[c], features[d], features[e]) for a, b, c, d, e in names]
    return Quantities(Work(tiles, loops, stores, folds, reloads, crowding), (first, second, last), imbalance, starts)


def _tile_key(number: int, name: str) -> str:
    return f"tile.{number}.{name}"


def compute_cycles(work: Work[N], pipes: Pipes, costs: Costs, largest: Callable[..., N]) -> N:
    """Cycles of arithmetic and of accesses to registers and the first cache.

    Arithmetic and loads overlap. Latency, and the start of a tile and of its loops, is hidden by the tiles before and behind it, as far as these are
    in the core's window.
    """
    tiles, loops, stores, folds, reloads, crowding = work
    total = stores + folds * costs.fold + reloads / pipes.loads
    for arithmetic, loads, chained, instructions, starts in tiles:
        busy = largest(arithmetic / pipes.fmas, loads / pipes.loads)
        waiting = largest(busy, chained * pipes.latency) - busy + (costs.tile_start + costs.loop_start * loops) * starts
        total = total + busy + waiting * (instructions / largest(instructions, costs.window))
    return total * crowding


def traffic_cycles(moved: tuple[N, N, N], costs: Costs) -> tuple[N, N, N]:
    """Cycles to move bytes into each cache."""
    first, second, last = costs.bytes_per_cycle
    return moved[0] / first, moved[1] / second, moved[2] / last


def nest_cycles(compute: N, traffic: tuple[N, N, N], imbalance: N, start: N, exposed: float, largest: Callable[..., N]) -> N:
    """Cycles of a nest whose arithmetic and transfers overlap but for a fraction `exposed`; `start` cycles start threads."""
    first, second, last = traffic
    slowest = largest(compute, first, second, last)
    return ((1 - exposed) * slowest + exposed * (compute + first + second + last)) * imbalance + start
