"""Ensembles of trees against a walk in numpy, ONNX's evaluator and ONNX Runtime."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from every import every
from native_checks import natively_together
from onnx import NodeProto, helper
from other_domains import ML, agree, check_native, model_of, of_reference, of_runtime

import stepwell
from stepwell.dialects.support.errors import ModelError, UnsupportedError

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
ASKS: dict[str, Callable[[float, float], bool]] = {
    "BRANCH_LEQ": lambda x, t: x <= t, "BRANCH_LT": lambda x, t: x < t, "BRANCH_GTE": lambda x, t: x >= t, "BRANCH_GT": lambda x, t: x > t,
    "BRANCH_EQ": lambda x, t: x == t, "BRANCH_NEQ": lambda x, t: x != t,
}  # fmt: skip
FEATURES = 5


@dataclass
class Trees:
    """Random trees: nodes as lists of the attributes of TreeEnsembleRegressor, and what leaves give."""

    nodes: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: []
            for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
        }
    )
    votes: dict[tuple[int, int], list[tuple[int, float]]] = field(default_factory=dict)

    def leaf_of(self, row: np.ndarray, tree: int) -> tuple[int, int]:
        """The leaf that a row ends in, by a plain walk."""
        nodes, at = self.nodes, 0
        while True:
            i = next(i for i, key in enumerate(zip(nodes["treeids"], nodes["nodeids"], strict=True)) if key == (tree, at))
            if nodes["modes"][i] == "LEAF":
                return tree, at
            value = float(row[nodes["featureids"][i]])
            yes = bool(nodes["missing_value_tracks_true"][i]) if math.isnan(value) else ASKS[nodes["modes"][i]](value, nodes["values"][i])
            at = nodes["truenodeids"][i] if yes else nodes["falsenodeids"][i]

    def scores(self, x: np.ndarray, targets: int, aggregate: str) -> np.ndarray:
        trees = sorted(set(self.nodes["treeids"]))
        out = np.zeros((len(x), targets))
        for i, row in enumerate(x):
            given: list[list[float]] = [[] for _ in range(targets)]
            for tree in trees:
                for target, weight in self.votes.get(self.leaf_of(row, tree), []):
                    given[target].append(weight)
            fold: dict[str, Any] = {"SUM": sum, "AVERAGE": lambda v: sum(v) / len(trees), "MIN": min, "MAX": max}
            out[i] = [fold[aggregate](v) if v else 0.0 for v in given]
        return out

    def attributes(self, prefix: str) -> dict[str, Any]:
        flat = [(tree, node, target, weight) for (tree, node), votes in self.votes.items() for target, weight in votes]
        named = {f"nodes_{name}": values for name, values in self.nodes.items()}
        columns = zip(("treeids", "nodeids", "ids", "weights"), zip(*flat, strict=True), strict=True)
        return {**named, **{f"{prefix}_{name}": list(values) for name, values in columns}}


def random_trees(
    seed: int, count: int, depth: int, targets: int, modes: list[str], *, each: str = "all", positive: bool = False
) -> Trees:
    """Trees of uneven depth. `each` leaf votes for `all` targets, for the one of its `tree`, or for any `one`."""
    r, out = np.random.default_rng(seed), Trees()
    for tree in range(count):
        pending, made = [(0, 0)], 1
        while pending:
            node, level = pending.pop()
            is_leaf = level == depth or (level > 1 and r.random() < 0.3)
            mode = "LEAF" if is_leaf else str(r.choice(modes))
            yes, no = (0, 0) if is_leaf else (made, made + 1)
            if is_leaf:
                chosen = {"all": range(targets), "tree": [tree % targets], "one": [int(r.integers(targets))]}[each]
                weight = lambda: float(np.float32(abs(r.normal(0.2)) if positive else r.normal(0.2)))  # noqa: E731
                out.votes[tree, node] = [(t, weight()) for t in chosen]
            else:
                made += 2
                pending += [(yes, level + 1), (no, level + 1)]
            row = (tree, node, int(r.integers(FEATURES)), float(r.integers(-2, 3)), mode, yes, no, int(r.integers(2)))
            for values, value in zip(out.nodes.values(), row, strict=True):
                values.append(value)
    return out


def samples(rows: int, *, missing: bool = True, seed: int = 1) -> np.ndarray:
    """Whole numbers and others, so that some are equal to thresholds; some NaN and infinities."""
    r = np.random.default_rng(seed)
    x = np.where(r.random((rows, FEATURES)) < 0.5, r.integers(-3, 4, (rows, FEATURES)), r.normal(0, 2, (rows, FEATURES)))
    if missing:
        x[r.random(x.shape) < 0.15] = np.nan
        x[r.random(x.shape) < 0.1] = -np.inf
        x[r.random(x.shape) < 0.1] = np.inf
    return x.astype(np.float32)


def regressor(trees: Trees, targets: int, **attributes: Any) -> NodeProto:
    return helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain=ML, n_targets=targets, **trees.attributes("target"), **attributes)


@natively_together
@every("mode", [*MODES, "mixed"])
@every("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressors(mode: str, aggregate: str) -> None:
    """Three targets; single comparisons and all of them mixed; values that are missing, infinite, or equal to thresholds."""
    trees = random_trees(3, 7, 5, 3, MODES if mode == "mixed" else [mode])
    x, base = samples(40), [0.5, -1.0, 2.0]
    want = {"y": (trees.scores(x, 3, aggregate) + np.array(base)).astype(np.float32)}
    check_native(regressor(trees, 3, aggregate_function=aggregate, base_values=base), {"x": x}, want)


@natively_together
@every("kind", [np.float64, np.int64, np.int32])
def test_other_elements(kind: Any) -> None:
    trees = random_trees(4, 5, 6, 1, MODES)
    x = samples(30, missing=False).astype(kind)
    want = {"y": trees.scores(x, 1, "SUM").astype(np.float32)}
    check_native(regressor(trees, 1), {"x": x}, want)


@natively_together
@every("each", ["all", "tree", "one"])
@every("aggregate", ["SUM", "MAX"])
def test_who_votes_for_what(each: str, aggregate: str) -> None:
    """Trees of one target each, of all, and of different ones: with gaps, which give nothing."""
    trees = random_trees(5, 8, 4, 3, ["BRANCH_LEQ"], each=each)
    x = samples(25)
    check_native(regressor(trees, 3, aggregate_function=aggregate), {"x": x}, {"y": trees.scores(x, 3, aggregate).astype(np.float32)})


def test_against_the_evaluator_and_the_runtime() -> None:
    """The walk of this file says what ONNX's evaluator and ONNX Runtime say (which take NaN to be unequal to all, whatever the flag)."""
    modes = [m for m in MODES if m != "BRANCH_NEQ"]
    trees, x = random_trees(6, 6, 5, 2, modes), samples(30)
    node = regressor(trees, 2, aggregate_function="SUM", base_values=[0.25, 3.0])
    want = {"y": (trees.scores(x, 2, "SUM") + np.array([0.25, 3.0])).astype(np.float32)}
    agree(want, of_reference(node, {"x": x}, want))
    agree(want, of_runtime(node, {"x": x}, want))


