"""Register tiles in tile registers: the rows and columns that each holds, its operands, and the resulting vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.dialects.core.mlir import affine, ir, memref
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.dialects.target.dot_products import Tile
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Offsets
from stepwell.passes.linalg_to_affine.strategies.base import CONSTANT, IntrinsicStrategy
from stepwell.passes.linalg_to_affine.strategies.registry import register_tile_strategy
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.linalg_to_affine.values import combine, index_value, is_zero
from stepwell.passes.schedule.intrinsics import Use


@register_tile_strategy("tile-registers", kinds=("contraction",))
class TileRegisters(IntrinsicStrategy):
    """Sums in tile registers, starting from zero, row by row. The initial values are added when the sums become vectors, by way of memory."""

    def __init__(self, context: NestContext, use: Use, registers: Tile) -> None:
        super().__init__(context, use)
        self.registers = registers
        self.element = context.root.outputs[0].element_type

    @classmethod
    def fits(cls, context: NestContext) -> "TileRegisters | NoMatch | None":
        named = context.intrinsic
        if named is None or named.intrinsic.tile is None:
            return None
        if context.use is None:
            return NoMatch(CONSTANT)
        if context.lanes_reduce:
            return NoMatch("vectors lie along a summed dimension")
        return cls(context, named, named.intrinsic.tile)

    def begin(self, tile: RegisterTile) -> list[ir.Value]:
        layout = self._layout(tile)
        return [self.registers.zero(self.element, len(part), self.use.intrinsic.lanes) for part in layout.parts for _ in layout.columns]

    def step(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        use, at, layout = self.use, tile.at, self._layout(tile)
        steps = at.taken.get(use.steps, 1) if use.steps is not None else 1
        x, y = (self.root.inputs[index] for index in use.sides)
        lanes, depth = use.intrinsic.lanes, use.intrinsic.depth
        loaded: dict[tuple[int, str], ir.Value] = {}

        def operand(side: int, access: Access, point: Offsets, lane: int, along: int | None, rows: int, columns: int) -> ir.Value:
            where = tile.address(access, point, lane)
            key = (side, f"{where} {rows}")
            if key not in loaded:
                place = [index_value(e, at.ivs, 1) for e in where.results]
                stride = columns if along is None else distance(self.context, access, along)
                loaded[key] = self.registers.load(self.context.memory(access), place, stride, rows, columns)
            return loaded[key]

        made, waiting = [], iter(carried)
        for part in layout.parts:
            first = tile.points[part[0]]
            for column in layout.columns:
                left = operand(0, x, first, 0, use.rows, len(part), steps * depth)
                right = operand(1, y, first, column, use.steps, steps, lanes * depth)
                made.append(use.intrinsic.emit(next(waiting), left, right))
        return made

    def finish(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        combiner = self.root.combiner
        assert combiner is not None  # it is a contraction
        found = self._vectors(tile, carried)
        return [v if is_zero(b) else combine(combiner, b, v) for b, v in zip(tile.starts(), found, strict=True)]

    def _layout(self, tile: RegisterTile) -> "_Layout":
        return _Layout.for_tile(tile, self.use, self.registers)

    def _vectors(self, tile: RegisterTile, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums as a vector for each point, by way of memory."""
        layout, count = self._layout(tile), len(tile.points)
        kind = ir.VectorType.get([tile.width], self.element)
        scope = memref.AllocaScopeOp([kind] * count)
        with ir.InsertionPoint(scope.bodyRegion.blocks.append()):
            room = memref.AllocaOp(ir.MemRefType.get([count, tile.width], self.element), [], [], alignment=64).result
            waiting, row = iter(sums), 0
            found: dict[int, ir.Value] = {}
            starts = []
            for part in layout.parts:
                starts.append(row)
                for column in layout.columns:
                    self.registers.store(next(waiting), room, [constant(row), constant(column)], tile.width)
                row += len(part)
            for start, part in zip(starts, layout.parts, strict=True):
                for i, place in enumerate(part):
                    where = ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(start + i), ir.AffineConstantExpr.get(0)])
                    found[place] = affine.AffineVectorLoadOp(kind, room, [], ir.AffineMapAttr.get(where)).result
            memref.AllocaScopeReturnOp([found[place] for place in range(count)])
        return list(scope.results)


@dataclass(frozen=True)
class _Layout:
    """The assignment of a tile's sums to tile registers."""

    columns: range
    """The positions in a vector at which its registers begin."""
    parts: Sequence[Sequence[int]]
    """The indices, among the tile's points, of the rows of each register; they are equally spaced."""

    @staticmethod
    def for_tile(tile: RegisterTile, use: Use, registers: Tile) -> "_Layout":
        places: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for n, point in enumerate(tile.points):
            places.setdefault(tuple((d, i) for d, i in sorted(point.items()) if d != use.rows), []).append(n)
        rows = registers.rows
        parts = [found[i : i + rows] for found in places.values() for i in range(0, len(found), rows)]
        return _Layout(range(0, tile.width, use.intrinsic.lanes), parts)


def distance(context: NestContext, access: Access, dim: int) -> int:
    """The distance in memory, in elements, between neighbours along `dim`, in the slice of a buffer if fused loops keep one."""
    strides, _ = ir.MemRefType(context.memory(access).type).get_strides_and_offset()
    return sum(step * stride for step, stride in zip(access.coefficients(dim), strides, strict=True) if step)
