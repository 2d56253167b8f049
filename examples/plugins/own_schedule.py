"""A default schedule: sums over rows are computed row by row, without vectors, and the rows on threads.

    stepwell inspect model.onnx --schedules --load examples/plugins/own_schedule.py

It replaces the default for reductions. docs/schedules.md describes the knobs; a schedule file overrides them for single kernels.
"""

import numpy as np

from stepwell.plugin import Nest, Structured, Target, schedule


@schedule("reduction")  # start=True would let the cost model go on from it
def row_by_row(op: Structured, target: Target | None) -> Nest:
    """The dimensions in their order, one element at a time. A sum of everything has no rows."""
    rows = tuple(op.parallel_dims)
    return Nest(order=rows, parallel=min(1, len(rows)), unroll=(1,) * len(op.sizes), vector=-1, width=1)


if __name__ == "__main__":
    import small_models

    import stepwell

    x = np.linspace(-2, 2, 24 * 40, dtype=np.float32).reshape(24, 40)
    y = x.sum(axis=1)
    model = small_models.chain([("ReduceSum", ["x", "axes"], {"keepdims": 0})], x, y, axes=np.array([1]))
    small_models.check(model, x, y)
    assert "vector = -1" in stepwell.lower(model, "scheduled").text()
