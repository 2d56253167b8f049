"""A model's life in any order: it is compiled, run, bound, reset, copied and interrupted while its source changes, against lists of numbers."""

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changing_sources import SIZE, SOURCES
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from interrupted import interrupted_at
from kept_kernels import switch_on_cache

import stepwell
from stepwell.dialects.support.errors import InputError, ModelError
from stepwell.driver.bound import LEAST, BoundModel
from stepwell.driver.dynamic import DynamicModel

pytestmark = pytest.mark.optimised

PAIRS = {"past": "present"}
FACTORS = (1.0, 2.0)
MOST = 2
"""Models with a state that are kept when another one comes."""
Rows = list[float]
"""What the rows of an array are filled with."""
few_rows = st.lists(st.sampled_from([-2.0, 1.0, 5.0]), min_size=1, max_size=3)
many_rows = st.one_of(few_rows, st.just([1.0] * (LEAST + 1)))  # more than a cache has room for at first
numbers = st.integers(0, 1 << 16)


def array(rows: Rows) -> np.ndarray:
    return np.repeat(np.array(rows, np.float32)[:, np.newaxis], SIZE, axis=1)


def total(outputs: Any) -> float:
    """The sum of all rows times the factor, which each element of the first output is."""
    first = np.asarray(outputs[0])
    assert np.all(first == first[0, 0])
    return float(first[0, 0])


class Life(RuleBasedStateMachine):
    """`model` is compiled of a source with the factor `of`; it has `now`. For each model with a state, the rows that it must have."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.bound: list[tuple[BoundModel, Rows]] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(name=st.sampled_from(sorted(SOURCES)), specialise=st.sampled_from(["never", "always"]))
    def compile_first(self, name: str, specialise: str) -> None:
        self.source, self.put = SOURCES[name](Path(self.folder.name))
        self.now = FACTORS[0]
        self.compile(specialise)
        if specialise == "never":
            self.bind()

    @precondition(lambda self: self.now != self.of)
    @rule(specialise=st.sampled_from(["never", "always"]))
    def compile(self, specialise: str) -> None:
        model = stepwell.compile(self.source, specialise=specialise, threads=1)
        assert isinstance(model, DynamicModel)
        self.model, self.of, self.specialise = model, self.now, specialise
        self.known: set[tuple[int, int]] = set()
        """The shapes that code is there for."""
        self.can_bind = False

    @rule(x=few_rows, past=few_rows, factor=st.sampled_from(FACTORS), copied=st.booleans())
    def run_of_a_source_that_may_change(self, x: Rows, past: Rows, factor: float, copied: bool) -> None:
        self.put(factor)
        self.now = factor
        if copied:
            self.model = copy.copy(self.model)
        shapes = (len(x), len(past))
        if self.specialise == "always" and self.now != self.of and shapes not in self.known:
            with pytest.raises(ModelError, match="has changed since"):
                self.model(array(x), array(past))
            return
        self.known.add(shapes)
        assert total(self.model(array(x), array(past))) == sum(past + x) * self.of

    @precondition(lambda self: self.specialise == "never")
    @rule()
    def bind(self) -> None:
        if self.now != self.of and not self.can_bind:
            with pytest.raises(ModelError, match="has changed since"):
                self.model.bind(PAIRS)
            return
        self.can_bind = True
        made = self.model.bind(PAIRS)
        self.factors[made] = self.of
        self.bound = [*self.bound[-MOST:], (made, [])]

    @property
    def factors(self) -> dict[BoundModel, float]:
        """Of each model with a state, which outlives the model that it is of."""
        return self.__dict__.setdefault("_factors", {})

    def chosen(self, number: int) -> tuple[int, BoundModel, Rows]:
        return number % len(self.bound), *self.bound[number % len(self.bound)]

    @precondition(lambda self: self.bound)
    @rule(number=numbers, steps=st.lists(many_rows, min_size=1, max_size=4))
    def step(self, number: int, steps: list[Rows]) -> None:
        for x in steps:
            self.step_by(number, x)

    def step_by(self, number: int, x: Rows) -> None:
        place, made, rows = self.chosen(number)
        assert total(made(array(x))) == sum(rows + x) * self.factors[made]
        self.bound[place] = made, rows + x

    @precondition(lambda self: self.bound)
    @rule(number=numbers, x=few_rows)
    def wrong_step(self, number: int, x: Rows) -> None:
        _, made, _ = self.chosen(number)
        with pytest.raises(InputError):
            made(array(x)[:, 1:])

    @precondition(lambda self: self.bound)
    @rule(number=numbers, rows=many_rows)
    def reset(self, number: int, rows: Rows) -> None:
        place, made, _ = self.chosen(number)
        made.reset({"past": array(rows)})
        self.bound[place] = made, rows

    @precondition(lambda self: self.bound)
    @rule(number=numbers)
    def reset_to_nothing(self, number: int) -> None:
        place, made, _ = self.chosen(number)
        made.reset()
        self.bound[place] = made, []

    @precondition(lambda self: self.bound)
    @rule(number=numbers, other=numbers, anew=st.booleans())
    def reset_to_that_of_another(self, number: int, other: int, anew: bool) -> None:
        place, made, _ = self.chosen(number)
        _, giver, rows = self.chosen(other)
        state = giver.state
        if state:
            if anew:
                made.reset()
            made.reset({"past": state["past"][::-1]})
            self.bound[place] = made, rows[::-1]

    @precondition(lambda self: self.bound)
    @rule(number=numbers, rows=few_rows)
    def wrong_reset(self, number: int, rows: Rows) -> None:
        _, made, _ = self.chosen(number)
        whole = array(rows)
        for wrong in ({"past": whole[:, 1:]}, {"past": whole.astype(np.float64)}, {"present": whole}, {"past": whole[0]}, {}):
            with pytest.raises(InputError):
                made.reset(wrong)

    @precondition(lambda self: self.bound)
    @rule(number=numbers, how=st.sampled_from([copy.copy, copy.deepcopy]))
    def fork(self, number: int, how: Callable[[Any], Any]) -> None:
        _, made, rows = self.chosen(number)
        twin = how(made)
        self.factors[twin] = self.factors[made]
        self.bound = [(made, rows), (twin, rows)]
        for one in range(2):  # both go on from there
            self.step_by(one, [3.0 + one])

    @precondition(lambda self: self.bound)
    @rule(number=numbers, x=many_rows, moment=st.integers(0, 120), how=st.sampled_from(["step", "reset"]))
    def interrupt(self, number: int, x: Rows, moment: int, how: str) -> None:
        place, made, rows = self.chosen(number)
        call = (lambda: made(array(x))) if how == "step" else (lambda: made.reset({"past": array(x)}))
        after = rows + x if how == "step" else x
        ended = not interrupted_at(call, moment)
        has = [] if not made.state else made.state["past"][:, 0].tolist()
        assert has in ([after] if ended else [rows, after])
        self.bound[place] = made, has

    @invariant()
    def states_are_what_they_must_be(self) -> None:
        for made, rows in self.bound:
            state = made.state
            assert (state["past"][:, 0].tolist() if state else []) == rows


@contextmanager
def kept() -> Iterator[None]:
    """With a cache, so that each source is compiled once."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        switch_on_cache(patch, Path(folder))
        yield


def test_a_models_life() -> None:
    with kept():
        run_state_machine_as_test(Life, settings=settings(max_examples=30, stateful_step_count=25))
