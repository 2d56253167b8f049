"""Fused loops: the schedule between the structured ops of a kernel, as `Nest` is the schedule inside one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FusedLoop:
    """A loop around several ops: in every round each does `step` iterations of its dimension `dim`, one op after the other.

    What one op hands to the next is then a slice, which stays in a cache: Halide's `compute_at` with its storage folding
    (Ragan-Kelley et al., PLDI 2013). Neighbours are in one loop if they give it the same name. The rounds of the outermost loop may be
    split into `chunks` that run in parallel, each with buffers of its own; 1 keeps them on one thread. An op with `prefetch` asks, while it
    computes, for what it reads in that many rounds from now, where that lies in memory and not in such a buffer.

    Of an outermost loop whose number of iterations only a run knows, what whole rounds leave over comes after them, in rounds of `rest`
    iterations on one thread; 0 where nothing is left over.
    """

    loop: str
    dim: int
    step: int
    chunks: int = 1
    prefetch: int = 0
    rest: int = 0

    @property
    def unit(self) -> int:
        """What the number of iterations is a multiple of."""
        return self.rest or self.step


def complaint(loops: Sequence[FusedLoop]) -> str | None:
    """What is wrong with the fused loops of an op; None if nothing is."""
    for i, loop in enumerate(loops):
        if loop.dim < 0 or loop.step < 1 or loop.chunks < 1 or loop.prefetch < 0 or (i and loop.chunks > 1):
            return f"dim and prefetch must be 0 or more, step and chunks 1 or more, chunks 1 but for the first; got {loop}"
        if loop.rest < 0 or (loop.rest and (i or loop.step % loop.rest or loop.step == loop.rest)):
            return f"rest must be 0, or a divisor of the step in the first loop; got {loop}"
    return None
