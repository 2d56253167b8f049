"""Tests of several parameters: scripts/test runs rows that have every pair of values, scripts/nightly every combination."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import product
from typing import Any

import pytest
from every import every
from op_sweep import pairwise

Names = str | tuple[str, ...]
Factors = Mapping[Names, Iterable[Any]]


def each(factors: Factors) -> Callable[..., Any]:
    """As `pairs`, with rows by day that have every value: for factors that the code treats one after another, where a row is dear."""
    return some(_names(factors), *split(factors, _each_value))


def pairs(factors: Factors) -> Callable[..., Any]:
    """Run a test with all combinations of what may vary, as `every` does; those that no row of pairs needs are a test marked `nightly`.

    A factor is a parameter, or several that vary together. Most mistakes take one value, or two that meet (D. R. Kuhn et al., "Software Fault
    Interactions", IEEE Transactions on Software Engineering 30(6), 2004).
    """
    return some(_names(factors), *split(factors))


def some(names: str | Sequence[str], day: Sequence[Any], night: Sequence[Any]) -> Callable[..., Any]:
    """Run a test with the cases for the `day`, as `every` does; those for the `night`, which ask nothing alone, are a test marked `nightly`."""
    parts = [pytest.param(day, id="day"), *([pytest.param(night, id="others", marks=pytest.mark.nightly)] if night else [])]
    single = [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    def decorate(test: Callable[..., None]) -> Any:
        @wraps(test)
        def run(combinations: Sequence[Any], **fixtures: Any) -> None:
            every(names, combinations)(test)(**fixtures)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in single]
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
