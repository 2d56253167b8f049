"""The memory of a conditional or a loop besides its operands and results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from stepwell.dialects.core.layout import ALIGNMENT, aligned, aligned_size
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.dialects.flow.boxes import may_hold_boxes
from stepwell.dialects.flow.control import called_by

KEEP_HEAD, KEEP_ENTRY = 16, 16
"""The bytes of the record of boxes for the runtime: a count and a mark; for each carried value its address and its rows."""


class Planned(Protocol):
    """The plan of a function that is called."""

    workspace_bytes: int
    makes_boxes: bool


@dataclass(frozen=True)
class ControlMemory:
    """Offsets in the scratch of a conditional or a loop, and its size, in bytes."""

    size: int | Size
    inner: int = 0
    """The offset of the workspace of the functions that it calls; everything else belongs to loops."""
    round: int = 0
    condition: int = 0
    going_on: int = 0
    """The offset of the condition that the body computes for the next iteration."""
    spare: tuple[int | Size, ...] = ()
    """For each carried value, the offset of a second place: an iteration reads one and writes the other."""
    kept: int | Size | None = None
    """The offset of the record for the runtime after each iteration of a loop whose iterations make boxes (`runtime.keep`)."""
    holders: tuple[int, ...] = ()
    """The carried values that may hold boxes."""


def control_memory(op: ir.Operation, shapes: SymbolicShapes, regions: Mapping[str, Planned]) -> ControlMemory:
    """The scratch of a `flow.if` or `flow.loop` whose functions have these plans."""
    if op.name == "flow.if":
        return ControlMemory(max(regions[name].workspace_bytes for name in called_by(op)))
    (body,) = called_by(op)
    end: int | Size = aligned(regions[body].workspace_bytes)
    scalars = []
    for _ in range(3):
        scalars.append(end)
        end += ALIGNMENT
    spare = []
    for value in list(op.results)[: ir.IntegerAttr(op.attributes["carried"]).value]:
        spare.append(end)
        end += aligned_size(shapes.bytes(value))
    number, condition, going_on = (int(place) for place in scalars)
    if not regions[body].makes_boxes:
        return ControlMemory(end, 0, number, condition, going_on, tuple(spare))
    holders = tuple(i for i, value in enumerate(list(op.results)[: len(spare)]) if may_hold_boxes(value.type))
    whole = end + aligned(KEEP_HEAD + KEEP_ENTRY * len(holders))
    return ControlMemory(whole, 0, number, condition, going_on, tuple(spare), end, holders)
