"""Interval analysis: the range that the values of a tensor are known to lie in, op by op."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.constants import ConstantOp, ParameterOp
from stepwell.dialects.graph.value_range import ANY, Range
from stepwell.passes.graph.matching import SPLAT_ELEMENTS, stored

_EXACT = 1 << 53  # bounds beyond are those of the element type, or none: larger integers are no floats


def ranges(ops: Iterable[ir.Operation], weights: WeightTable) -> "dict[ir.Value, Range]":
    """For each result of the ops of a block, in order, of a number type: the range of its elements. NaN may come beside it."""
    found: dict[ir.Value, Range] = {}
    for op in ops:
        if not isinstance(op.opview, GraphOp):
            continue
        if isinstance(op.opview, (ConstantOp, ParameterOp)):
            known: Any = _stored(op, weights)
        else:
            known = op.opview.value_range(*map_groups(lambda value: range_of(value, found), op.opview.operand_groups()))
        for result, of_result in zip(op.results, [known] if len(op.results) == 1 else known, strict=True):
            found[result] = _within(of_result, result)
    return found


def range_of_result(value: ir.Value) -> Range:
    """The range that the op which makes a value says of its result, for any operands of their types."""
    op = defining_op(value)
    if op is None or not isinstance(op.opview, GraphOp) or len(op.results) != 1:
        return _within(ANY, value)
    known = op.opview.value_range(*map_groups(lambda operand: range_of(operand, {}), op.opview.operand_groups()))
    return _within(known, value)  # type: ignore[arg-type]  # one range for one result


def range_of(value: ir.Value, found: dict[ir.Value, Range]) -> Range:
    """The range of a value, of which `found` are those that are known: that of its type, where it is not one of these."""
    return found.get(value) or _within(ANY, value)


def _within(known: Range, value: ir.Value) -> Range:
    """A range of exact integers as that of a value whose type may hold fewer: all there are, where the arithmetic may have left the type."""
    dtype = to_numpy(type_of(value).dtype)
    if dtype.kind == "b":
        return (0, 1)
    if dtype.kind not in "iu":
        return known
    limits = np.iinfo(dtype)
    low, high = known
    if limits.min <= low <= high <= limits.max and max(abs(low), abs(high)) <= _EXACT:
        return known
    return (int(limits.min), int(limits.max))


def _stored(op: ir.Operation, weights: WeightTable) -> Range:
    kind = type_of(op.results[0])
    array = stored(op.results[0], weights) if kind.is_static and kind.elements <= SPLAT_ELEMENTS else None
    if array is None or array.size == 0 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return ANY
    return (array.min().item(), array.max().item())
