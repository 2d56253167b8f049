"""Cases of graph ops at the sizes and values where compiled code goes wrong: remainders, nothing at all, what floats have beside numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
from op_random import Random, with_some

from stepwell.dialects.core.types import is_float, to_numpy

SIZES = (0, 1, 3, 17, 64, 65)  # nothing, one, and what leaves remainders of vectors, of register tiles and of shares of threads
ROOM = 1 << 17


@dataclass(frozen=True)
class Row:
    """What one case is to be like."""

    seed: int
    dtype: str
    rank: int
    sizes: tuple[int, ...]
    special: bool
    """Whether there are values beside tame ones."""


class Sweep(Random):
    """Draws sizes and element type from a row, the rest from its seed."""

    least = 0

    def __init__(self, row: Row, *, largest: bool = True, room: int = ROOM) -> None:
        """`largest` is whether special values may be as large as the type has them, `room` the largest product of the sizes of one case."""
        self.row = row
        self.dtypes = (row.dtype,)
        self.generator = np.random.default_rng(row.seed)
        self.largest = largest
        self.room = room
        self.begin()

    def begin(self) -> None:
        self._left = list(self.row.sizes)
        self._room = self.room

    def integer(self, low: int, high: int) -> int:
        return int(self.generator.integers(low, high, endpoint=True))

    def choice(self, options: Any) -> Any:
        options = list(options)
        return options[self.integer(0, len(options) - 1)]

    def permutation(self, count: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.generator.permutation(count))

    def rank(self, low: int, high: int) -> int:
        return min(max(self.row.rank, low), high)

    def size(self, least: int = 0, most: int = 5) -> int:
        wanted = self._left.pop(0) if self._left else self.choice(SIZES)
        size = max(wanted if wanted <= self._room else max(s for s in SIZES if s <= self._room), least)
        self._room = max(self._room // max(size, 1), 1)
        return size

    def array(self, dtype: str, shape: tuple[int, ...], low: float = -4, high: float = 4) -> np.ndarray:
        values = self.within(dtype, shape, low, high)
        if not self.row.special or dtype == "i1":
            return values
        if not is_float(dtype):
            ends = np.iinfo(to_numpy(dtype))  # and where what is tame ends, as the widest shift that leaves something
            edges = [v for v in (int(low), int(high), int(high) + 1) if ends.min <= v <= ends.max]
            return with_some(self.generator, self.any_value(dtype, shape), edges)
        info = ml_dtypes.finfo(to_numpy(dtype))
        small = [float(v) * sign for v in (info.smallest_subnormal, info.smallest_normal) for sign in (1, -1)]
        large = [float(info.max), float(info.min)] if self.largest else []
        return with_some(self.generator, values, [np.nan, np.inf, -np.inf, 0.0, -0.0, *small, *large])


def pairwise(factors: Mapping[str, Sequence[Any]], seed: int = 0) -> Iterator[dict[str, Any]]:
    """Rows that have every value of each factor together with every value of each other one, those first that have the most new pairs.

    Greedy, as in D. M. Cohen et al., "The AETG System", IEEE Transactions on Software Engineering 23(7), 1997.
    """
    names = list(factors)
    generator = np.random.default_rng(seed)
    missing = {(a, i, b, j) for a, b in combinations(names, 2) for i in range(len(factors[a])) for j in range(len(factors[b]))}

    def gain(row: Mapping[str, int], name: str, value: int) -> int:
        return sum(((o, row[o], name, value) if names.index(o) < names.index(name) else (name, value, o, row[o])) in missing for o in row)

    order = sorted(missing)
    generator.shuffle(order)
    for first in order:
        pair = tuple(first)
        if pair not in missing:
            continue
        row = {pair[0]: int(pair[1]), pair[2]: int(pair[3])}
        for name in generator.permutation([n for n in names if n not in row]).tolist():
            options = generator.permutation(len(factors[name])).tolist()
            row[name] = max(options, key=lambda v: gain(row, name, v))
        missing -= {(a, row[a], b, row[b]) for a, b in combinations(names, 2)}
        yield {name: factors[name][row[name]] for name in names}
