"""The possible values of a tensor's elements, if they follow from one byte or two: so few that a rewrite can be tried on each."""

from math import prod
from typing import Any

import numpy as np

from stepwell.dialects.core.dtypes import BYTES
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import FakeQuantizeOp, constant_value
from stepwell.dialects.graph.traits import Elementwise, Exact
from stepwell.passes.graph.matching import states

OPS_BACK = 16
"""The largest number of ops from the bytes to a value."""
MOST = 1 << 20
"""The largest number of elements in an array of values."""


def few_values(value: ir.Value, weights: WeightTable) -> np.ndarray | None:
    """All values that elements of `value` can have, [n, *shape], where `shape` broadcasts to that of `value`; None if they are not known.

    The first axis runs over the bytes, or the results of a `fake_quantize`, that the values follow from, in order: 256 for one, 65,536 for two, which
    are assumed to form any pair.
    """
    return _values(value, weights, OPS_BACK)


def _values(value: ir.Value, weights: WeightTable, left: int) -> np.ndarray | None:
    """Like `few_values`, through up to `left` consecutive ops."""
    numbers, op = _from_byte(value, weights), defining_op(value)
    if numbers is not None:
        return numbers
    if op is None or not left or not states(op, Elementwise, Exact):
        return None
    operands = [constant_value(v, weights) for v in op.operands]
    unknown = [n for n, array in enumerate(operands) if array is None]
    if len(unknown) not in (1, 2):
        return None
    found = [_values(op.operands[n], weights, left - 1) for n in unknown]
    if any(array is None for array in found):
        return None
    rank = type_of(value).rank
    rows = [_aligned(array, rank) for array in found if array is not None]
    if prod(len(array) for array in rows) * max(prod(array.shape[1:]) for array in rows) > MOST:
        return None
    if len(rows) == 2:
        first, second = rows
        rows = [np.repeat(first, len(second), axis=0), np.tile(second, (len(first), *[1] * rank))]
    arrays = list(operands)
    for n, array in zip(unknown, rows, strict=True):
        arrays[n] = array
    if prod(np.broadcast_shapes(*(array.shape for array in arrays if array is not None))) > MOST:
        return None
    view: Any = op.opview
    with np.errstate(all="ignore"):
        return type(view).reference(*arrays, **view.attribute_values())


def _aligned(numbers: np.ndarray, rank: int) -> np.ndarray:
    """Values of a tensor, behind their first axis, as those of a tensor of a higher rank that it broadcasts to."""
    return numbers.reshape(len(numbers), *[1] * (rank + 1 - numbers.ndim), *numbers.shape[1:])


def _from_byte(value: ir.Value, weights: WeightTable) -> np.ndarray | None:
    """The values of an 8-bit integer, or of a float rounded to as few values."""
    kind, op = type_of(value), defining_op(value)
    if kind.dtype in BYTES:
        return _column(np.arange(256) + np.iinfo(to_numpy(kind.dtype)).min, kind.rank).astype(to_numpy(kind.dtype))
    if op is None or not isinstance(op.opview, FakeQuantizeOp):
        return None
    zero = constant_value(op.opview.zero_point, weights)
    if zero is None:
        return None
    return (_column(np.arange(256) + np.iinfo(zero.dtype).min, kind.rank) - zero.astype(np.int64)).astype(np.float32)


def _column(numbers: np.ndarray, rank: int) -> np.ndarray:
    """Numbers along a new first axis of a tensor of `rank`."""
    return numbers.reshape(-1, *[1] * rank)
