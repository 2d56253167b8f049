"""Loops that several structured ops of a kernel share: the schedule between ops, where `Nest` is the schedule inside of one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SharedLoop:
    """A loop around several ops: each does `step` iterations of its dimension `dim` in every round, before the next op takes its turn.

    What one op leaves for the next then is a slice, which stays in a cache: Halide's `compute_at` with its storage folding
    (Ragan-Kelley et al., PLDI 2013). Neighbours share a loop if they name it alike. The outermost one may be dealt out to threads in
    `slots` stretches, each with buffers of its own; 1 keeps it on one thread.
    """

    loop: str
    dim: int
    step: int
    slots: int = 1


def complaint(loops: Sequence[SharedLoop]) -> str | None:
    """What is wrong with the loops that an op shares; None if nothing is."""
    for i, loop in enumerate(loops):
        if loop.dim < 0 or loop.step < 1 or loop.slots < 1 or (i and loop.slots > 1):
            return f"dim must be 0 or more, step and slots 1 or more, slots 1 but for the first; got {loop}"
    return None
