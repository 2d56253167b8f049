"""The learned model: it learns a rule from records, failures included, and gives way to the analytic model where it cannot."""

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tuning_records import UNROLLS, WIDTHS, predicted, records, seconds
from tuning_spaces import Grid

from stepwell.database.records import Phase, Samples, State
from stepwell.dialects.support.errors import InputError
from stepwell.tuning import ranking
from stepwell.tuning.outcomes import tried
from stepwell.tuning.ranking import FEWEST, Ranking, score_in, train, workload_features
from stepwell.tuning.ranking_quality import held_out, quality, rank_correlation, regret_of_best
from stepwell.tuning.spaces import Score, Trial, find_strategy


@pytest.fixture(scope="module")
def learned() -> Ranking:
    return train(records())


def test_trees_learn_what_the_analytic_model_does_not_know(learned: Ranking) -> None:
    """In a network that they have not seen: of those that they call fast, most are."""
    fresh = tried(records(networks=1, kernels=12, candidates=40, seed=7))
    trees, analytic = quality(learned, fresh), quality(Ranking(), fresh)
    assert trees.precision is not None
    assert analytic.precision is not None
    assert trees.precision > 0.6 > 0.3 > analytic.precision, "the base rate is 0.1"
    assert trees.regret is not None
    assert trees.regret < 1.01
    features = [{"unroll": float(u), "width": float(w)} for u in UNROLLS for w in WIDTHS]
    predictions = [1e-6 * predicted(int(one["unroll"]), 0) for one in features]
    for size in (16, 1024):
        scores = learned.score("schedule", {"size": size, "threads": 1}, features, predictions, 1e-6 * predicted(4, 0))
        best = features[scores.index(max(scores))]
        fastest = min(seconds(size, int(one["unroll"]), int(one["width"]), 0) for one in features)
        assert seconds(size, int(best["unroll"]), int(best["width"]), 0) < 1.1 * fastest
        assert all(0 <= score <= 1 for score in scores)
        by_name = dict(zip([(one["unroll"], one["width"]) for one in features], scores, strict=True))
        assert by_name[12, 16] < by_name[4, 16]


def test_failures_lower_the_score() -> None:
    """The same records, with the fast ones of a width crashed."""
    good = list(records(kernels=4))
    crashed = [
        (w, info, replace(one, state=State.CRASHED) if one.features["width"] == 16 else one, [] if one.features["width"] == 16 else samples, network)
        for w, info, one, samples, network in good
    ]
    candidate, size = {"unroll": 4.0, "width": 16.0}, {"size": 1024.0, "threads": 1.0}
    usual = 1e-6 * predicted(4, 0)
    before, after = (train(rows).score("schedule", size, [candidate], [usual], usual)[0] for rows in (good, crashed))
    assert before > 0.3
    assert after < 0.05


def test_the_analytic_prediction_is_a_feature() -> None:
    """Relative to the default's: here nothing else is known, and times follow from it, in other units for each kernel."""
    rows, usual = [], 1.0
    for w, info, one, _, network in records(kernels=8, seed=3):
        now = (one.predicted or 0.0) * 10.0 ** int(w.content[-1])
        usual = now if one.strategy == "default" else usual
        samples = [Samples(one.text, "unroll=4 width=4 depth=0", Phase.SEARCH, (math.log(now / usual),), 1.0, "cpu")]
        rows.append((w, info, replace(one, state=State.BUILT, features={}, predicted=now), samples, network))
    for one in held_out(rows):
        assert one.learned is not None
        assert one.learned.precision is not None
        assert one.learned.precision > 0.8


def test_equal_records_and_seeds_give_equal_scores(learned: Ranking) -> None:
    shuffled = Random(2).sample(rows := list(records()), len(rows))
    features = [{"unroll": float(u), "width": 8.0, "unknown": 1.0} for u in UNROLLS] + [{}]
    predictions = [1e-6 / u for u in UNROLLS] + [None]

    def scores(one: Ranking) -> list[float]:
        return one.score("schedule", {"size": 64.0}, features, predictions, 1e-6)

    assert scores(train(shuffled)) == scores(learned)
    names = learned.learned["schedule"].names
    assert names == tuple(sorted(names)) == (
        "candidate.depth", "candidate.unroll", "candidate.width", "predicted", "workload.size", "workload.threads",
    )  # fmt: skip
    assert learned.score("schedule", {}, [], []) == []


