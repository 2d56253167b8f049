"""Tests of many cases: scripts/test runs rows that have every pair of values, or a choice of the cases, scripts/nightly all."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from itertools import product
from typing import Any

import pytest
from every import every
from op_sweep import pairwise

Names = str | tuple[str, ...]
Factors = Mapping[Names, Iterable[Any]]
Day = Callable[[Any], bool] | Collection[Any]
"""The cases that scripts/test runs: what says so of a case, or those cases."""


def each(factors: Factors) -> Callable[..., Any]:
    """As `pairs`, with rows by day that have every value: for factors that the code treats one after another, where a row is dear."""
    return split_by_day(_names(factors), *split(factors, _each_value))


def pairs(factors: Factors) -> Callable[..., Any]:
    """Run a test with all combinations of what may vary, as `every` does; those that no row of pairs needs are a test marked `nightly`.

    A factor is a parameter, or several that vary together. Most mistakes take one value, or two that meet (D. R. Kuhn et al., "Software Fault
    Interactions", IEEE Transactions on Software Engineering 30(6), 2004).
    """
    return split_by_day(_names(factors), *split(factors))


def every_by_day(names: Names, cases: Iterable[Any], day: Day, **options: Any) -> Callable[..., Any]:
    """Run a test with each of the `cases`, as `every` does; those that are not of the `day` are a test marked `nightly`."""
    made = list(cases)
    chosen = chooser(made, day)
    return split_by_day(names, [case for case in made if chosen(case)], [case for case in made if not chosen(case)], **options)


def by_day(cases: Iterable[Any], day: Day) -> list[Any]:
    """The cases for `pytest.mark.parametrize`; those that are not of the `day` are marked `nightly`. A tuple is the values of several parameters."""
    made = list(cases)
    chosen = chooser(made, day)
    return [case if chosen(case) else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.nightly) for case in made]


def chooser(cases: list[Any], day: Day) -> Callable[[Any], bool]:
    """Whether a case is of the day: by a function, or by a list of such cases."""
    if callable(day):
        assert any(map(day, cases)), "no case is left by day"
        return day
    assert day, "no case is left by day"
    assert all(case in cases for case in day), f"no such case: {[case for case in day if case not in cases]}"
    return day.__contains__


def fewest(rows: Iterable[Mapping[str, Any]], *wanted: Names) -> list[Mapping[str, Any]]:
    """Some of the rows that together have what all have of each factor, and each combination of those factors that are named together."""
    left = list(rows)
    factors = [(factor,) if isinstance(factor, str) else factor for factor in wanted]

    def has(row: Mapping[str, Any]) -> set[Any]:
        return {(factor, tuple(repr(row[name]) for name in factor)) for factor in factors}

    missing = set().union(*map(has, left))
    chosen = []
    while missing:
        best = max(left, key=lambda row: len(has(row) & missing))
        chosen.append(best)
        missing -= has(best)
    return chosen


def split_by_day(names: str | Sequence[str], day: Sequence[Any], night: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Run a test with the cases for the `day`, as `every` does; those for the `night`, which ask nothing alone, are a test marked `nightly`."""
    parts = [pytest.param(day, id="day"), *([pytest.param(night, id="others", marks=pytest.mark.nightly)] if night else [])]
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def decorate(test: Callable[..., None]) -> Any:
        @wraps(test)
        def run(combinations: Sequence[Any], **fixtures: Any) -> None:
            every(names, combinations, **options)(test)(**fixtures)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in listed]
        combinations = inspect.Parameter("combinations", inspect.Parameter.KEYWORD_ONLY)
        run.__signature__ = signature.replace(parameters=[*kept, combinations])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("combinations", parts)(run)

    return decorate


Rows = Callable[[Mapping[str, Sequence[Any]]], Iterable[Mapping[str, Any]]]


def _each_value(places: Mapping[str, Sequence[Any]]) -> Iterable[Mapping[str, Any]]:
    """As many rows as the longest factor has values."""
    return [{name: values[row % len(values)] for name, values in places.items()} for row in range(max(map(len, places.values())))]


def _names(factors: Factors) -> list[str]:
    return [name for factor in factors for name in ((factor,) if isinstance(factor, str) else factor)]


def split(factors: Factors, rows: Rows = pairwise) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The combinations that have every pair of values (or what else `rows` chooses), and the others."""
    lists = {name: list(values) for name, values in factors.items()}
    places = {name if isinstance(name, str) else ",".join(name): list(range(len(values))) for name, values in lists.items()}
    chosen = {tuple(row.values()) for row in rows(places)}
    day: list[tuple[Any, ...]] = []
    night: list[tuple[Any, ...]] = []
    for row in product(*places.values()):
        given: list[Any] = []
        for (factor, values), place in zip(lists.items(), row, strict=True):
            given += [values[place]] if isinstance(factor, str) else values[place]
        (day if row in chosen else night).append(tuple(given))
    return day, night
