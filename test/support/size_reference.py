"""The meaning of sizes at run time in Python, with numbers of any length: what the code of a program for all sizes is compared with."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from stepwell.backends.llvm_cpu.objects import split_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.core.layout import Joined, Slot, aligned, lowest_first
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.size_table import MOST_TOTAL, Status, Verdict
from stepwell.dialects.core.sizes import Assumption, Size, compare
from stepwell.dialects.target.host import host
from stepwell.pipelines.pipeline import Pipeline
from stepwell.pipelines.stages import grouped
from stepwell.runtime.loader import LoadedCode, load


class Exact(NamedTuple):
    """A size, and what code in 64 bits says of it."""

    value: int
    overflows: bool = False
    divides_by_zero: bool = False
    unsure: bool = False
    """Whether a part of it overflows: what code computes from that is anything."""


def _fits(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 63


def _made(a: Exact, b: Exact, value: int, *, overflows: bool, by_zero: bool = False) -> Exact:
    return Exact(value, overflows, by_zero or a.divides_by_zero or b.divides_by_zero, overflows or a.unsure or b.unsure)


def _plain(operation: Callable[[int, int], int]) -> Callable[[Exact, Exact], Exact]:
    def made(a: Exact, b: Exact) -> Exact:
        value = operation(a.value, b.value)
        return _made(a, b, value, overflows=a.overflows or b.overflows or not _fits(value))

    return made


def _product(a: Exact, b: Exact) -> Exact:
    value = a.value * b.value
    lost = any(one.overflows and (other.overflows or other.value != 0) for one, other in ((a, b), (b, a)))
    return _made(a, b, value, overflows=lost or not _fits(value))


def _quotient(a: Exact, b: Exact) -> Exact:
    value = a.value if b.value == 0 else a.value // b.value
    return _made(a, b, value, overflows=a.overflows or b.overflows or not _fits(value), by_zero=b.value == 0)


_OPS: dict[str, Callable[[Exact, Exact], Exact]] = {
    "+": _plain(operator.add), "*": _product, "//": _quotient, "max": _plain(max), "min": _plain(min),
}  # fmt: skip


def exact(size: int | Size, values: Mapping[str, int]) -> Exact:
    """A size where symbols are these numbers."""

    def number(value: int) -> Exact:
        return Exact(value, not _fits(value), unsure=not _fits(value))

    if isinstance(size, int):
        return number(size)
    return size.fold(lambda part: Exact(values[str(part)]) if part.is_symbol else None, number, _OPS)


@dataclass
class Program:
    """What a program for all sizes says of its sizes."""

    symbols: Sequence[str]
    assumptions: Sequence[Assumption]
    layout: Sequence[Slot]
    joined: Joined | None
    derived: Sequence[Size]
    outputs: Sequence[Sequence[int | Size]]
    """The shapes of results of f32."""
    workspace_bytes: int
    most_value_bytes: int
    entries: int = field(init=False)

    def __post_init__(self) -> None:
        self.entries = len(self.symbols) + len(self.layout)

    def run(self, values: Mapping[str, int]) -> tuple[Verdict, list[int], bool]:
        """The verdict and the table for sizes, and whether code may come to another verdict by numbers that do not fit."""
        negative = [values[name] < 0 for name in self.symbols]
        sides = [(exact(a.left, values), exact(a.right, values)) for a in self.assumptions]
        broken = [
            a.divides_by_zero or b.divides_by_zero or not (a.overflows or b.overflows or compare(said.relation, a.value, b.value))
            for said, (a, b) in zip(self.assumptions, sides, strict=True)
        ]
        is_one = self.joined is not None and values[str(self.joined.one)] == 1
        slots = self.joined.slots if is_one and self.joined is not None else self.layout
        # Those of the usual layout are computed in any case.
        sizes = [slot.size for slot in self.layout] + [size for slot in slots for size in (slot.size, *(slot.inside or (0, 0))[1:])]
        used = [exact(size, values) for size in (*sizes, *self.derived)] + [side for pair in sides for side in pair]
        offsets, total = _placed(slots, values)
        bytes_ = [exact(4, values) for _ in self.outputs]
        for number, shape in enumerate(self.outputs):
            for size in shape:
                bytes_[number] = _product(bytes_[number], exact(size, values))
        longest = max(self.symbols, key=lambda name: values[name])
        found = [
            (Status.NEGATIVE, negative), (Status.ASSUMPTION, broken),
            (Status.DIVISION, [any(number.divides_by_zero for number in used[: len(used) - 2 * len(sides)])]),
            (Status.OVERFLOW, [total >= MOST_TOTAL or any(number.overflows for number in used)]),
            (Status.WORKSPACE, [total > self.workspace_bytes]),
            (Status.OUTPUT, [prod(exact(size, values).value for size in shape) * 4 > self.most_value_bytes for shape in self.outputs]),
            (Status.DIMENSION, [name == longest and values[name] > self.most_value_bytes for name in self.symbols]),
        ]  # fmt: skip
        verdict = next((Verdict(status, flags.index(True)) for status, flags in found if True in flags), Verdict(Status.OK))
        table = [*(values[name] for name in self.symbols), *offsets, total, *(exact(size, values).value for size in self.derived)]
        return verdict, table, any(number.unsure for number in (*used, *bytes_))


class Layout:
    """Computes offsets."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots, self._order = slots, lowest_first(slots)

    def placed(self, values: Mapping[str, int]) -> tuple[list[int], int]:
        """The offset of each slot in bytes, and the size of all."""
        sizes = [aligned(max(exact(slot.size, values).value, 0)) for slot in self.slots]
        found = [0] * len(sizes)
        for number in self._order:
            found[number] = max((found[below] + sizes[below] for below in self.slots[number].below), default=0)
        return found, max(map(operator.add, found, sizes), default=0)


def _placed(slots: Sequence[Slot], values: Mapping[str, int]) -> tuple[list[int], int]:
    """The offsets of slots, and the size of all."""
    sizes = [0 if slot.inside is not None else aligned(max(exact(slot.size, values).value, 0)) for slot in slots]
    outer = [Slot(size, () if slot.inside is not None else slot.below) for slot, size in zip(slots, sizes, strict=True)]
    offsets, total = Layout(outer).placed(values)
    for number, slot in enumerate(slots):
        if slot.inside is not None:
            offsets[number] = offsets[slot.inside[0]] + exact(slot.inside[1], values).value
    return offsets, total


def compiled(module: ir.Module, *exports: str) -> LoadedCode:
    """The functions of a module at level affine, which take pointers."""
    return load(compile_units(split_module(module, grouped(Pipeline.default().stage("llvm").per_function), host())), exports)
