"""Structured ops that copy contiguous runs of memory unchanged."""

from collections.abc import Sequence
from math import prod

from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import Structured


def moved(op: Structured) -> tuple[Access, Access] | None:
    """The source and the destination of `op` if it stores each element unchanged; otherwise None."""
    if op.is_fill or op.reduction_dims or len(op.outputs) != 1 or len(op.body.operations) != 1:
        return None
    given = op.body.operations[0].operands[0]
    read = next((a for a, argument in zip(op.inputs, op.body.arguments, strict=False) if argument == given), None)
    return (read, op.outputs[0]) if read is not None and read.is_shaped else None


def stretch(op: Structured, box: Sequence[int]) -> int:
    """The bytes that `op` moves between two contiguous runs of memory in `box` iterations of each dimension; 0 if they are not contiguous."""
    accesses = moved(op)
    if accesses is None or op.free:
        return 0
    source, target = ([access.distance(dim) for dim, count in enumerate(box) if count > 1] for access in accesses)
    if source != target or not _dense(source, [count for count in box if count > 1]):
        return 0
    if any(prod(sizes_of_part(access, box)) != prod(box) for access in accesses):  # as along a diagonal
        return 0
    return prod(box) * element_bits(op.outputs[0].element_type) // 8


def sizes_of_part(access: Access, box: Sequence[int]) -> list[int]:
    """The extent of each operand dimension that `box` iterations of each loop reach."""
    moves = [access.coefficients(dim) for dim in range(len(box))]
    return [1 + sum((steps[place] or 0) * (count - 1) for steps, count in zip(moves, box, strict=True)) for place in range(len(access.shape))]


def _dense(steps: Sequence[int | None], counts: Sequence[int]) -> bool:
    """Whether `counts` iterations of loops, which move by `steps`, reach every element of a contiguous run exactly once."""
    size = 1
    for step, count in sorted(zip(steps, counts, strict=True), key=lambda loop: loop[0] or 0):
        if step != size:
            return False
        size *= count
    return True
