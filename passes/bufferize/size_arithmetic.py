"""Sizes computed by code, in 64 bits: overflow and division by 0 are detected and do no harm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from stepwell.dialects.core.layout import ALIGNMENT, Slot, lowest_first
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.core.size_table import MOST_TOTAL
from stepwell.dialects.core.sizes import Assumption, Size

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1  # of i64, in which sizes are computed
_CMP = arith.CmpIPredicate
_RELATIONS = {"==": _CMP.eq, "!=": _CMP.ne, "<": _CMP.slt, "<=": _CMP.sle, ">": _CMP.sgt, ">=": _CMP.sge}


@dataclass(frozen=True)
class Number:
    """A size as a value of i64. Each flag is a value of i1; None if it cannot be set."""

    value: ir.Value
    overflows: ir.Value | None = None
    """Whether the size does not fit 64 bits: then the value is wrong."""
    divides_by_zero: ir.Value | None = None


class SizeArithmetic:
    """Builds sizes at the current insertion point, in one block: each expression, and each part of one, only once."""

    def __init__(self, symbol: Callable[[str], ir.Value]) -> None:
        """`symbol` returns the value of a symbol by its name."""
        self._symbol = symbol
        self._numbers: dict[int | Size, Number] = {}
        self.overflows: list[ir.Value] = []
        """The overflow flags of sizes that were built."""
        self.divides_by_zero: list[ir.Value] = []

    def number(self, size: int | Size) -> Number:
        """A size with its flags."""
        if size not in self._numbers:
            self._numbers[size] = self._built(size)
        return self._numbers[size]

    def value(self, size: int | Size) -> ir.Value:
        """A size; its flags are added to `overflows`."""
        number = self.number(size)
        self.overflows += [] if number.overflows is None else [number.overflows]
        self.divides_by_zero += [] if number.divides_by_zero is None else [number.divides_by_zero]
        return number.value

    def is_broken(self, assumption: Assumption) -> ir.Value:
        """Whether the sizes violate an assumption. A division by 0 does; a size that does not fit only counts as an overflow."""
        left, right = self.number(assumption.left), self.number(assumption.right)
        holds = compare(_RELATIONS[assumption.relation], left.value, right.value)
        overflows = any_of(left.overflows, right.overflows)
        if overflows is not None:
            self.overflows.append(overflows)
        fulfilled = any_of(holds, overflows)
        assert fulfilled is not None
        broken = any_of(negated(fulfilled), left.divides_by_zero, right.divides_by_zero)
        assert broken is not None
        return broken

    def placed(self, slots: Sequence[Slot], apart: Sequence[int] = ()) -> tuple[list[ir.Value], list[ir.Value], ir.Value]:
        """The offset and the size of each slot in bytes, and the total without the slots `apart`, at most `MOST_TOTAL`, which counts as too much."""
        sizes = [self._aligned(slot.size) for slot in slots]
        offsets: list[ir.Value] = [constant(0)] * len(slots)
        ends: dict[int, ir.Value] = {}
        shared: dict[tuple[int, ...], ir.Value] = {}  # slots above the same slots have the same offset
        for number in lowest_first(slots):
            below = slots[number].below
            if below and below not in shared:
                shared[below] = self._highest([ends[other] for other in below])
            offsets[number] = shared[below] if below else offsets[number]
            ends[number] = arith.AddIOp(offsets[number], sizes[number]).result
        covered = {other for slot in slots for other in slot.below}  # a slot above them ends at least as high
        tops = [ends[number] for number in range(len(slots)) if number not in covered and number not in apart]
        return offsets, sizes, self._highest(tops) if tops else constant(0)

    def _highest(self, ends: Sequence[ir.Value]) -> ir.Value:
        """The largest of several ends, read as unsigned: none is above 2**62 + 2**63, so that nothing is lost before it is clamped."""
        highest: ir.Value = reduce(lambda a, b: arith.MaxUIOp(a, b).result, ends)
        return arith.MinUIOp(highest, constant(MOST_TOTAL)).result

    def _aligned(self, size: int | Size) -> ir.Value:
        """The bytes of a slot, in whole cache lines, at most 2**63 as an unsigned number."""
        least = arith.MaxSIOp(self.value(size), constant(0)).result
        return arith.AndIOp(arith.AddIOp(least, constant(ALIGNMENT - 1)).result, constant(-ALIGNMENT)).result

    def _built(self, size: int | Size) -> Number:
        if isinstance(size, int):
            fits = _LEAST <= size <= _MOST
            return Number(constant(size if fits else 0), None if fits else _true())
        if size.is_symbol:
            return Number(self._symbol(str(size)))

        def leaf(part: Size) -> Number | None:
            return None if part == size else self.number(part)

        return size.fold(leaf, self.number, _OPS)


def _sum(a: Number, b: Number) -> Number:
    value = arith.AddIOp(a.value, b.value).result
    wraps = arith.XOrIOp(compare(_CMP.slt, b.value, constant(0)), compare(_CMP.slt, value, a.value)).result
    return Number(value, any_of(wraps, a.overflows, b.overflows), any_of(a.divides_by_zero, b.divides_by_zero))


def _product(a: Number, b: Number) -> Number:
    """A product. If a factor is 0 it is 0, however large the other one is."""
    low, high = arith.MulSIExtendedOp(a.value, b.value).results
    wraps = compare(_CMP.ne, high, arith.ShRSIOp(low, constant(63)).result)
    too_large = [wraps]
    for one, other in ((a, b), (b, a)):
        if one.overflows is not None:
            counts = any_of(compare(_CMP.ne, other.value, constant(0)), other.overflows)
            too_large.append(arith.AndIOp(one.overflows, counts).result)
    return Number(low, any_of(*too_large), any_of(a.divides_by_zero, b.divides_by_zero))


def _quotient(a: Number, b: Number) -> Number:
    """A quotient, rounded down. Processors trap if the divisor is 0 or the result does not fit: then the code divides by 1."""
    by_zero = compare(_CMP.eq, b.value, constant(0))
    wraps = arith.AndIOp(compare(_CMP.eq, b.value, constant(-1)), compare(_CMP.eq, a.value, constant(_LEAST))).result
    divisor = arith.SelectOp(arith.OrIOp(by_zero, wraps).result, constant(1), b.value).result
    value = arith.FloorDivSIOp(a.value, divisor).result
    return Number(value, any_of(wraps, a.overflows, b.overflows), any_of(by_zero, a.divides_by_zero, b.divides_by_zero))


def _extreme(op: type[arith.MaxSIOp | arith.MinSIOp]) -> Callable[[Number, Number], Number]:
    def built(a: Number, b: Number) -> Number:
        return Number(op(a.value, b.value).result, any_of(a.overflows, b.overflows), any_of(a.divides_by_zero, b.divides_by_zero))

    return built


_OPS = {"+": _sum, "*": _product, "//": _quotient, "max": _extreme(arith.MaxSIOp), "min": _extreme(arith.MinSIOp)}


def constant(number: int) -> ir.Value:
    """A constant of i64."""
    i64 = ir.IntegerType.get_signless(64)
    return arith.ConstantOp(i64, ir.IntegerAttr.get(i64, number)).result


def as_i64(number: ir.Value) -> ir.Value:
    """A value of type index converted to i64."""
    return arith.IndexCastOp(ir.IntegerType.get_signless(64), number).result


def compare(predicate: arith.CmpIPredicate, left: ir.Value, right: ir.Value) -> ir.Value:
    """Whether a relation of two numbers holds."""
    return arith.CmpIOp(predicate, left, right).result


def any_of(*flags: ir.Value | None) -> ir.Value | None:
    """Whether one of several flags is set; None if none can be."""
    found = [flag for flag in flags if flag is not None]
    return reduce(lambda a, b: arith.OrIOp(a, b).result, found) if found else None


def negated(flag: ir.Value) -> ir.Value:
    """The negation of a flag."""
    return arith.XOrIOp(flag, _true()).result


def _true() -> ir.Value:
    i1 = ir.IntegerType.get_signless(1)
    return arith.ConstantOp(i1, ir.IntegerAttr.get(i1, 1)).result
