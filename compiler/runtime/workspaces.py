"""The workspaces of a program for all sizes: shared by the sizes, grown when one needs more, let go when none has for a while."""

import time
import weakref
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.support.processes import Lock

KEPT = 8
"""Free workspaces at most; of more, the smallest goes."""
IDLE_CALLS = 64
"""A free workspace is let go after so many calls in a row that needed less than half of it."""
IDLE_SECONDS = 30.0
"""And when a call ends so long after the last one that needed that much."""


SMALL = 1 << 16
"""Bytes of workspaces that need not be shared: of so few, each combination of sizes may keep its own, as code for one does."""
ROOM = 4
"""How many times as large a workspace can grow in its place: addresses that are reserved, and take no memory until they are used."""
RESERVED = 1 << 20
"""Bytes of workspaces that are large enough to be grown; it is quicker to take smaller ones anew."""


@dataclass(eq=False)
class _Free:
    memory: np.ndarray
    calls: int
    """In a row that needed less than half of it."""
    used: float
    """When a call last needed more."""
    room: np.ndarray
    """What the memory is the beginning of."""

    def grow(self, size: int) -> None:
        """Make it as large. What it had is not given back and taken anew: the system takes long to clear memory."""
        self.memory = self.room[: min(_rounded(size), self.room.nbytes)]


class _Out:
    """What is known of a workspace in use; whether it is, its array tells by being there."""

    def __init__(self, free: _Free) -> None:
        self.memory = weakref.ref(free.memory)
        self._calls, self._used, self._room = free.calls, free.used, free.room

    def free(self, memory: np.ndarray) -> _Free:
        """The same when it is free again."""
        return _Free(memory, self._calls, self._used, self._room)


class Workspaces:
    """Free workspaces, one for each concurrent call at least. Safe to use from several threads."""

    def __init__(self) -> None:
        self._free: list[_Free] = []
        self._out: dict[int, _Out] = {}
        """Those in use, by the numbers of their arrays."""
        self._lock = Lock()

    def of(self, size: int) -> "SizedWorkspaces":
        """What an executable for sizes that take so many bytes takes its workspaces from."""
        return SizedWorkspaces(self, size)

    @property
    def sizes(self) -> list[int]:
        """The bytes of each free workspace."""
        with self._lock:
            return [free.memory.nbytes for free in self._free]

    def clear(self) -> None:
        """Let all free ones go."""
        with self._lock:
            self._free.clear()

    def take(self, size: int) -> np.ndarray:
        """The smallest free workspace of so many bytes, or a new one. Raises MemoryError."""
        with self._lock:
            if len(self._free) == 1 and self._free[0].memory.nbytes >= size:  # the common case
                only = self._free.pop()
                self._out[id(only.memory)] = _Out(only)
                return only.memory
            fitting = [free for free in self._free if free.memory.nbytes >= size]
            found = min(fitting, key=lambda free: free.memory.nbytes, default=None)
            if found is None:
                growing = [free for free in self._free if free.room.nbytes >= size]
                found = max(growing, key=lambda free: free.memory.nbytes, default=None)
            if found is not None:
                self._free.remove(found)
        if found is None:
            room = _reserved(_rounded(size))
            found = _Free(room[: _rounded(size)], 0, 0.0, room)
        elif found.memory.nbytes < size:
            found.grow(size)
        with self._lock:
            # What the handler of a signal raises may keep a call from giving its workspace back.
            for number in [number for number, out in self._out.items() if out.memory() is None]:
                del self._out[number]
            self._out[id(found.memory)] = _Out(found)
        return found.memory

    def give_back(self, memory: np.ndarray, size: int) -> None:
        """Return a workspace after a call that needed so many bytes of it."""
        now = time.monotonic()
        with self._lock:
            out = self._out.pop(id(memory), None)
            own = _Free(memory, 0, now, memory) if out is None else out.free(memory)
            self._free.append(own)
            if len(self._free) == 1 and 2 * size >= memory.nbytes:
                own.calls, own.used = 0, now
                return
            for free in self._free:
                if 2 * size >= free.memory.nbytes:
                    free.calls, free.used = 0, now
                else:
                    free.calls += 1
            kept = [free for free in self._free if free.calls < IDLE_CALLS and (free.calls == 0 or now - free.used < IDLE_SECONDS)]
            self._free = sorted(kept, key=lambda free: free.memory.nbytes)[-KEPT:]


class SizedWorkspaces:
    """The workspaces of one size: what takes them does not say how much it needs."""

    def __init__(self, workspaces: Workspaces, size: int) -> None:
        self.workspaces, self.size = workspaces, size

    def pop(self) -> np.ndarray:
        """Take one. Raises MemoryError."""
        return self.workspaces.take(self.size)

    def __len__(self) -> int:
        """How many are free, of any size."""
        return len(self.workspaces.sizes)

    def clear(self) -> None:
        """Let all free ones go."""
        self.workspaces.clear()

    def append(self, memory: np.ndarray) -> None:
        """Give it back."""
        self.workspaces.give_back(memory, self.size)


def _reserved(size: int) -> np.ndarray:
    """Memory of that size, with room to grow where it is large and the system lets it have that. Raises MemoryError."""
    for factor in (ROOM, 1) if size >= RESERVED else (1,):
        try:
            return aligned_empty(factor * size)
        except (OSError, MemoryError) as error:  # the former from mapping memory
            problem = error
    raise MemoryError(str(problem)) from problem


def _rounded(size: int) -> int:
    """A little more than asked for, an eighth at most, so that sizes which grow by little take a new workspace now and then only."""
    step = max(4096, 1 << max(size.bit_length() - 4, 0))
    return -(-size // step) * step
