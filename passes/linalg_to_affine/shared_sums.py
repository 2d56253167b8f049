"""Products by a constant matrix as sums and differences that its rows and columns share, so that these are computed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.passes.linalg_to_affine import emit
from stepwell.passes.linalg_to_affine.position import Offsets
from stepwell.passes.linalg_to_affine.scalar_body import as_vector
from stepwell.passes.linalg_to_affine.values import constant_of

Terms = tuple[tuple[float, int], ...]
"""A sum of values times factors. The first values are the columns that the matrix is multiplied by; each sum adds another value."""


@dataclass
class SharedSums:
    """How to compute the product of a matrix and a column of values: a sequence of sums, some of which are its rows."""

    columns: int
    sums: list[Terms] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)
    """For each row of the matrix, the index of its value; None for a row of zeros."""

    @staticmethod
    def from_matrix(matrix: np.ndarray, whole: bool = False) -> "SharedSums":
        """The cheaper one of two ways: with or without combining columns first. With `whole`, all factors of an integer matrix are integers.

        In matrices of Toom and Cook's construction, a point and its negative have neighbouring rows or columns of equal magnitudes. Two such columns
        `x`, `y` are replaced by `x + y` and `x - y`, each of which occurs in half of the rows; two such rows are the sum and the difference of their
        common part and of the part whose sign differs (Winograd, "Arithmetic Complexity of Computations", SIAM 1980).
        """
        return min((_made(matrix, combine, whole) for combine in (True, False)), key=lambda made: made.operations)

    @property
    def operations(self) -> int:
        """The number of sums, differences, products and fused multiply-adds."""
        return sum(_operations([factor for factor, _ in terms]) for terms in self.sums)

    def add(self, terms: Terms) -> int:
        """Add a sum; returns the index of its value."""
        if len(terms) == 1 and terms[0][0] == 1:
            return terms[0][1]
        self.sums.append(terms)
        return self.columns + len(self.sums) - 1

    def emit(self, values: Sequence[ir.Value | None], width: int, *, fma: bool) -> list[ir.Value | None]:
        """The rows of the product with `values`, which are numbers or vectors of `width`; None for rows of zeros, and for columns of zeros."""
        found = {n: value for n, value in enumerate(values) if value is not None}
        for n, terms in enumerate(self.sums, self.columns):
            found[n] = _emit([(factor, found[of]) for factor, of in terms], width, fma)
        return [None if row is None else found[row] for row in self.rows]


def known_numbers(places: Sequence[Sequence[Offsets]], number: Callable[[Offsets], float | None]) -> list[list[float]] | None:
    """The `number` at each place; None if a number is unknown, or is an integer that f64, in which the matrix is factored, cannot represent."""
    rows = []
    for row in places:
        numbers = [found for place in row if (found := number(place)) is not None]
        if len(numbers) < len(row) or any(isinstance(v, int) and float(v) != v for v in numbers):
            return None
        rows.append(numbers)
    return rows


def tile_sums(
    places: Sequence[Sequence[Offsets]],
    numbers: Sequence[Sequence[float]],
    *,
    address: Callable[[Offsets], str],
    load: Callable[[Offsets], ir.Value],
    width: int,
    fma: bool,
) -> list[ir.Value | None]:
    """The sums of a register tile, each over one row of `places`: the number of a place times the value loaded at its `address`.

    Sums that load from the same addresses are rows of one matrix. A sum without terms is None.
    """
    addresses = [tuple(map(address, row)) for row in places]
    loaded: dict[str, ir.Value] = {}
    found: list[ir.Value | None] = [None] * len(places)
    for key in dict.fromkeys(addresses):
        rows = [r for r, other in enumerate(addresses) if other == key]
        matrix = np.array([numbers[r] for r in rows], np.float64)
        for c in map(int, np.flatnonzero(matrix.any(axis=0))):
            if key[c] not in loaded:
                loaded[key[c]] = load(places[rows[0]][c])
        whole = any(_of_integers(value) for value in loaded.values())
        sums = SharedSums.from_matrix(matrix, whole).emit([loaded.get(where) for where in key], width, fma=fma)
        for r, value in zip(rows, sums, strict=True):
            found[r] = value
    return found


def _made(matrix: np.ndarray, combine: bool, whole: bool) -> SharedSums:
    rows, count = matrix.shape
    made = SharedSums(count)
    columns = {n: matrix[:, n] for n in range(count) if matrix[:, n].any()}
    for n in range(count) if combine else ():
        same = [m for m in columns if m > n and n in columns and np.array_equal(abs(columns[m]), abs(columns[n]))]
        if not same or np.count_nonzero(columns[n]) <= 2:
            continue
        first, second = columns.pop(n), columns.pop(same[0])
        for sign in (1, -1):
            part = np.where(second == sign * first, first, 0)
            if part.any():
                columns[made.add(((1.0, n), (float(sign), same[0])))] = part
    numbers = list(columns)
    left = np.stack(list(columns.values()), axis=1) if columns else np.zeros((rows, 0))
    made.rows = [None] * rows
    for r in range(rows):
        if made.rows[r] is not None or not left[r].any():
            continue
        twin = next((s for s in range(r + 1, rows) if made.rows[s] is None and np.array_equal(abs(left[s]), abs(left[r]))), None)
        equal = None if twin is None else np.where(left[twin] == left[r], left[r], 0)
        if twin is None or equal is None or not _share(made, left[r], equal, numbers, r, twin, whole):
            made.rows[r] = made.add(_terms(left[r], numbers))
    return made


def _share(made: SharedSums, row: np.ndarray, equal: np.ndarray, numbers: Sequence[int], r: int, twin: int, whole: bool) -> bool:
    """Compute two rows from the part that is `equal` in them and the part whose signs differ; returns False if that saves nothing."""
    other = row - equal
    if not other.any() or not equal.any():  # equal rows, or one the negative of the other
        made.rows[r] = same = made.add(_terms(row, numbers))
        made.rows[twin] = made.add(((1.0 if equal.any() else -1.0, same),))
        return True
    outer, inner = zip(*(_factored(part, whole) for part in (equal, other)), strict=True)
    alone, together = 2 * _operations(row[row != 0]), sum(_operations(part[part != 0]) for part in inner) + 2 * _operations(outer)
    if together >= alone:
        return False
    low, high = (made.add(_terms(part, numbers)) for part in inner)
    made.rows[r], made.rows[twin] = (made.add(((outer[0], low), (sign * outer[1], high))) for sign in (1, -1))
    return True


def _factored(row: np.ndarray, whole: bool) -> tuple[float, np.ndarray]:
    """A factor and the remaining row, which contains a 1, if that needs no rounding and saves a product; otherwise 1 and the row."""
    if np.any(abs(row) == 1):
        return 1.0, row
    for factor in map(float, row[row != 0][::-1]):
        rest = row / factor
        if whole and not np.array_equal(rest, np.rint(rest)):
            continue
        if np.array_equal(rest.astype(np.float32), rest) and np.array_equal(rest * factor, row):
            return factor, rest
    return 1.0, row


def _terms(row: np.ndarray, numbers: Sequence[int]) -> Terms:
    return tuple((float(v), n) for v, n in zip(row, numbers, strict=True) if v)


def _operations(factors: Sequence[float] | np.ndarray) -> int:
    """The number of operations of a sum of values times `factors`; the first value is free if its factor is 1."""
    return len(factors) - any(factor == 1 for factor in factors)


def _emit(terms: list[tuple[float, ir.Value]], width: int, fma: bool) -> ir.Value:
    """A sum that begins with a term whose factor is 1, if there is one."""
    first = next((n for n, (factor, _) in enumerate(terms) if factor == 1), 0)
    factor, total = terms.pop(first)
    whole = _of_integers(total)
    kind = total.type

    def made(name: str, *operands: ir.Value) -> ir.Value:
        return emit.value(name, kind, operands)

    add, sub, mul = (partial(made, f"arith.{name}{'i' if whole else 'f'}") for name in ("add", "sub", "mul"))
    if factor == -1:
        total = sub(_constant(0, total, width), total) if whole else made("arith.negf", total)
    elif factor != 1:
        total = mul(total, _constant(factor, total, width))
    for factor, value in terms:
        if factor == 1:
            total = add(total, value)
        elif factor == -1:
            total = sub(total, value)
        elif fma and not whole:
            total = made("math.fma", value, _constant(factor, value, width), total)
        else:
            total = add(total, mul(value, _constant(factor, value, width)))
    return total


def _of_integers(value: ir.Value) -> bool:
    kind = value.type
    return isinstance(kind.element_type if isinstance(kind, ir.VectorType) else kind, ir.IntegerType)


def _constant(factor: float, like: ir.Value, width: int) -> ir.Value:
    kind = like.type
    if isinstance(kind, ir.VectorType):
        return as_vector(constant_of(kind.element_type, factor), width)
    return constant_of(kind, factor)
