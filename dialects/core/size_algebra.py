"""The simplifier of sizes, on sympy: normal forms of sums, products, floor divisions, maxima and minima of whole numbers from 0.

Only `sizes` imports it, when the first symbol is created: sympy takes as long to load as a small network takes to compile.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

Expr = Any  # sympy has no type hints
Bounds: TypeAlias = tuple[Fraction | None, Fraction | None]
MOST_EXTREMES = 4  # the most maxima and minima that are split into cases to decide a sign
_remembered = lru_cache(1 << 14)
"""Decorates functions of normal forms, because passes repeat questions about a size."""


@_remembered
def expand(expr: Expr) -> Expr:
    """The expression as a sum of products. Sizes have no powers but those of sums and symbols, so sympy's other rules are skipped."""
    return expr if _is_expanded(expr) else expr.expand(power_base=False, power_exp=False, log=False, basic=False)


def _is_expanded(expr: Expr) -> bool:
    """Whether an expression is a sum of products of symbols and functions whose arguments are such sums."""
    if expr.is_Add:
        return not any(term.is_Add for term in expr.args) and all(map(_is_expanded, expr.args))
    if expr.is_Mul:
        return not any(factor.is_Add for factor in expr.args) and all(map(_is_expanded, expr.args))
    if expr.is_Pow:
        return bool(expr.base.is_Symbol and expr.exp.is_Integer and expr.exp > 0)
    return all(map(_is_expanded, expr.args))


class _Whole(sympy.Function):  # type: ignore[misc]  # sympy has no types
    """A function whose values are whole numbers; their bounds give sympy its sign."""

    is_integer = True

    def _eval_is_nonnegative(self) -> bool | None:
        return _signs(self, False)[0] or None


