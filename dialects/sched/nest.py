"""The nest of a structured op's own loops as data: the knobs of a `#sched.nest`."""

from dataclasses import dataclass

from stepwell.dialects.target.dot_products import NONE


@dataclass(frozen=True)
class NestKnobs:
    """How a structured op's iteration space is walked. The passes decide which values are legal for an op.

    - `order`: the parallel dimensions, outermost first; reductions follow inside, in the op's order.
    - `parallel`: the number of leading loops of `order` that run on threads.
    - `unroll`: for each dimension, the number of its iterations in the register tile.
    - `block`: for each dimension, the number of its iterations in a block, 0 for all; empty if no dimension has blocks. Loops over
      blocks lie outside all others, so that the data of a block stay in a cache. Blocks of a reduction dimension leave their
      partial sums in memory for the next block.
    - `prefetch`: the prefetch distance of vectors, in iterations of a loop; 0 leaves prefetching to the hardware. If the innermost reduction
      loop walks one cache line of the other operand, a prefetch along it also prefetches the next such line, one iteration of the
      surrounding loop ahead.
    - `along`: the dimension of this loop; -1 for the innermost reduction. Along any other loop, whose next iteration is further away, whole tiles
      prefetch into the second cache: if their number is dynamic, only those in the first 16 iterations.
    - `vector`: the dimension along which vectors lie, or -1 for none. A reduction dimension gives vector accumulators that are
      summed at the end.
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
        """Maps each dimension that is walked in blocks to the block size."""
        return {d: size for d, size in enumerate(self.block) if size}

    def step(self, dim: int) -> int:
        """The iterations of `dim` in one iteration of its innermost loop: those of the tile, or of a vector."""
        return self.width if dim == self.vector else self.unroll[dim]


@dataclass(frozen=True)
class NestVersion:
    """The nest that computes an op when a dynamic dimension has `count` iterations."""

    dim: int
    count: int
    nest: NestKnobs
