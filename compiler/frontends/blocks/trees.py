"""Ensembles of decision trees: the tables and the votes of one graph.tree_ensemble."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.scores import feature_count
from stepwell.frontends.blocks.tree_tables import Split, tables
from stepwell.frontends.builder import ModelBuilder, Value

REDUCTIONS = {"AVERAGE": "add", "SUM": "add", "MIN": "min", "MAX": "max"}
UFUNCS = {"add": np.add, "min": np.minimum, "max": np.maximum}


@dataclass
class Votes:
    """The votes of leaves: parallel arrays of leaf, target and weight."""

    leaves: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


@dataclass
class Forest:
    """Trees, and the votes of their leaves for each of the targets."""

    splits: list[Split]
    roots: list[int]
    leaves: int
    votes: Votes
    targets: int
    dtype: str  # in which features are compared with thresholds

    def __post_init__(self) -> None:
        if not self.roots:
            raise ModelError("it has no trees")
        for what, numbers, end in (("target", self.votes.targets, self.targets), ("leaf", self.votes.leaves, self.leaves)):
            wrong = numbers[(numbers < 0) | (numbers >= end)]
            if wrong.size:
                raise ModelError(f"a leaf gives something to {what} {wrong[0]}; there are {end}")

    def scores(self, b: ModelBuilder, x: Value, aggregate: str) -> Value:
        """The score of each target, (samples, targets)."""
        features = feature_count(x)
        wrong = [s.feature for s in self.splits if not 0 <= s.feature < features]
        if wrong:
            raise ModelError(f"a node compares feature {wrong[0]}; its input {type_of(x)} has {features}")
        made = tables(self.splits, self.roots, self.leaves + 1, to_numpy(self.dtype))  # with a leaf without votes, to fill up rounds
        kind = REDUCTIONS[aggregate]
        roots, values = self._layout(made.roots, kind)
        arrays = [made.nodes, made.thresholds, roots.astype(np.int32), values]
        operands = [b.literal(a) for a in arrays]
        first = None if made.nan_first is None else b.literal(made.nan_first)
        out = b.tree_ensemble(b.convert(x, self.dtype), *operands, first, depth=made.depth, reduction=kind)
        total = b.reshape(out, shape=(-1, self.targets))
        if aggregate == "AVERAGE":
            return b.div(total, b.scalar(len(self.roots), like=total))
        if not np.isfinite(values[:-1]).all():  # no leaf may have voted for a target, which then gets nothing
            return b.select(b.is_inf(total, detect_negative=True, detect_positive=True), b.scalar(0, like=total), total)
        return total

    def _layout(self, roots: Sequence[int], kind: str) -> tuple[np.ndarray, np.ndarray]:
        """The roots by round and group, and the values of the leaves.

        If each tree votes for only one target, as boosted trees do, the trees of a target form a group, and leaves have one value.
        """
        start, fold = {"add": 0.0, "min": np.inf, "max": -np.inf}[kind], UFUNCS[kind]
        only = self._target_of_trees() if self.targets > 1 else None
        count = 0 if only is None else int(np.bincount(only, minlength=self.targets).max())
        if only is None or count * self.targets > 2 * len(roots):
            values = np.full((self.leaves + 1, self.targets), start, self.votes.weights.dtype)
            fold.at(values, (self.votes.leaves, self.votes.targets), self.votes.weights)
            return np.array(roots).reshape(-1, 1), values
        values = np.full((self.leaves + 1, 1), start, self.votes.weights.dtype)
        fold.at(values[:, 0], self.votes.leaves, self.votes.weights)
        grid = np.full((count, self.targets), self.leaves)
        filled = [0] * self.targets
        for root, target in zip(roots, only, strict=True):
            grid[filled[target], target] = root
            filled[target] += 1
        return grid, values

    def _target_of_trees(self) -> np.ndarray | None:
        """The target that each tree votes for; None if one votes for several, or if trees share leaves."""
        of_leaf = np.full(self.leaves, -1)
        for leaf, target in zip(self.votes.leaves.tolist(), self.votes.targets.tolist(), strict=True):
            if of_leaf[leaf] not in (-1, target):
                return None
            of_leaf[leaf] = target
        out = []
        for root in self.roots:
            found: set[int] = set()
            pending, seen = [root], set()
            while pending:
                number = pending.pop()
                if number < 0:
                    found.add(int(of_leaf[~number]))
                elif number not in seen and number < len(self.splits):
                    seen.add(number)
                    pending += [self.splits[number].when_true, self.splits[number].when_false]
            found.discard(-1)
            if len(found) > 1:
                return None
            out.append(found.pop() if found else 0)
        return np.array(out)


def compared_in(x: Value, thresholds: np.ndarray) -> str:
    """The type in which features and thresholds are compared, which holds both exactly (i64 as far as f64 does)."""
    return "f32" if thresholds.dtype.itemsize <= 4 and type_of(x).dtype in ("f32", "f16") else "f64"


def with_base(b: ModelBuilder, scores: Value, base: np.ndarray) -> Value:
    """Scores plus the base value of each target, if there are any. Raises ModelError for a wrong number of them."""
    if not base.size:
        return scores
    targets = type_of(scores).shape[1]
    if base.size not in (1, targets):
        raise ModelError(f"base_values must have one entry for each of the {targets} targets, got {base.size}")
    dtype = "f64" if base.dtype == np.float64 else type_of(scores).dtype
    return b.add(b.convert(scores, dtype), b.literal(base.astype(to_numpy(dtype)).reshape(1, -1)))
