"""Operands of structured ops: where in memory each iteration finds its element, and so how vectors of them are loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Dim, known
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.support.properties import cached_property
from stepwell.passes.linalg.views import exact_shape, row_major, shapes_of, strides

CLOSE = 4
"""The largest stride within a row, in elements, for which shuffling whole vectors is faster than loading single elements."""
FEW_NUMBERS = 64
"""Elements of a constant operand up to which they become constants of the code."""


@dataclass
class Access:
    """One operand of a structured op: the value and the map from iteration space to its elements (None for a scalar)."""

    value: ir.Value
    map: Any
    used: bool  # whether the body reads it
    _columns: dict[int, list[int | None]] = field(default_factory=dict, repr=False, compare=False)  # coefficients that were asked for

    @cached_property
    def is_shaped(self) -> bool:
        return isinstance(self.value.type, ir.ShapedType)

    @property
    def element_type(self) -> ir.Type:
        return ir.ShapedType(self.value.type).element_type if self.is_shaped else self.value.type

    @cached_property
    def exact_shape(self) -> list[Dim]:
        """Its sizes, where they are known only at run time as expressions of symbols."""
        return exact_shape(self.value)

    @cached_property
    def shape(self) -> list[int]:
        """Its sizes; one that is known only at run time is taken to be about as large as is likely."""
        return self._likely(self.exact_shape)

    @property
    def bytes(self) -> int:
        """Of the whole operand, as far as its sizes are known."""
        return prod(self.shape) * element_bits(self.element_type) // 8

    @property
    def is_constant(self) -> bool:
        """Whether it reads a constant of the kernel, whose numbers are written into the code where they are few."""
        source = defining_op(self.value) if self.is_shaped else None
        return source is not None and source.name in ("arith.constant", "memref.get_global")

    @cached_property
    def exact_strides(self) -> list[Dim]:
        """How far apart the neighbours of each dimension lie, in elements, in the buffer that it is, or is part of; None where nobody knows."""
        return strides(self.value)

    def _likely(self, sizes: Sequence[Dim]) -> list[int]:
        numbers = [size for size in sizes if isinstance(size, int)]
        if len(numbers) == len(sizes):
            return numbers
        shapes = shapes_of(self.value)
        return [shapes.likely(size) for size in sizes]

    def coefficients(self, dim: int) -> list[int | None]:
        """For each result of the map, the coefficient of `dim` (None where it is not linear in it)."""
        if dim not in self._columns:
            self._columns[dim] = [terms.get(dim, 0) for terms in self.terms]
        return self._columns[dim]

    @cached_property
    def terms(self) -> list[dict[int, int | None]]:
        """For each result of the map, the coefficients of the dimensions that it mentions (None where it is not linear in one)."""
        return [terms_of(result) for result in self.results]

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """The dimensions that the map mentions."""
        return tuple(dict.fromkeys(dim for terms in self.terms for dim in terms))

    @cached_property
    def dims(self) -> list[int]:
        """For each result of the map, the dimension that it is, or -1 where it is another expression."""
        return [result.position if isinstance(result, ir.AffineDimExpr) else -1 for result in self.results]

    @cached_property
    def _last_stride(self) -> int | None:
        return last_stride(self.value.type)

    @cached_property
    def results(self) -> list[Any]:
        """The results of the map; none of a scalar."""
        return list(self.map.results) if self.is_shaped else []

    def kind(self, dim: int) -> str:
        """How the access moves along `dim`: "scalar" (not at all), "vector" (next element), "strided" (otherwise)."""
        steps = self.coefficients(dim)
        if not any(steps) and None not in steps:
            return "scalar"
        if steps[-1] == 1 and not any(steps[:-1]) and self._last_stride == 1:
            return "vector"
        return "strided"

    def step(self, dim: int) -> int | None:
        """How many elements apart the neighbours along `dim` lie, where they lie in one row of it, or in rows without gaps; None where not."""
        steps = self.coefficients(dim)
        if steps and not any(steps[:-1]) and self._last_stride == 1:
            return steps[-1]
        place = self.row(dim)
        apart = None if place is None else steps[place]
        return None if place is None or apart is None else apart * prod(self.shape[place + 1 :])

    def row(self, dim: int) -> int | None:
        """The one dimension of the operand that `dim` walks, if what comes after it is short rows that follow each other in memory; else None.

        Short are rows of which so many vectors, shuffled, are quicker than single elements.
        """
        steps = self.coefficients(dim)
        moving = [place for place, step in enumerate(steps) if step != 0]
        if len(moving) != 1 or None in steps or moving[0] == len(steps) - 1:
            return None
        [place] = moving
        shape = self.shape
        if not known(self.exact_shape[place + 1 :]) or min(shape) <= 0 or prod(shape[place + 1 :]) > CLOSE:
            return None
        if self.exact_strides[place:] != row_major(self.exact_shape[place:]):
            return None
        return place

    def interleaves(self, dim: int) -> bool:
        """Whether vectors along `dim`, one for each place in a row of a few, are stored side by side: 2 or 4 of them make all elements."""
        place = self.row(dim)
        return place == len(self.shape) - 2 and self.coefficients(dim)[place] == 1 and self.shape[-1] in (2, 4)

    def apart(self, dim: int) -> int | None:
        """How far apart in memory the neighbours along `dim` lie, in elements; None where that is not the same everywhere, or only a run knows."""
        pairs = [(step, stride) for step, stride in zip(self.coefficients(dim), self.exact_strides, strict=True) if step != 0]
        numbers = [step * stride for step, stride in pairs if step is not None and isinstance(stride, int)]
        return sum(numbers) if len(numbers) == len(pairs) else None

    def is_gathered(self, dim: int) -> bool:
        """Whether vectors along `dim` are put together from single elements: these do not lie close in one row."""
        step = self.step(dim)
        return self.kind(dim) == "strided" and (step is None or abs(step) > CLOSE)


def terms_of(expr: Any) -> dict[int, int | None]:
    """The coefficients of the dimensions that an affine expression mentions; None where the expression is not linear in one."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}
    if isinstance(expr, (ir.AffineConstantExpr, ir.AffineSymbolExpr)):
        return {}
    left, right = terms_of(expr.lhs), terms_of(expr.rhs)
    pairs = {dim: (left.get(dim, 0), right.get(dim, 0)) for dim in (*left, *right)}
    if isinstance(expr, ir.AffineAddExpr):
        return {dim: None if a is None or b is None else a + b for dim, (a, b) in pairs.items()}
    if isinstance(expr, ir.AffineMulExpr) and isinstance(expr.rhs, ir.AffineConstantExpr):
        factor = expr.rhs.value
        return {dim: None if a is None else a * factor for dim, a in left.items()}
    return {dim: 0 if pair == (0, 0) else None for dim, pair in pairs.items()}


def last_stride(shaped: ir.Type) -> int | None:
    """The stride of a shaped type's last dimension: 1 for tensors and plain memrefs, None where it is not static."""
    if not isinstance(shaped, ir.MemRefType):
        return 1
    strides, _ = shaped.get_strides_and_offset()
    if not strides:
        return 1
    stride: int = strides[-1]
    return None if stride == ir.ShapedType.get_dynamic_stride_or_offset() else stride
