"""The learned model of tuning: boosted trees that predict from records whether a candidate is among the fastest tenth of its workload."""

import importlib.util
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log, nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepwell.database.records import Workload
from stepwell.dialects.support.errors import InputError
from stepwell.tuning.outcomes import Record, Tried, tried
from stepwell.tuning.spaces import Score, Space

if TYPE_CHECKING:
    from lightgbm import Booster

FEWEST = 100
"""The fewest candidates from which a kind is learned: fewer fill not even ten leaves of `LEAF` candidates, and trees of these know less than the
analytic model."""
FEWEST_FAST = 10
"""The fewest fast ones among them: as many as a leaf holds, so that a share of fast ones in a leaf is more than chance."""
LEAF = 10
"""The fewest candidates in a leaf."""
TREES = 120
"""The number of trees. With the rate below, more of them no longer change the order of candidates much."""
LEAVES = 15
"""The largest number of leaves of a tree: it asks for about four features together."""
RATE = 0.08
"""The share of a tree's prediction that is added to those before it."""
SHORTEST = 1e-12
"""Seconds. Shorter predictions count as this: a prediction covers only the work that differs between candidates, and may be zero."""
PREDICTED = "predicted"
"""The feature that holds the analytic prediction: the logarithm of its ratio to the default's."""


@dataclass(frozen=True)
class Learned:
    """The trees for one kind of choice."""

    names: tuple[str, ...]
    """The features, in the order of the columns."""
    booster: "Booster"


@dataclass(frozen=True)
class Ranking:
    """Scores candidates by what was learned from records, or by the analytic model where nothing could be learned."""

    learned: Mapping[str, Learned] = field(default_factory=dict)
    """The trees by kind of choice."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """For each kind with records but without trees, the reason."""

    def score(
        self, kind: str, workload_features: Mapping[str, float], features: Sequence[Mapping[str, float]], predictions: Sequence[float | None],
        default: float | None = None,
    ) -> list[float]:  # fmt: skip
        """Scores of candidates of one workload, larger is better.

        `predictions` are seconds by the analytic model, `default` those of the default. A score is the probability that the candidate is among the
        fastest tenth; without trees for the kind, the logarithm of the default's prediction divided by its own (of 1 s divided by it if there is no
        `default`), and minus infinity for a candidate without a prediction.
        """
        if kind not in self.learned:
            return [-log_ratio(seconds, 1.0 if default is None else default, missing=inf) for seconds in predictions]
        trees = self.learned[kind]
        rows = [_row(workload_features, one, seconds, default) for one, seconds in zip(features, predictions, strict=True)]
        chances = np.asarray(trees.booster.predict(_table(rows, trees.names), num_threads=1), np.float64) if rows else np.zeros(0)
        return [float(chance) for chance in chances]


def has_lightgbm() -> bool:
    """Whether the package that learns is installed."""
    return importlib.util.find_spec("lightgbm") is not None


def train(records: Iterable[Record], *, seed: int = 0, demanded: bool = False) -> Ranking:
    """Learn from records, each kind of choice for itself. Equal records and seeds give equal scores, in any order of the records.

    Call it in the process of the tuner alone: lightgbm brings an OpenMP of its own, which must not be where kernels run. Without lightgbm, the result
    uses the analytic model; if learning is `demanded`, it raises InputError, which names what to install.
    """
    return train_on(tried(records), seed=seed, demanded=demanded)


def train_on(workloads: Sequence[Tried], *, seed: int = 0, demanded: bool = False) -> Ranking:
    """Learn from the outcomes of workloads (`outcomes.tried`), as `train` does."""
    if not has_lightgbm():
        if demanded:
            raise InputError("a learned model needs lightgbm: pip install 'stepwell[tune]'")
        return Ranking(reasons={one.workload.kind: "lightgbm is not installed" for one in workloads})
    kinds: dict[str, list[Tried]] = defaultdict(list)
    for one in workloads:
        kinds[one.workload.kind].append(one)
    learned, reasons = {}, {}
    for kind, ours in sorted(kinds.items()):
        labels = [fast for one in ours for fast in one.fast()]
        if len(labels) < FEWEST or sum(labels) < FEWEST_FAST:
            reasons[kind] = f"{len(labels)} tried candidates, {sum(labels)} of them fast; {FEWEST} and {FEWEST_FAST} are needed"
        else:
            learned[kind] = _learn(ours, labels, seed)
    return Ranking(learned, reasons)


def scores(ranking: Ranking, one: Tried) -> list[float]:
    """The scores of the candidates of a workload that were tried."""
    features = [outcome.candidate.features for outcome in one.outcomes]
    predictions = [outcome.candidate.predicted for outcome in one.outcomes]
    return ranking.score(
        one.workload.kind, workload_features(one.workload, one.info.features), features, predictions,
        None if one.default is None else one.default.predicted,
    )  # fmt: skip


def score_in(space: Space, workload: Workload, features: Mapping[str, float], ranking: Ranking) -> Score:
    """The score of candidates of a space, for strategies. `features` are those of the workload's record (`WorkloadInfo.features`)."""
    default = space.predict([space.default])[0]
    known = workload_features(workload, features)
    learned = workload.kind in ranking.learned

    def score(texts: Sequence[str]) -> list[float]:
        candidates = [space.features(text) if learned else {} for text in texts]
        return ranking.score(workload.kind, known, candidates, space.predict(texts), default)

    return score


def workload_features(workload: Workload, features: Mapping[str, float]) -> dict[str, float]:
    """The features of a workload from which trees learn: those of its record, and the number of threads."""
    return {**features, "threads": float(workload.threads)}


def log_ratio(seconds: float | None, default: float | None, *, missing: float = nan) -> float:
    """The logarithm of a prediction relative to the default's, both in seconds and at least `SHORTEST`; `missing` if there is none of either."""
    return missing if seconds is None or default is None else log(max(seconds, SHORTEST) / max(default, SHORTEST))


def _learn(workloads: Sequence[Tried], labels: Sequence[bool], seed: int) -> Learned:
    """Trees for one kind, by G. Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", NeurIPS 2017."""
    import lightgbm  # here, because it takes a second, and must not be loaded where kernels run

    rows = [
        _row(workload_features(one.workload, one.info.features), outcome.candidate.features, outcome.candidate.predicted,
             None if one.default is None else one.default.predicted)
        for one in workloads for outcome in one.outcomes
    ]  # fmt: skip
    names = tuple(sorted({name for row in rows for name in row}))
    options = {
        "objective": "binary", "num_leaves": LEAVES, "learning_rate": RATE, "min_data_in_leaf": LEAF, "seed": seed, "num_threads": 1,
        "deterministic": True, "force_row_wise": True, "verbosity": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(_table(rows, names), np.array(labels, float), params={"verbosity": -1, "num_threads": 1})
    return Learned(names, lightgbm.train(options, data, num_boost_round=TREES))


def _row(workload: Mapping[str, float], candidate: Mapping[str, float], seconds: float | None, default: float | None) -> dict[str, float]:
    """The features of a candidate in its workload, by name."""
    return {
        **{f"workload.{name}": value for name, value in workload.items()},
        **{f"candidate.{name}": value for name, value in candidate.items()},
        PREDICTED: log_ratio(seconds, default),
    }


def _table(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> NDArray[np.float64]:
    """A row for each candidate, a column for each name; NaN where a candidate lacks a feature."""
    return np.array([[row.get(name, nan) for name in names] for row in rows], np.float64).reshape(len(rows), len(names))
