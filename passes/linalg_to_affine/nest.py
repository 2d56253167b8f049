"""Emission of one scheduled loop nest: affine loops outside, a register tile of `vector` ops inside."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from stepwell.dialects.core.mlir import ir, scf
from stepwell.dialects.sched.nest import NestVersion
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.origins import line_of
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg_to_affine.affine_loops import switch
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.loops import LoopNest, Loops
from stepwell.passes.linalg_to_affine.operands import load_along, store_across
from stepwell.passes.linalg_to_affine.position import Offsets, Position
from stepwell.passes.linalg_to_affine.strategies.registry import choose
from stepwell.passes.linalg_to_affine.stretches import copy_contiguous, is_contiguous_copy
from stepwell.passes.linalg_to_affine.tile import RegisterTile
from stepwell.passes.linalg_to_affine.values import index_value
from stepwell.passes.schedule.nest import Nest


@dataclass
class TileReport:
    """The strategies that compute the register tiles of a nest, and why others do not; each name and reason is reported once for all tiles."""

    used: dict[str, None] = field(default_factory=dict)
    declined: dict[tuple[str, NoMatch], None] = field(default_factory=dict)

    def use(self, by: str) -> None:
        """Record that a strategy computes a tile."""
        self.used.setdefault(by)

    def decline(self, by: str, why: NoMatch) -> None:
        """Record why a strategy does not compute the nest, or a tile of it."""
        self.declined.setdefault((by, why))


def emit_nest(context: NestContext, versions: Sequence[tuple[NestVersion, Nest]] = ()) -> TileReport:
    """Emit a nest at the current insertion point, and a branch to others where there are versions for small numbers of iterations."""
    report = TileReport()
    emitter, at = NestEmitter(context, report), Position.outside(context)
    if not versions:
        emitter.emit(at)
        return report
    blocks = switch(at.value(at.extents[versions[0][0].dim]), [version.count for version, _ in versions], lambda: emitter.emit(at))
    for (version, nest), block in zip(versions, blocks, strict=True):
        special = replace(context, nest=nest)
        with ir.InsertionPoint(block):
            NestEmitter(special, report).emit(Position.outside(special, {version.dim: version.count}))
            scf.YieldOp([])
    return report


class NestEmitter(LoopNest):
    """Emits the loops of a stage (see `NestContext`): tiles by the strategy that fits, then epilogues and stores."""

    def __init__(self, context: NestContext, report: TileReport) -> None:
        super().__init__(context)
        self.report, self.strategy = report, choose(context, report.decline)

    def _serial(self, at: Position, loops: Loops, counts: Offsets, width: int) -> None:
        if is_contiguous_copy(at):
            copy_contiguous(at)
        else:
            super()._serial(at, loops, counts, width)

    def tile(self, at: Position, counts: Offsets, width: int) -> None:
        points: list[Offsets] = [{}]
        for dim, count in counts.items():
            points = [{**p, dim: k} for p in points for k in range(count)]
        tile = RegisterTile(at, points, width, whole=len(points) == prod(self.nest.unroll))
        groups = tile.groups(self._computed(tile))
        outputs, written = self.root.outputs, self.root.outputs[0].value
        for epilogue in self.context.epilogues if at.ends else ():
            groups = [self._epilogue(tile, epilogue, p, g, written) for p, g in zip(points, groups, strict=True)]
            if epilogue.outputs[0].value != written:  # elements of another type, in a buffer of their own
                written = epilogue.outputs[0].value
                outputs = [replace(self.root.outputs[0], value=written)]
        across = [store_across(at, out, points, [group[n] for group in groups], width) for n, out in enumerate(outputs)]
        for p, group in zip(points, groups, strict=True):
            for out, v, shown, stored in zip(outputs, group, self.context.shown, across, strict=True):
                if not (shown or stored):
                    tile.store(out, v, p)

    def _computed(self, tile: RegisterTile) -> list[ir.Value]:
        """The values of a tile by the strategy, or by the first one behind it that does not decline."""
        strategy = self.strategy
        while isinstance(found := strategy.compute(tile), NoMatch):
            self.report.decline(strategy.name, found)
            if strategy.rest is None:
                raise PassError(f"tile strategy '{strategy.name}' declines, and there is none behind it: {found.reason}{line_of(strategy.compute)}")
            strategy = strategy.rest
        self.report.use(strategy.name)
        wanted = len(tile.points) * len(self.root.outputs)
        if len(found) != wanted:
            what = f"tile strategy '{strategy.name}' gave {len(found)} values for a tile of '{self.root.operation.name}'"
            raise PassError(f"{what}, expected {wanted}{line_of(strategy.compute)}")
        return found

    def _epilogue(self, tile: RegisterTile, epilogue: Structured, point: Offsets, group: list[ir.Value], written: ir.Value) -> list[ir.Value]:
        """Apply an element-wise op to the tile, whose elements belong to `written`; its dimensions are the results of the root's output map."""
        results = list(self.root.outputs[0].map.results)
        across = [results[d] for d in range(len(epilogue.iterators))]
        inner = _EpilogueView(tile, across, point)
        inputs = [group[0] if a.value == written else inner.load(a) if a.used else None for a in epilogue.inputs]
        before = group if epilogue.outputs[0].value == written else [None]
        return self.context.body(epilogue).emit([*inputs, *before], tile.lanes, inner.index)


class _EpilogueView:
    """An epilogue's accesses, seen through the root's loops: each of its dimensions is a result of the root's output map."""

    def __init__(self, tile: RegisterTile, across: Sequence[Any], point: Offsets) -> None:  # the bindings have no common type for affine expressions
        self.tile, self.at, self.across, self.point = tile, tile.at, across, point
        along = tile.context.nest.vector
        self.vector = next((d for d, e in enumerate(across) if isinstance(e, ir.AffineDimExpr) and e.position == along), -1)

    def load(self, access: Access) -> ir.Value:
        return load_along(self.at, access, self.vector, self.tile.lanes, lambda lane: self.at.address(access, self.point, lane, self.across))

    def index(self, dim: int) -> ir.Value:
        inner = ir.AffineMap.get(len(self.at.ivs), 0, self.at.point_exprs(self.point))
        return index_value(self.across[dim].compose(inner), self.at.ivs, self.tile.lanes if dim == self.vector else 1)
