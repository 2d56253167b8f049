"""The weights of the programs of a model: weights that several of them read are in memory once."""

import weakref
from collections.abc import Iterable, Sequence

import numpy as np

from stepwell.dialects.support.buffers import address
from stepwell.dialects.support.digests import digest_of
from stepwell.dialects.support.processes import Lock
from stepwell.dialects.support.properties import cached_property
from stepwell.runtime.buffers import can_give_back, give_back

SHARED_BYTES = 1 << 12
"""Weights of fewer bytes than a page are not shared: each program keeps its own."""

Places = Sequence[tuple[int, int]]
"""The offset and the bytes of each weight in an arena, in the order of offsets."""


class _Arena:
    """Memory that was read as one piece. Parts that no program reads are returned to the system."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self.held = memory.nbytes

    def drop(self, start: int, end: int) -> None:
        """Release bytes that nobody reads any more. Partly used pages stay."""
        self.held -= give_back(self.memory[start:end])


class _Block:
    """One weight in memory, kept as long as a program reads it."""

    def __init__(self, arena: _Arena, offset: int, size: int) -> None:
        self.arena, self.content = arena, arena.memory[offset : offset + size]
        self.users: weakref.WeakSet[Weights] = weakref.WeakSet()
        weakref.finalize(self, arena.drop, offset, offset + size).atexit = False

    @cached_property
    def digest(self) -> bytes:
        """The digest of the content."""
        return digest_of(self.content.data)


class Weights:
    """The weights of one program, read-only. Made by `WeightPool.place` and `unshared`."""

    def __init__(self, arena: _Arena, places: Places, blocks: Sequence[_Block | None]) -> None:
        """`blocks` has the block of the weight at each place, None for one that is only in the program's own `arena`."""
        self.nbytes = arena.memory.nbytes
        self._arena, self._places, self._blocks = arena, tuple(places), tuple(blocks)
        self._distinct = {id(block): block for block in blocks if block is not None}
        self._rest = self.nbytes - sum(size for (_, size), block in zip(places, blocks, strict=True) if block is not None)
        for block in self._distinct.values():
            block.users.add(self)

    @property
    def own_bytes(self) -> int:
        """The bytes that no other program reads."""
        return self._rest + sum(block.content.nbytes for block in self._distinct.values() if len(block.users) == 1)

    def table(self) -> np.ndarray:
        """The distance of each weight from this table: the argument of code with a table of weights (`locate-weights`). It keeps them alive."""
        table = np.empty(len(self._places), np.int64).view(_Table)
        table.weights = self
        begin = address(self._arena.memory)
        for number, ((offset, _), block) in enumerate(zip(self._places, self._blocks, strict=True)):
            table[number] = (begin + offset if block is None else address(block.content)) - address(table)
        return table

    def arena(self) -> np.ndarray:
        """All weights in one array, at the compiler's offsets: a copy, if some of them lie elsewhere."""
        if all(block is None or block.arena is self._arena for block in self._blocks):
            return self._arena.memory
        whole = self._arena.memory.copy()
        for (offset, size), block in zip(self._places, self._blocks, strict=True):
            if block is not None:
                whole[offset : offset + size] = block.content
        whole.flags.writeable = False
        return whole


class _Table(np.ndarray):
    """An array that keeps the weights alive whose places it holds."""

    weights: Weights


class WeightPool:
    """The weights of all programs of a model. Safe to use from several threads."""

    def __init__(self) -> None:
        self._blocks: dict[int, weakref.WeakSet[_Block]] = {}
        """All blocks, by their size in bytes."""
        self._arenas: weakref.WeakSet[_Arena] = weakref.WeakSet()
        self._lock = Lock()

    @property
    def held_bytes(self) -> int:
        """The bytes of memory of all weights."""
        return sum(arena.held for arena in list(self._arenas))

    def place(self, memory: np.ndarray, places: Places) -> Weights:
        """The weights of a program, which were read to `memory`. If another program has equal weights, these are used, and the pages
        in `memory`, which belongs to this program, are returned to the system.

        If the system takes no pages back, and for small arenas, each program keeps its own weights.
        """
        arena, found = _Arena(memory), dict[int, _Block]()
        large = [number for number, (_, size) in enumerate(places) if size >= SHARED_BYTES] if can_give_back(memory) else []
        with self._lock:
            for number in large:
                offset, size = places[number]
                block = self._known(memory[offset : offset + size])
                if block is not None:
                    found[number] = block
            new = {number: _Block(arena, *places[number]) for number in large if number not in found}
            for block in new.values():
                self._blocks.setdefault(block.content.nbytes, weakref.WeakSet()).add(block)
            self._arenas.add(arena)
            weights = Weights(arena, places, [found.get(number, new.get(number)) for number in range(len(places))])
        for first, last in _runs(found):
            arena.drop(places[first][0], sum(places[last]))
        return weights

    def _known(self, content: np.ndarray) -> _Block | None:
        """The block of another program with the same content."""
        candidates = list(self._blocks.get(content.nbytes, ()))
        if not candidates:
            return None
        digest = digest_of(content.data)
        return next((block for block in candidates if block.digest == digest), None)


def unshared(memory: np.ndarray, places: Places = ()) -> Weights:
    """The weights, in `memory`, of a program that shares none."""
    return Weights(_Arena(memory), places, [None] * len(places))


def beyond(programs: Iterable[Weights], base: Weights | None) -> int:
    """The total bytes of several programs, each weight counted once, without those that `base` also holds."""
    known = set() if base is None else set(base._distinct)
    total = 0
    for program in {id(program): program for program in programs if program is not base}.values():
        total += program._rest + sum(block.content.nbytes for key, block in program._distinct.items() if key not in known)
        known |= set(program._distinct)
    return total


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
