"""Search strategies: what they find in spaces whose best candidates are known, and what holds for each of their proposals."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random

import pytest
from every import every
from hypothesis import given, settings, strategies as st
from tuning_spaces import Grid, Point, noise, tune

from stepwell.dialects.support.errors import InputError
from stepwell.tuning.proposals import LISTED, Scores
from stepwell.tuning.spaces import Trial, find_strategy, strategies
from stepwell.tuning.strategies.annealing import accepts, spread
from stepwell.tuning.strategies.droplet import descend

BUILT_IN = ("annealing", "droplet", "exhaustive", "genetic", "random")
SEEDS = (0, 1, 2)
BUDGET = 96


def bowl(*goal: int) -> Callable[[str], float]:
    """The logarithm of a time that each knob worsens by itself, the farther it is from `goal`."""
    return lambda text: sum(0.02 * (value - best) ** 2 for value, best in zip(Grid.point(text), goal, strict=True))


def rugged(text: str) -> float:
    return bowl(5, 2, 7, 1)(text) + 0.3 * noise(text, 9)


def failing(text: str) -> float | None:
    """Candidates that crash lie around the fastest ones."""
    return None if Grid.point(text)[3] == 2 else bowl(5, 2, 7, 1)(text)


def fits(point: Point) -> bool:
    """As a register tile has to."""
    return (point[0] + 1) * (point[1] + 1) <= 18 and point[2] != 4


SPACES: dict[str, tuple[Grid, Callable[[str], float | None]]] = {
    "separable": (Grid((10,) * 4, (0,) * 4), bowl(5, 2, 7, 1)),
    "rugged": (Grid((10,) * 4, (0,) * 4), rugged),
    "constrained": (Grid((10,) * 4, (0,) * 4, fits), failing),
    "huge": (Grid((10,) * 9, (0,) * 9), bowl(7, 3, 0, 9, 4, 5, 1, 8, 2)),
}
PERCENTILES = {
    "annealing": {"separable": 0.1, "rugged": 0.1, "constrained": 0.1, "huge": 0.1},
    "genetic": {"separable": 0.1, "rugged": 0.1, "constrained": 0.1, "huge": 0.1},
    "droplet": {"separable": 0.0, "rugged": 3, "constrained": 0.1, "huge": 1},
    "random": {"separable": 8, "rugged": 8, "constrained": 8, "huge": 8},
}
"""The best candidate that a strategy finds with `BUDGET` trials belongs to so many per cent of the fastest ones, for each of the seeds."""


def model(time: Callable[[str], float | None]) -> Callable[[Sequence[str]], list[float]]:
    """A model that knows the times roughly, and of failures nothing."""
    return lambda texts: [-(0.5 if (known := time(text)) is None else known) + 0.2 * noise(text, 4) for text in texts]


def found(name: str, space: str) -> list[float]:
    """For each seed, the best logarithm of a time that a strategy found."""
    grid, time = SPACES[space]
    trials = [tune(find_strategy(name)(), grid, time, model(time), BUDGET, seed) for seed in SEEDS]
    assert all(len(one) <= BUDGET and len({trial.text for trial in one}) == len(one) for one in trials)
    usual = time(grid.default)
    assert usual is not None
    return [usual + min(trial.log_ratio for trial in one if trial.log_ratio is not None) for one in trials]


@every("space", SPACES)
def test_strategies_find_the_fastest_candidates_and_more_than_chance_does(space: str) -> None:
    grid, time = SPACES[space]
    random = Random(5)
    drawn = sorted(seconds for _ in range(4000) if (seconds := time(grid.sample(random))) is not None)
    best = {name: found(name, space) for name in PERCENTILES}
    shares = {name: sum(one < max(times) for one in drawn) / len(drawn) for name, times in best.items()}
    assert {name: share for name, share in shares.items() if 100 * share > PERCENTILES[name][space]} == {}
    better = {name for name in PERCENTILES if sum(best[name]) < sum(best["random"])}
    assert {"annealing", "genetic", *(["droplet"] if space != "rugged" else [])} <= better  # a descent ends in the first hollow


def test_exhaustive_goes_on_behind_what_was_tried() -> None:
    space = Grid((3, 4), (1, 2), lambda point: sum(point) != 3 or point == (1, 2))
    listed = list(space.every())
    trials = tune(find_strategy("exhaustive")(), space, bowl(0, 0), lambda texts: [0.0] * len(texts), 100, 0, batch=4)
    assert [trial.text for trial in trials] == listed
    assert find_strategy("exhaustive")().propose(space, [], lambda texts: [], 3, 1, Random(0)) == listed[:3]


@every("name, size", [(name, size) for name in BUILT_IN for size in (1, 2, 3)])
def test_tiny_spaces_are_tried_to_the_end(name: str, size: int) -> None:
    space = Grid((size,), (0,))
    trials = tune(find_strategy(name)(), space, bowl(size - 1), lambda texts: [0.0] * len(texts), 100, 0, batch=32)
    assert {trial.text for trial in trials} == {*space.every()}
    assert find_strategy(name)().propose(space, trials, lambda texts: [0.0] * len(texts), 32, 1000, Random(1)) == []
    assert find_strategy(name)().propose(space, [], lambda texts: [0.0] * len(texts), 0, 1000, Random(1)) == []


@every("name", ["annealing", "genetic", "random"])
def test_the_few_legal_points_of_a_huge_space_are_all_found(name: str) -> None:
    """Drawing meets hardly any: neighbours lead to them."""
    space = Grid((10,) * 9, (0,) * 9, lambda point: sum(point[2:]) == 0)
    assert space.size() > LISTED
    trials = tune(find_strategy(name)(), space, bowl(*(0,) * 9), lambda texts: [math.nan] * len(texts), 200, 0, batch=32)
    assert {trial.text for trial in trials} == {*(space.text((i, j, *(0,) * 7)) for i in range(10) for j in range(10))}


def test_a_space_may_have_more_points_than_a_machine_word_counts() -> None:
    space = Grid((10,) * 20, (0,) * 20)
    for name in BUILT_IN:
        texts = find_strategy(name)().propose(space, [Trial(space.default, 0.0)], lambda texts: [0.0] * len(texts), 8, 50, Random(0))
        assert len(texts) == 8, name


def test_a_share_of_what_annealing_proposes_is_random() -> None:
    """About 15 in 100: here those that the model dislikes, which are half of the space."""
    space = Grid((10,) * 4, (0,) * 4)
    counts = Counter[bool]()
    for seed in range(20):
        texts = find_strategy("annealing")().propose(space, [], lambda texts: [float(space.point(t)[0]) for t in texts], 32, 400, Random(seed))
        counts.update(space.point(text)[0] < 5 for text in texts)
        assert all(space.point(text)[0] > 5 for text in texts[:24]), "the most promising ones are the first"
    assert counts.total() == 640
    assert 0.05 < counts[True] / counts.total() < 0.1


def test_annealing_starts_from_warm_trials() -> None:
    """The model tells only near the goal where it is."""
    space, time = SPACES["huge"]
    warm = [Trial("7,3,0,9,4,5,1,8,6", -1.0), Trial("1,1,1,1,1,1,1,1,1", 0.5), Trial("9,9,9,9,9,9,9,9,9", None)]

    def best(name: str, trials: list[Trial]) -> float:
        texts = find_strategy(name)().propose(space, trials, lambda texts: [-min(0.5, time(text) or 0.0) for text in texts], 16, 400, Random(0))
        return min(time(text) or 0.0 for text in texts)

    for name in ("annealing", "genetic"):
        assert best(name, warm) < 0.32, "the time of the warm trial"
        assert best(name, []) > 0.5


def test_descent_looks_at_neighbours_and_not_past_slower_ones() -> None:
    space = Grid((9, 3), (4, 1))

    def proposed(*trials: Trial, count: int = 32) -> list[str]:
        return descend(space, trials, lambda texts: [float(space.point(text)[0]) for text in texts], count, 1000)

    assert proposed()[0] == "4,1", "the default is measured first"
    default = Trial("4,1", 0.0)
    assert set(proposed(default)) == {"3,1", "5,1", "4,0", "4,2", "1,1", "7,1"}
    assert proposed(default, count=2) == ["5,1", "4,0"], "the nearest, and among these the largest score first"
    slower = [Trial("5,1", 0.1), Trial("4,0", 0.1), Trial("4,2", 0.2)]
    assert proposed(default, *slower) == ["3,1", "1,1"]
    assert proposed(default, *slower, Trial("1,1", 0.3)) == ["3,1", "2,1"], "what lies behind is slower still"
    assert proposed(default, *slower, Trial("3,1", None)) == ["2,1", "1,1"], "a failure says nothing about what lies behind"
    assert proposed(default, *slower, Trial("3,1", 0.0)) == ["2,1", "1,1"], "nor does a knob without an effect"
    assert proposed(default, *slower, Trial("3,1", 0.01)) == [], "a minimum along each knob"
    assert "2,0" in proposed(default, *slower, Trial("3,1", -0.1), Trial("2,1", -0.2)), "it moves on"


@st.composite
def situations(draw: st.DrawFn) -> tuple[Grid, list[Trial], int, int, int]:
    """A space with illegal points, what was tried in it, a count, an effort, and a seed."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    seed, harsh = draw(st.integers(0, 1000)), draw(st.floats(-1, 1))
    default = tuple(draw(st.integers(0, size - 1)) for size in sizes)
    space = Grid(sizes, default, lambda point: point == default or noise(Grid.text(point), seed) > harsh)
    texts = list(space.every())
    tried = draw(st.lists(st.sampled_from(texts), max_size=len(texts), unique=True))
    ratios = st.none() | st.floats(-1, 1)
    illegal = [Trial("9" + ",0" * (len(sizes) - 1), draw(ratios))] if draw(st.booleans()) else []  # a warm start that does not fit
    trials = [*(Trial(text, draw(ratios)) for text in tried), *illegal]
    return space, trials, draw(st.integers(0, 10)), draw(st.integers(0, 40)), seed


