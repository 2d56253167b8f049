"""Intrinsics: blocks of a computation that a machine instruction, or a fixed sequence of them, computes; schedules name them.

All of them are dot products: each lane of a vector of sums takes in `depth` products of neighbouring elements,

    acc[j] += sum over i < depth of x[j * depth + i] * y[j * depth + i]        for j < lanes

which is the block {vector dimension: lanes, summed dimension: depth} of a contraction. A contraction can be split into such blocks if the
operand types hold all values that it multiplies, so that the products are the same, and if it sums in the type of the result.

Those on registers of two dimensions do so for several rows of `x`, and several times for each sum, with the rows of `y` one after the other:

    acc[r][j] += sum over s < steps and i < depth of x[r][s * depth + i] * y[s][j * depth + i]        for r < rows, j < lanes

Element types are spelled `s8`, `u8`, `s16`… of integers with and without a sign, and `b16` of bf16.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, known
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.sched.nest import NONE
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.factors import Factor
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.segments import Segment

BRAIN = "b"  # floats with the exponent of f32
Emit: TypeAlias = Callable[[ir.Value, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Tile:
    """Registers of two dimensions: how many rows they have at most, and what builds their contents, of fewer rows too."""

    rows: int
    """Of sums, and of the first operand."""
    steps: int
    """Rows of the second operand, with the neighbours of each lane side by side."""
    zero: Callable[[ir.Type, int, int], ir.Value]
    """`zero(element, rows, columns)`: sums that are 0."""
    load: Callable[[ir.Value, Sequence[ir.Value], int, int, int], ir.Value]
    """`load(memory, place, stride, rows, columns)`: rows that lie `stride` elements apart in memory, the first one at `place`."""
    store: Callable[[ir.Value, ir.Value, Sequence[ir.Value], int], None]
    """`store(tile, memory, place, stride)`."""


@dataclass(frozen=True)
class Intrinsic:
    """A dot product that a target has. `emit(acc, x, y)` builds it on vectors: x and y are of integers with the bits of what they hold."""

    name: str
    features: frozenset[str]
    """What a target must have, as LLVM spells it."""
    lanes: int
    depth: int
    operands: tuple[str, str]
    result: str
    instructions: float
    """How many instructions it is, for the cost model."""
    emit: Emit
    tile: Tile | None = None
    """Of intrinsics on registers of two dimensions: `emit` gets these in the place of vectors."""

    @property
    def products(self) -> int:
        """How many products it sums."""
        return self.lanes * self.depth * (1 if self.tile is None else self.tile.rows * self.tile.steps)

    def takes(self, left: str, right: str) -> tuple[int, int] | None:
        """Which of two types goes to the first operand and which to the second, (0, 1) or (1, 0); None if they do not fit."""
        for order in ((0, 1), (1, 0)):
            if all(_holds(wide, (left, right)[i]) for wide, i in zip(self.operands, order, strict=True)):
                return order
        return None


@dataclass(frozen=True)
class Use:
    """How an intrinsic computes a contraction."""

    intrinsic: Intrinsic
    sides: tuple[int, int]
    """Which input of the op goes to the first operand, and which to the second."""
    signed: tuple[bool, bool]
    """Whether these are widened with their sign."""
    values: tuple[ir.Value, ir.Value]
    """What the body makes of them before it widens them."""
    summed: int
    """The dimension whose neighbouring iterations are summed in a lane, where vectors do not lie along a summed one."""
    rows: int | None = None
    """The dimension that the rows of registers of two dimensions lie along, if there is more than one row."""
    steps: int | None = None
    """The summed dimension that the rows of the second operand lie along, if there is more than one."""

    def cut(self, dim: int, extent: "int | Size") -> "list[tuple[Segment, Use | None]]":
        """The stretches in which a summed dimension is walked: those of whole blocks by this, and what is left over by the body."""
        step = 1
        if dim == self.summed:
            step = self.intrinsic.depth
        elif dim == self.steps and self.intrinsic.tile is not None:
            step = self.intrinsic.tile.steps
        whole = extent // step * step
        if whole == extent:
            return [(Segment(0, extent, step), self)]
        rest = extent - whole
        if dim == self.steps and isinstance(rest, int):
            return [*([(Segment(0, whole, step), self)] if whole else []), (Segment(whole, extent, rest), self)]
        return [(Segment(0, whole, step), self), (Segment(whole, extent, 1), None)]

    def is_grouped(self, access: Access, vector: int) -> bool:
        """Whether an input lies in memory as its operand does in registers: for each lane along `vector` its neighbours side by side."""
        return access.kind(self.summed) == "vector" and access.apart(vector) == self.intrinsic.depth

    def innermost(self, op: Structured) -> int:
        """The innermost summed dimension of `op` that blocks go through: not the one of which each takes all iterations, if there is another."""
        whole = op.sizes[self.summed] <= self.intrinsic.depth
        return next((d for d in reversed(op.reduction_dims) if d != self.summed or not whole), self.summed)

    def is_as_wide(self, access: Access, op: Structured) -> bool:
        """Whether the operand that an input of `op` goes to has its bits, so that nothing is widened."""
        operands = zip(self.sides, self.intrinsic.operands, strict=True)
        return any(op.inputs[i] is access and int(kind[1:]) == element_bits(access.element_type) for i, kind in operands)


_INTRINSICS: dict[str, Intrinsic] = {}


def intrinsic(
    name: str,
    *,
    features: Iterable[str],
    lanes: int,
    depth: int,
    operands: tuple[str, str],
    result: str = "i32",
    instructions: float = 1.0,
    tile: Tile | None = None,
) -> Callable[[Emit], Emit]:
    """Register a function that emits a dot product of vectors (see `Intrinsic`) on targets that have all of `features`.

    It gets a vector of `lanes` sums and two of `lanes * depth` elements in the types of the operands, and returns the new sums; with `tile`,
    registers of two dimensions as that one makes them.
    """

    def add(emit: Emit) -> Emit:
        known = _INTRINSICS.get(name)
        if name == NONE or (known is not None and known.emit.__qualname__ != emit.__qualname__):
            raise PassError(f"intrinsic '{name}' is already there")
        _INTRINSICS[name] = Intrinsic(name, frozenset(features), lanes, depth, operands, result, instructions, emit, tile)
        extension(emit)
        return emit

    return add


def available(op: Structured, target: Target | None) -> dict[str, Use]:
    """The intrinsics of `target` that can compute `op`, by name, largest first."""
    return {name: use for name, use in considered(op, target).items() if isinstance(use, Use)}


def considered(op: Structured, target: Target | None) -> dict[str, Use | NoMatch]:
    """The intrinsics of `target` by name, largest first: how each computes `op`, or why it cannot."""
    return {i.name: use_of(i, op) for i in sorted(registered(target), key=lambda i: -i.products)}


def registered(target: Target | None) -> list[Intrinsic]:
    """The intrinsics that a target has."""
    return [i for i in _INTRINSICS.values() if i.features <= (target or GENERIC).features]


def use_of(chosen: Intrinsic, op: Structured) -> Use | NoMatch:
    """How `chosen` computes `op`, or why it cannot."""
    if op.kind != "contraction":
        return NoMatch("it is no contraction")
    factors = op.factors
    if factors is None:
        return NoMatch("its body is not a sum of products of two inputs of integers, or of bf16")
    if str(op.outputs[0].element_type) != chosen.result:
        return NoMatch(f"it sums in {op.outputs[0].element_type}, not {chosen.result}")
    order = _in_tiles(chosen, op, factors) if chosen.tile is not None else chosen.takes(*(factor.kind for factor in factors))
    if isinstance(order, NoMatch):
        return order
    if order is None:
        return NoMatch(f"its inputs do not fit {' and '.join(chosen.operands)}")
    sides = [factors[i] for i in order]
    summed = _summed(op, [side.index for side in sides], chosen.depth)
    if summed is None:
        return NoMatch(f"no summed dimension that both inputs move along has {chosen.depth} iterations")
    first, second = sides
    use = Use(chosen, (first.index, second.index), (first.kind[0] == "s", second.kind[0] == "s"), (first.value, second.value), summed)
    return use if chosen.tile is None else _tiled(use, op)


def _in_tiles(chosen: Intrinsic, op: Structured, factors: list[Factor]) -> tuple[int, int] | NoMatch | None:
    """Which input is the one with the rows, and which the one with the lanes; None if they are not of the operands' types, or not as wide."""
    grouped = [n for n, factor in enumerate(factors) if any(op.inputs[factor.index].apart(d) == chosen.depth for d in op.parallel_dims)]
    if len(grouped) != 1:
        return NoMatch("neither input has its neighbours side by side for each column, or both do")
    order = (0, 1) if grouped == [1] else (1, 0)
    return order if tuple(factors[n].kind for n in order) == chosen.operands else None


