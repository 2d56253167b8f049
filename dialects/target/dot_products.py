"""Dot products: blocks of a computation that a machine instruction, or a fixed sequence of them, computes; schedules name them.

Each lane of a vector of sums accumulates `depth` products of neighbouring elements,

    acc[j] += sum over i < depth of x[j * depth + i] * y[j * depth + i]        for j < lanes

which is the block {vector dimension: lanes, reduction dimension: depth} of a contraction. A contraction can be split into such blocks if the operand
types hold all values that it multiplies, so that the products are the same, and if it sums in the type of the result.

Dot products on tile registers do so for several rows of `x`, and several times for each sum, with the rows of `y` one after the other:

    acc[r][j] += sum over s < steps and i < depth of x[r][s * depth + i] * y[s][j * depth + i]        for r < rows, j < lanes

Element types are spelled `s8`, `u8`, `s16`… for integers with and without a sign, and `b16` for bf16.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.families import families

if TYPE_CHECKING:
    from stepwell.dialects.core.mlir import ir

BRAIN = "b"  # floats with the exponent of f32
NONE = "none"
"""The intrinsic name of a nest that computes by the op's own body."""
PORTABLE = "products.128"
"""The dot product that all machines have, if results are to be reproducible."""
Emit: TypeAlias = "Callable[[ir.Value, ir.Value, ir.Value], ir.Value]"


@dataclass(frozen=True)
class Tile:
    """Tile registers: their largest number of rows, and the builders of their contents, also for fewer rows."""

    rows: int
    """Rows of the sums and of the first operand."""
    steps: int
    """Rows of the second operand, with the neighbours of each lane side by side."""
    zero: "Callable[[ir.Type, int, int], ir.Value]"
    """`zero(element, rows, columns)`: sums that are 0."""
    load: "Callable[[ir.Value, Sequence[ir.Value], int, int, int], ir.Value]"
    """`load(memory, place, stride, rows, columns)`: rows that are `stride` elements apart in memory, the first one at `place`."""
    store: "Callable[[ir.Value, ir.Value, Sequence[ir.Value], int], None]"
    """`store(tile, memory, place, stride)`."""


@dataclass(frozen=True)
class Intrinsic:
    """A dot product that a target has. `emit(acc, x, y)` builds it on vectors; x and y are integers with the bits of their elements."""

    name: str
    features: frozenset[str]
    """The features that a target needs, as LLVM spells them."""
    lanes: int
    depth: int
    operands: tuple[str, str]
    result: str
    instructions: float
    """The number of instructions, for the cost model."""
    emit: Emit
    tile: Tile | None = None
    """The tile registers of an intrinsic on these: `emit` gets them instead of vectors."""

    @property
    def products(self) -> int:
        """The number of products it sums."""
        return self.lanes * self.depth * (1 if self.tile is None else self.tile.rows * self.tile.steps)

    @property
    def is_exact(self) -> bool:
        """Whether it rounds nothing: it sums integers."""
        return self.result.startswith("i")

    def takes(self, left: str, right: str) -> tuple[int, int] | None:
        """The assignment of two types to the first and the second operand, (0, 1) or (1, 0); None if they do not fit."""
        for order in ((0, 1), (1, 0)):
            if all(_holds(wide, (left, right)[i]) for wide, i in zip(self.operands, order, strict=True)):
                return order
        return None


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

    It gets a vector of `lanes` sums and two of `lanes * depth` elements in the types of the operands, and returns the new sums; with `tile`, it gets
    tile registers built by `tile`.
    """

    def add(emit: Emit) -> Emit:
        known = _INTRINSICS.get(name)
        if name == NONE or (known is not None and known.emit.__qualname__ != emit.__qualname__):
            raise PassError(f"intrinsic '{name}' is already there")
        _INTRINSICS[name] = Intrinsic(name, frozenset(features), lanes, depth, operands, result, instructions, emit, tile)
        extension(emit)
        return emit

    return add


def all_dot_products() -> list[Intrinsic]:
    """The dot products of all families, in the order of registration."""
    for family in families():
        if family.dot_products:
            import_module(family.dot_products)
    return list(_INTRINSICS.values())


def dot_products(target: Target) -> list[Intrinsic]:
    """The dot products of a target, in the order of registration.

    Those of floats round in an order of their own, so reproducible code has none. It has the portable one on all machines: otherwise networks of
    integers would have other layouts on machines without dot products, and sum what follows in floats in another order.
    """
    return [i for i in all_dot_products() if i.features <= target.features and (i.is_exact if target.reproducible else i.name != PORTABLE)]


def _holds(wide: str, kind: str) -> bool:
    """Whether the type spelled `wide` holds every value of another."""
    if BRAIN in (wide[0], kind[0]):
        return wide == kind
    width, bits = int(wide[1:]), int(kind[1:])
    return width >= bits if kind[0] == wide[0] else wide[0] == "s" and width > bits


@intrinsic(PORTABLE, features=(), lanes=4, depth=1, operands=("s16", "s16"), instructions=3)
def products_128(acc: "ir.Value", x: "ir.Value", y: "ir.Value") -> "ir.Value":
    """Products of 16 bits, each added to its sum of 32 bits, by plain arithmetic (see `dot_products`)."""
    from stepwell.dialects.core.mlir import arith  # imported here, because it loads the bindings

    return arith.addi(acc, arith.muli(arith.extsi(acc.type, x), arith.extsi(acc.type, y)))


def bf16_pairs(acc: "ir.Value", x: "ir.Value", y: "ir.Value") -> "ir.Value":
    """Sums plus both products of each pair of bf16, the first ones first, on machines without an instruction for that."""
    from stepwell.dialects.core.mlir import arith, ir, vector  # imported here, because it loads the bindings

    words = ir.VectorType.get(acc.type.shape, ir.IntegerType.get_signless(32))
    high, shift = (arith.constant(words, ir.DenseElementsAttr.get_splat(words, ir.IntegerAttr.get(words.element_type, n))) for n in (-65536, 16))
    whole = [vector.bitcast(words, v) for v in (x, y)]
    for half in ([arith.shli(v, shift) for v in whole], [arith.andi(v, high) for v in whole]):
        product = arith.MulFOp(*(arith.bitcast(acc.type, v) for v in half), fastmath=arith.FastMathFlags.contract).result
        acc = arith.AddFOp(acc, product, fastmath=arith.FastMathFlags.contract).result
    return acc
