"""Sizes that are known only at run time: named symbols and expressions of them, which behave like whole numbers."""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, reduce
from keyword import iskeyword
from types import ModuleType
from typing import Any, TypeAlias, TypeVar
from unicodedata import normalize

from stepwell.dialects.support.errors import InferenceError, UnsupportedError
from stepwell.dialects.support.properties import cached_property

T = TypeVar("T")


class UndecidedError(UnsupportedError):
    """A question about sizes whose answer depends on what the symbols are."""


class Size:
    """An expression of symbols, each a whole number from 0: `n`, `2*s + 1`, `(h + 1) // 2`, `max(0, s - 1)`.

    Arithmetic with numbers and other sizes gives a `Size`, or an `int` where the symbols cancel out. Two are equal if their normal
    forms are: that holds for all values of the symbols. A divisor that is no number is taken not to be 0. Order is decided where it holds
    for all values; otherwise comparing raises UndecidedError.
    """

    def __init__(self, expr: Any) -> None:
        """Of an expression of the simplifier's, in normal form; use `symbol` and `parse`."""
        self._expr = expr

    @cached_property
    def _text(self) -> str:
        return str(_algebra().text(self._expr))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The names of the symbols in it, in the order of the alphabet."""
        return tuple(sorted(s.name for s in self._expr.free_symbols))

    @property
    def is_symbol(self) -> bool:
        """Whether it is a symbol alone."""
        return bool(self._expr.is_Symbol)

    def value(self, values: Mapping[str, int]) -> int:
        """The number that it is, given its symbols'. Raises KeyError for a symbol without one, ZeroDivisionError where it divides by 0."""
        return int(_algebra().evaluate(self._expr, values))

    def fold(self, leaf: "Callable[[Size], T | None]", constant: Callable[[int], T], ops: "Mapping[str, Callable[[T, T], T]]") -> T:
        """What it is in other terms. `leaf` gives that of a part, or None for one to be put together from its own parts by `ops`, which has
        `+`, `*`, `//`, `max` and `min`; it is asked for every symbol, and must know these."""
        return _folded(self._expr, leaf, constant, ops)

    def renamed(self, names: Mapping[str, str]) -> "int | Size":
        """It with other symbols for some of its own."""
        ops = {"+": operator.add, "*": operator.mul, "//": operator.floordiv, "max": maximum, "min": minimum}
        made: int | Size = self.fold(lambda part: symbol(names.get(str(part), str(part))) if part.is_symbol else None, int, ops)
        return made

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(self._expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and (self is other or bool(self._expr == other._expr))

    def __add__(self, other: "int | Size") -> "int | Size":
        return _size(_algebra().add(self._expr, _expr(other))) if _is_size(other) else NotImplemented

    def __mul__(self, other: "int | Size") -> "int | Size":
        return _size(_algebra().multiply(self._expr, _expr(other))) if _is_size(other) else NotImplemented

    def __sub__(self, other: "int | Size") -> "int | Size":
        return self + -1 * other if _is_size(other) else NotImplemented

    def __rsub__(self, other: "int | Size") -> "int | Size":
        return other + -self if _is_size(other) else NotImplemented

    def __neg__(self) -> "int | Size":
        return self * -1

    def __floordiv__(self, other: "int | Size") -> "int | Size":
        return _quotient(self, other) if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: "int | Size") -> "int | Size":
        return _quotient(other, self) if _is_size(other) else NotImplemented

    def __mod__(self, other: "int | Size") -> "int | Size":
        return self - other * _quotient(self, other) if _is_size(other) else NotImplemented

    def __rmod__(self, other: "int | Size") -> "int | Size":
        return other - self * _quotient(other, self) if _is_size(other) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__

    def __lt__(self, other: "int | Size") -> bool:
        return _decided(self, "<", other)

    def __le__(self, other: "int | Size") -> bool:
        return _decided(self, "<=", other)

    def __gt__(self, other: "int | Size") -> bool:
        return _decided(self, ">", other)

    def __ge__(self, other: "int | Size") -> bool:
        return _decided(self, ">=", other)

    def __bool__(self) -> bool:
        return _decided(self, ">", 0)

    def __index__(self) -> int:
        raise UndecidedError(f"a number is needed where the size is {self}, which is known only at run time")


