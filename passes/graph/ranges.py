"""Interval analysis: the known range of a tensor's values, op by op."""

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

_EXACT = 1 << 53  # larger integers are not exact floats: bounds beyond are those of the element type, or none


def ranges(ops: Iterable[ir.Operation], weights: WeightTable) -> "dict[ir.Value, Range]":
    """For each result of the ops of a block with a number type, in order, the range of its elements. NaN may occur in addition."""
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
    """The range that a value's op states for its result, for any operands of their types."""
    op = defining_op(value)
    if op is None or not isinstance(op.opview, GraphOp) or len(op.results) != 1:
        return _within(ANY, value)
    known = op.opview.value_range(*map_groups(lambda operand: range_of(operand, {}), op.opview.operand_groups()))
    return _within(known, value)  # type: ignore[arg-type]  # one range for one result


def range_of(value: ir.Value, found: dict[ir.Value, Range]) -> Range:
    """The range of a value: from `found`, the known ranges, or else that of its type."""
    return found.get(value) or _within(ANY, value)


def _within(known: Range, value: ir.Value) -> Range:
    """A range of exact integers as the range of a value whose type may hold fewer: the whole type, if the arithmetic may overflow."""
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
