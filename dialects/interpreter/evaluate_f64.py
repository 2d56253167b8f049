"""Graph-level IR evaluated in f64: what a network computes without the rounding of its types, by our own references."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.dtypes import FLOATS
from stepwell.dialects.core.types import TensorType, dtype_info, to_numpy
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.graph.logic import BitCastOp, CastOp, rounds_result
from stepwell.dialects.graph.numerics import is_floating, narrow
from stepwell.dialects.interpreter.evaluate import Evaluator


class F64Evaluator(Evaluator):
    """Runs ops by their references on f64 wherever the IR has floats, so that nothing is rounded to a narrower type.

    Weights and inputs of f16, bf16 and f32 are widened, which is exact, one weight at a time as it is used. Integers and booleans are as they are.
    What rounds by its meaning does so here too: a cast to a narrower float that is a node of the model, casts to integers, quantisation,
    and the storage types of 8 bits and less. So do bit casts, which look at the bits of the type that the IR has.
    """

    def taken(self, array: np.ndarray) -> np.ndarray:
        """The array in f64, if it is of floats that are computed with."""
        return array.astype(np.float64, copy=False) if is_floating(array.dtype) else array

    def meaning(self, op: GraphOp, groups: Sequence[Any]) -> Sequence[np.ndarray]:
        """As `Evaluator.meaning`, in f64."""
        if isinstance(op, CastOp) and not _rounds(op):
            return [groups[0]]
        if isinstance(op, (BitCastOp, CastOp)):
            # What these are asked about is the type that the IR has.
            groups = [_in_type(array, kind) for array, kind in zip(groups, op.operand_types(), strict=True)] if isinstance(op, BitCastOp) else groups
            return [self.taken(array) for array in op.evaluate(groups, self.sizes)]
        return op.evaluate(map_groups(self.taken, groups), self.sizes, [_widened(kind) for kind in op.result_types()])


def _rounds(op: CastOp) -> bool:
    """Whether a cast changes more than the type that a float is stored in."""
    [source], [result] = op.operand_types(), op.result_types()
    if source.dtype not in FLOATS or result.dtype not in FLOATS:
        return True
    return not dtype_info(result.dtype).holds(dtype_info(source.dtype)) and not rounds_result(op.operation)


def _in_type(array: np.ndarray, kind: TensorType) -> np.ndarray:
    return narrow(array, to_numpy(kind.dtype)) if is_floating(array.dtype) else array


def _widened(kind: TensorType) -> TensorType:
    return kind.with_dtype("f64") if kind.dtype in FLOATS else kind
