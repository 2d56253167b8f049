"""Rules for ensembles of decision trees: their nodes become the tables of one graph.tree_ensemble."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.scores import arg_max, matrix_rows
from stepwell.frontends.blocks.tree_tables import MODES, Split
from stepwell.frontends.blocks.trees import Forest, Votes, compared_in, with_base
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.frames import Unavailable
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rules.scores import ML, Transform, labels_of, transformed

Aggregate: TypeAlias = Literal["AVERAGE", "SUM", "MIN", "MAX"]


def same_length(what: str, **lists: Any) -> int:
    """The common length of parallel lists. Raises ModelError if they differ."""
    sizes = {name: len(values) for name, values in lists.items()}
    if len(set(sizes.values())) > 1:
        raise ModelError(f"its attributes of {what} must have one length, got {', '.join(f'{n}: {s}' for n, s in sizes.items())}")
    return next(iter(sizes.values()))


def either(name: str, floats: Sequence[float], doubles: np.ndarray | None) -> np.ndarray:
    """A list that may be given as floats or as a tensor. Raises ModelError for both."""
    if doubles is not None and len(floats):
        raise ModelError(f"{name} and {name}_as_tensor are both given")
    return np.array(floats, np.float32) if doubles is None else doubles.reshape(-1)


def wide(weights: np.ndarray) -> np.ndarray:
    """Weights as f32, or f64 if they have that type."""
    return weights.astype(np.float64 if weights.dtype == np.float64 else np.float32)


@dataclass(frozen=True)
class Nodes(Group):
    """The nodes of a TreeEnsembleRegressor or TreeEnsembleClassifier, identified by tree and number in the tree."""

    nodes_falsenodeids: Sequence[int] = ()
    nodes_featureids: Sequence[int] = ()
    nodes_missing_value_tracks_true: Sequence[int] = ()
    nodes_modes: Sequence[str] = ()
    nodes_nodeids: Sequence[int] = ()
    nodes_treeids: Sequence[int] = ()
    nodes_truenodeids: Sequence[int] = ()
    nodes_values: Sequence[float] = ()
    nodes_values_as_tensor: np.ndarray | None = None


HITRATES = {"nodes_hitrates": (), "nodes_hitrates_as_tensor": None}  # tell about speed, not about results


def forest(x: Value, nodes: Nodes, votes: dict[str, Sequence[int]], weights: np.ndarray, targets: int) -> Forest:
    """The trees of a TreeEnsembleRegressor or TreeEnsembleClassifier."""
    thresholds, missing = either("nodes_values", nodes.nodes_values, nodes.nodes_values_as_tensor), nodes.nodes_missing_value_tracks_true
    names = ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids")
    lists: dict[str, Any] = {name: getattr(nodes, name) for name in names}
    count = same_length("nodes", nodes_values=thresholds, **lists)
    same_length("votes", weights=weights, **votes)
    if len(missing) not in (0, count):
        raise ModelError(f"nodes_missing_value_tracks_true must have an entry for each of the {count} nodes, or none; got {len(missing)}")
    treeids, nodeids, features, modes, yes, no = lists.values()
    numbers: dict[tuple[int, int], int] = {}  # of a node: that of a split, or ~leaf
    splits, leaves, roots = 0, 0, []
    begun: set[int] = set()
    for tree, node, mode in zip(treeids, nodeids, modes, strict=True):
        if (tree, node) in numbers:
            raise ModelError(f"tree {tree} has two nodes {node}")
        if mode == "LEAF":
            numbers[tree, node], leaves = ~leaves, leaves + 1
        elif mode in MODES[:-1]:
            numbers[tree, node], splits = splits, splits + 1
        else:
            raise ModelError(f"node {node} of tree {tree} has the unknown mode {mode!r}; there are LEAF, {', '.join(MODES[:-1])}")
        if tree not in begun:
            begun.add(tree)
            roots.append(numbers[tree, node])

    def number(tree: int, node: int) -> int:
        if (tree, node) not in numbers:
            raise ModelError(f"tree {tree} leads to node {node}, which it does not have")
        return numbers[tree, node]

    flags = [bool(m) for m in missing] if len(missing) else [False] * count
    made = [
        Split(feature, mode, float(threshold), number(tree, t), number(tree, f), flag)
        for tree, feature, mode, threshold, t, f, flag in zip(treeids, features, modes, thresholds.tolist(), yes, no, flags, strict=True)
        if mode != "LEAF"
    ]
    where = np.array([number(tree, node) for tree, node in zip(votes["treeids"], votes["nodeids"], strict=True)], np.int64)
    at_leaves = where < 0  # votes of other nodes are never reached
    given = Votes(~where[at_leaves], np.array(votes["ids"], np.int64)[at_leaves], wide(weights)[at_leaves])
    return Forest(made, roots, leaves, given, targets, compared_in(x, thresholds))


@onnx_rule("TreeEnsembleRegressor", since=1, domain=ML, ignored=HITRATES)
def tree_ensemble_regressor(
    b: ImportBuilder,
    x: Value,
    *,
    aggregate_function: Aggregate = "SUM",
    base_values: Sequence[float] = (),
    base_values_as_tensor: np.ndarray | None = None,
    n_targets: int = 1,
    nodes: Nodes,
    post_transform: Transform = "NONE",
    target_ids: Sequence[int] = (),
    target_nodeids: Sequence[int] = (),
    target_treeids: Sequence[int] = (),
    target_weights: Sequence[float] = (),
    target_weights_as_tensor: np.ndarray | None = None,
) -> Value:
    votes = {"treeids": target_treeids, "nodeids": target_nodeids, "ids": target_ids}
    rows = matrix_rows(b, x)
    made = forest(rows, nodes, votes, either("target_weights", target_weights, target_weights_as_tensor), n_targets)
    scores = with_base(b, made.scores(b, rows, aggregate_function), either("base_values", base_values, base_values_as_tensor))
    return b.convert(transformed(b, scores, post_transform), "f32")


@onnx_rule("TreeEnsembleClassifier", since=1, domain=ML, ignored=HITRATES)
def tree_ensemble_classifier(
    b: ImportBuilder,
    x: Value,
    *,
    base_values: Sequence[float] = (),
    base_values_as_tensor: np.ndarray | None = None,
    class_ids: Sequence[int] = (),
    class_nodeids: Sequence[int] = (),
    class_treeids: Sequence[int] = (),
    class_weights: Sequence[float] = (),
    class_weights_as_tensor: np.ndarray | None = None,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    nodes: Nodes,
    post_transform: Transform = "NONE",
) -> tuple[Value | Unavailable, Value]:
    """If the trees vote for only one of two classes, its score decides: the other gets the rest to 1, or its negative.

    These scores, `[1 - s, s]` without a transform (or with PROBIT) and `[-s, s]` before the others, are those of ONNX's reference.
    """
    labels = labels_of(classlabels_int64s, classlabels_strings)
    binary = len(set(class_ids)) == 1 and labels.count <= 2
    ids = [0] * len(class_ids) if binary else class_ids
    rows = matrix_rows(b, x)
    votes = {"treeids": class_treeids, "nodeids": class_nodeids, "ids": ids}
    made = forest(rows, nodes, votes, either("class_weights", class_weights, class_weights_as_tensor), 1 if binary else labels.count)
    base = either("base_values", base_values, base_values_as_tensor)
    if binary:
        if labels.count == 1 and labels.numbers not in (None, (1,)):
            raise UnsupportedError(f"a single class label {classlabels_int64s[0]} is not supported; supported: 1, or two and more labels")
        voted = with_base(b, made.scores(b, rows, "SUM"), base[-1:])
        rest = b.sub(b.scalar(1, like=voted), voted) if post_transform in ("NONE", "PROBIT") else b.neg(voted)
        scores = b.concat([rest, voted], axis=1)
    else:
        scores = with_base(b, made.scores(b, rows, "SUM"), base)
    scores = transformed(b, scores, post_transform)
    found = arg_max(b, scores)
    return found if labels.count == 1 and labels.numbers else labels.pick(b, found), b.convert(scores, "f32")


@onnx_rule("TreeEnsemble", since=5, domain=ML, ignored={"nodes_hitrates": None})
def tree_ensemble(
    b: ImportBuilder,
    x: Value,
    *,
    aggregate_function: Literal[0, 1, 2, 3] = 1,  # of the names in Aggregate
    leaf_targetids: Sequence[int],
    leaf_weights: np.ndarray,
    membership_values: np.ndarray | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: np.ndarray,
    nodes_splits: np.ndarray,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: Literal[0, 1, 2, 3, 4] = 0,  # of the names in Transform
    tree_roots: Sequence[int],
) -> Value:
    modes, limits = nodes_modes.reshape(-1).tolist(), nodes_splits.reshape(-1)
    count = same_length(
        "nodes", nodes_modes=modes, nodes_splits=limits, nodes_featureids=nodes_featureids, nodes_truenodeids=nodes_truenodeids,
        nodes_falsenodeids=nodes_falsenodeids, nodes_trueleafs=nodes_trueleafs, nodes_falseleafs=nodes_falseleafs,
    )  # fmt: skip
    weights = leaf_weights.reshape(-1)
    leaves = same_length("leaves", leaf_weights=weights, leaf_targetids=leaf_targetids)
    missing = nodes_missing_value_tracks_true or [0] * count
    if len(missing) != count:
        raise ModelError(f"nodes_missing_value_tracks_true must have an entry for each of the {count} nodes, or none; got {len(missing)}")
    unknown = [m for m in modes if not 0 <= m < len(MODES)]
    if unknown:
        raise ModelError(f"a node has the unknown mode {unknown[0]}; there are 0 to {len(MODES) - 1} ({', '.join(MODES)})")
    members = iter(member_sets(modes.count(MODES.index("BRANCH_MEMBER")), membership_values))
    splits = [
        Split(
            feature, MODES[mode], float(limit), ~yes if leaf_yes else yes, ~no if leaf_no else no, bool(flag),
            next(members) if MODES[mode] == "BRANCH_MEMBER" else (),
        )
        for feature, mode, limit, yes, no, leaf_yes, leaf_no, flag in zip(
            nodes_featureids, modes, limits.tolist(), nodes_truenodeids, nodes_falsenodeids, nodes_trueleafs, nodes_falseleafs, missing, strict=True
        )
    ]  # fmt: skip
    votes = Votes(np.arange(leaves), np.array(leaf_targetids, np.int64), wide(weights))
    made = Forest(splits, list(tree_roots), leaves, votes, n_targets, compared_in(x, limits))
    scores = made.scores(b, matrix_rows(b, x), get_args(Aggregate)[aggregate_function])
    return b.convert(transformed(b, scores, get_args(Transform)[post_transform]), type_of(x).dtype)


def member_sets(count: int, values: np.ndarray | None) -> list[list[float]]:
    """The values that each of `count` BRANCH_MEMBER nodes tests for: sets separated by NaN. Raises ModelError if there are fewer."""
    sets: list[list[float]] = [[]]
    for value in [] if values is None else values.reshape(-1).tolist():
        if value == value:
            sets[-1].append(value)
        else:
            sets.append([])
    if not sets[-1]:
        sets.pop()
    if len(sets) != count:
        raise ModelError(f"membership_values must hold a set for each of the {count} BRANCH_MEMBER nodes, with a NaN after each; got {len(sets)}")
    return sets