def _tiled(use: Use, op: Structured) -> Use | NoMatch:
    """`use` with the dimensions that registers of two dimensions lie along, or why it has none."""
    x, y = (op.inputs[index] for index in use.sides)
    lanes = [d for d in op.parallel_dims if use.is_grouped(y, d) and x.kind(d) == "scalar"]
    others = [d for d in op.reduction_dims if d != use.summed]
    if len(lanes) != 1 or x.kind(use.summed) != "vector" or not known([op.bounds[d] for d in op.reduction_dims]):
        return NoMatch("its inputs do not lie in memory as rows of tiles, or only a run knows how much it sums")
    if op.sizes[use.summed] % use.intrinsic.depth:
        return NoMatch(f"its {op.sizes[use.summed]} neighbours are no multiple of {use.intrinsic.depth}")
    rows = [d for d in op.parallel_dims if op.sizes[d] > 1 and x.apart(d) is not None and x.kind(d) != "scalar" and y.kind(d) == "scalar"]
    steps = [d for d in others if op.sizes[d] > 1 and x.apart(d) == use.intrinsic.depth and y.apart(d) is not None]
    return replace(use, rows=max(rows, key=lambda d: (op.sizes[d], d), default=None), steps=max(steps, default=None))


def _holds(wide: str, kind: str) -> bool:
    """Whether every value of one type is one of the type spelled `wide`."""
    if BRAIN in (wide[0], kind[0]):
        return wide == kind
    width, bits = int(wide[1:]), int(kind[1:])
    return width >= bits if kind[0] == wide[0] else wide[0] == "s" and width > bits


def _summed(op: Structured, inputs: list[int], depth: int) -> int | None:
    """The summed dimension whose neighbours are combined: the one along which most inputs are contiguous, the innermost of equals."""
    moving = [d for d in op.reduction_dims if op.sizes[d] >= depth and all(op.inputs[i].kind(d) != "scalar" for i in inputs)]
    return max(moving, key=lambda d: (sum(op.inputs[i].kind(d) == "vector" for i in inputs), d), default=None)
