"""Cases of ensembles of trees."""

import numpy as np
from op_random import Case, Random

from op_cases.table import case
from stepwell.dialects.core.types import to_numpy


@case("tree_ensemble")
def tree_ensemble(r: Random) -> Case:
    """Complete trees of some depth, a leaf reached by several; thresholds that some elements of `x` are equal to; some NaN."""
    kind, depth, leaves = to_numpy(r.dtype()), r.integer(0, 3), r.integer(1, 5)
    rounds, groups, features = r.integer(1, 4), r.integer(1, 3), r.integer(1, 4)
    splits = rounds * groups * (2**depth - 1)
    threshold = np.zeros(leaves + splits, kind)
    nodes = np.repeat(np.arange(leaves + splits, dtype=np.int32)[:, np.newaxis], 3, axis=1)
    nodes[:, 0] = 0
    nodes[leaves:, 0] = r.generator.integers(0, features, splits)
    threshold[leaves:] = r.generator.integers(-2, 3, splits)
    roots, place = [], leaves
    for _ in range(rounds * groups):
        level = [int(r.generator.integers(0, leaves)) for _ in range(2**depth)]
        while len(level) > 1:
            made = list(range(place, place + len(level) // 2))
            place += len(made)
            nodes[made, 1:] = np.array(level, np.int32).reshape(-1, 2)
            level = made
        roots.append(level[0])
    x = r.generator.integers(-3, 4, (r.integer(1, 6), features)).astype(np.float64)
    if kind in (np.float32, np.float64):
        x[r.generator.random(x.shape) < 0.1] = np.nan
    values = r.generator.normal(0.3, 1, (leaves, r.integer(1, 3))).astype(r.choice((np.float32, np.float64)))
    first = r.generator.random(leaves + splits) < 0.5 if r.boolean() else None
    table = np.array(roots, np.int32).reshape(rounds, groups)
    return Case([x.astype(kind), nodes, threshold, table, values, first], {"depth": depth, "reduction": r.choice(("add", "max", "min"))})
