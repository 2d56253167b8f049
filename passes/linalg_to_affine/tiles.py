"""Emission of a contraction on registers of two dimensions: which rows and columns each holds, its operands, and the vectors that it leaves."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import affine, arith, ir, memref
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg_to_affine.loops import LoopNest, Offsets
from stepwell.passes.linalg_to_affine.values import index_value
from stepwell.passes.schedule.intrinsics import Use


class TiledSums:
    """The sums of a register tile in registers of two dimensions: those of the same rows side by side, rows after rows."""

    def __init__(self, use: Use, points: Sequence[Offsets], width: int) -> None:
        """`points` are the vectors of `width` sums that are wanted."""
        assert use.intrinsic.tile is not None
        self.use, self.points, self.width, self.tile = use, list(points), width, use.intrinsic.tile
        self.columns = range(0, width, use.intrinsic.lanes)
        places: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for n, point in enumerate(self.points):
            places.setdefault(tuple((d, i) for d, i in sorted(point.items()) if d != use.rows), []).append(n)
        rows = self.tile.rows
        self.parts = [found[i : i + rows] for found in places.values() for i in range(0, len(found), rows)]
        """The places in `points` of the rows of each register, from which the others lie equally far apart."""

    def zeros(self, element: ir.Type) -> list[ir.Value]:
        """The registers that sums begin with."""
        return [self.tile.zero(element, len(part), self.use.intrinsic.lanes) for part in self.parts for _ in self.columns]

    def step(self, nest: LoopNest, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums with the products of one round of the summed loops of `nest` added."""
        use, steps = self.use, nest.taken.get(self.use.steps, 1) if self.use.steps is not None else 1
        x, y = (nest.root.inputs[index] for index in use.sides)
        lanes, depth = use.intrinsic.lanes, use.intrinsic.depth
        loaded: dict[tuple[int, str], ir.Value] = {}

        def operand(side: int, access: Access, point: Offsets, lane: int, along: int | None, rows: int, columns: int) -> ir.Value:
            where = nest.address(access, point, lane)
            key = (side, f"{where} {rows}")
            if key not in loaded:
                place = [index_value(e, nest.ivs, 1) for e in where.results]
                stride = columns if along is None else apart(nest, access, along)
                loaded[key] = self.tile.load(nest.memory(access), place, stride, rows, columns)
            return loaded[key]

        made, waiting = [], iter(sums)
        for part in self.parts:
            first = self.points[part[0]]
            for column in self.columns:
                left = operand(0, x, first, 0, use.rows, len(part), steps * depth)
                right = operand(1, y, first, column, use.steps, steps, lanes * depth)
                made.append(use.intrinsic.emit(next(waiting), left, right))
        return made

    def vectors(self, sums: Sequence[ir.Value], element: ir.Type) -> list[ir.Value]:
        """The sums as a vector for each point, by way of memory."""
        kind = ir.VectorType.get([self.width], element)
        memory = ir.MemRefType.get([len(self.points), self.width], element)
        scope = memref.AllocaScopeOp([kind] * len(self.points))
        with ir.InsertionPoint(scope.bodyRegion.blocks.append()):
            room = memref.AllocaOp(memory, [], [], alignment=64).result
            waiting, row = iter(sums), 0
            found: dict[int, ir.Value] = {}
            starts = []
            for part in self.parts:
                starts.append(row)
                for column in self.columns:
                    self.tile.store(next(waiting), room, [constant(row), constant(column)], self.width)
                row += len(part)
            for start, part in zip(starts, self.parts, strict=True):
                for i, place in enumerate(part):
                    where = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(start + i), ir.AffineConstantExpr.get(0)])
                    found[place] = affine.AffineVectorLoadOp(kind, room, [], ir.AffineMapAttr.get(where)).result
            memref.AllocaScopeReturnOp([found[place] for place in range(len(self.points))])
        return list(scope.results)


def constant(index: int) -> ir.Value:
    """An index that is known."""
    return arith.constant(ir.IndexType.get(), index)


def apart(nest: LoopNest, access: Access, dim: int) -> int:
    """How many elements apart in memory the neighbours along `dim` lie, in the slice of a buffer that fused loops keep if they do."""
    strides, _ = ir.MemRefType(nest.memory(access).type).get_strides_and_offset()
    steps: Any = zip(access.coefficients(dim), strides, strict=True)
    return sum(step * stride for step, stride in steps if step)
