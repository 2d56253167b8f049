"""Combinations for scripts/test have every pair; together with those for the night they are all there are, each once."""

from itertools import combinations, product

import pytest
from covering import _each_value, by_day, each, every_by_day, fewest, pairs, split, split_by_day
from op_sweep import pairwise

FACTORS = {"a": [1, 2, 3, 4], ("b", "c"): [("x", 0), ("y", 1), ("z", 2)], "d": [False, True]}


def test_every_pair_by_day_and_all_by_night() -> None:
    day, night = split(FACTORS)
    every = [(a, *bc, d) for a, bc, d in product(*FACTORS.values())]
    assert sorted([*day, *night]) == sorted(every)
    assert len(day) <= 14
    for i, j in combinations(range(4), 2):
        assert {(row[i], row[j]) for row in day} == {(row[i], row[j]) for row in every}


def test_every_value_by_day_and_all_by_night() -> None:
    day, night = split(FACTORS, _each_value)
    assert day == [(1, "x", 0, False), (2, "y", 1, True), (3, "z", 2, False), (4, "x", 0, True)]
    assert sorted([*day, *night]) == sorted((a, *bc, d) for a, bc, d in product(*FACTORS.values()))


@each({"x": [1, 2, 3], "y": [1, 2]})
def test_what_a_test_of_every_value_is_given(x: int, y: int, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("nightly") is not None) == ((x, y) not in [(1, 1), (2, 2), (3, 1)])


@split_by_day("number", [1, 2], [3])
def test_what_a_test_of_some_cases_is_given(number: int, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("nightly") is not None) == (number == 3)


def test_two_factors_are_all_pairs() -> None:
    assert split({"a": [1, 2], "b": [3, 4, 5]})[1] == []


@pytest.mark.parametrize("size", [2, 3])
def test_the_same_combinations_each_time(size: int) -> None:
    factors = {name: list(range(size)) for name in "abcd"}
    assert split(factors) == split(factors)


@pairs({"x": [1, 2, 3], "y": [1, 2, 3], "z": [1, 2, 3]})
def test_what_a_test_is_given(x: int, y: int, z: int, request: pytest.FixtureRequest) -> None:
    assert {x, y, z} <= {1, 2, 3}
    marked = request.node.get_closest_marker("nightly") is not None
    assert marked == ((x, y, z) not in split({"x": [1, 2, 3], "y": [1, 2, 3], "z": [1, 2, 3]})[0])


def test_what_fails_is_named() -> None:
    @pairs({"x": [1, 2], "y": [3, 4]})
    def test(x: int, y: int) -> None:
        assert (x, y) != (2, 3)

    with pytest.raises(AssertionError, match=r"^1 of 4 cases failed: 2-3"):
        test(split({"x": [1, 2], "y": [3, 4]})[0])


@pytest.mark.parametrize(("x", "y"), by_day([(1, 2), (3, 4), (5, 6)], [(3, 4)]))
def test_other_cases_are_for_the_night(x: int, y: int, request: pytest.FixtureRequest) -> None:
    assert y == x + 1
    assert (request.node.get_closest_marker("nightly") is None) == (x == 3)


@every_by_day("x", range(6), lambda x: x % 2 == 0, ids=str)
def test_other_cases_of_one_test_are_another(x: int, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("nightly") is None) == (x % 2 == 0)


def test_a_choice_is_of_the_cases() -> None:
    with pytest.raises(AssertionError, match=r"no such case: \[7\]"):
        by_day([1, 2, 3], [1, 7])
    with pytest.raises(AssertionError, match="no case is left"):
        by_day([1, 2, 3], lambda x: x > 3)


def test_few_rows_with_what_all_have() -> None:
    rows = list(pairwise({"a": range(4), "b": range(3), "c": range(5), "d": (None, [0])}))
    few = fewest(rows, "a", ("b", "d"), "c")
    assert all(row in rows for row in few)
    assert 6 <= len(few) <= 7
    for factor in ("a", "c"):
        assert {row[factor] for row in few} == {row[factor] for row in rows}
    assert {(row["b"], str(row["d"])) for row in few} == {(row["b"], str(row["d"])) for row in rows}
