"""Vectors across contiguous short rows: deinterleaved after a load, interleaved before a store."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from stepwell.dialects.core.mlir import ir, memref, vector
from stepwell.dialects.core.sizes import static_sizes
from stepwell.passes.linalg.views import row_major
from stepwell.passes.linalg_to_affine import emit
from stepwell.passes.linalg_to_affine.blocks import interleaved
from stepwell.passes.linalg_to_affine.values import further, picked


class ShortRows:
    """A memref whose dimension `first` walks short rows without gaps, with all later dimensions taken as one row."""

    def __init__(self, source: ir.Value, first: int) -> None:
        kind = ir.MemRefType(source.type)
        shape, (strides, offset) = list(kind.shape), kind.get_strides_and_offset()
        self.first, self.steps = first, static_sizes(row_major(shape[first:]))
        self.length = self.steps[0]
        known = min(shape[first:]) >= 0
        sizes = [*shape[:first], prod(shape[first:]) if known else ir.ShapedType.get_dynamic_size()]
        plain = ir.MemRefType.get(sizes, kind.element_type)
        if isinstance(kind.layout, ir.StridedLayoutAttr):  # the layout of a part of a buffer, even if its strides are those of a whole one
            plain = ir.MemRefType.get(sizes, kind.element_type, ir.StridedLayoutAttr.get(offset, [*strides[:first], 1]))
        index = ir.IntegerType.get_signless(64)
        groups = [*([i] for i in range(first)), list(range(first, len(shape)))]
        reassociation = ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(index, i) for i in group]) for group in groups])
        self.memory = memref.CollapseShapeOp(plain, source, reassociation).result

    def start(self, where: Any) -> Any:
        """The start of the row that contains an address."""
        results = list(where.results)
        return ir.AffineMap.get(where.n_dims, where.n_symbols, [*results[: self.first], results[self.first] * self.length])

    def place(self, where: Any) -> int | None:
        """The index of an address in its row, if it is static."""
        inside = list(where.results)[self.first + 1 :]
        if not all(isinstance(r, ir.AffineConstantExpr) for r in inside):
            return None
        return sum(int(r.value) * step for r, step in zip(inside, self.steps[1:], strict=True))

    def load(self, place: int, width: int, ivs: Sequence[ir.Value], start: Any) -> ir.Value:
        """The elements at one index of `width` rows. Whole rows are loaded, so that vectors at other indices share the loads."""
        kind = ir.VectorType.get([width], ir.MemRefType(self.memory.type).element_type)
        starts = [j * width for j in range(self.length)]
        rows = [emit.loaded(kind, self.memory, ivs, further(start, at)) for at in starts]
        return picked(rows, [self.length * lane + place for lane in range(width)], starts)

    def store(self, values: Mapping[int, ir.Value], ivs: Sequence[ir.Value], start: Any) -> None:
        """Store whole rows: for each index in them, 2 or 4, a vector across the rows."""
        whole = interleaved([values[place] for place in range(self.length)])
        emit.store(whole, self.memory, ivs, start)


def store_lanes(v: ir.Value, memory: ir.Value, ivs: Sequence[ir.Value], addresses: Sequence[Any]) -> None:
    """Store the elements of a vector one by one."""
    for lane, where in enumerate(addresses):
        emit.store(vector.extract(v, [], [lane]), memory, ivs, where)