def test_double_tables() -> None:
    trees, x = random_trees(7, 5, 5, 2, MODES), samples(30).astype(np.float64)
    given = trees.attributes("target")
    values = np.array(given.pop("nodes_values"), np.float64) + 1e-12
    weights = np.array(given.pop("target_weights"), np.float64)
    trees.nodes["values"] = values.tolist()
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain=ML, n_targets=2, **given)
    node.attribute.append(helper.make_attribute("nodes_values_as_tensor", helper.make_tensor("t", 11, values.shape, values)))
    node.attribute.append(helper.make_attribute("target_weights_as_tensor", helper.make_tensor("w", 11, weights.shape, weights)))
    node.attribute.append(helper.make_attribute("base_values_as_tensor", helper.make_tensor("b", 11, (2,), [1.5, -2.5])))
    want = {"y": (trees.scores(x, 2, "SUM") + np.array([1.5, -2.5])).astype(np.float32)}
    check_native(node, {"x": x}, want)


def classifier(trees: Trees, labels: list[int], **attributes: Any) -> NodeProto:
    return helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain=ML, classlabels_int64s=labels, **trees.attributes("class"), **attributes
    )


def assert_classifies(node: NodeProto, x: np.ndarray, by_runtime: bool = True) -> None:
    """As ONNX's evaluator, and ONNX Runtime where that means the same."""
    shapes = {"label": np.zeros(1, np.int64), "scores": np.zeros((1, 1), np.float32)}
    want = of_reference(node, {"x": x}, shapes)
    want["scores"] = want["scores"].astype(np.float32)
    if by_runtime:
        agree(want, of_runtime(node, {"x": x}, shapes))
    check_native(node, {"x": x}, want, terms=128)