@settings(max_examples=60, deadline=None)
@given(situations(), st.sampled_from([0.0, 1.0, math.nan, -math.inf, math.inf]))
def test_what_holds_for_every_proposal(situation: tuple[Grid, list[Trial], int, int, int], odd: float) -> None:
    space, trials, count, effort, seed = situation
    for name in BUILT_IN:
        scored: list[str] = []

        def score(texts: Sequence[str], scored: list[str] = scored) -> list[float]:
            scored.extend(texts)
            return [odd if noise(text, 7) > 0 else noise(text, 8) for text in texts]

        def propose(trials: list[Trial], count: int, name: str = name, score: Callable[..., list[float]] = score) -> list[str]:
            return find_strategy(name)().propose(space, trials, score, count, effort, Random(seed))

        first = propose(trials, count)
        assert len(scored) == len(set(scored)) <= max(effort, 1)
        assert propose(trials, count) == first, name
        assert len(set(first)) == len(first) <= count
        assert not {*first} & {trial.text for trial in trials}
        assert all(space.refusal(text) is None for text in first)
        all_trials, rounds = list(trials), 0
        while texts := propose(all_trials, 5):
            all_trials += [Trial(text, None if noise(text, 3) < -0.5 else noise(text, 3)) for text in texts]
            rounds += 1
            assert rounds <= space.size()
        if name != "droplet":
            assert {*space.every()} <= {trial.text for trial in all_trials}


