"""Dynamic sizes: named symbols and expressions of them, which behave like whole numbers."""

import operator
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
    """The answer to a question about sizes depends on the values of symbols."""


class Size:
    """An expression of symbols, each a whole number from 0: `n`, `2*s + 1`, `(h + 1) // 2`, `max(0, s - 1)`.

    Arithmetic with numbers and other sizes gives a `Size`, or an `int` if the symbols cancel out. Two sizes are equal if their normal forms are:
    they are then equal for all values of the symbols. A divisor that is no number is assumed to be nonzero. A comparison has an answer if that is the
    same for all values; otherwise it raises UndecidedError.
    """

    def __init__(self, expr: Any) -> None:
        """`expr` is an expression of the simplifier, in normal form. Use `symbol` and `size_parser.parse` instead."""
        self._expr = expr

    @cached_property
    def _text(self) -> str:
        return str(_algebra().text(self._expr))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The names of its symbols, in alphabetical order."""
        return tuple(sorted(s.name for s in self._expr.free_symbols))

    @property
    def is_symbol(self) -> bool:
        """Whether it is a single symbol."""
        return bool(self._expr.is_Symbol)

    def value(self, values: Mapping[str, int]) -> int:
        """The number for given values of the symbols. Raises KeyError for a symbol without a value, ZeroDivisionError for a division by 0."""
        return int(_algebra().evaluate(self._expr, values))

    def fold(self, leaf: "Callable[[Size], T | None]", constant: Callable[[int], T], ops: "Mapping[str, Callable[[T, T], T]]") -> T:
        """Translate the expression, for instance to IR values. `leaf` translates a part, or returns None to have it composed from its own
        parts by `ops` (`+`, `*`, `//`, `max` and `min`). It is called for every symbol, and must translate all of them."""
        return _folded(self._expr, leaf, constant, ops)

    def renamed(self, names: Mapping[str, str]) -> "int | Size":
        """The expression with symbols renamed by `names`; others stay."""
        ops = {"+": operator.add, "*": operator.mul, "//": operator.floordiv, "max": maximum, "min": minimum}
        return self.fold(lambda part: symbol(names.get(str(part), str(part))) if part.is_symbol else None, int, ops)

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


Dim: TypeAlias = "int | Size | None"
"""A dimension of a type: a number, an expression of symbols, or None if nothing is known."""


def is_name(text: str) -> bool:
    """Whether a symbol may have that name: a word that Python reads unchanged, because types in IR contain it as text."""
    return text.isidentifier() and not iskeyword(text) and text not in ("max", "min") and normalize("NFKC", text) == text


def symbol(name: str) -> Size:
    """The symbol with that name, which must be a word, but neither a Python keyword nor `max` or `min`."""
    if not is_name(name):
        raise InferenceError(f"the name of a size must be a word, got '{name}'")
    return Size(_algebra().symbol(name))


def maximum(*sizes: "int | Size") -> "int | Size":
    """The largest of the sizes."""
    return _extreme(sizes, "<=")


def minimum(*sizes: "int | Size") -> "int | Size":
    """The smallest of the sizes."""
    return _extreme(sizes, ">=")


def differ(a: Dim, b: Dim) -> bool:
    """Whether two sizes differ for all values of the symbols."""
    if a is None or b is None or a == b:
        return False
    if isinstance(a, int) and isinstance(b, int):
        return True
    return always(a, "<", b) or always(a, ">", b)


def always(a: "int | Size", relation: str, b: "int | Size") -> bool:
    """Whether `a < b` (or `<=`, `>`, `>=`) holds for all values of the symbols; False also if that cannot be decided."""
    return _holds(a, relation, b) is True


def product(sizes: Iterable[Dim]) -> Dim:
    """The product of the sizes; None if one is unknown, unless another is 0."""
    found: Dim = 1
    for size in sizes:
        if size == 0:
            return 0
        found = None if found is None or size is None else found * size
    return found


def total(sizes: Iterable["int | Size"]) -> "int | Size":
    """The sum of the sizes."""
    return sum(sizes, start=0)


def size_text(size: Dim) -> str:
    """A size in printed form: `?` for None and for the negative number that MLIR uses for a dynamic size."""
    return "?" if size is None or (isinstance(size, int) and size < 0) else str(size)


def sizes_text(sizes: Iterable[Dim]) -> str:
    """Sizes in the printed form of messages: `[2, n, ?, 8]`."""
    return f"[{', '.join(map(size_text, sizes))}]"


@dataclass(frozen=True)
class Assumption:
    """A relation between sizes that a program's types rely on, and a run checks."""

    left: "int | Size"
    relation: str
    """`==`, `!=`, `<`, `<=`, `>` or `>=`."""
    right: "int | Size"

    @property
    def symbols(self) -> set[str]:
        """The symbols in the relation."""
        return {name for size in (self.left, self.right) if isinstance(size, Size) for name in size.symbols}

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it holds for given values of the symbols. It does not if it divides by 0 or a symbol has no value."""
        try:
            return compare(self.relation, evaluated(self.left, values), evaluated(self.right, values))
        except (KeyError, ZeroDivisionError):
            return False

    def renamed(self, names: Mapping[str, str]) -> "Assumption":
        """The assumption with symbols renamed by `names`; others stay."""
        left, right = (size.renamed(names) if isinstance(size, Size) else size for size in (self.left, self.right))
        return Assumption(left, self.relation, right)

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


def compare(relation: str, left: int, right: int) -> bool:
    """Whether a relation holds between two numbers."""
    return _RELATIONS[relation](left, right)


@contextmanager
def assumptions() -> Iterator[list[Assumption]]:
    """Collects the assumptions that `holds` makes inside the block, each once."""
    found: dict[Assumption, None] = {}
    collected: list[Assumption] = []
    token = _ASSUMED.set(found)
    try:
        yield collected
    finally:
        _ASSUMED.reset(token)
        collected.extend(found)


def assume(assumption: Assumption) -> None:
    """Record an assumption for the enclosing `assumptions` block."""
    found = _ASSUMED.get()
    if found is not None:
        found[assumption] = None


def holds(a: Dim, relation: str, b: Dim) -> bool:
    """Whether a relation holds; if that depends on the symbols, it is assumed to, and `assumptions` collects it."""
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
    """Whether a dimension has an element, unless `needed` (the number of required elements, or any size that is 0 if none is) is 0; else as `holds`.

    If the symbols decide that, the dimension is assumed to have one, or to need none.
    """
    if size is None or needed is None or always(needed, ">", 0):
        return holds(size, ">", 0)
    if size == needed:
        return True
    return holds(maximum(size, 1 - needed), ">", 0)


def same_sizes(have: Sequence[Dim], want: Sequence[Dim]) -> bool:
    """Whether two shapes are equal; like `holds`, sizes that depend on symbols are assumed to be."""
    return len(have) == len(want) and all(holds(h, "==", w) for h, w in zip(have, want, strict=True))


def divides(divisor: "int | Size", size: Dim) -> bool:
    """Whether `size` is a multiple of `divisor`; like `holds`, assumed if it depends on the symbols."""
    return size is None or holds(size % divisor, "==", 0)


def is_static(sizes: Iterable[Dim]) -> bool:
    """Whether all sizes are numbers."""
    for size in sizes:  # noqa: SIM110  (`all` with a generator takes several times as long, and every type calls this)
        if not isinstance(size, int):
            return False
    return True


def static_sizes(sizes: Iterable[Dim]) -> list[int]:
    """The sizes as numbers. Raises InferenceError if one is dynamic."""
    found = list(sizes)
    numbers = [s for s in found if isinstance(s, int)]
    if len(numbers) != len(found):
        raise InferenceError(f"expected sizes known at compile time, got {sizes_text(found)}")
    return numbers


def evaluated(size: "int | Size", values: Mapping[str, int]) -> int:
    """The number for given values of the symbols; a number stays itself."""
    return size if isinstance(size, int) else size.value(values)


def evaluated_if_known(size: "int | Size", values: Mapping[str, int]) -> "int | Size":
    """Like `evaluated`, but the size itself if one of its symbols has no value."""
    return size if isinstance(size, int) or not values.keys() >= set(size.symbols) else size.value(values)


@cache
def _algebra() -> ModuleType:
    from stepwell.dialects.core import size_algebra  # imported here, because it takes long to load

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
    """The size for an expression in normal form."""
    return int(expr) if expr.is_Integer else Size(expr)


def _extreme(sizes: "Sequence[int | Size]", relation: str) -> "int | Size":
    """The maximum of the sizes for `<=`, the minimum for `>=`."""
    if all(isinstance(s, int) for s in sizes):
        numbers = [s for s in sizes if isinstance(s, int)]
        return max(numbers) if relation == "<=" else min(numbers)
    algebra = _algebra()
    return _size((algebra.largest if relation == "<=" else algebra.smallest)(*map(_expr, sizes)))


def _quotient(a: "int | Size", b: "int | Size") -> "int | Size":
    return _size(_algebra().floor_div(_expr(a), _expr(b)))


def _holds(a: "int | Size", relation: str, b: "int | Size") -> bool | None:
    """Whether a relation holds for all values of the symbols; None if it depends on them or cannot be decided."""
    if relation in ("<", "<="):
        a, b, relation = b, a, {"<": ">", "<=": ">="}[relation]
    apart = a - b
    if isinstance(apart, int):
        return apart > 0 if relation == ">" else apart >= 0
    return _algebra().is_above_zero(apart._expr, relation == ">")


def _decided(a: "int | Size", relation: str, b: "int | Size") -> bool:
    if not _is_size(b):
        raise TypeError(f"'{relation}' is not supported between a size and {b!r}")
    answer = _holds(a, relation, b)
    if answer is None:
        raise UndecidedError(f"whether {a} {relation} {b} is known only at run time")
    return answer