@natively_together
@every("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@every("each", ["all", "tree"])
def test_classifiers_of_several_classes(transform: str, each: str) -> None:
    trees = random_trees(8, 9, 4, 3, ["BRANCH_LEQ", "BRANCH_GT"], each=each)
    assert_classifies(classifier(trees, [7, -2, 40], post_transform=transform, base_values=[0.1, -0.2, 0.3]), samples(30))


def test_probit_of_probabilities() -> None:
    trees = random_trees(9, 1, 4, 3, ["BRANCH_LEQ"], positive=True)
    trees.votes = {leaf: [(t, min(w, 3.0) / 4 + 0.05) for t, w in votes] for leaf, votes in trees.votes.items()}
    x = samples(30)
    p = 2 * trees.scores(x, 3, "SUM").astype(np.float32).astype(np.float64) - 1
    log = np.log((1 - p) * (1 + p))
    half = 2 / (np.pi * 0.147) + log / 2
    want = 1.41421356 * np.sign(p) * np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    node = classifier(trees, [0, 1, 2], post_transform="PROBIT")
    check_native(node, {"x": x}, {"label": want.argmax(axis=1), "scores": want.astype(np.float32)})
    reference = of_reference(node, {"x": x}, {"label": np.zeros(1, np.int64), "scores": np.zeros((1, 1), np.float32)})
    np.testing.assert_allclose(reference["scores"], want, atol=1e-4)


@natively_together
@every("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@every("positive", [False, True])
def test_classifiers_of_two_classes(transform: str, positive: bool) -> None:
    """Trees that vote for one class only, as boosting makes them."""
    trees = random_trees(10, 6, 4, 1, ["BRANCH_LT"], positive=positive)
    same = transform == ("NONE" if positive else "LOGISTIC")  # else ONNX Runtime leaves the transform out
    assert_classifies(classifier(trees, [0, 5], post_transform=transform), samples(30), by_runtime=same)


def test_string_labels() -> None:
    """The scores, and the labels where somebody asks for them: these are picked in Python."""
    trees, x = random_trees(11, 4, 3, 2, ["BRANCH_LEQ"]), samples(10)
    given = {"domain": ML, "classlabels_strings": ["a", "b"], **trees.attributes("class")}
    want = {"scores": trees.scores(x, 2, "SUM").astype(np.float32)}
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], name="forest", **given)
    check_native(node, {"x": x}, want)
    made = model_of(node, {"x": x}, want)
    made.graph.output.append(helper.make_tensor_value_info("label", 8, [10]))
    labels = stepwell.compile(made).run({"x": x})["label"]
    assert labels.tolist() == [["a", "b"][number] for number in want["scores"].argmax(axis=1)]


