"""Fused loops: the schedule between the structured ops of a kernel, as `Nest` is the schedule inside one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FusedLoop:
    """A loop around several ops: in every iteration each op does `step` iterations of its dimension `dim`, one op after the other.

    Values passed from one op to the next are then slices, which stay in a cache: Halide's `compute_at` with its storage folding (Ragan-Kelley et al.,
    PLDI 2013). Adjacent ops are in one loop if they give it the same name. The iterations of the outermost loop may be split into `chunks` that run
    in parallel, each with its own buffers; 1 keeps them on one thread. While it computes, an op with `prefetch` prefetches the operands that it reads
    that many iterations later, if they lie in memory and not in such a buffer.

    The remainder of an outermost loop with a dynamic trip count is computed after its full iterations, with a step of `rest` on one thread; 0 if
    there is no remainder.
    """

    loop: str
    dim: int
    step: int
    chunks: int = 1
    prefetch: int = 0
    rest: int = 0

    @property
    def unit(self) -> int:
        """A number that divides the trip count."""
        return self.rest or self.step


def complaint(loops: Sequence[FusedLoop]) -> str | None:
    """A problem with the fused loops of an op; None if there is none."""
    for i, loop in enumerate(loops):
        if loop.dim < 0 or loop.step < 1 or loop.chunks < 1 or loop.prefetch < 0 or (i and loop.chunks > 1):
            return f"dim and prefetch must be 0 or more, step and chunks 1 or more, chunks 1 but for the first; got {loop}"
        if loop.rest < 0 or (loop.rest and (i or loop.step % loop.rest or loop.step == loop.rest)):
            return f"rest must be 0, or a divisor of the step in the first loop; got {loop}"
    return None