class FloorDiv(_Whole):
    """`p // q`, with multiples of q taken out: `(8*n + 3) // 8` is `n`, `(2*n + 3) // 2` is `n + (3 // 2)`, and a sum has a positive leading term."""

    nargs = 2
    precedence = PRECEDENCE["Mul"] - 1

    @classmethod
    def eval(cls, p: Expr, q: Expr) -> Expr:
        if q.is_Integer and p.is_Integer:
            return sympy.Integer(int(p) // int(q))
        if q == 1:
            return p
        if q.is_Integer and q < 0:
            return cls(expand(-p), -q)
        if isinstance(p, cls) and p.args[1].is_Integer and q.is_Integer:
            return cls(p.args[0], p.args[1] * q)
        if not q.is_Integer:
            exact = sympy.cancel(p / q)
            if is_whole(exact):
                return expand(exact)
            common = sympy.gcd(p, q)
            return None if common in (1, -1) else cls(sympy.cancel(p / common), sympy.cancel(q / common))
        divisor = int(q)
        terms = expand(p).as_coefficients_dict()
        taken = sympy.Add(*(_towards_zero(int(c), divisor) * term for term, c in terms.items()))
        rest = expand(p - divisor * taken)
        if rest.is_Integer:
            return taken + int(rest) // divisor
        shared = sympy.gcd_terms(rest).as_coeff_Mul()[0] if not rest.is_Add else _content(rest)
        if (common := sympy.igcd(shared, divisor)) > 1:
            return taken + cls(expand(rest / common), sympy.Integer(divisor // common))
        if _is_negative(rest):
            return taken - cls(divisor - 1 - rest, q)
        least = int(rest.as_coeff_Add()[0]) // divisor  # for instance a negative constant
        if least:
            return taken + least + cls(rest - divisor * least, q)
        return taken + cls(rest, q) if taken != 0 else None


class _Extreme(_Whole):
    """A maximum or minimum of at least two sizes, none of which is known to dominate another, in one order.

    Sympy's own functions split minima of maxima and keep the order of their arguments, so that a printed expression would not read back as itself.
    """

    @classmethod
    def eval(cls, *args: Expr) -> Expr:
        flat = [part for arg in args for part in (arg.args if isinstance(arg, cls) else [arg])]
        kept: list[Expr] = []
        for size in flat:
            if not any(cls._reaches(other, size) for other in kept):
                kept = [*(other for other in kept if not cls._reaches(size, other)), size]
        kept.sort(key=text)
        return kept[0] if len(kept) == 1 else None if tuple(kept) == args else cls(*kept, evaluate=False)

    @classmethod
    def _reaches(cls, a: Expr, b: Expr) -> bool:
        """Whether `a` is at least `b` (for a minimum, at most) for all values of the symbols."""
        return bool(a == b or is_above_zero(expand(a - b if cls is Max else b - a), False))

    def _eval_is_positive(self) -> bool | None:
        return _signs(self, True)[0] or None


class Max(_Extreme):
    """The largest of several sizes."""


class Min(_Extreme):
    """The smallest of several sizes."""


def is_whole(expr: Expr) -> bool:
    """Whether an expression is a sum of products of symbols and other whole parts, with whole coefficients."""
    terms = expand(expr).as_coefficients_dict()
    return sympy.denom(sympy.together(expr)) == 1 and all(c.is_Integer and (term == 1 or term.is_integer) for term, c in terms.items())


def _towards_zero(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _content(expr: Expr) -> int:
    """The greatest common divisor of all coefficients, including a constant."""
    found = 0
    for coefficient in expr.as_coefficients_dict().values():
        found = sympy.igcd(found, coefficient)
    return int(found)


def _is_negative(expr: Expr) -> bool:
    """Whether most terms except the constant have a negative coefficient."""
    signs = [1 if c > 0 else -1 for term, c in expr.as_coefficients_dict().items() if term != 1]
    return sum(signs) < 0


@lru_cache(4096)
def symbol(name: str) -> Expr:
    """The symbol with that name, a whole number from 0."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


@_remembered
def add(a: Expr, b: Expr) -> Expr:
    """The normal form of a sum of normal forms or numbers."""
    return sympy.sympify(a + b)  # the collected terms of both: there is nothing to expand


@_remembered
def multiply(a: Expr, b: Expr) -> Expr:
    """The normal form of a product of normal forms or numbers."""
    return expand(sympy.sympify(a * b))


@_remembered
def floor_div(p: Expr, q: Expr) -> Expr:
    """The normal form of `p // q` for normal forms or numbers."""
    return expand(FloorDiv(sympy.sympify(p), sympy.sympify(q)))


@_remembered
def is_above_zero(expr: Expr, strictly: bool) -> bool | None:
    """Whether `expr > 0`, or `expr >= 0` unless `strictly`, for all values of the symbols; None if that depends on them or cannot be decided."""
    yes, no = _signs(expr, strictly)
    if not yes and not no and not expr.is_Symbol:
        yes, no = _is_surely_above(expr, strictly), _is_surely_above(-expr, not strictly)
    return True if yes else False if no else None


def _signs(expr: Expr, strictly: bool) -> tuple[bool, bool]:
    """Whether the bounds of `expr` show that it is above 0 (or, unless `strictly`, at least 0), and whether they show that it is not."""
    low, high = bounds(expr)
    if strictly:
        return low is not None and low > 0, high is not None and high <= 0
    return low is not None and low >= 0, high is not None and high < 0


@_remembered
def bounds(expr: Expr) -> Bounds:
    """The least and the largest value of an expression for any symbols, by interval arithmetic (R. E. Moore, "Interval Analysis", 1966).

    None if there is none. The bounds need not be reached: terms of a sum are treated as independent. Sympy's assumptions decide no more,
    and take many times as long where they decide nothing.
    """
    if expr.is_Rational:
        value = Fraction(int(expr.p), int(expr.q))
        return value, value
    if expr.is_Symbol:
        return Fraction(0), None
    if expr.is_Add:
        lows, highs = zip(*map(bounds, expr.args), strict=True)
        return _all(lows, sum), _all(highs, sum)
    if expr.is_Mul:
        return _product([bounds(factor) for factor in expr.args])
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return _product([bounds(expr.base)] * int(expr.exp))
    if isinstance(expr, FloorDiv):
        return _quotient_bounds(*expr.args)
    if isinstance(expr, _Extreme):
        lows, highs = zip(*map(bounds, expr.args), strict=True)
        if isinstance(expr, Max):
            return max(_finite(lows), default=None), _all(highs, max)
        return _all(lows, min), min(_finite(highs), default=None)
    return None, None


def _all(values: Sequence[Fraction | None], function: Callable[[list[Fraction]], Fraction | int]) -> Fraction | None:
    """A function of bounds; None if one of them is missing."""
    numbers = _finite(values)
    return Fraction(function(numbers)) if len(numbers) == len(values) else None


def _finite(values: Sequence[Fraction | None]) -> list[Fraction]:
    return [value for value in values if value is not None]


def _product(factors: Sequence[Bounds]) -> Bounds:
    """The bounds of a product of factors with known signs; none if a sign is unknown."""
    lows, highs, is_negative = Fraction(1), [], False
    for low, high in factors:
        if low is None or low < 0:
            if high is None or high > 0:
                return None, None
            low, high, is_negative = -high, None if low is None else -low, not is_negative
        lows *= low
        highs.append(high)
    most = _all(highs, prod)
    return (None if most is None else -most, -lows) if is_negative else (lows, most)


def _quotient_bounds(p: Expr, q: Expr) -> Bounds:
    """The bounds of `p // q`: the divided bounds of p if q is a number; otherwise only whether it can be negative."""
    low, high = bounds(p)
    if q.is_Integer and q > 0:
        least, most = (None if value is None else Fraction(value // int(q)) for value in (low, high))
    else:
        least, most = None, None
    if (least is None or least < 0) and _signs(q, False)[0] and is_above_zero(p, False):
        least = Fraction(0)
    return least, most


@_remembered
def largest(*exprs: Expr) -> Expr:
    """The normal form of a maximum."""
    return expand(Max(*exprs))


@_remembered
def smallest(*exprs: Expr) -> Expr:
    """The normal form of a minimum."""
    return expand(Min(*exprs))


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The number for given values of the symbols. Raises KeyError for a symbol without a value, ZeroDivisionError for a division by 0."""
    return _evaluator(expr)(values)


@_remembered
def _evaluator(expr: Expr) -> Callable[[Mapping[str, int]], int]:
    """A Python function that evaluates an expression, because sympy is slow; the first call for an expression compiles it."""
    return eval(f"lambda v: {_code(expr)}")


def _code(expr: Expr) -> str:
    """An expression as Python code, with the values of its symbols in a mapping `v`."""
    if expr.is_Integer:
        return f"({int(expr)})"
    if expr.is_Symbol:
        return f"v[{expr.name!r}]"
    kind, args = parts(expr)
    code = [_code(arg) for arg in args]
    return f"{kind}({', '.join(code)})" if kind in ("max", "min") else f"({f' {kind} '.join(code)})"


def parts(expr: Expr) -> tuple[str, list[Expr]]:
    """The outermost operation of an expression and its operands; a power is a product."""
    if expr.is_Pow:
        return "*", [expr.base] * int(expr.exp)
    for kind, name in ((sympy.Add, "+"), (sympy.Mul, "*"), (FloorDiv, "//"), (Max, "max"), (Min, "min")):
        if isinstance(expr, kind):
            return name, list(expr.args) if name == "//" else sorted(expr.args, key=text)
    raise TypeError(f"{expr} is not the expression of a size")


@_remembered
def lower_bound(expr: Expr) -> Expr:
    """An expression that is never above this one, without those quotients that are terms of its sum: `p // q` lies between `(p - q + 1) / q` and
    `p / q`."""
    found = sympy.Integer(0)
    for term, coefficient in expand(expr).as_coefficients_dict().items():
        if not isinstance(term, FloorDiv) or not term.args[1].is_Integer:
            found += coefficient * term
            continue
        p, q = term.args
        bound = lower_bound(p) - q + 1 if coefficient > 0 else -lower_bound(-p)
        found += coefficient * bound / q
    return expand(found)


def _is_surely_above(expr: Expr, strictly: bool, extremes: int = MOST_EXTREMES) -> bool:
    """Whether `expr > 0`, or `expr >= 0` unless `strictly`, follows from its `lower_bound` and from cases of the maxima and minima in the sum.

    A subtracted maximum, or an added minimum, equals one of its sizes, but it is unknown which: the relation must hold for each of them. An
    added maximum is at least each of its sizes: it suffices if the relation holds for one.
    """
    bound = lower_bound(expr)
    if _signs(bound, strictly)[0]:
        return True
    found = [(term, c) for term, c in bound.as_coefficients_dict().items() if isinstance(term, _Extreme)]
    if not found or not extremes:
        return False
    each = [(term, c) for term, c in found if isinstance(term, Min) == (c > 0)]
    term, c = (each or found)[0]
    cases = (_is_surely_above(bound + c * (arg - term), strictly, extremes - 1) for arg in term.args)
    return all(cases) if each else any(cases)


class _Printer(StrPrinter):  # type: ignore[misc]  # sympy has no types
    """Prints expressions in Python syntax."""

    def _print_FloorDiv(self, expr: Expr) -> str:
        p, q = expr.args
        return f"{self.parenthesize(p, PRECEDENCE['Mul'])} // {self.parenthesize(q, PRECEDENCE['Pow'])}"

    def _print_Max(self, expr: Expr) -> str:
        return f"max({', '.join(sorted(map(self._print, expr.args)))})"

    def _print_Min(self, expr: Expr) -> str:
        return f"min({', '.join(sorted(map(self._print, expr.args)))})"


@lru_cache(1 << 14)
def text(expr: Expr) -> str:
    """An expression in Python syntax."""
    return str(_Printer({"order": "lex"}).doprint(expr))