def version_5(modes: list[int], members: list[float], aggregate: int, dtype: Any, **attributes: Any) -> NodeProto:
    """A tree of three splits, and one that is a leaf: the one with the number of its node, which is what ONNX's evaluator takes."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    splits = np.array([1.5, 0, -2.0, 0.0], dtype)
    return helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain=ML, n_targets=2, aggregate_function=aggregate, tree_roots=[0, 3], nodes_featureids=[0, 2, 1, 0],
        nodes_modes=helper.make_tensor("m", 2, (4,), [*modes, 0]), nodes_splits=helper.make_tensor("s", kind, (4,), splits),
        nodes_truenodeids=[1, 0, 2, 3], nodes_trueleafs=[0, 1, 1, 1], nodes_falsenodeids=[2, 1, 4, 3], nodes_falseleafs=[0, 1, 1, 1],
        leaf_targetids=[0, 1, 1, 0, 1], leaf_weights=helper.make_tensor("w", kind, (5,), np.array([1.25, -2.0, 3.5, 0.5, -1.0], dtype)),
        **({"membership_values": helper.make_tensor("v", kind, (len(members),), np.array(members, dtype))} if members else {}), **attributes,
    )  # fmt: skip


NAN = float("nan")


@natively_together
@every("aggregate", [0, 1])
@every(
    ("modes", "members"),
    [([0, 1, 2], []), ([3, 4, 5], []), ([0, 6, 2], [-3.0, 1.0, 2.0, NAN]), ([6, 6, 4], [2.0, -1.0, NAN, 1.0, NAN])],
)
@every("dtype", [np.float32, np.float64])
def test_version_5(modes: list[int], members: list[float], aggregate: int, dtype: Any) -> None:
    x = samples(60, missing=False).astype(dtype)
    node = version_5(modes, members, aggregate, dtype)
    check_native(node, {"x": x}, {"y": of_reference(node, {"x": x}, {"y": x}, version=5)["y"].astype(dtype)}, version=5)


@natively_together
@every("flag", [0, 1])
@every("mode", range(7))
def test_where_missing_values_go(mode: int, flag: int) -> None:
    """To the child that the flag names, whatever the comparison is; the sets hold neighbours, ends and one value."""
    for members in ([2.0], [1.0, np.nextafter(np.float32(1), np.float32(2))], [-np.inf, 0.0, np.inf], [0.0, 1.0, 2.0, 3.0, 5.0]):
        node = helper.make_node(
            "TreeEnsemble", ["x"], ["y"], domain=ML, tree_roots=[0], nodes_featureids=[0], nodes_missing_value_tracks_true=[flag],
            nodes_modes=helper.make_tensor("m", 2, (1,), [mode]), nodes_splits=helper.make_tensor("s", 1, (1,), [1.0]),
            nodes_truenodeids=[0], nodes_trueleafs=[1], nodes_falsenodeids=[1], nodes_falseleafs=[1],
            leaf_targetids=[0, 0], leaf_weights=helper.make_tensor("w", 1, (2,), [10.0, 20.0]),
            **({"membership_values": helper.make_tensor("v", 1, (len(members) + 1,), [*members, NAN])} if mode == 6 else {}),
        )  # fmt: skip
        next_to_1 = np.nextafter(np.float32(1), np.float32(2))
        x = np.array([NAN, 1.0, 2.0, -np.inf, np.inf, 0.0, -0.0, 0.5, 1.5, 5.0, next_to_1], np.float32).reshape(-1, 1)
        yes = [bool(flag) if math.isnan(v) else v in members if mode == 6 else ASKS[MODES[mode]](v, 1.0) for v in x[:, 0].tolist()]
        check_native(node, {"x": x}, {"y": np.where(yes, 10, 20).astype(np.float32).reshape(-1, 1)}, version=5)


@natively_together
def test_a_single_sample_and_no_samples() -> None:
    trees = random_trees(12, 6, 4, 2, MODES)
    for rows in (1, 0):
        x = samples(3)[:rows]
        check_native(regressor(trees, 2), {"x": x}, {"y": trees.scores(x, 2, "SUM").astype(np.float32).reshape(rows, 2)})


def broken(change: Callable[[dict[str, Any]], None]) -> NodeProto:
    given = random_trees(13, 2, 3, 1, ["BRANCH_LEQ"]).attributes("target")
    change(given)
    return helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain=ML, n_targets=1, **given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g["nodes_truenodeids"].__setitem__(1, 0), "leads back to itself"),
        (lambda g: g["nodes_truenodeids"].__setitem__(0, 99), "leads to node 99, which it does not have"),
        (lambda g: g["nodes_featureids"].__setitem__(0, FEATURES), f"compares feature {FEATURES}"),
        (lambda g: g["nodes_modes"].__setitem__(0, "BRANCH_LIKE"), "unknown mode 'BRANCH_LIKE'"),
        (lambda g: g["nodes_values"].pop(), "must have one length"),
        (lambda g: g["target_ids"].__setitem__(0, 3), "target 3; there are 1"),
        (lambda g: g["nodes_missing_value_tracks_true"].pop(), "an entry for each of"),
        (lambda g: g.__setitem__("base_values", [1.0, 2.0, 3.0]), "one entry for each of the 1 targets, got 3"),
    ],
)
def test_broken_trees(change: Callable[[dict[str, Any]], None], message: str) -> None:
    x = samples(3)
    with pytest.raises(ModelError, match=message):
        stepwell.compile(model_of(broken(change), {"x": x}, {"y": x}))


@pytest.mark.parametrize(("attribute", "value"), [("aggregate_function", "MEDIAN"), ("post_transform", "CLOGLOG")])
def test_unknown_choices(attribute: str, value: str) -> None:
    x = samples(3)
    with pytest.raises(UnsupportedError, match=f"{attribute}='{value}' is not supported"):
        stepwell.compile(model_of(regressor(random_trees(14, 2, 3, 1, MODES), 1, **{attribute: value}), {"x": x}, {"y": x}))


def test_trees_are_data() -> None:
    """However many nodes there are, the IR has as many ops; rows run on threads where there is work for them, counted with the depth."""
    x, want, counts = samples(600), {"y": np.zeros((1, 1), np.float32)}, []
    for trees in (5, 20):
        made = model_of(regressor(random_trees(15, trees, 6, 1, ["BRANCH_LEQ"]), 1), {"x": x}, want)
        text = str(stepwell.lower(made, "affine", target="x86-64-v3").module)
        counts.append(text.count("scf.for"))
        assert ("affine.parallel" in text) == (600 * trees * 6 >= 1 << 15)
    assert counts == [1, 1]
    outputs = [stepwell.compile(made, threads=threads)(x)[0] for threads in (1, 2)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
