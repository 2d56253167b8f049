"""Loops whose rounds run on threads (`sched.parallel`), from the tensors on to memory."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.sched.schedule_info import LoopInfo
from stepwell.dialects.support.errors import PassError


def parallel_loops(function: ir.Operation) -> list[ir.Operation]:
    """The loops below `function` whose rounds run on threads."""
    return [loop for loop in ops_below(function, "scf.for") if LoopInfo(loop).is_parallel]


def rounds_of(loop: ir.Operation) -> int:
    """The number of rounds of such a loop. Raises PassError where it is not one that can be dealt out to threads."""
    info = LoopInfo(loop)
    for problem in info.problems():
        raise PassError(f"{info.where}: {problem}")
    assert info.rounds is not None  # or that were a problem
    return info.rounds


def owner_of(buffer: ir.Operation, users: Sequence[ir.Operation]) -> ir.Operation | None:
    """The loop each round of which, on its thread, needs an own copy of an allocated buffer: the one around it, or around all of its users."""
    around = LoopInfo.parallel_around(buffer)
    if around is not None:
        return around
    loops = {LoopInfo.parallel_around(user) for user in users}
    return loops.pop() if len(loops) == 1 else None
