"""Interval analysis: the range that the values of a tensor are known to lie in, op by op."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import is_float, to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.traits import MovesData
from stepwell.passes.graph.matching import SPLAT_ELEMENTS, stored

Range: TypeAlias = tuple[float, float]
"""The least and the greatest value, both included."""
ANY: Range = (-math.inf, math.inf)
_EXACT = 1 << 53  # bounds beyond are those of the element type, or none: larger integers are no floats


def ranges(ops: Iterable[ir.Operation], weights: WeightTable) -> "dict[ir.Value, Range]":
    """For each result of the ops of a block, in order, of a number type: the range of its elements. NaN may come beside it."""
    found: dict[ir.Value, Range] = {}
    for op in ops:
        if not isinstance(op.opview, GraphOp):
            continue
        rule = _RULES.get(op.name.removeprefix("graph.")) or (_first if op.opview.has_trait(MovesData) else None)
        for number, result in enumerate(op.results):
            known = ANY if rule is None else rule(op, number, found, weights)
            found[result] = _within(known, result)
    return found


def _of(value: ir.Value, found: dict[ir.Value, Range]) -> Range:
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


def _stored(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
    array = stored(op.results[0], weights) if math.prod(n or 0 for n in type_of(op.results[0]).shape) <= SPLAT_ELEMENTS else None
    if array is None or array.size == 0 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return ANY
    return (array.min().item(), array.max().item())


def _first(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
    return _of(op.operands[0], found)


def _union(operands: Callable[[ir.Operation], Any]) -> Any:
    def rule(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
        parts = [_of(v, found) for v in operands(op)]
        return (min(low for low, _ in parts), max(high for _, high in parts))

    return rule


def _pad(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
    low, high = _of(op.operands[0], found)
    value = op.attributes["value"].value
    return (min(low, value), max(high, value)) if op.attributes["mode"].value == "constant" else (low, high)


def _place(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
    """Of argmax, argmin and the second result of top_k: the places of a dimension."""
    if op.name == "graph.top_k" and number == 0:
        return _of(op.operands[0], found)
    size = type_of(op.operands[0]).shape[op.attributes["axis"].value]
    return (0, size - 1) if size else ANY


def _clamp(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
    low, high = _of(op.operands[0], found)
    least, most = (0.0, math.inf) if op.name == "graph.relu" else (op.attributes["min"].value, op.attributes["max"].value)
    return (min(max(low, least), most), min(max(high, least), most))


def _cast(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
    low, high = _of(op.operands[0], found)
    dtype = type_of(op.results[0]).dtype
    if is_float(dtype):
        return (low, high) if max(abs(low), abs(high)) <= 256 else ANY  # which every float type holds
    if not (math.isfinite(low) and math.isfinite(high)):
        return ANY
    least, most = math.trunc(low), math.trunc(high)
    if not is_float(type_of(op.operands[0]).dtype):
        return (least, most)
    if not op.attributes["saturate"].value and to_numpy(dtype).itemsize >= 4:
        return ANY  # of NaN: the least integer
    return (min(least, 0), max(most, 0))  # NaN becomes 0


def _mod(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
    (low, _), (least, most) = (_of(v, found) for v in op.operands)
    if least <= 0 or not math.isfinite(most):
        return ANY
    top = most if is_float(type_of(op.results[0]).dtype) else most - 1
    return (-top if op.attributes["fmod"].value and low < 0 else 0, top)


def _arithmetic(combine: Callable[[Range, Range], Range]) -> Any:
    def rule(op: ir.Operation, number: int, found: dict[ir.Value, Range], weights: WeightTable) -> Range:
        if is_float(type_of(op.results[0]).dtype):
            return ANY  # rounding
        return combine(_of(op.operands[0], found), _of(op.operands[1], found))

    return rule


_RULES: dict[str, Any] = {
    **dict.fromkeys(("constant", "parameter"), _stored),
    "pad": _pad,
    "concat": _union(lambda op: op.operands),
    "select": _union(lambda op: list(op.operands)[1:]),
    **dict.fromkeys(("arg_max", "arg_min", "top_k"), _place),
    **dict.fromkeys(("clamp", "relu"), _clamp),
    "cast": _cast,
    "mod": _mod,
    "add": _arithmetic(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "sub": _arithmetic(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "maximum": _arithmetic(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    "minimum": _arithmetic(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
}
