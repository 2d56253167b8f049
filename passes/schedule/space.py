"""The schedule space as plain data: the knobs of a structured op on a target, and their legal values."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import NONE
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.intrinsics import available

MAX_STEP = 64
"""Iterations of one dimension that a register tile may hold: it is emitted unrolled."""
MAX_WIDTH = 1024
"""The largest number of elements in one vector of a schedule."""
MAX_PREFETCH = 256
"""The largest prefetch distance, in iterations."""

Value: TypeAlias = int | str | tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """One of a fixed set of values."""

    values: tuple[int | str, ...]

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(v) and value == v for v in self.values)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.values)

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.values))}"

    def to_json(self) -> dict[str, Any]:
        return {"one of": list(self.values)}


@dataclass(frozen=True)
class Range:
    """An integer between two bounds, both included; if the range has more than one number, a multiple of `step`."""

    low: int
    high: int
    step: int = 1

    def __contains__(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high and value % self.step == 0

    def __iter__(self) -> Iterator[Value]:
        return iter(range(self.low, self.high + 1, self.step))

    def __str__(self) -> str:
        return f"a {'whole number' if self.step == 1 else f'multiple of {self.step}'} from {self.low} to {self.high}"

    def to_json(self) -> dict[str, Any]:
        return {"from": self.low, "to": self.high} | ({"step": self.step} if self.step != 1 else {})


@dataclass(frozen=True)
class Permutation:
    """A permutation of some numbers. Orders that agree on `loops` and on `tiled` are equivalent, and one of them is enumerated."""

    items: tuple[int, ...]
    loops: frozenset[int] | None = None
    tiled: frozenset[int] = frozenset()

    def __contains__(self, value: object) -> bool:
        return isinstance(value, tuple) and all(type(v) is int for v in value) and sorted(value) == sorted(self.items)

    def __iter__(self) -> Iterator[Value]:
        if self.loops is None:
            yield from itertools.permutations(self.items)
            return
        seen = set()
        # Numbers whose position makes no difference go last.
        for order in itertools.permutations(sorted(self.items, key=lambda n: n not in self._relevant)):
            key = tuple(tuple(n for n in order if n in which) for which in (self.loops, self.tiled))
            if key not in seen:
                seen.add(key)
                yield order

    @property
    def _relevant(self) -> frozenset[int]:
        return frozenset(self.items) if self.loops is None else self.loops | self.tiled

    def __str__(self) -> str:
        return f"{list(self.items)} in any order"

    def to_json(self) -> dict[str, Any]:
        behind = [n for n in self.items if n not in self._relevant]
        return {"in any order": [n for n in self.items if n in self._relevant]} | ({"behind": behind} if behind else {})


@dataclass(frozen=True)
class Knob:
    """A parameter of a schedule: its name and its legal values. Iterating over `legal` gives them one by one."""

    name: str
    legal: Choice | Range | Permutation
    reasons: Mapping[Value, str]
    """Why certain values are not legal, if there is more to say than the legal values."""

    def check(self, value: object) -> None:
        """Raise ScheduleError, naming the knob, the legal values and `value`, if `value` is not legal."""
        if value in self.legal:
            return
        shown = list(value) if isinstance(value, tuple) else value
        why = self.reasons.get(value) if isinstance(value, (int, str)) else None
        raise ScheduleError(f"knob '{self.name}': {shown!r} is not legal{f' ({why})' if why else ''}, expected {self.legal}")


def tile_knob(dim: int) -> str:
    """The name of the knob that says how many iterations of `dim` the register tile holds."""
    return f"unroll.{dim}"


def block_knob(dim: int) -> str:
    """The name of the knob that says how many iterations of `dim` make a block."""
    return f"block.{dim}"


def knobs(op: Structured, target: Target | None) -> tuple[Knob, ...]:
    """The knobs of a loop nest for `op` on `target` (`nest.Nest` explains each). Among equivalent values the simplest comes first."""
    parallel = tuple(op.parallel_dims)
    reasons = {d: op.why_not_vector(d) for d in range(len(op.sizes))}
    vectors = tuple(d for d, why in reasons.items() if why is None)
    widths = tuple(1 << i for i in range(MAX_WIDTH.bit_length()))
    return (
        Knob("order", Permutation(parallel), {}),
        Knob("parallel", Range(0, len(parallel)), {}),
        *(Knob(tile_knob(d), Range(1, MAX_STEP if d in op.open else max(1, min(op.sizes[d], MAX_STEP))), {}) for d in parallel),
        Knob("vector", Choice((-1, *vectors)), {d: f"dimension {d} cannot be vectorised: {why}" for d, why in reasons.items() if why is not None}),
        Knob("width", Choice(widths), {}),
        Knob("intrinsic", Choice((NONE, *available(op, target))), {}),
        *(Knob(block_knob(d), Range(0, op.sizes[d] if op.can_block(d) else 0), {}) for d in range(len(op.sizes))),
        Knob("prefetch", Range(0, MAX_PREFETCH if op.reduction_dims else 0), {}),
        Knob("along", Choice((-1, *parallel) if op.reduction_dims else (-1,)), {}),
    )


def check_values(values: Mapping[str, object], known: tuple[Knob, ...]) -> None:
    """Raise ScheduleError for the first knob that is unknown, missing or set to an illegal value."""
    names = [knob.name for knob in known]
    for name in values:
        if name not in names:
            raise ScheduleError(f"there is no knob '{name}', expected {', '.join(names)}")
    for knob in known:
        if knob.name not in values:
            raise ScheduleError(f"knob '{knob.name}' is missing, expected {knob.legal}")
        knob.check(values[knob.name])


def to_json(known: tuple[Knob, ...]) -> dict[str, Any]:
    """The legal values of each knob, as plain data."""
    return {knob.name: knob.legal.to_json() for knob in known}
