"""Adds operands to ops of OpenMP after their creation."""

from collections.abc import Mapping

from stepwell.dialects.core.mlir import ir

_SEGMENTS = "operandSegmentSizes"


def groups_of_operands(op: ir.Operation) -> list[int]:
    """The number of operands in each group, in the order in which the dialect declares them."""
    return list(op.attributes[_SEGMENTS])


def with_operand(op: ir.Operation, group: int, value: ir.Value, more: Mapping[str, ir.Attribute] | None = None) -> None:
    """Recreate an op, which has one region and no results, with `value` as the only operand of an empty group, and with `more` attributes."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    sizes, operands = groups_of_operands(op), list(op.operands)
    at = sum(sizes[:group])
    sizes[group] = 1
    with ir.InsertionPoint(op), op.location:
        attributes |= {_SEGMENTS: ir.DenseI32ArrayAttr.get(sizes), **(more or {})}
        made = ir.Operation.create(op.name, operands=[*operands[:at], value, *operands[at:]], attributes=attributes, regions=1)
    for block in list(op.regions[0].blocks):
        block.append_to(made.regions[0])
    op.erase()
