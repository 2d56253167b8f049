"""Kernels whose nests share outer loops: who shares what, and the buffers that shrink to a slice for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.kernel_info import Slice
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import PassError
from stepwell.passes.bufferize.packing import aligned
from stepwell.passes.linalg.stages import Stage
from stepwell.passes.linalg.structured import Access, Structured
from stepwell.passes.linalg.views import RESHAPES, origin

Path = tuple[tuple[str, int], ...]  # the loops around a stage, outermost first: name, and number of the run of neighbours that share it


def paths(stages: Sequence[Stage]) -> list[Path]:
    """The path of each stage. Raises PassError where neighbours share a loop by name but not in its extent or slots."""
    out: list[Path] = []
    count = 0
    for i, stage in enumerate(stages):
        path: list[tuple[str, int]] = []
        for level, loop in enumerate(stage.root.shared):
            same = i > 0 and len(out[-1]) > level and len(path) == level and list(out[-1][:level]) == path and out[-1][level][0] == loop.loop
            if same:
                before = stages[i - 1].root
                if rounds(before, level) != rounds(stage.root, level) or before.shared[level].slots != loop.slots:
                    raise PassError(
                        f"'{stage.root.operation.name}' at {stage.root.operation.location} cannot share loop '{loop.loop}' with the op before "
                        f"it: they take {rounds(stage.root, level)} and {rounds(before, level)} rounds, in {loop.slots} and "
                        f"{before.shared[level].slots} slots"
                    )
                path.append(out[-1][level])
            else:
                count += 1
                path.append((loop.loop, count))
        out.append(tuple(path))
    return out


def rounds(op: Structured, level: int) -> int:
    """How often the shared loop of `op` at that level goes round."""
    loop = op.shared[level]
    return op.extents[loop.dim] // loop.step


@dataclass
class Use:
    """A stage's access to some view of a buffer."""

    index: int  # of the stage
    member: Structured  # the op of the stage whose access it is
    access: Access
    writes: bool


class Sharing:
    """The shared loops of a kernel's stages, and what they let shrink."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages, self.paths = stages, paths(stages)
        self.uses: dict[ir.Value, list[Use]] = {}  # by the buffer that an access comes from
        for i, stage in enumerate(stages):
            for member in stage.members:
                for access in member.accesses:
                    if access.is_shaped:
                        self.uses.setdefault(origin(access.value, RESHAPES), []).append(Use(i, member, access, access in member.outputs))
        for buffer, uses in self.uses.items():
            self._check(buffer, uses)

    def common(self, uses: Sequence[Use]) -> int:
        """How many loops, from the outermost on, all of these stages share."""
        own = [self.paths[use.index] for use in uses]
        count = 0
        while all(len(path) > count and path[count] == own[0][count] for path in own):
            count += 1
        return count

    def _aligned_loops(self, uses: Sequence[Use]) -> int:
        """How many of the common loops walk the buffer in step: over the same stretches of its elements, wherever it is used."""
        for level in range(self.common(uses)):
            walks = {self._walk(use, level) for use in uses}
            if len(walks) != 1 or None in walks:
                return level
        return self.common(uses)

    def _walk(self, use: Use, level: int) -> tuple[int, int] | None:
        """How a shared loop moves through a buffer: in how many places at once, and over how many neighbouring elements in a round.

        Rows of an image and as many positions of it, seen as one dimension, are the same. None if the loop is no dimension of the buffer.
        """
        stage = self.stages[use.index]
        loop = stage.root.shared[level]
        found = stage.walk(use.member, use.access, loop.dim)
        return None if found is None else (found.at_once, loop.step * found.stretch)

    def _check(self, buffer: ir.Value, uses: Sequence[Use]) -> None:
        """Raise PassError if a stage would read in a shared loop what another one writes in a different round."""
        for write in uses:
            for other in uses:
                if write.writes and other.index != write.index and self._aligned_loops([write, other]) < self.common([write, other]):
                    op = self.stages[other.index].root.operation
                    names = [name for name, _ in self.paths[other.index]]
                    raise PassError(f"'{op.name}' at {op.location} cannot share the loops {names}: not all that it uses is made in the same round")

    def slice_of(self, buffer: ir.Value, size: int) -> Slice | None:
        """What has to be kept of a buffer of the kernel's own, of `size` bytes; None for all of it."""
        uses = self.uses.get(buffer, [])
        loops = self._aligned_loops(uses) if uses else 0
        if not loops:
            return None
        first = uses[0]
        for level in range(loops):
            size //= rounds(self.stages[first.index].root, level)
        return Slice(loops, self.paths[first.index][0][1], self.stages[first.index].root.shared[0].slots, aligned(size))

    def alive(self, buffer: ir.Value, kept: Slice | None) -> list[Any]:
        """The ops between whose first and last the buffer holds data: all that go round with its users in loops that it does not shrink in."""
        loops = kept.loops if kept else 0
        rounds_of = {self.paths[use.index][: loops + 1] for use in self.uses.get(buffer, []) if len(self.paths[use.index]) > loops}
        indices = {i for i, path in enumerate(self.paths) if path[: loops + 1] in rounds_of} | {use.index for use in self.uses.get(buffer, [])}
        return [member.operation for i in indices for member in self.stages[i].members]
