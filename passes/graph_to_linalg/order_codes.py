"""Elements as integers with the same order, and the search for the first of them."""

from dataclasses import dataclass
from math import prod

from stepwell.dialects.core.mlir import arith, defining_op, ir
from stepwell.dialects.core.types import is_float, is_unsigned
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims, element
from stepwell.passes.graph_to_linalg.scalars import Scalars


@dataclass
class Codes:
    """Maps elements of a type to integers of equally many bits: the largest one, as an unsigned number, comes first in the order.

    NaN is greater than all other floats, or, if it `wins`, also the first in ascending order.
    """

    b: LinalgBuilder
    dtype: str
    largest: bool
    nan_wins: bool = False

    @property
    def bits(self) -> int:
        """The number of bits of a code."""
        return element(self.dtype).width

    @property
    def kind(self) -> str:
        """The type of codes."""
        return f"i{self.bits}"

    def code(self, value: ir.Value) -> ir.Value:
        """The code of an element."""
        b = self.b
        top, ones = b.scalar(1 << (self.bits - 1), self.kind), b.scalar(-1, self.kind)
        if not is_float(self.dtype):
            code = value if is_unsigned(self.dtype) else arith.xori(value, top)
            return code if self.largest else arith.xori(code, ones)
        s, wide = Scalars(b, self.dtype), b.widen(value)
        code = arith.bitcast(element(self.kind), value)
        code = s.select(s.compare("eq", wide, s.const(0)), b.scalar(0, self.kind), code)  # zeros are equal, whatever their signs
        sign = arith.shrsi(code, b.scalar(self.bits - 1, self.kind))
        code = arith.xori(code, arith.ori(sign, top))
        code = code if self.largest else arith.xori(code, ones)
        return s.select(s.compare("ne", wide, wide), ones if self.largest or self.nan_wins else b.scalar(0, self.kind), code)


def place_of_first(codes: Codes, x: ir.Value, axis: int, *, last: bool = False) -> ir.Value:
    """The index along `axis` of the first element in the order, among equal ones the first, or the `last`; i64, without that dimension.

    Along the contiguous dimension: two folds whose lanes lie along it, the largest code and then the smallest index that has it. Along another one: a
    single fold of both.
    """
    merged = _merged(codes.b, x, axis)
    if merged is not None:
        place = place_of_first(codes, merged, 1, last=last)
        sizes = [codes.b.size(x, i) for i in range(x.type.rank) if i != axis]
        return codes.b.reshape(place, [list(range(axis)), list(range(axis, len(sizes)))], sizes)
    b, rank, size, kind = codes.b, x.type.rank, x.type.shape[axis], codes.kind
    others = [i for i in range(rank) if i != axis]
    sizes, out = [b.size(x, i) for i in others], dims(*range(rank - 1))
    source = dims(*(rank - 1 if i == axis else others.index(i) for i in range(rank)))
    index = "i32" if not x.type.is_dynamic_dim(axis) and size < 1 << 31 else "i64"

    def position() -> ir.Value:
        return b.from_index(b.loop_index(rank - 1), index)

    if axis == rank - 1:
        beyond = b.scalar(-1 if last else size if index == "i32" else (1 << 63) - 1, index)
        most = b.generic([x], b.filled(0, kind, sizes), [source, out], 1, lambda value, so_far: arith.maxui(so_far, codes.code(value)))
        start = b.fill(beyond, b.empty(index, sizes))
        nearer = arith.maxsi if last else arith.minsi

        def found(value: ir.Value, best: ir.Value, so_far: ir.Value) -> ir.Value:
            same = arith.cmpi(arith.CmpIPredicate.eq, codes.code(value), best)
            return nearer(so_far, arith.select(same, position(), beyond))

        place = b.generic([x, most], start, [source, out, out], 1, found)
    else:
        order = ByValue(codes, last) if is_float(codes.dtype) and codes.nan_wins else ByCode(codes, last)

        def fold(value: ir.Value, best: ir.Value, place: ir.Value) -> list[ir.Value]:
            seen = order.code(value)
            better = order.better(seen, best)
            return [arith.select(better, seen, best), arith.select(better, position(), place)]

        place = b.generics([x], [b.filled(order.none, order.kind, sizes), b.filled(0, index, sizes)], [source, out, out], 1, fold)[1]
        place = b.staged(place)
    return b.elementwise([place], "i64", sizes, lambda v: v if index == "i64" else arith.extsi(element("i64"), v))


class ByCode:
    """A fold that keeps the code of the best element so far."""

    none = 0  # no element is worse

    def __init__(self, codes: Codes, last: bool) -> None:
        self.codes, self.kind = codes, codes.kind
        self.predicate = arith.CmpIPredicate.uge if last else arith.CmpIPredicate.ugt

    def code(self, value: ir.Value) -> ir.Value:
        """The kept form of an element."""
        return self.codes.code(value)

    def better(self, one: ir.Value, best: ir.Value) -> ir.Value:
        """Whether an element comes before the best one so far, which precedes it in memory."""
        return arith.cmpi(self.predicate, one, best)


class ByValue:
    """Like `ByCode`, for floats among which NaN comes first: keeps the element itself, which takes two comparisons and no code."""

    def __init__(self, codes: Codes, last: bool) -> None:
        self.b, self.last, self.s = codes.b, last, Scalars(codes.b, codes.dtype)
        self.kind, self.none = self.s.dtype, float("-inf" if codes.largest else "inf")
        self.side = "gt" if codes.largest else "lt"

    def code(self, value: ir.Value) -> ir.Value:
        """The kept form of an element."""
        return self.b.widen(value)

    def better(self, one: ir.Value, best: ir.Value) -> ir.Value:
        """Whether an element comes before the best one so far, which precedes it in memory."""
        predicates = {"gt": (arith.CmpFPredicate.UGT, arith.CmpFPredicate.OGE), "lt": (arith.CmpFPredicate.ULT, arith.CmpFPredicate.OLE)}
        strictly, equally = predicates[self.side]
        if self.last:
            return arith.ori(arith.cmpf(equally, one, best), arith.cmpf(arith.CmpFPredicate.UNO, one, one))
        return arith.andi(arith.cmpf(strictly, one, best), arith.cmpf(arith.CmpFPredicate.ORD, best, best))


def _merged(b: LinalgBuilder, x: ir.Value, axis: int) -> ir.Value | None:
    """An argument of the kernel with the dimensions before and after `axis` merged into one each; None if there is nothing to merge.

    A fold with two results keeps its loops: long rows must be there from the start.
    """
    shape, rank = b.sizes(x), x.type.rank
    if not 0 < axis < rank - 1 or rank == 3 or defining_op(x) is not None or not all(isinstance(s, int) for s in shape):
        return None
    groups = [list(range(axis)), [axis], list(range(axis + 1, rank))]
    return b.staged(b.reshape(x, groups, [prod(shape[i] for i in group) for group in groups]))
