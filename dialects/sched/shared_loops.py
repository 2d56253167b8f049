"""Loops that several structured ops of a kernel share: the schedule between ops, where `Nest` is the schedule inside of one."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from stepwell.dialects.core.attributes import to_attribute, to_python
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.sched.dialect import SharedAttr
from stepwell.dialects.support.errors import PassError

ATTRIBUTE = "shared"  # the name under which an op carries the loops that it shares
AXES = "axes"  # the name under which a lowering says which of an op's loops run over the same thing in its neighbours


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


def shared_loops(op: ir.Operation) -> tuple[SharedLoop, ...]:
    """The loops that `op` shares, outermost first. Raises PassError if its attribute does not say them well."""
    if ATTRIBUTE not in op.attributes:
        return ()
    attribute = op.attributes[ATTRIBUTE]
    if not isinstance(attribute, SharedAttr):
        raise PassError(f"'{op.name}' at {op.location}: shared loops must be a #sched.shared, got {attribute}")
    fields = set(SharedLoop.__dataclass_fields__)
    loops = []
    for entry in to_python(ir.ArrayAttr(attribute.loops)):
        if not isinstance(entry, dict) or set(entry) != fields:
            raise PassError(f"{attribute} at {op.location}: each loop must have the fields {', '.join(sorted(fields))}, got {entry}")
        loops.append(SharedLoop(**entry))
    for i, loop in enumerate(loops):
        if loop.dim < 0 or loop.step < 1 or loop.slots < 1 or (i and loop.slots > 1):
            raise PassError(f"{attribute} at {op.location}: dim must be 0 or more, step and slots 1 or more, slots 1 but for the first; got {loop}")
    return tuple(loops)


def to_shared_attribute(loops: Sequence[SharedLoop]) -> SharedAttr:
    """The `#sched.shared` attribute of these loops, in the current context."""
    attribute: SharedAttr = SharedAttr.get(ir.ArrayAttr.get([to_attribute(asdict(loop)) for loop in loops]))
    return attribute
