"""The search for the fewest layers in floats: on losses that are known for each set of layers."""

from functools import partial

import numpy as np
import pytest

from stepwell.dialects.support.errors import InputError
from stepwell.quantizer.budget import within_budget


class Loss:
    """Adds up what each quantised layer costs, and remembers what it was asked."""

    def __init__(self, costs: dict[str, float]) -> None:
        self.costs, self.asked = costs, []

    def __call__(self, kept: frozenset[str]) -> float:
        self.asked.append(kept)
        return sum(cost for name, cost in self.costs.items() if name not in kept)


def test_nothing_is_kept_where_nothing_has_to_be():
    loss = Loss({"a": 0.1, "b": 0.1})
    found = within_budget(loss, partial(pytest.fail, "no order is needed"), 0.5)
    assert found.layers == ()
    assert found.loss == pytest.approx(0.2)
    assert loss.asked == [set()]
    assert found.tries == ((0, found.loss),)


@pytest.mark.parametrize("seed", range(20))
def test_few_layers_are_kept(seed):
    """With costs that add up, in their order, the result is the smallest set there is."""
    rng = np.random.default_rng(seed)
    costs = {f"layer{i}": float(cost) for i, cost in enumerate(rng.permutation(rng.exponential(1, 40)))}
    order = sorted(costs, key=costs.__getitem__, reverse=True)
    budget = float(rng.uniform(0.1, 0.9)) * sum(costs.values())
    loss = Loss(costs)
    found = within_budget(loss, lambda: order, budget)
    assert found.loss <= budget
    assert found.loss == pytest.approx(loss(frozenset(found.layers)))
    smallest = next(n for n in range(41) if sum(costs[name] for name in order[n:]) <= budget)
    assert len(found.layers) == smallest
    assert len(loss.asked) - 1 == len(found.tries) <= 2 * np.log2(40) + 2 + smallest


def test_what_was_ranked_wrongly_is_quantised_again():
    costs = {"guessed": 0.0, "bad": 2.0, "fine": 0.1, "worst": 3.0, "good": 0.05}
    found = within_budget(Loss(costs), lambda: ["guessed", "bad", "fine", "worst", "good"], 0.2)
    assert found.layers == ("bad", "worst")
    assert found.loss == pytest.approx(0.15)


def test_no_network_is_measured_twice():
    loss = Loss(dict.fromkeys("abcdef", 1.0))
    within_budget(loss, lambda: "abcdef", 1.5)
    assert len(set(loss.asked)) == len(loss.asked)


def test_a_budget_out_of_reach():
    def loss(kept: frozenset[str]) -> float:
        return 3.0 - 0.5 * len(kept)

    with pytest.raises(InputError, match=r"even with all 3 layers in floats the network loses 1\.5, more than 0\.25"):
        within_budget(loss, lambda: ["a", "b", "c"], 0.25)


@pytest.mark.parametrize("budget", [-0.5, float("nan")])
def test_a_budget_that_is_none(budget):
    with pytest.raises(InputError, match="budget: expected points that may be lost, 0 or more"):
        within_budget(Loss({"a": 1.0}), lambda: ["a"], budget)
