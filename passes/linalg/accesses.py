"""Operands of structured ops: the memory location of each iteration's element, and so how vectors of elements are loaded."""

from dataclasses import dataclass, field
from math import prod
from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Dim, is_static
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.numbers import SHUFFLED_STRIDE
from stepwell.passes.linalg.views import exact_shape, row_major, shapes_of, strides

FEW_NUMBERS = 64
"""The largest number of elements of a constant operand that is emitted into the code."""


@dataclass
class Access:
    """One operand of a structured op: the value and the map from iteration space to its elements (None for a scalar)."""

    value: ir.Value
    map: Any
    used: bool  # whether the body reads it
    _columns: dict[int, list[int | None]] = field(default_factory=dict, repr=False, compare=False)  # cache of coefficients

    @cached_property
    def is_shaped(self) -> bool:
        return isinstance(self.value.type, ir.ShapedType)

    @property
    def element_type(self) -> ir.Type:
        return ir.ShapedType(self.value.type).element_type if self.is_shaped else self.value.type

    @cached_property
    def exact_shape(self) -> list[Dim]:
        """Its sizes; dynamic ones are expressions of symbols."""
        return exact_shape(self.value)

    @cached_property
    def shape(self) -> list[int]:
        """Its sizes; dynamic ones have their likely value."""
        numbers = [size for size in self.exact_shape if isinstance(size, int)]
        return numbers if len(numbers) == len(self.exact_shape) else list(map(shapes_of(self.value).likely, self.exact_shape))

    @property
    def bytes(self) -> int:
        """Bytes of the whole operand, as far as its sizes are known."""
        return prod(self.shape) * element_bits(self.element_type) // 8

    @property
    def is_constant(self) -> bool:
        """Whether it reads a constant of the kernel; few numbers are emitted into the code."""
        source = defining_op(self.value) if self.is_shaped else None
        return source is not None and source.name in ("arith.constant", "memref.get_global")

    @cached_property
    def exact_strides(self) -> list[Dim]:
        """The stride of each dimension, in elements, in the buffer that contains the operand; None for an unknown stride."""
        return strides(self.value)

    def coefficients(self, dim: int) -> list[int | None]:
        """For each result of the map, the coefficient of `dim` (None if the result is not linear in it)."""
        if dim not in self._columns:
            self._columns[dim] = [terms.get(dim, 0) for terms in self.terms]
        return self._columns[dim]

    @cached_property
    def terms(self) -> list[dict[int, int | None]]:
        """For each result of the map, the coefficients of its dimensions (None for one in which the result is not linear)."""
        return [terms_of(result) for result in self.results]

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """The dimensions that occur in the map."""
        return tuple(dict.fromkeys(dim for terms in self.terms for dim in terms))

    @cached_property
    def dims(self) -> list[int]:
        """For each result of the map, the dimension that it is, or -1 for any other expression."""
        return [result.position if isinstance(result, ir.AffineDimExpr) else -1 for result in self.results]

    @cached_property
    def _last_stride(self) -> int | None:
        return last_stride(self.value.type)

    @cached_property
    def results(self) -> list[Any]:
        """The results of the map; none for a scalar."""
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
        """The distance in elements between neighbours along `dim`, if they lie in one row or in rows without gaps; otherwise None."""
        steps = self.coefficients(dim)
        if steps and not any(steps[:-1]) and self._last_stride == 1:
            return steps[-1]
        place = self.row(dim)
        apart = None if place is None else steps[place]
        return None if place is None or apart is None else apart * prod(self.shape[place + 1 :])

    def row(self, dim: int) -> int | None:
        """The one dimension of the operand that `dim` walks, if the dimensions behind it form contiguous short rows; otherwise None.

        A row is short if shuffling its vectors is faster than loading single elements.
        """
        steps = self.coefficients(dim)
        moving = [place for place, step in enumerate(steps) if step != 0]
        if len(moving) != 1 or None in steps or moving[0] == len(steps) - 1:
            return None
        [place] = moving
        shape = self.shape
        if not is_static(self.exact_shape[place + 1 :]) or min(shape) <= 0 or prod(shape[place + 1 :]) > SHUFFLED_STRIDE:
            return None
        if self.exact_strides[place:] != row_major(self.exact_shape[place:]):
            return None
        return place

    def interleaves(self, dim: int) -> bool:
        """Whether vectors along `dim`, one for each index in a short row, are stored interleaved: 2 or 4 of them contain all elements."""
        place = self.row(dim)
        return place == len(self.shape) - 2 and self.coefficients(dim)[place] == 1 and self.shape[-1] in (2, 4)

    def distance(self, dim: int) -> int | None:
        """The distance in memory between neighbours along `dim`, in elements; None if it is not the same everywhere, or dynamic."""
        pairs = [(step, stride) for step, stride in zip(self.coefficients(dim), self.exact_strides, strict=True) if step != 0]
        numbers = [step * stride for step, stride in pairs if step is not None and isinstance(stride, int)]
        return sum(numbers) if len(numbers) == len(pairs) else None

    def is_gathered(self, dim: int) -> bool:
        """Whether vectors along `dim` are assembled from single elements, because these are not close together in one row."""
        step = self.step(dim)
        return self.kind(dim) == "strided" and (step is None or abs(step) > SHUFFLED_STRIDE)


def terms_of(expr: Any) -> dict[int, int | None]:
    """The coefficients of the dimensions in an affine expression; None for one in which the expression is not linear."""
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
