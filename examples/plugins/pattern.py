"""A rewrite pattern: a product of exponentials becomes the exponential of a sum.

    stepwell run model.onnx --load examples/plugins/pattern.py [--disable merge-exponentials]

A pattern is a function of the matched op. It returns the replacement of the op, or NoMatch with the reason, which `--explain` shows.
"""


import numpy as np

from stepwell.plugin import NoMatch, PatternPass, Rewriter, graph, has_one_use, ir, pattern, producer, register_pass


@pattern(graph.MulOp)
def merge_exponentials(op: graph.MulOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: mul(exp(x), exp(y)) -> exp(add(x, y))"""
    left, right = producer(op.lhs, "exp"), producer(op.rhs, "exp")
    if left is None or right is None:
        return NoMatch("an operand is no exponential")
    if not has_one_use(op.lhs) or not has_one_use(op.rhs):
        return NoMatch("an exponential has another user and would be computed all the same")
    result: ir.Value = rw.exp(rw.add(left.x, right.x))
    return result


@register_pass("merge-exponentials", level="graph", after="simplify-algebra", optional=True)
class MergeExponentials(PatternPass):
    """Compute products of exponentials as one exponential; intermediate overflow no longer gives infinities."""

    patterns = (merge_exponentials,)


if __name__ == "__main__":
    import small_models

    import stepwell

    x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
    nodes: list[small_models.Node] = [("Exp", ["x"], {}), ("Neg", ["x"], {}), ("Exp", ["@"], {}), ("Mul", ["@", "v0"], {})]
    model = small_models.chain(nodes, x, np.ones_like(x))
    small_models.check(model, x, np.ones_like(x))
    assert stepwell.lower(model, "graph-opt").text().count('"graph.exp"') == 1
    assert stepwell.lower(model, "graph-opt", disable=["merge-exponentials"]).text().count('"graph.exp"') == 2
