"""Ensembles of decision trees, stored as tables of nodes."""

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import BOOL, TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Operand, OptionalOperand, Pure, Result
from stepwell.dialects.graph.inference import expect_at_least, expect_choice, expect_dim, expect_dtype, expect_rank, expect_same_dtype
from stepwell.dialects.graph.numerics import narrow, summing

REDUCTIONS = {"add": np.add, "max": np.maximum, "min": np.minimum}
WIDE_FLOATS = ("f32", "f64")


class TreeEnsembleOp(GraphOp, name="tree_ensemble", traits=[Pure]):
    """For each row of `x` the sum, maximum or minimum (`reduction`: add, max, min) over trees of the values of the leaf that the row ends in.

    `roots` (rounds, groups) holds the node that each tree begins at, `values` (leaves, columns) what each leaf gives. The result is (rows, groups,
    columns): the trees of one round are folded into groups of their own.

    A row goes from node `n` to `children[n, 0]` where `x[row, features[n]] <= thresholds[n]`, else to `children[n, 1]`, `depth` times. NaN goes to
    the second child, or to the first where `nan_first[n]`. Node `n` below the number of leaves is leaf `n`: its children are itself. Numbers
    of nodes, features and leaves that are out of range have no meaning; nothing else is read for them.
    """

    x: Operand
    features: Operand
    thresholds: Operand
    children: Operand
    roots: Operand
    values: Operand
    nan_first: OptionalOperand
    result: Result
    depth: ir.IntegerAttr
    reduction: ir.StringAttr

    @staticmethod
    def infer(
        x: TensorType, features: TensorType, thresholds: TensorType, children: TensorType, roots: TensorType, values: TensorType,
        nan_first: TensorType | None, *, depth: int, reduction: str,
    ) -> InferredTypes:  # fmt: skip
        expect_dtype("x", x, WIDE_FLOATS)
        expect_dtype("values", values, WIDE_FLOATS)
        expect_same_dtype(x=x, thresholds=thresholds)
        for name, operand in (("features", features), ("children", children), ("roots", roots)):
            expect_dtype(name, operand, ("i32",))
        ranks = {"x": (x, 2), "features": (features, 1), "thresholds": (thresholds, 1), "children": (children, 2), "roots": (roots, 2)}
        for name, (operand, rank) in {**ranks, "values": (values, 2)}.items():
            expect_rank(name, operand, rank)
        expect_dim("thresholds", thresholds, 0, features.shape[0], f"one for each node, as in operand 'features' ({features})")
        expect_dim("children", children, 0, features.shape[0], f"one for each node, as in operand 'features' ({features})")
        expect_dim("children", children, 1, 2, "two for each node")
        if nan_first is not None:
            expect_rank("nan_first", nan_first, 1)
            expect_dtype("nan_first", nan_first, (BOOL,))
            expect_dim("nan_first", nan_first, 0, features.shape[0], f"one for each node, as in operand 'features' ({features})")
        expect_at_least("depth", [depth], 0)
        expect_choice("reduction", reduction, tuple(REDUCTIONS))
        return TensorType(values.dtype, (x.shape[0], roots.shape[1], values.shape[1]))

    @staticmethod
    def reference(
        x: np.ndarray, features: np.ndarray, thresholds: np.ndarray, children: np.ndarray, roots: np.ndarray, values: np.ndarray,
        nan_first: np.ndarray | None, *, depth: int, reduction: str,
    ) -> np.ndarray:  # fmt: skip
        rows = np.arange(len(x)).reshape(-1, 1, 1)
        node = np.broadcast_to(roots, (len(x), *roots.shape))
        for _ in range(depth):
            value = x[rows, features[node]]
            first = value <= thresholds[node]
            if nan_first is not None:
                first |= np.isnan(value) & nan_first[node]
            node = np.where(first, children[node, 0], children[node, 1])
        start = {"add": 0, "max": -np.inf, "min": np.inf}[reduction]
        found = values[node]
        wide = summing(found) if reduction == "add" else found
        return narrow(REDUCTIONS[reduction].reduce(wide, axis=1, initial=start), values.dtype)

    @staticmethod
    def flops(
        x: TensorType, features: TensorType, thresholds: TensorType, children: TensorType, roots: TensorType, values: TensorType,
        nan_first: TensorType | None, *, result: TensorType, depth: int, reduction: str,
    ) -> int:  # fmt: skip
        rows, trees, columns = x.shape[0] or 1, roots.elements, values.shape[1] or 1
        return rows * trees * (depth + columns)
