"""Fused loops of a kernel: the stages that share them, and the buffers that shrink to a slice as a result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.kernel_info import Slice
from stepwell.dialects.core.layout import aligned_size
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.support.errors import PassError
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.stages import Stage
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg.views import RESHAPES, SLICES, origin

Path = tuple[tuple[str, int], ...]  # the fused loops around a stage, outermost first: name, and index of the run of adjacent stages in it


def paths(stages: Sequence[Stage]) -> list[Path]:
    """The path of each stage. Raises PassError if neighbours name the same loop but disagree on its trip count or chunks."""
    out: list[Path] = []
    count = 0
    for i, stage in enumerate(stages):
        path: list[tuple[str, int]] = []
        for level, loop in enumerate(stage.root.fused):
            same = i > 0 and len(out[-1]) > level and len(path) == level and list(out[-1][:level]) == path and out[-1][level][0] == loop.loop
            if same:
                before = stages[i - 1].root
                if _counts(before, level) != _counts(stage.root, level) or before.fused[level].chunks != loop.chunks:
                    raise PassError(
                        f"'{stage.root.operation.name}' at {stage.root.operation.location} cannot be fused in loop '{loop.loop}' with the op "
                        f"before it: they take {rounds(stage.root, level)} and {rounds(before, level)} rounds, in {loop.chunks} and "
                        f"{before.fused[level].chunks} chunks"
                    )
                path.append(out[-1][level])
            else:
                count += 1
                path.append((loop.loop, count))
        out.append(tuple(path))
    return out


def rounds(op: Structured, level: int) -> int | Size:
    """The number of full iterations of the fused loop of `op` at that level."""
    loop = op.fused[level]
    return op.bounds[loop.dim] // loop.step


def _counts(op: Structured, level: int) -> tuple[int | Size, int | Size]:
    """The number of full iterations of a fused loop, and the number if it had the smallest step."""
    loop = op.fused[level]
    return rounds(op, level), op.bounds[loop.dim] // loop.unit


@dataclass
class BufferAccess:
    """A stage's access to some view of a buffer."""

    index: int  # of the stage
    member: Structured  # the op of the stage with this access
    access: Access
    writes: bool


class FusedLoops:
    """The fused loops of a kernel's stages, and the buffers that they let shrink."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages, self.paths = stages, paths(stages)
        self.accesses: dict[ir.Value, list[BufferAccess]] = {}  # by buffer, the accesses that are not to a slice of it
        self.users: dict[ir.Value, set[int]] = {}  # by buffer, the stages that access it or a slice of it
        self.sliced: set[ir.Value] = set()  # the buffers of which a stage accesses a slice
        for i, stage in enumerate(stages):
            for member in stage.members:
                for access in member.accesses:
                    if access.is_shaped:
                        seen, buffer = origin(access.value, RESHAPES), origin(access.value, SLICES)
                        self.accesses.setdefault(seen, []).append(BufferAccess(i, member, access, access in member.outputs))
                        self.users.setdefault(buffer, set()).add(i)
                        if seen != buffer:
                            self.sliced.add(buffer)
        for accesses in self.accesses.values():
            self._check(accesses)

    def common(self, accesses: Sequence[BufferAccess]) -> int:
        """The number of loops, from the outermost on, that the stages of all these accesses share."""
        own = [self.paths[access.index] for access in accesses]
        count = 0
        while all(len(path) > count and path[count] == own[0][count] for path in own):
            count += 1
        return count

    def _aligned_loops(self, accesses: Sequence[BufferAccess]) -> int:
        """The number of common loops that walk the buffer in step: in each iteration, every access touches the same elements."""
        for level in range(self.common(accesses)):
            walks = {self._walk(access, level) for access in accesses}
            if len(walks) != 1 or None in walks:
                return level
        return self.common(accesses)

    def _walk(self, access: BufferAccess, level: int) -> tuple[int | Size, int | Size] | None:
        """How a fused loop moves through a buffer: the number of separate places per iteration, and of neighbouring elements in each.

        The rows of an image and the same positions seen as one dimension compare equal. None if the loop does not walk a dimension of the buffer.
        """
        stage = self.stages[access.index]
        loop = stage.root.fused[level]
        found = stage.walk(access.member, access.access, loop.dim)
        return None if found is None else (found.at_once, loop.step * found.stretch)

    def _check(self, accesses: Sequence[BufferAccess]) -> None:
        """Raise PassError if, in a fused loop, a stage would read a value that another stage writes in a different iteration.

        All accesses are to one buffer.
        """
        for write in accesses:
            for other in accesses:
                if write.writes and other.index != write.index and self._aligned_loops([write, other]) < self.common([write, other]):
                    op = self.stages[other.index].root.operation
                    names = [name for name, _ in self.paths[other.index]]
                    raise PassError(f"'{op.name}' at {op.location} cannot be fused in the loops {names}: it reads what other rounds make")

    def slice_of(self, buffer: ir.Value, size: int | Size) -> Slice | None:
        """The slice that must be kept of a buffer of `size` bytes that the kernel allocates; None for all of it."""
        accesses = self.accesses.get(buffer, [])
        loops = self._aligned_loops(accesses) if accesses and buffer not in self.sliced else 0
        if not loops:
            return None
        first = accesses[0]
        for level in range(loops):
            loop, (_, count) = self.stages[first.index].root.fused[level], _counts(self.stages[first.index].root, level)
            if not isinstance(size, int) and size // count * count != size:  # the size of a slice cannot be computed
                return None
            size = size // count * (loop.step // loop.unit)
        return Slice(loops, self.paths[first.index][0][1], self.stages[first.index].root.fused[0].chunks, aligned_size(size))

    def alive(self, buffer: ir.Value, kept: Slice | None) -> list[Any]:
        """The ops from the first to the last of which the buffer is live: all ops in the fused loops of its users in which it does not shrink."""
        loops = kept.loops if kept else 0
        users = self.users.get(buffer, set())
        rounds_of = {self.paths[i][: loops + 1] for i in users if len(self.paths[i]) > loops}
        indices = {i for i, path in enumerate(self.paths) if path[: loops + 1] in rounds_of} | users
        return [member.operation for i in indices for member in self.stages[i].members]
