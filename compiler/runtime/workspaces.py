"""The workspaces of a shape-polymorphic program: shared by all sizes, grown on demand, freed after a while without use."""

import time
import weakref
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.support.processes import Lock

KEPT = 8
"""The number of free workspaces that are kept."""
IDLE_CALLS = 64
"""A free workspace is freed after this many consecutive calls that needed less than half of it."""
IDLE_SECONDS = 30.0
"""A free workspace is also freed when a call ends this many seconds after the last one that needed that much."""


SMALL = 1 << 16
"""The bytes up to which each shape combination may keep its own workspace, as a specialised version does."""
ROOM = 4
"""The factor by which a workspace can grow in place: addresses are reserved, and take no memory until they are used."""
RESERVED = 1 << 20
"""The bytes from which workspaces are made growable; smaller ones are allocated anew, which is faster."""


@dataclass(eq=False)
class _Workspace:
    memory: np.ndarray
    """Its array; missing while it is in use."""
    calls: int
    """Consecutive calls that needed less than half of it."""
    used: float
    """The time of the last call that needed more."""
    room: np.ndarray
    """The reserved memory, of which `memory` is the beginning."""

    def grow(self, size: int) -> None:
        """Grow to that size. The existing memory is kept, because the system takes long to clear fresh memory."""
        self.memory = self.room[: min(_rounded(size), self.room.nbytes)]


class Workspaces:
    """Free workspaces, one for each concurrent call at least. Safe to use from several threads.

    `kept` is the most free workspaces; of more, the smallest is freed.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._free: list[_Workspace] = []
        self._out: dict[int, tuple[weakref.ref[np.ndarray], _Workspace]] = {}
        """The workspaces in use, by the ids of their arrays. One is in use as long as its array exists."""
        self._lock = Lock()

    def sized(self, size: int) -> "SizedWorkspaces":
        """The source of workspaces for an executable that needs `size` bytes."""
        return SizedWorkspaces(self, size)

    @property
    def sizes(self) -> list[int]:
        """The bytes of each free workspace."""
        with self._lock:
            return [free.memory.nbytes for free in self._free]

    def clear(self) -> None:
        """Free all unused workspaces."""
        with self._lock:
            self._free.clear()

    def take(self, size: int) -> np.ndarray:
        """The smallest free workspace of at least `size` bytes, or a new one. Raises MemoryError."""
        with self._lock:
            if len(self._free) == 1 and self._free[0].memory.nbytes >= size:  # the common case
                return self._lent(self._free.pop())
            fitting = [free for free in self._free if free.memory.nbytes >= size]
            found = min(fitting, key=lambda free: free.memory.nbytes, default=None)
            if found is None:
                growing = [free for free in self._free if free.room.nbytes >= size]
                found = max(growing, key=lambda free: free.memory.nbytes, default=None)
            if found is not None:
                self._free.remove(found)
            elif len(self._free) == self._kept:  # the new one would displace it when it is returned
                self._free.remove(min(self._free, key=lambda free: free.memory.nbytes))
        if found is None:
            room = _reserved(_rounded(size))
            found = _Workspace(room[: _rounded(size)], 0, 0.0, room)
        elif found.memory.nbytes < size:
            found.grow(size)
        with self._lock:
            # An exception from a signal handler may keep a call from returning its workspace.
            for number in [number for number, (memory, _) in self._out.items() if memory() is None]:
                del self._out[number]
            return self._lent(found)

    def _lent(self, free: _Workspace) -> np.ndarray:
        memory = free.memory
        del free.memory
        self._out[id(memory)] = weakref.ref(memory), free
        return memory

    def give_back(self, memory: np.ndarray, size: int) -> None:
        """Return a workspace after a call that needed `size` bytes of it."""
        now = time.monotonic()
        with self._lock:
            lent = self._out.pop(id(memory), None)
            own = _Workspace(memory, 0, now, memory) if lent is None else lent[1]
            own.memory = memory
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
            self._free = sorted(kept, key=lambda free: free.memory.nbytes)[-self._kept :]


class SizedWorkspaces:
    """The workspaces for one size, with the interface of a list of workspaces."""

    def __init__(self, workspaces: Workspaces, size: int) -> None:
        self.workspaces, self.size = workspaces, size

    def pop(self) -> np.ndarray:
        """Take one. Raises MemoryError."""
        return self.workspaces.take(self.size)

    def __len__(self) -> int:
        """The number of free workspaces of any size."""
        return len(self.workspaces.sizes)

    def clear(self) -> None:
        """Free all unused workspaces."""
        self.workspaces.clear()

    def append(self, memory: np.ndarray) -> None:
        """Return one."""
        self.workspaces.give_back(memory, self.size)


def _reserved(size: int) -> np.ndarray:
    """Memory of that size, growable if it is large and the system has enough addresses. Raises MemoryError."""
    for factor in (ROOM, 1) if size >= RESERVED else (1,):
        try:
            return aligned_empty(factor * size)
        except (OSError, MemoryError) as error:  # an OSError comes from mapping memory
            problem = error
    raise MemoryError(str(problem)) from problem


def _rounded(size: int) -> int:
    """The size rounded up by at most an eighth, so that slowly growing sizes need a new workspace only now and then."""
    step = max(4096, 1 << max(size.bit_length() - 4, 0))
    return -(-size // step) * step
