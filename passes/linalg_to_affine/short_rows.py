"""Vectors across short rows that follow each other in memory: deinterleaved after a load, interleaved before a store."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from stepwell.dialects.core.mlir import ir, memref, vector
from stepwell.dialects.core.sizes import known_sizes
from stepwell.passes.linalg.views import row_major
from stepwell.passes.linalg_to_affine import emit
from stepwell.passes.linalg_to_affine.blocks import interleaved
from stepwell.passes.linalg_to_affine.values import further, picked


class ShortRows:
    """A memref whose dimension `first` walks short rows without gaps between them, with all that from there on as one row."""

    def __init__(self, source: ir.Value, first: int) -> None:
        kind = ir.MemRefType(source.type)
        shape, (strides, offset) = list(kind.shape), kind.get_strides_and_offset()
        self.first, self.steps = first, known_sizes(row_major(shape[first:]))
        self.length = self.steps[0]
        known = min(shape[first:]) >= 0
        sizes = [*shape[:first], prod(shape[first:]) if known else ir.ShapedType.get_dynamic_size()]
        plain = ir.MemRefType.get(sizes, kind.element_type)
        if isinstance(kind.layout, ir.StridedLayoutAttr):  # which a part of a buffer has, also where its strides are those of a whole one
            plain = ir.MemRefType.get(sizes, kind.element_type, ir.StridedLayoutAttr.get(offset, [*strides[:first], 1]))
        index = ir.IntegerType.get_signless(64)
        groups = [*([i] for i in range(first)), list(range(first, len(shape)))]
        reassociation = ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(index, i) for i in group]) for group in groups])
        self.memory = memref.CollapseShapeOp(plain, source, reassociation).result

    def start(self, where: Any) -> Any:
        """Where the row begins that an address goes to."""
        results = list(where.results)
        return ir.AffineMap.get(where.n_dims, where.n_symbols, [*results[: self.first], results[self.first] * self.length])

    def place(self, where: Any) -> int | None:
        """The place in its row that an address goes to, if it is known."""
        inside = list(where.results)[self.first + 1 :]
        if not all(isinstance(r, ir.AffineConstantExpr) for r in inside):
            return None
        return sum(int(r.value) * step for r, step in zip(inside, self.steps[1:], strict=True))

    def load(self, place: int, width: int, ivs: Sequence[ir.Value], start: Any) -> ir.Value:
        """The elements at one place of `width` rows. Whole rows are loaded, so that vectors of other places share the loads."""
        kind = ir.VectorType.get([width], ir.MemRefType(self.memory.type).element_type)
        starts = [j * width for j in range(self.length)]
        rows = [emit.loaded(kind, self.memory, ivs, further(start, at)) for at in starts]
        return picked(rows, [self.length * lane + place for lane in range(width)], starts)

    def store(self, values: Mapping[int, ir.Value], ivs: Sequence[ir.Value], start: Any) -> None:
        """Store whole rows: for each place in them, 2 or 4, a vector across the rows."""
        whole = interleaved([values[place] for place in range(self.length)])
        emit.store(whole, self.memory, ivs, start)


def store_lanes(v: ir.Value, memory: ir.Value, ivs: Sequence[ir.Value], addresses: Sequence[Any]) -> None:
    """Store the elements of a vector one by one."""
    for lane, where in enumerate(addresses):
        emit.store(vector.extract(v, [], [lane]), memory, ivs, where)
