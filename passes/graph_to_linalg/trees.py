"""Lowering of ensembles of trees: one kernel walks all trees with all rows, then the values of the leaves are folded."""

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir, scf
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.reduction import neutral
from stepwell.passes.graph_to_linalg.scalars import Scalars

_FOLD = {"add": "add", "max": "maximum", "min": "minimum"}


@lowering(graph.TreeEnsembleOp)
def lower_tree_ensemble(op: graph.TreeEnsembleOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """A generic over rows and trees whose body is a loop over the depth, then a fold over the trees.

    The body has no data-dependent branch: the loop continues at a leaf, whose children are the leaf itself, so that the processor can walk several
    trees at once.
    """
    x, nodes, thresholds, roots, values, *nan_first = operands
    types, (result,), attributes = op.operand_types(), op.result_types(), op.attribute_values()
    rows, (rounds, groups), node_count = b.size(x, 0), b.sizes(roots), b.size(nodes, 0)
    s, one = Scalars(b, types[0].dtype), b.index(1)

    def walk(root: ir.Value) -> ir.Value:
        row = b.loop_index(0)
        loop = scf.ForOp(b.index(0), b.index(attributes["depth"]), one, [root])
        with ir.InsertionPoint(loop.body):
            node = within(b, loop.inner_iter_args[0], node_count)
            feature = within(b, b.extract(nodes, [node, b.index(0)]), b.size(x, 1))
            value = b.extract(x, [row, feature])
            first = s.compare("le", value, b.extract(thresholds, [node]))
            if nan_first:
                nan = s.compare("ne", value, value)
                first = arith.OrIOp(first, arith.AndIOp(nan, b.extract(nan_first[0], [node])).result).result
            children = [b.extract(nodes, [node, b.index(1 + n)]) for n in range(2)]  # both loads start before the choice is known
            scf.YieldOp([arith.SelectOp(first, *children).result])
        return loop.results[0]

    leaves = b.staged(b.elementwise([roots], "i32", [rows, rounds, groups], walk, exact=True, loops={0: (1, 2)}))
    dtype, columns, leaf_count = result.dtype, b.size(values, 1), b.size(values, 0)
    total, kind = Scalars(b, dtype), attributes["reduction"]
    out = b.filled(neutral(_FOLD[kind], dtype), dtype, [rows, groups, columns])

    def fold(leaf: ir.Value, so_far: ir.Value) -> ir.Value:
        value = b.extract(values, [within(b, leaf, leaf_count), b.loop_index(2)])
        return total.accumulate(_FOLD[kind], value, so_far)

    return b.generic([leaves], out, [dims(0, 3, 1), dims(0, 1, 2)], 1, fold)


def within(b: LinalgBuilder, number: ir.Value, size: OpFoldResult) -> ir.Value:
    """An i32 clamped to an index below `size`, so that nothing outside a table is ever read."""
    last = b.index(size - 1) if isinstance(size, int) else arith.SubIOp(size, b.index(1)).result
    return arith.MinUIOp(arith.IndexCastOp(ir.IndexType.get(), number).result, last).result