MOST_TERMS, MOST_FACTORS = 256, 24  # of the sum of products that a text stands for

Dim: TypeAlias = "int | Size | None"
"""A dimension of a type: a number, an expression of symbols, or None where nothing is known."""


def is_name(text: str) -> bool:
    """Whether a symbol may have that name: a word that Python reads as it is written, as types with it in their text are."""
    return text.isidentifier() and not iskeyword(text) and text not in ("max", "min") and normalize("NFKC", text) == text


def symbol(name: str) -> Size:
    """The symbol of that name, which must be a word, and none of Python's own or `max` or `min`."""
    if not is_name(name):
        raise InferenceError(f"the name of a size must be a word, got '{name}'")
    return Size(_algebra().symbol(name))


@cache
def parse(text: str) -> "int | Size":
    """The size that `text` writes: numbers, words as symbols, `+`, `-`, `*`, `//`, `%`, `max`, `min`. Raises InferenceError for anything else."""
    try:
        return _parsed(_checked(ast.parse(text.strip(), mode="eval").body, text), text)
    except _NO_SIZE:
        raise InferenceError(f"expected a size such as '2*n + 1', got '{_short(text)}'") from None


@cache
def parse_all(text: str) -> tuple[Dim, ...]:
    """The sizes that `text` lists, `?` for one of which nothing is known. Raises InferenceError where one is no size."""
    try:
        tree = ast.parse(f"[{text.replace('?', '...')}]", mode="eval").body
        items = tree.elts if isinstance(tree, ast.List) else [tree]
        return tuple(None if isinstance(item, ast.Constant) and item.value is ... else _parsed(_checked(item, text), text) for item in items)
    except _NO_SIZE:
        raise InferenceError(f"expected sizes such as '2*n + 1, ?', got '{_short(text)}'") from None


def maximum(*sizes: "int | Size") -> "int | Size":
    """The largest of some sizes."""
    return _extreme(sizes, "<=")


def minimum(*sizes: "int | Size") -> "int | Size":
    """The smallest of some sizes."""
    return _extreme(sizes, ">=")


def differ(a: Dim, b: Dim) -> bool:
    """Whether two sizes are different whatever the symbols are."""
    if a is None or b is None or a == b:
        return False
    if isinstance(a, int) and isinstance(b, int):
        return True
    return always(a, "<", b) or always(a, ">", b)


def always(a: "int | Size", relation: str, b: "int | Size") -> bool:
    """Whether `a < b` (or `<=`, `>`, `>=`) holds whatever the symbols are; False also where that cannot be told."""
    return _holds(a, relation, b) is True


def product(sizes: Iterable[Dim]) -> Dim:
    """The product of some sizes; None if nothing is known of one, unless another is 0."""
    found: Dim = 1
    for size in sizes:
        if size == 0:
            return 0
        found = None if found is None or size is None else found * size
    return found


def total(sizes: Iterable["int | Size"]) -> "int | Size":
    """The sum of some sizes."""
    return sum(sizes, start=0)


def size_text(size: Dim) -> str:
    """A size as it is printed: `?` for one of which nothing is known, as MLIR's own negative number for it."""
    return "?" if size is None or (isinstance(size, int) and size < 0) else str(size)


def sizes_text(sizes: Iterable[Dim]) -> str:
    """Sizes as they are printed in a message: `[2, n, ?, 8]`."""
    return f"[{', '.join(map(size_text, sizes))}]"


@dataclass(frozen=True)
class Assumption:
    """What the sizes of a run must fulfil for the types of a program to be right."""

    left: "int | Size"
    relation: str
    """`==`, `!=`, `<`, `<=`, `>` or `>=`."""
    right: "int | Size"

    @property
    def symbols(self) -> set[str]:
        """The symbols that it is about."""
        return {name for size in (self.left, self.right) if isinstance(size, Size) for name in size.symbols}

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is fulfilled, given the symbols' numbers. A division by 0 fulfils nothing, nor does a symbol that has no number."""
        try:
            return compare(self.relation, evaluated(self.left, values), evaluated(self.right, values))
        except (KeyError, ZeroDivisionError):
            return False

    def is_of_one(self, values: Mapping[str, int]) -> bool:
        """Whether two sizes are to be equal of which one is 1."""
        return self.relation == "==" and 1 in (evaluated(self.left, values), evaluated(self.right, values))

    def renamed(self, names: Mapping[str, str]) -> "Assumption":
        """It of other symbols for some of its own."""
        left, right = (size.renamed(names) if isinstance(size, Size) else size for size in (self.left, self.right))
        return Assumption(left, self.relation, right)

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"

    @staticmethod
    def parse(text: str) -> "Assumption":
        """The assumption that `text` writes. Raises InferenceError where it is none."""
        parts = re.split(r" (==|!=|<=|>=|<|>) ", text)
        if len(parts) != 3:
            raise InferenceError(f"expected a relation of two sizes such as 'n <= 2*m', got '{_short(text)}'")
        return Assumption(parse(parts[0]), parts[1], parse(parts[2]))


