"""Loops whose iterations run on threads (`sched.parallel`), on tensors and on memory."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.sched.schedule_info import LoopInfo
from stepwell.dialects.support.errors import PassError


def parallel_loops(function: ir.Operation) -> list[ir.Operation]:
    """The loops below `function` whose iterations run on threads."""
    return [loop for loop in ops_below(function, "scf.for") if LoopInfo(loop).is_parallel]


def rounds_of(loop: ir.Operation) -> int:
    """The trip count of such a loop. Raises PassError if its iterations cannot be distributed to threads."""
    info = LoopInfo(loop)
    for problem in info.problems():
        raise PassError(f"{info.where}: {problem}")
    assert info.rounds is not None  # otherwise there would be a problem
    return info.rounds


def owner_of(buffer: ir.Operation, users: Sequence[ir.Operation]) -> ir.Operation | None:
    """The parallel loop for whose iterations an allocated buffer must be private: the loop around it, or around all of its users."""
    around = LoopInfo.parallel_around(buffer)
    if around is not None:
        return around
    loops = {LoopInfo.parallel_around(user) for user in users}
    return loops.pop() if len(loops) == 1 else None
