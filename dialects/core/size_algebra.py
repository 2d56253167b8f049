"""The simplifier of sizes, on sympy: normal forms of sums, products, floor divisions, maxima and minima of whole numbers from 0.

Only `sizes` imports this, when the first symbol is made: sympy takes as long to load as a small network takes to compile.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sympy  # type: ignore[import-untyped]
from sympy.printing.precedence import PRECEDENCE  # type: ignore[import-untyped]
from sympy.printing.str import StrPrinter  # type: ignore[import-untyped]

Expr = Any  # sympy has no type hints


class FloorDiv(sympy.Function):  # type: ignore[misc]
    """`p // q`, with what divides taken out: `(8*n + 3) // 8` is `n`, `(2*n + 3) // 2` is `n + (3 // 2)`, and a sum has a positive leading term."""

    nargs = 2
    is_integer = True
    precedence = PRECEDENCE["Mul"] - 1

    @classmethod
    def eval(cls, p: Expr, q: Expr) -> Expr:
        if q.is_Integer and p.is_Integer:
            return sympy.Integer(int(p) // int(q))
        if q == 1:
            return p
        if isinstance(p, cls) and p.args[1].is_Integer and q.is_Integer:
            return cls(p.args[0], p.args[1] * q)
        exact = sympy.cancel(p / q)
        if is_whole(exact):
            return sympy.expand(exact)
        if not q.is_Integer:
            common = sympy.gcd(p, q)
            return None if common in (1, -1) else cls(sympy.cancel(p / common), sympy.cancel(q / common))
        divisor = int(q)
        terms = sympy.expand(p).as_coefficients_dict()
        taken = sympy.Add(*(_towards_zero(int(c), divisor) * term for term, c in terms.items()))
        rest = sympy.expand(p - divisor * taken)
        if rest.is_Integer:
            return taken + int(rest) // divisor
        shared = sympy.gcd_terms(rest).as_coeff_Mul()[0] if not rest.is_Add else _content(rest)
        if (common := sympy.igcd(shared, divisor)) > 1:
            return taken + cls(sympy.expand(rest / common), sympy.Integer(divisor // common))
        if _is_negative(rest):
            return taken - cls(divisor - 1 - rest, q)
        least = int(rest.as_coeff_Add()[0]) // divisor  # a constant below 0, say
        if least:
            return taken + least + cls(rest - divisor * least, q)
        return taken + cls(rest, q, evaluate=False) if taken != 0 else None

    def _eval_is_nonnegative(self) -> bool | None:
        p, q = self.args
        return True if p.is_nonnegative and q.is_nonnegative else None


def is_whole(expr: Expr) -> bool:
    """Whether an expression is a sum of products with whole coefficients, of symbols and other whole parts."""
    terms = sympy.expand(expr).as_coefficients_dict()
    return sympy.denom(sympy.together(expr)) == 1 and all(c.is_Integer and (term == 1 or term.is_integer) for term, c in terms.items())


def _towards_zero(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _content(expr: Expr) -> int:
    """The largest number that divides all coefficients, a constant included."""
    found = 0
    for coefficient in expr.as_coefficients_dict().values():
        found = sympy.igcd(found, coefficient)
    return int(found)


def _is_negative(expr: Expr) -> bool:
    """Whether most terms that are not constant have a negative coefficient."""
    signs = [1 if c > 0 else -1 for term, c in expr.as_coefficients_dict().items() if term != 1]
    return sum(signs) < 0


@lru_cache(4096)
def symbol(name: str) -> Expr:
    """A whole number from 0 of that name."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def normal(expr: Expr) -> Expr:
    """The normal form of a sum of products."""
    return sympy.expand(expr)


def floor_div(p: Expr, q: Expr) -> Expr:
    """The normal form of `p // q`."""
    return sympy.expand(FloorDiv(sympy.expand(sympy.sympify(p)), sympy.expand(sympy.sympify(q))))


def largest(*exprs: Expr) -> Expr:
    """The normal form of a maximum."""
    return sympy.Max(*exprs)


def smallest(*exprs: Expr) -> Expr:
    """The normal form of a minimum."""
    return sympy.Min(*exprs)


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The number that an expression is, given its symbols'."""
    found = expr.xreplace({s: sympy.Integer(values[s.name]) for s in expr.free_symbols})
    return int(sympy.expand(found))


def parts(expr: Expr) -> tuple[str, list[Expr]]:
    """The operation that an expression is, and what it is of; a power is a product."""
    if expr.is_Pow:
        return "*", [expr.base] * int(expr.exp)
    for kind, name in ((sympy.Add, "+"), (sympy.Mul, "*"), (FloorDiv, "//"), (sympy.Max, "max"), (sympy.Min, "min")):
        if isinstance(expr, kind):
            return name, list(expr.args) if name == "//" else sorted(expr.args, key=text)
    raise TypeError(f"{expr} is not the expression of a size")


def lower_bound(expr: Expr) -> Expr:
    """An expression without quotients that is never above this one, as far as they are terms of its sum: `p // q` is between `(p - q + 1) / q` and
    `p / q`."""
    found = sympy.Integer(0)
    for term, coefficient in sympy.expand(expr).as_coefficients_dict().items():
        if not isinstance(term, FloorDiv) or not term.args[1].is_Integer:
            found += coefficient * term
            continue
        p, q = term.args
        bound = lower_bound(p) - q + 1 if coefficient > 0 else -lower_bound(-p)
        found += coefficient * bound / q
    return sympy.expand(found)


class _Printer(StrPrinter):  # type: ignore[misc]
    """Expressions as Python writes them."""

    def _print_FloorDiv(self, expr: Expr) -> str:
        p, q = expr.args
        return f"{self.parenthesize(p, PRECEDENCE['Mul'])} // {self.parenthesize(q, PRECEDENCE['Pow'])}"

    def _print_Max(self, expr: Expr) -> str:
        return f"max({', '.join(sorted(map(self._print, expr.args)))})"

    def _print_Min(self, expr: Expr) -> str:
        return f"min({', '.join(sorted(map(self._print, expr.args)))})"


@lru_cache(1 << 14)
def text(expr: Expr) -> str:
    """An expression as Python writes it."""
    return str(_Printer({"order": "lex"}).doprint(expr))