def compare(relation: str, left: int, right: int) -> bool:
    """Whether a relation holds between two numbers."""
    return _RELATIONS[relation](left, right)


@contextmanager
def assumptions() -> Iterator[list[Assumption]]:
    """Collects what `holds` assumes inside the block, each once."""
    found: dict[Assumption, None] = {}
    collected: list[Assumption] = []
    token = _ASSUMED.set(found)
    try:
        yield collected
    finally:
        _ASSUMED.reset(token)
        collected.extend(found)


def assume(assumption: Assumption) -> None:
    """Take it to hold, which `assumptions` collects."""
    found = _ASSUMED.get()
    if found is not None:
        found[assumption] = None


def holds(a: Dim, relation: str, b: Dim) -> bool:
    """Whether a relation holds; where that depends on the symbols it is taken to hold, which `assumptions` collects."""
    if a is None or b is None:
        return True
    answer: bool | None
    if relation in ("==", "!="):
        answer = (relation == "==") if a == b else (relation == "!=") if differ(a, b) else None
    else:
        answer = _holds(a, relation, b)
    if answer is None:
        assume(Assumption(a, relation, b))
    return answer is not False


def has_elements(size: Dim, needed: Dim) -> bool:
    """Whether a dimension has an element, where any is `needed` (how many, or anything that is 0 where none is); else as in `holds`.

    Sizes whose symbols decide that are taken to have one, or to need none.
    """
    if size is None or needed is None or always(needed, ">", 0):
        return holds(size, ">", 0)
    if size == needed:
        return True
    return holds(maximum(size, 1 - needed), ">", 0)


def same_sizes(have: Sequence[Dim], want: Sequence[Dim]) -> bool:
    """Whether two shapes are the same; as in `holds`, sizes whose symbols decide that are taken to be."""
    return len(have) == len(want) and all(holds(h, "==", w) for h, w in zip(have, want, strict=True))


def divides(divisor: "int | Size", size: Dim) -> bool:
    """Whether a size is a multiple of another; as in `holds`, where that depends on the symbols it is taken to be."""
    return size is None or holds(size % divisor, "==", 0)


def is_static(sizes: Iterable[Dim]) -> bool:
    """Whether all sizes are numbers."""
    for size in sizes:  # noqa: SIM110  (`all` with a generator takes several times as long, and this is asked of every type)
        if not isinstance(size, int):
            return False
    return True


def static_sizes(sizes: Iterable[Dim]) -> list[int]:
    """The sizes that are numbers, where all are. Raises InferenceError if one is not."""
    found = list(sizes)
    numbers = [s for s in found if isinstance(s, int)]
    if len(numbers) != len(found):
        raise InferenceError(f"expected sizes known at compile time, got {sizes_text(found)}")
    return numbers


def evaluated(size: "int | Size", values: Mapping[str, int]) -> int:
    """The number that a size is, given the symbols'."""
    return size if isinstance(size, int) else size.value(values)


def evaluated_if_known(size: "int | Size", values: Mapping[str, int]) -> "int | Size":
    """As `evaluated`, but the size itself where one of its symbols has no number."""
    return size if isinstance(size, int) or not values.keys() >= set(size.symbols) else size.value(values)


@cache
def _algebra() -> ModuleType:
    from stepwell.dialects.core import size_algebra  # here, because it takes long to load

    return size_algebra