def test_without_enough_records_the_analytic_model_scores(learned: Ranking) -> None:
    few = train([*records(networks=1, kernels=3, candidates=FEWEST // 3), *records(kernels=5, kind="panels")])
    assert set(few.learned) == {"panels"}
    assert few.reasons == {"schedule": "99 tried candidates, 9 of them fast; 100 and 10 are needed"}
    failed = train((w, info, replace(one, state=State.FAILED), (), network) for w, info, one, _, network in records())
    assert failed.reasons == {"schedule": "720 tried candidates, 0 of them fast; 100 and 10 are needed"}
    predictions = [2e-6, None, 5e-7, 0.0]
    for kind, one in (("schedule", few), ("fusion", learned)):
        scores = one.score(kind, {}, [{}] * 4, predictions, 1e-6)
        assert scores[:3] == pytest.approx([-math.log(2), -math.inf, math.log(2)])
        assert scores[2] < scores[3] < math.inf, "a cost of zero: nothing of the candidate differs"
        unknown = one.score(kind, {}, [{}] * 4, predictions)
        assert np.argsort(unknown).tolist() == np.argsort(scores).tolist()
    assert workload_features(next(iter(records()))[0], {"size": 3.0}) == {"size": 3.0, "threads": 1.0}


class Tiles(Grid):
    """The schedules of the records, one knob after the other."""

    def predict(self, texts: Sequence[str]) -> list[float | None]:
        return [1e-6 * predicted(UNROLLS[self.point(text)[0]], 0) for text in texts]

    def features(self, text: str) -> dict[str, float]:
        unroll, width = self.point(text)
        return {"unroll": float(UNROLLS[unroll]), "width": float(WIDTHS[width])}


def test_the_score_of_a_space_is_that_of_its_candidates(learned: Ranking) -> None:
    """The trees lead to faster neighbours of the default. The analytic model prefers the largest tile."""
    space, workload = Tiles((len(UNROLLS), len(WIDTHS)), (3, 0)), next(iter(records()))[0]
    texts = list(space.every())
    trees = score_in(space, workload, {"size": 1024.0}, learned)
    usual = 1e-6 * predicted(4, 0)
    told = learned.score("schedule", {"size": 1024.0, "threads": 1.0}, list(map(space.features, texts)), space.predict(texts), usual)
    assert trees(texts) == told
    analytic = score_in(space, workload, {"size": 1024.0}, Ranking())
    assert analytic(texts)[0] == 0, "the default's"

    def first(score: Score) -> float:
        """The time of the first proposal."""
        (text,) = find_strategy("droplet")().propose(space, [Trial("3,0", 0.0)], score, 1, 100, Random(0))
        return seconds(1024, UNROLLS[space.point(text)[0]], WIDTHS[space.point(text)[1]], 0)

    assert first(trees) < seconds(1024, 4, 4, 0)
    assert max(texts, key=dict(zip(texts, analytic(texts), strict=True)).__getitem__).startswith("6,"), "which spills"


def test_without_lightgbm_the_analytic_model_scores_unless_learning_is_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "has_lightgbm", lambda: False)
    found = train(records(kernels=2))
    assert (found.learned, found.reasons) == ({}, {"schedule": "lightgbm is not installed"})
    for learn in (lambda: train(records(kernels=2), demanded=True), lambda: held_out(records(kernels=2))):
        with pytest.raises(InputError, match=r"a learned model needs lightgbm: pip install 'stepwell\[tune\]'"):
            learn()


def test_only_learning_loads_lightgbm() -> None:
    """It brings an OpenMP of its own. What is imported to search and to score does not."""
    program = (
        "import sys; from stepwell.tuning import headroom, ranking, ranking_quality, spaces; spaces.strategies(); ranking.has_lightgbm(); "
        "sys.exit('lightgbm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 2, 4], [1, 3, 2, 4]) == pytest.approx(0.9486833)  # scipy.stats.spearmanr says so
    assert rank_correlation([-math.inf, 0, 1], [1, 2, 3]) == pytest.approx(1)
    assert rank_correlation([1, 1], [1, 2]) is None


def test_regret() -> None:
    log2 = math.log(2)
    assert regret_of_best([3, 2, 1], [0.0, -log2, -2 * log2], 1) == pytest.approx(4)
    assert regret_of_best([3, 2, 1], [0.0, -log2, -2 * log2], 2) == pytest.approx(2)
    assert regret_of_best([3, 2, 1], [0.0, -log2, -2 * log2], 3) == pytest.approx(1)
    assert regret_of_best([3, 2, 1], [None, 1.0, 0.0], 1) == math.inf
    assert regret_of_best([3, 2, 1], [None, log2, 0.0], 1, default=log2) == pytest.approx(2), "the default is always measured"
    assert regret_of_best([1, 1], [None, None], 1) is None


def test_a_network_is_judged_by_what_the_others_teach() -> None:
    """A workload that it shares with another one is not learned from there."""
    rows = list(records(networks=3))
    found = held_out(rows)
    assert [(one.network, one.kind, one.workloads, one.candidates) for one in found] == [(f"net{i}", "schedule", 6, 180) for i in range(3)]
    for one in found:
        assert one.learned is not None
        assert one.learned.precision is not None
        assert one.analytic.precision is not None
        assert one.learned.precision > one.analytic.precision
        assert one.learned.correlation is not None
        assert one.analytic.correlation is not None
        assert one.learned.regret is not None
        assert one.learned.regret >= 1
    everywhere = [(*row[:4], f"net{i}") for row in rows for i in range(3)]
    assert [one.learned for one in held_out(everywhere)] == [None] * 3, "nothing is left to learn from"
    same = [(w, info, replace(one, predicted=None), samples, network) for w, info, one, samples, network in rows]
    assert [one.analytic.correlation for one in held_out(same)] == [0.0] * 3, "predictions that are missing say nothing"
