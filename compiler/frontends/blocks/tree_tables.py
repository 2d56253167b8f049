"""Decision trees as the tables of `graph.tree_ensemble`, in which every comparison is `x <= threshold`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stepwell.dialects.support.errors import LimitError, ModelError

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MOST_NODES = 1 << 28  # so that i32 counts them


@dataclass(frozen=True)
class Split:
    """A node that compares a feature and goes on to one of two others. A child is the index of a split, or `~leaf`."""

    feature: int
    mode: str
    threshold: float
    when_true: int
    when_false: int
    nan_is_true: bool = False  # the direction for NaN, whatever the mode
    members: Sequence[float] = ()  # of BRANCH_MEMBER, which tests whether the feature is one of them


@dataclass
class Tables:
    """Operands of `graph.tree_ensemble`. The first nodes are the leaves, which are their own children."""

    nodes: np.ndarray  # the feature, then the children
    thresholds: np.ndarray
    nan_first: np.ndarray | None
    roots: list[int]  # of each tree
    depth: int


@dataclass
class _Writer:
    """Appends nodes that compare with `<=`."""

    dtype: np.dtype
    leaves: int
    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    nan_first: list[bool] = field(default_factory=list)

    def add(self, feature: int, threshold: float, first: int, second: int, nan_first: bool) -> int:
        """Add a node that goes to `first` if the feature is at most `threshold`, else to `second`; returns its index."""
        if self.leaves + len(self.nodes) >= MOST_NODES:
            raise LimitError(f"its trees take more than {MOST_NODES} nodes")
        self.nodes.append((feature, first, second))
        self.thresholds.append(threshold)
        self.nan_first.append(nan_first)
        return self.leaves + len(self.nodes) - 1

    def below(self, threshold: float) -> float:
        """The largest number below `threshold`: `x < t` is `x <= below(t)`. NaN if there is none: nothing is at most NaN."""
        if threshold == -math.inf:
            return math.nan
        return float(np.nextafter(self.dtype.type(threshold), self.dtype.type(-np.inf)))

    def split(self, node: Split, yes: int, no: int) -> tuple[int, int]:
        """The nodes of a split whose children are known: the first one, and the largest number of comparisons to a child."""
        t, feature, missing = node.threshold, node.feature, node.nan_is_true
        if node.mode in ("BRANCH_LEQ", "BRANCH_LT"):
            return self.add(feature, t if node.mode == "BRANCH_LEQ" else self.below(t), yes, no, missing), 1
        if node.mode in ("BRANCH_GT", "BRANCH_GTE"):  # not x <= t, not x < t
            return self.add(feature, t if node.mode == "BRANCH_GT" else self.below(t), no, yes, not missing), 1
        if node.mode == "BRANCH_MEMBER":
            return self.member(feature, node.members, yes, no, missing)
        equal, other = (yes, no) if node.mode == "BRANCH_EQ" else (no, yes)
        inner = self.add(feature, self.below(t), other, equal, False)
        return self.add(feature, t, inner, other, missing == (node.mode == "BRANCH_EQ")), 2  # NaN reaches `equal` through `inner`

    def member(self, feature: int, members: Sequence[float], yes: int, no: int, missing: bool) -> tuple[int, int]:
        """A search among the intervals into which the members divide the numbers."""
        ends: list[float] = []  # the end of each interval; the last one has none
        inside: list[bool] = []
        for member in sorted({float(self.dtype.type(m)) for m in members}):
            if member != -math.inf and (not ends or ends[-1] != self.below(member)):
                ends.append(self.below(member))
                inside.append(False)
            if inside and inside[-1]:
                ends[-1] = member
            else:
                ends.append(member)
                inside.append(True)
        inside.append(False)
        if len(inside) == 1:
            return self.add(feature, math.nan, yes, no, missing), 1

        def search(low: int, high: int) -> tuple[int, int]:
            """The node that finds the interval among those from `low` to `high`. NaN ends in the last one."""
            if low == high:
                return (yes if inside[low] else no), 0
            middle = (low + high) // 2
            (left, a), (right, b) = search(low, middle), search(middle + 1, high)
            return self.add(feature, ends[middle], left, right, False), 1 + max(a, b)

        # Left of the root the last interval is inside, so NaN needs no mark beyond that of the root.
        middle = (len(inside) - 1) // 2
        middle -= not inside[middle] and middle > 0
        middle += not inside[middle]
        (left, a), (right, b) = search(0, middle), search(middle + 1, len(inside) - 1)
        return self.add(feature, ends[middle], left, right, missing), 1 + max(a, b)


def tables(splits: Sequence[Split], roots: Sequence[int], leaves: int, dtype: np.dtype) -> Tables:
    """The tables of trees that begin at `roots` (the indices of splits, or `~leaf`) and compare in `dtype`.

    Raises ModelError if a child does not exist, or if a node leads back to itself.
    """
    writer = _Writer(np.dtype(dtype), leaves)
    done: dict[int, tuple[int, int]] = {~leaf: (leaf, 0) for leaf in range(leaves)}  # the first node, and the depth below it
    open_: set[int] = set()
    for root in roots:
        pending = [root]
        while pending:
            number = pending[-1]
            if number in done:
                pending.pop()
                continue
            if not 0 <= number < len(splits):
                raise ModelError(f"a tree leads to node {number if number >= 0 else ~number}, which does not exist")
            split = splits[number]
            below = [child for child in (split.when_true, split.when_false) if child not in done]
            if below:
                if number in open_:
                    raise ModelError(f"node {number} of the trees leads back to itself")
                open_.add(number)
                pending += below
                continue
            (yes, high), (no, low) = done[split.when_true], done[split.when_false]
            first, levels = writer.split(split, yes, no)
            done[number] = first, levels + max(high, low)
            open_.discard(number)
            pending.pop()
    return Tables(
        np.array([(0, leaf, leaf) for leaf in range(leaves)] + writer.nodes, np.int32).reshape(-1, 3),
        np.concatenate([np.zeros(leaves, dtype), np.array(writer.thresholds, dtype)]),
        np.array([False] * leaves + writer.nan_first) if any(writer.nan_first) else None,
        [done[root][0] for root in roots],
        max((done[root][1] for root in roots), default=0),
    )
