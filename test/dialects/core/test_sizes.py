"""Sizes known only at run time: their arithmetic is that of whole numbers, their text reads back, and questions are answered only if certain."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from stepwell.dialects.core.size_parser import parse, parse_all
from stepwell.dialects.core.sizes import (
    Assumption,
    Size,
    UndecidedError,
    always,
    assumptions,
    differ,
    divides,
    evaluated,
    holds,
    maximum,
    minimum,
    product,
    symbol,
)
from stepwell.dialects.support.errors import InferenceError

NAMES = ("h", "n", "s", "w")
n, s, h, w = (symbol(name) for name in ("n", "s", "h", "w"))

# An expression as a pair: the size, and what Python's own numbers give for values of the symbols.
_leaf = st.one_of(
    st.sampled_from(NAMES).map(lambda name: (symbol(name), lambda values: values[name])),
    st.integers(1, 9).map(lambda number: (number, lambda values: number)),
)


def _combined(children: Any) -> Any:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: (p[0][0] + p[1][0], lambda v: p[0][1](v) + p[1][1](v))),
        pairs.map(lambda p: (p[0][0] - p[1][0], lambda v: p[0][1](v) - p[1][1](v))),
        pairs.map(lambda p: (p[0][0] * p[1][0], lambda v: p[0][1](v) * p[1][1](v))),
        pairs.map(lambda p: (maximum(p[0][0], p[1][0]), lambda v: max(p[0][1](v), p[1][1](v)))),
        pairs.map(lambda p: (minimum(p[0][0], p[1][0]), lambda v: min(p[0][1](v), p[1][1](v)))),
        st.tuples(children, st.integers(-3, 9).filter(bool)).map(lambda p: (p[0][0] // p[1], lambda v: p[0][1](v) // p[1])),
        st.tuples(children, st.integers(1, 9)).map(lambda p: (p[0][0] % p[1], lambda v: p[0][1](v) % p[1])),
    )


expressions = st.recursive(_leaf, _combined, max_leaves=5)
numbers = st.fixed_dictionaries({name: st.integers(0, 30) for name in NAMES})


@given(expressions, numbers)
def test_arithmetic_is_that_of_numbers(pair: Any, values: dict[str, int]) -> None:
    size, by_numbers = pair
    assert evaluated(size, values) == by_numbers(values)


@given(expressions, numbers)
def test_text_reads_back_and_is_python(pair: Any, values: dict[str, int]) -> None:
    size, by_numbers = pair
    assert parse(str(size)) == size
    assert eval(str(size), {"max": max, "min": min}, dict(values)) == by_numbers(values)


@given(expressions, expressions, numbers)
def test_what_is_certain_is_true(one: Any, other: Any, values: dict[str, int]) -> None:
    (a, a_number), (b, b_number) = one, other
    x, y = a_number(values), b_number(values)
    assert not always(a, "<", b) or x < y
    assert not always(a, ">=", b) or x >= y
    assert not differ(a, b) or x != y
    assert a != b or x == y


@given(expressions, numbers)
def test_folding_gives_the_same(pair: Any, values: dict[str, int]) -> None:
    size, by_numbers = pair
    if isinstance(size, Size):
        ops = {"+": int.__add__, "*": int.__mul__, "//": int.__floordiv__, "max": max, "min": min}
        assert size.fold(lambda part: values[str(part)] if part.is_symbol else None, int, ops) == by_numbers(values)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((8 * h + 3) // 8, "h"), ((h - 1) // 2 + 1, "(h + 1) // 2"), (-(-h // 8), "(h + 7) // 8"), (h // 2 // 2, "h // 4"),
        (n * s * 768 // (64 * s), "12*n"),
        (2 * ((h - 1) // 2 + 1), "2*((h + 1) // 2)"), (n % 8, "n - 8*(n // 8)"), (maximum(s - 1, 0), "max(0, s - 1)"),
        ((h * w) // (n * s), "(h*w) // (n*s)"), (n - n + 3, "3"), ((n + s) // 1, "n + s"), (minimum(n, s, 4), "min(4, n, s)"),
        ((2 * h + h // 2) // 2, "h + h // 4"), (minimum(maximum(minimum(n, s), 3), maximum(s, 0)), "min(max(3, min(n, s)), s)"),
        ((5 - n) // -2, "(n + 1) // 2 - 3"), (-n // -4, "n // 4"), (minimum(n, s, maximum(n, 3)), "min(n, s)"),
        (maximum(minimum(maximum(-2, n - 1), n - 1), 0), "max(0, n - 1)"),
    ],
)  # fmt: skip
def test_normal_forms(size: Any, text: str) -> None:
    assert str(size) == text


def test_equal_sizes_are_one_key() -> None:
    assert {(h + 1) // 2: 1}[parse("(h - 1) // 2 + 1")] == 1
    assert symbol("n") != 3
    assert product([n, 3, s]) == 3 * s * n
    assert product([n, 0, None]) == 0
    assert product([n, None]) is None


def test_order_is_decided_only_if_certain() -> None:
    assert n + 1 > 0
    assert n >= 0
    assert n < n + 1
    assert bool(n + 1)
    for question in (lambda: n > 2, lambda: n == 3 or n > s, lambda: bool(n), lambda: range(n)):
        with pytest.raises(UndecidedError):
            question()


def test_rounding_is_known_to_lose_less_than_the_divisor() -> None:
    up = 4 * ((n + 3) // 4)
    assert n <= up < n + 4
    assert always(up - n, ">=", 0)
    assert not always(up, ">", n)
    assert always((n + s) // 3, "<=", n + s)
    assert differ(up, n + 4)
    assert 2 * ((up + 1) // 2) <= n + 4


def test_an_extreme_is_known_to_be_beyond_what_it_is_of() -> None:
    missing = maximum(n, 20) - n
    assert missing >= 0
    assert missing // 2 >= 0
    assert missing - missing // 2 >= 0
    assert maximum(-(missing // 2), 0) == 0
    assert n + s - minimum(n, s + 1) + 1 > 0
    assert not always(missing, ">", 0)
    cut = minimum(n, 9)
    assert n - cut >= 0
    assert 2 * n + s - cut - minimum(n, s, 4) >= 0
    assert not always(n + s - 2 * minimum(n, s + 1), ">=", 0)
    assert not always(20 - minimum(n, 21), ">=", 0)


def test_signs_follow_from_bounds() -> None:
    certain = [
        (maximum(n, 3) - 3, ">=", 0), (maximum(n, 3) * maximum(s, 2), ">=", 6), (minimum(n, 7) // 8, "==", 0), (9 - minimum(n, 7), ">", 1),
        (-2 * n * s, "<=", 0), (minimum(n, 4) * minimum(s, 5), "<=", 20), ((maximum(n, 17) - 1) // 4, ">=", 4), (n * n + 1, ">", 0),
        (minimum(n - 5, s), ">=", -5), (maximum(n - 5, -2), ">=", -2), ((-minimum(n, 7)) // 2, ">=", -4),
        (maximum(minimum(n, 3), minimum(s, 9)), "<=", 9), (minimum(maximum(n, 3), maximum(s, 2)), ">=", 2),
    ]  # fmt: skip
    uncertain = [
        (maximum(n, 3) - 4, ">=", 0), (maximum(n, 3) * maximum(s, 2), ">", 6), (minimum(n, 8) // 8, "<=", 0), (7 - minimum(n, 7), ">", 0),
        (-2 * n * s, "<", 0), (minimum(n, 4) * minimum(s, 5), "<", 20), ((maximum(n, 17) - 1) // 4, ">", 4), (n * n, ">", 0),
        (minimum(n - 5, s), ">", -5), (n * s - n, ">=", 0), ((-minimum(n, 7)) // 2, ">", -4),
        (maximum(minimum(n, 3), minimum(s, 9)), "<=", 8), (minimum(maximum(n, 3), maximum(s, 2)), ">=", 3), (maximum(n, 3), "<=", 3),
    ]  # fmt: skip
    assert [case for case in certain if not always(*case)] == []
    assert [case for case in uncertain if always(*case)] == []


def test_assumptions_are_collected_once_and_checked() -> None:
    with assumptions() as found:
        assert holds(n, "==", s)
        assert holds(n, "==", s)
        assert holds(n, "!=", 1)
        assert divides(4, n)
        assert holds(n + 1, ">", n)
        assert not holds(n + 1, "==", n)
        assert holds(None, "==", 3)
    assert list(map(str, found)) == ["n == s", "n != 1", "n - 4*(n // 4) == 0"]
    assert [a.holds({"n": 8, "s": 8}) for a in found] == [True, True, True]
    assert [a.holds({"n": 1, "s": 8}) for a in found] == [False, False, False]
    assert not Assumption(n // s, "==", 0).holds({"n": 1, "s": 0})
    assert not Assumption(n, "==", n).holds({})


def test_lists_of_sizes() -> None:
    assert parse_all("n, ?, max(0, s - 1), 3") == (n, None, maximum(s - 1, 0), 3)


@pytest.mark.parametrize(
    "text", [*("", "n +", "n / 2", "f(n)", "n ** s", "'n'", "n.real", "max(n)", "[n]", "1.5", "True", "n if s else h"), "__import__('os')",
             "n // 0", "n % (3 - 3)", "((((9**9)**9)**9)**9)**9", "((((n + 1)**9)**9)**9)**9", "+".join(["n"] * 5000)]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InferenceError, match="expected"):
        parse(text)


def test_a_name_that_is_no_word_is_refused() -> None:
    for name in ("batch size", "\uff4e", "\u212a", "if", "max", ""):  # among them letters that Python reads as others
        with pytest.raises(InferenceError, match=f"must be a word, got '{name}'"):
            symbol(name)
