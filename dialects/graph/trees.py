"""Ensembles of decision trees, stored as tables of nodes."""

import numpy as np

from stepwell.dialects.core.dtypes import WIDE_FLOATS
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import BOOL, TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, OptionalOperand, Pure, Result
from stepwell.dialects.graph.inference import expect_at_least, expect_choice, expect_dtype, expect_rank, expect_same_dtype, expect_shape
from stepwell.dialects.graph.numerics import narrow, summing

REDUCTIONS = {"add": np.add, "max": np.maximum, "min": np.minimum}


class TreeEnsembleOp(GraphOp, name="tree_ensemble", traits=[Pure]):
    """For each row of `x`, the sum, maximum or minimum over trees of the values of the leaf that the row reaches.

    `reduction` is add, max or min. `roots` (rounds, groups) holds the root node of each tree, `values` (leaves, columns) the values of each leaf. The
    result is (rows, groups, columns): each of the trees of one round is reduced into a separate group. `nodes` holds a feature and two children for
    each node. At node `n`, a row continues with the first child if `x[row, feature] <= thresholds[n]`, else with the second, `depth` times. NaN goes
    to the second child, or to the first if `nan_first[n]`. A node `n` below the number of leaves is leaf `n`: its children are itself. Out-of-range
    numbers of nodes, features and leaves are undefined, but cause no out-of-range reads.
    """

    x: Operand
    nodes: Operand
    thresholds: Operand
    roots: Operand
    values: Operand
    nan_first: OptionalOperand
    result: Result
    depth: ir.IntegerAttr
    reduction: ir.StringAttr

    @staticmethod
    def infer(
        x: TensorType, nodes: TensorType, thresholds: TensorType, roots: TensorType, values: TensorType,
        nan_first: TensorType | None, *, depth: int, reduction: str,
    ) -> InferredTypes:  # fmt: skip
        expect_dtype("x", x, WIDE_FLOATS)
        expect_dtype("values", values, WIDE_FLOATS)
        expect_same_dtype(x=x, thresholds=thresholds)
        for name, operand in (("nodes", nodes), ("roots", roots)):
            expect_dtype(name, operand, ("i32",))
        for name, operand in (("x", x), ("roots", roots), ("values", values)):
            expect_rank(name, operand, 2)
        expect_shape("nodes", nodes, (None, 3), "a feature and two children")
        expect_shape("thresholds", thresholds, nodes.shape[:1], f"one for each node, as in operand 'nodes' ({nodes})")
        if nan_first is not None:
            expect_dtype("nan_first", nan_first, (BOOL,))
            expect_shape("nan_first", nan_first, nodes.shape[:1], f"one for each node, as in operand 'nodes' ({nodes})")
        expect_at_least("depth", [depth], 0)
        expect_choice("reduction", reduction, tuple(REDUCTIONS))
        return TensorType(values.dtype, (x.shape[0], roots.shape[1], values.shape[1]))

    @staticmethod
    def reference(
        x: np.ndarray, nodes: np.ndarray, thresholds: np.ndarray, roots: np.ndarray, values: np.ndarray,
        nan_first: np.ndarray | None, *, depth: int, reduction: str,
    ) -> np.ndarray:  # fmt: skip
        rows = np.arange(len(x)).reshape(-1, 1, 1)
        node = np.broadcast_to(roots, (len(x), *roots.shape))
        for _ in range(depth):
            value = x[rows, nodes[node, 0]]
            first = value <= thresholds[node]
            if nan_first is not None:
                first |= np.isnan(value) & nan_first[node]
            node = np.where(first, nodes[node, 1], nodes[node, 2])
        start = {"add": 0, "max": -np.inf, "min": np.inf}[reduction]
        found = values[node]
        wide = summing(found) if reduction == "add" else found
        return narrow(REDUCTIONS[reduction].reduce(wide, axis=1, initial=start), values.dtype)

    @staticmethod
    def flops(
        x: TensorType, nodes: TensorType, thresholds: TensorType, roots: TensorType, values: TensorType,
        nan_first: TensorType | None, *, result: TensorType, depth: int, reduction: str,
    ) -> int:  # fmt: skip
        rows, trees, columns = x.static_shape[0], roots.elements, values.static_shape[1]
        return rows * trees * (depth + columns)
