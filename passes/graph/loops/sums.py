"""The terms of a gate of a recurrent cell: products with weights, rows that iterations read, and loop invariants."""

from dataclasses import dataclass, replace
from math import prod

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import type_of
from stepwell.passes.graph.loops.rounds import Rounds


@dataclass(frozen=True)
class Part:
    """`count` columns (the last dimension) of a value, from column `first` on."""

    value: ir.Value
    first: int
    count: int

    def sliced(self, rounds: Rounds, value: ir.Value) -> ir.Value:
        """The columns of an invariant or stacked value, in front of the loop."""
        sizes = type_of(value).shape
        rank = len(sizes)
        if not rank or sizes[-1] == 1 != self.count or (self.first, self.count) == (0, sizes[-1]):
            return value
        starts, sizes = ((*[whole] * (rank - 1), own) for whole, own in ((0, self.first), (-1, self.count)))
        return rounds.b.slice(value, starts=starts, sizes=sizes, steps=(1,) * rank)


@dataclass(frozen=True)
class Product:
    """A value times some rows and columns of an invariant matrix."""

    lhs: ir.Value
    matrix: ir.Value
    first_row: int
    rows: int
    columns: Part

    def weights(self, rounds: Rounds) -> ir.Value:
        """The part of the matrix, in front of the loop."""
        matrix = rounds.lifted(self.matrix)
        whole = type_of(matrix).shape
        if (self.first_row, self.rows, self.columns.first, self.columns.count) == (0, whole[0], 0, whole[1]):
            return matrix
        starts, sizes = (self.first_row, self.columns.first), (self.rows, self.columns.count)
        return rounds.b.slice(matrix, starts=starts, sizes=sizes, steps=(1, 1))


@dataclass(frozen=True)
class Sum:
    """The terms of a sum: products, invariants, rows of tensors that can be computed in front of the loop, and others."""

    products: tuple[Product, ...] = ()
    fixed: tuple[Part, ...] = ()
    rows: tuple[Part, ...] = ()
    others: tuple[Part, ...] = ()

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.products + other.products, self.fixed + other.fixed, self.rows + other.rows, self.others + other.others)


def whole(value: ir.Value) -> Part | None:
    """All columns of a value; None if their number is not known."""
    sizes = type_of(value).shape
    return Part(value, 0, sizes[-1]) if sizes and isinstance(sizes[-1], int) else None


def behind_slices(part: Part) -> Part:
    """The columns of the value that a part is sliced from."""
    while (op := defining_op(part.value)) is not None and op.name == "graph.slice" and type_of(part.value).rank:
        attributes = op.opview.attribute_values()
        *outer, first = attributes["starts"]
        source = type_of(op.operands[0]).shape
        rows = not any(outer) and source[:-1] == type_of(part.value).shape[:-1]
        if not rows or any(step != 1 for step in attributes["steps"]) or not isinstance(first, int):
            break
        part = Part(op.operands[0], first + part.first, part.count)
    return part


def sum_of(rounds: Rounds, part: Part) -> Sum:
    """A part of a value as a sum."""
    found = Sum()
    waiting = [part]
    while waiting:
        part = behind_slices(waiting.pop())
        op = defining_op(part.value)
        if rounds.is_invariant(part.value):
            found += Sum(fixed=(part,))
        elif op is not None and op.name == "graph.add":
            waiting += [replace(part, value=side) for side in reversed(list(op.operands))]
        elif op is not None and op.name == "graph.concat" and (inner := _of_concat(op, part)) is not None:
            waiting.append(inner)
        elif op is not None and op.name == "graph.matmul" and _is_of_matrix(rounds, op, part):
            found += Sum(products=tuple(products_of(op, part)))
        elif rounds.can_stack(part.value):
            found += Sum(rows=(part,))
        else:
            found += Sum(others=(part,))
    return found


def _is_of_matrix(rounds: Rounds, op: ir.Operation, part: Part) -> bool:
    """Whether a product is with an invariant matrix of known size, and has these columns."""
    matrix = type_of(op.operands[1])
    return matrix.rank == 2 and matrix.is_static and part.first + part.count <= matrix.static_shape[1] and rounds.is_invariant(op.operands[1])


def _of_concat(op: ir.Operation, part: Part) -> Part | None:
    """The columns of a concatenation within one of its operands; None if they span several."""
    if op.opview.attribute_values()["axis"] != type_of(part.value).rank - 1:
        return None
    first = 0
    for operand in op.operands:
        size = type_of(operand).shape[-1]
        if not isinstance(size, int):
            return None
        if first <= part.first and part.first + part.count <= first + size:
            return Part(operand, part.first - first, part.count)
        first += size
    return None


def products_of(op: ir.Operation, part: Part | None = None) -> list[Product]:
    """A product with a matrix of known size, or with part of its columns; for a concatenation, a product for each joined part."""
    lhs, matrix = op.operands
    depth, columns = type_of(matrix).static_shape
    part = Part(matrix, 0, columns) if part is None else replace(part, value=matrix)
    maker = defining_op(lhs)
    if maker is None or maker.name != "graph.concat" or maker.opview.attribute_values()["axis"] != type_of(lhs).rank - 1:
        return [Product(lhs, matrix, 0, depth, part)]
    widths = [type_of(v).shape[-1] for v in maker.operands]
    found, row = [], 0
    for value, width in zip(maker.operands, widths, strict=True):
        if not isinstance(width, int):
            return [Product(lhs, matrix, 0, depth, part)]
        found.append(Product(value, matrix, row, width, part))
        row += width
    return found


def is_vector(value: ir.Value) -> bool:
    """Whether only the last dimension of a value has more than one element."""
    sizes = type_of(value).shape
    return all(size == 1 for size in sizes[:-1]) and prod(size for size in sizes[:-1] if isinstance(size, int)) == 1