def test_scores_are_asked_for_once_and_never_beyond_the_effort() -> None:
    asked: list[str] = []

    def score(texts: Sequence[str]) -> list[float]:
        asked.extend(texts)
        return [{"a": 1.0, "b": math.nan, "c": 2.0, "d": -math.inf, "e": 2.0}[text] for text in texts]

    scores = Scores(score, 5)
    for texts in (["a", "b", "a"], ["b", "c", "d"], ["e", "f"], ["g"]):
        scores.add(texts)
    assert asked == ["a", "b", "c", "d", "e"]
    assert scores.best() == ["c", "e", "a"]
    assert scores.known["b"] == -math.inf, "NaN has no order"
    assert (scores.left, scores.left_share) == (0, 0.0)


def test_annealing_accepts_what_is_not_worse_and_with_luck_what_is() -> None:
    random = Random(0)
    for old, new, temperature in ((1.0, 1.0, 0.0), (1.0, 2.0, 0.0), (-math.inf, -math.inf, 1.0), (-math.inf, 0.0, 1.0)):
        assert all(accepts(old, new, temperature, random) for _ in range(100))
    for old, new, temperature in ((1.0, 0.9, 0.0), (0.0, -math.inf, 1.0)):
        assert not any(accepts(old, new, temperature, random) for _ in range(100))
    assert 0.3 < sum(accepts(1.0, 0.0, 1.0, random) for _ in range(1000)) / 1000 < 0.43, "1 / e"
    assert spread([-math.inf, 1.0, 2.0, 3.0, 4.0, 1000.0]) == 2.0
    assert spread([-math.inf]) == 0.0


class Loose(Grid):
    """A space that lists all points, as its knobs name them."""

    def every(self) -> Iterator[str]:
        return (self.text(point) for point in product(*map(range, self.sizes)))


def test_illegal_candidates_of_a_list_are_left_out() -> None:
    space = Loose((4, 4), (0, 0), lambda point: sum(point) % 2 == 0)
    for name in BUILT_IN:
        texts = find_strategy(name)().propose(space, [], lambda texts: [0.0] * len(texts), 32, 100, Random(0))
        assert texts
        assert all(space.refusal(text) is None for text in texts), name


def test_strategies_are_found_by_name() -> None:
    assert set(BUILT_IN) <= set(strategies())
    assert all(cls.__doc__ for cls in strategies().values())
    with pytest.raises(InputError, match=r"strategy: expected one of annealing, .*, got 'anealing'"):
        find_strategy("anealing")
