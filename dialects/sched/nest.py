"""The nest of a structured op's own loops as data: the knobs of a `#sched.nest`."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from stepwell.dialects.target.dot_products import NONE


@dataclass(frozen=True)
class NestKnobs:
    """How a structured op's iteration space is walked. Which values are legal for an op is up to passes.

    - `order`: the parallel dimensions, outermost first; reductions follow inside, in the op's order.
    - `parallel`: how many leading loops of `order` run on threads.
    - `unroll`: for each dimension, how many of its iterations the register tile holds.
    - `block`: for each dimension, how many of its iterations make a block, 0 for all; empty where no dimension has blocks. Loops over
      blocks lie outside of all others, so that what a block reads stays in a cache. Blocks of a summed dimension leave their
      sums in memory for the next.
    - `prefetch`: how many rounds of a loop ahead its vectors are asked for; 0 leaves that to the hardware. Where the innermost summed
      loop goes through one line of what the vectors are multiplied by, a prefetch along it asks for the next such line, too, one round of the
      loop around it ahead.
    - `along`: the dimension of this loop; -1 for the innermost summed one. Along another one, whose next round is further away, whole tiles
      ask, for the second cache: if only the run knows how many there are, those in the first 16 iterations.
    - `vector`: the dimension along which vectors lie, or -1 for none. A reduction dimension gives vector accumulators that are
      added up at the end.
    - `width`: elements of one vector.
    - `intrinsic`: the name of an intrinsic that computes blocks of the tile, or "none" for the op's own body.
    """

    order: tuple[int, ...]
    parallel: int
    unroll: tuple[int, ...]
    vector: int
    width: int
    intrinsic: str = NONE
    block: tuple[int, ...] = ()
    prefetch: int = 0
    along: int = -1

    @property
    def blocks(self) -> dict[int, int]:
        """The dimensions that are walked in blocks, and the size of these."""
        return {d: size for d, size in enumerate(self.block) if size}

    def step(self, dim: int) -> int:
        """How many iterations of `dim` a round of its innermost loop is: those of the tile, or of a vector."""
        return self.width if dim == self.vector else self.unroll[dim]

    def chosen(self) -> dict[str, Any]:
        """The knobs that are not at their defaults, by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.default != getattr(self, f.name)}
