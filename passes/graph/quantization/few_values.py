"""Which values a tensor's elements can have at all, where they follow from a byte: 256 of them, so that a rewrite can be tried on each."""

from math import prod
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import FakeQuantizeOp
from stepwell.dialects.graph.quantization import BYTES
from stepwell.passes.graph.matching import is_elementwise
from stepwell.passes.graph.quantization.quantized import known

OPS_BACK = 16  # that lead from a byte to a value
MOST = 1 << 20  # elements of an array of values
EXACT = ("abs", "add", "cast", "clamp", "dequantize", "div", "maximum", "minimum", "mul", "neg", "quantize", "relu", "round", "sub")
"""Ops that give the same bits everywhere: IEEE 754 says how they round."""


def few_values(value: ir.Value, weights: WeightTable) -> np.ndarray | None:
    """All values that elements of `value` can have, [256, *shape], where `shape` broadcasts to that of `value`; None where they are not known.

    Along the first axis are those that follow from the bytes, or from the results of a `fake_quantize`, in order.
    """
    path: list[tuple[ir.Operation, list[np.ndarray | None]]] = []
    numbers = _from_byte(value, weights)
    while numbers is None and len(path) < OPS_BACK:
        op = defining_op(value)
        if op is None or not is_elementwise(op.opview) or op.opview.mnemonic() not in EXACT:
            return None
        operands = [known(v, weights) for v in op.operands]
        unknown = [v for v, array in zip(op.operands, operands, strict=True) if array is None]
        if len(unknown) != 1:
            return None
        path.append((op, operands))
        [value] = unknown
        numbers = _from_byte(value, weights)
    for op, operands in reversed(path):
        if numbers is None:
            return None
        arrays = [numbers if array is None else array for array in operands]
        if prod(np.broadcast_shapes(*(array.shape for array in arrays))) > MOST:
            return None
        view: Any = op.opview
        with np.errstate(all="ignore"):
            numbers = type(view).reference(*arrays, **view.attribute_values())
    return numbers


def _from_byte(value: ir.Value, weights: WeightTable) -> np.ndarray | None:
    """The values of an integer of 8 bits, and of what was rounded to as few."""
    kind, op = type_of(value), defining_op(value)
    if kind.dtype in BYTES:
        return _column(np.arange(256) + np.iinfo(to_numpy(kind.dtype)).min, kind.rank).astype(to_numpy(kind.dtype))
    if op is None or not isinstance(op.opview, FakeQuantizeOp):
        return None
    zero = known(op.opview.zero_point, weights)
    if zero is None:
        return None
    return (_column(np.arange(256) + np.iinfo(zero.dtype).min, kind.rank) - zero.astype(np.int64)).astype(np.float32)


def _column(numbers: np.ndarray, rank: int) -> np.ndarray:
    """Numbers along a new first axis of a tensor of `rank`."""
    return numbers.reshape(-1, *[1] * rank)