_ASSUMED: ContextVar[dict[Assumption, None] | None] = ContextVar("assumed", default=None)
_RELATIONS: dict[str, Any] = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _folded(expr: Any, leaf: "Callable[[Size], T | None]", constant: Callable[[int], T], ops: "Mapping[str, Callable[[T, T], T]]") -> T:
    if expr.is_Integer:
        return constant(int(expr))
    found = leaf(Size(expr))
    if found is not None:
        return found
    kind, args = _algebra().parts(expr)
    first, *rest = (_folded(arg, leaf, constant, ops) for arg in args)
    return reduce(ops[kind], rest, first)


def _is_size(value: object) -> bool:
    return isinstance(value, (int, Size)) or hasattr(value, "__index__")


def _expr(value: "int | Size") -> Any:
    return value._expr if isinstance(value, Size) else int(value)


def _size(expr: Any) -> "int | Size":
    """The size that an expression in normal form is."""
    return int(expr) if expr.is_Integer else Size(expr)


def _extreme(sizes: "Sequence[int | Size]", relation: str) -> "int | Size":
    """The maximum of sizes that are to be `<=` it, or the minimum."""
    if all(isinstance(s, int) for s in sizes):
        numbers = [s for s in sizes if isinstance(s, int)]
        return max(numbers) if relation == "<=" else min(numbers)
    algebra = _algebra()
    return _size((algebra.largest if relation == "<=" else algebra.smallest)(*map(_expr, sizes)))


def _quotient(a: "int | Size", b: "int | Size") -> "int | Size":
    return _size(_algebra().floor_div(_expr(a), _expr(b)))


def _holds(a: "int | Size", relation: str, b: "int | Size") -> bool | None:
    """Whether a relation holds for all values of the symbols: None where it depends, or cannot be told."""
    if relation in ("<", "<="):
        a, b, relation = b, a, {"<": ">", "<=": ">="}[relation]
    apart = a - b
    if isinstance(apart, int):
        return apart > 0 if relation == ">" else apart >= 0
    answer: bool | None = _algebra().is_above_zero(apart._expr, relation == ">")
    return answer


def _decided(a: "int | Size", relation: str, b: "int | Size") -> bool:
    if not _is_size(b):
        raise TypeError(f"'{relation}' is not supported between a size and {b!r}")
    answer = _holds(a, relation, b)
    if answer is None:
        raise UndecidedError(f"whether {a} {relation} {b} is known only at run time")
    return answer


_NO_SIZE = (SyntaxError, ValueError, MemoryError, RecursionError, ZeroDivisionError)  # what reading a text that is none may raise


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _checked(tree: ast.AST, text: str) -> ast.AST:
    """An expression whose sum of products, which the normal form is, is not absurdly long. Raises InferenceError for another."""
    _extent(tree, text)
    return tree


def _extent(tree: ast.AST, text: str) -> tuple[int, float]:
    """How many terms, and factors in one of them, the sum of products of an expression has at most; a number has one for each byte."""
    match tree:
        case ast.Constant(value=int(number)):
            found = 1, number.bit_length() / 8
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 < power < 10:
            terms, factors = _extent(left, text)
            found = terms**power, factors * power
        case ast.BinOp(left=left, op=op, right=right):
            (a, b), (c, d) = _extent(left, text), _extent(right, text)
            found = (a + c, max(b, d)) if isinstance(op, (ast.Add, ast.Sub)) else (a * c, b + d)
        case ast.UnaryOp(operand=operand):
            found = _extent(operand, text)
        case ast.Call(args=args):
            for arg in args:
                _extent(arg, text)
            found = 1, 1
        case _:
            found = 1, 1
    if found[0] > MOST_TERMS or found[1] > MOST_FACTORS:
        raise InferenceError(f"expected a size of at most {MOST_TERMS} terms of {MOST_FACTORS} factors, got '{_short(text)}'")
    return found


def _parsed(tree: ast.AST, text: str) -> "int | Size":
    match tree:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parsed(operand, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_parsed(left, text), _parsed(right, text))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 < power < 10:
            return math.prod([_parsed(left, text)] * power)
        case ast.Call(func=ast.Name(id=("max" | "min") as name), args=[_, _, *_] as args, keywords=[]):
            return (maximum if name == "max" else minimum)(*(_parsed(arg, text) for arg in args))
    raise InferenceError(f"expected a size of words, numbers, +, -, *, //, %, max and min, got '{_short(text)}'")


_ARITHMETIC: dict[type, Any] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}  # fmt: skip
