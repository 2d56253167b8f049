"""Trees and linear models of ai.onnx.ml."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmark.operators.case import Case, given, op

ML = "ai.onnx.ml"
DEEPEST = 12


def cases() -> Iterator[Case]:
    """Forests, boosted trees, linear models and kernels."""
    for batch in (1, 1000):
        forest = {**trees(100, 30, 10, 0.9), "post_transform": "NONE", "classlabels_int64s": list(range(4))}
        votes = leaves(forest, "class", targets=4, of_each=4)
        yield op(
            "TreeEnsembleClassifier",
            "random forest, 100 trees",
            given(batch, 30),
            outputs=["int64", "float32"],
            domain=ML,
            note="4 classes",
            **forest,
            **votes,
        )
    for batch in (1, 1000):
        boosted = {**trees(200, 50, 6, 1.0), "n_targets": 1, "post_transform": "NONE", "aggregate_function": "SUM"}
        yield op(
            "TreeEnsembleRegressor",
            "XGBoost, 200 trees of depth 6",
            given(batch, 50),
            domain=ML,
            note="depth 6",
            **boosted,
            **leaves(boosted, "target"),
        )
    random = np.random.default_rng(1)
    linear: dict[str, Any] = {"coefficients": random.standard_normal(10 * 784).tolist(), "intercepts": random.standard_normal(10).tolist()}
    how: dict[str, Any] = {"multi_class": 1, "post_transform": "SOFTMAX", "classlabels_ints": list(range(10))}
    yield op(
        "LinearClassifier",
        "digits, logistic regression",
        given(1000, 784),
        outputs=["int64", "float32"],
        domain=ML,
        note="10 classes",
        **linear,
        **how,
    )
    targets: dict[str, Any] = {"coefficients": random.standard_normal(784).tolist(), "intercepts": [0.5], "targets": 1}
    yield op("LinearRegressor", "ridge regression", given(1000, 784), domain=ML, note="1 target", **targets)
    yield op("SVMRegressor", "radial kernel, 200 vectors", given(1000, 20), domain=ML, note="200 vectors", **vectors(200, 20))
    yield op("Scaler", "StandardScaler", given(1000, 100), domain=ML, offset=[0.1] * 100, scale=[1.5] * 100, note="100 features")
    yield op("Normalizer", "unit rows", given(1000, 100), domain=ML, norm="L2")


def trees(count: int, features: int, depth: int, grown: float) -> dict[str, Any]:
    """Random binary trees: a node above `depth` is split with probability `grown`. The attributes nodes_* of an ensemble."""
    random = np.random.default_rng([count, features, depth])
    columns: dict[str, list[Any]] = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    for tree in range(count):
        levels, used = [0], 1  # level of each node of the tree, by id
        for node in range(1 << (depth + 1)):
            if node >= len(levels):
                break
            inner = levels[node] < depth and (levels[node] < 2 or random.random() < grown)
            children = (used, used + 1) if inner else (0, 0)
            if inner:
                levels += [levels[node] + 1] * 2
                used += 2
            row = (tree, node, int(random.integers(features)) if inner else 0, float(random.normal()) if inner else 0.0)
            for key, value in zip(columns, (*row, "BRANCH_LEQ" if inner else "LEAF", *children), strict=True):
                columns[key].append(value)
    return {f"nodes_{key}": values for key, values in columns.items()}


def leaves(ensemble: dict[str, Any], prefix: str, targets: int = 1, of_each: int = 1) -> dict[str, Any]:
    """What the leaves of an ensemble give to the targets: the attributes class_* or target_*."""
    random = np.random.default_rng(2)
    ends = [
        (t, n) for t, n, mode in zip(ensemble["nodes_treeids"], ensemble["nodes_nodeids"], ensemble["nodes_modes"], strict=True) if mode == "LEAF"
    ]
    rows = [(t, n, target) for t, n in ends for target in range(of_each if targets > 1 else 1)]
    weights = (random.random(len(rows)) / 100).tolist()
    named = {"treeids": [r[0] for r in rows], "nodeids": [r[1] for r in rows], "ids": [r[2] for r in rows], "weights": weights}
    return {f"{prefix}_{key}": values for key, values in named.items()}


def vectors(count: int, features: int) -> dict[str, Any]:
    """The attributes of a support vector regression."""
    random = np.random.default_rng(3)
    return {
        "support_vectors": random.standard_normal(count * features).tolist(),
        "coefficients": random.standard_normal(count).tolist(),
        "rho": [0.1],
        "n_supports": count,
        "kernel_type": "RBF",
        "kernel_params": [0.05, 0.0, 3.0],
    }
