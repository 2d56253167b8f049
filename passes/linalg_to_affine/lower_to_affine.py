"""The pass that realises schedules: structured ops on memrefs become affine loops with vector ops inside."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from stepwell.dialects.core.kernel_info import BufferInfo, Slice
from stepwell.dialects.core.locations import leading
from stepwell.dialects.core.mlir import affine, arith, defining_op, ir, memref
from stepwell.dialects.core.sizes import Size, evaluated, total
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.dialects.sched.schedule_info import LoopInfo, ScheduleInfo
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.fused_loops import FusedLoops, rounds
from stepwell.passes.linalg.parallel_rounds import parallel_loops, rounds_of
from stepwell.passes.linalg.stages import Stage, stages_on_memrefs
from stepwell.passes.linalg.structured import Structured, structured_ops
from stepwell.passes.linalg.views import RESHAPES, origin
from stepwell.passes.linalg_to_affine.affine_loops import bound_of, parallel_loop
from stepwell.passes.linalg_to_affine.context import Enclosing, NestContext, Shrunk
from stepwell.passes.linalg_to_affine.nest import emit_nest
from stepwell.passes.linalg_to_affine.position import value_of
from stepwell.passes.schedule.assign_schedules import default_schedule
from stepwell.passes.schedule.intrinsics import available
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.parallel import work_of
from stepwell.passes.schedule.segments import Segment


@register_pass("lower-to-affine", level="scheduled", anchor="func.func")
class LowerToAffine(Pass):
    """Lower scheduled linalg ops on memrefs to affine loops with vector ops, one nest for a fill, its reduction and their epilogues.

    Works for any body and indexing maps; the attributes `sched.nest` and `sched.fused` alone determine how an op is computed. The first tile strategy
    that fits computes the register tiles (docs/schedules.md); `--explain` names it.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        ops = structured_ops(op)
        for structured in ops:
            tensors = [value.type for value in structured.operation.operands if isinstance(value.type, ir.RankedTensorType)]
            if tensors:
                where = f"'{structured.operation.name}' at {structured.operation.location}"
                raise PassError(f"{where} is on tensors ({tensors[0]}), expected buffers: bufferize comes before")
            for part in (structured.operation, *(inner.operation for inner in structured.body.operations)):
                part.location = leading(part.location)
        found = stages_on_memrefs(ops)
        lowering = _Lowering(FusedLoops(found), state)
        for _, run in groupby(range(len(found)), key=lambda index: lowering.run(index, 0)):
            indices = list(run)
            # At the last member, where all captured values are defined.
            with ir.InsertionPoint(found[indices[-1]].members[-1].operation), found[indices[0]].root.operation.location:
                lowering.emit(indices, [], {})
                if any(loop.rest for loop in found[indices[0]].root.fused):
                    _rest([found[i] for i in indices], state)
            for i in reversed(indices):
                for member in reversed(found[i].members):
                    member.operation.erase()
            state.count("nests", len(indices))
        for loop in parallel_loops(op):
            _on_threads(loop)


def _rest(stages: Sequence[Stage], state: PassState) -> None:
    """Emit the remainder iterations of the fused loop around these stages with a smaller step, for which the stages get schedules of their own."""
    loop = stages[0].root.fused[0]
    first = rounds(stages[0].root, 0) * (loop.step // loop.rest)
    for stage in stages:
        info = ScheduleInfo(stage.root.operation)
        outermost, *inner = info.fused
        info.fused = (replace(outermost, step=outermost.rest, chunks=1, prefetch=0, rest=0), *inner)
    small = stages_on_memrefs([Structured(member.operation) for stage in stages for member in stage.members])
    for stage in small:
        ScheduleInfo(stage.root.operation).nest = default_schedule(stage.root, state.target)
    _Lowering(FusedLoops(small), state).emit(range(len(small)), [], {}, first)


def _on_threads(loop: ir.Operation) -> None:
    """rewrite: scf.for %i = 0 to n {sched.parallel} { … } -> affine.parallel (%i) = (0) to (n) { … }"""
    if len(loop.results):
        raise PassError(f"{LoopInfo(loop).where}: rounds that run on threads cannot hand anything from one to the next, this loop carries values")
    with ir.InsertionPoint(loop), loop.location:
        dealt = parallel_loop([Segment(0, rounds_of(loop), 1)])
    body, block = loop.regions[0].blocks[0], dealt.regions[0].blocks[0]
    with ir.InsertionPoint(block), loop.location:
        end = affine.AffineYieldOp([])
    body.arguments[0].replace_all_uses_with(block.arguments[0])
    for inner in [o.operation for o in body.operations][:-1]:
        inner.move_before(end.operation)
    loop.erase()


def on_threads(shapes: SymbolicShapes, work: int | Size, least: int, emit: Callable[[], None]) -> None:
    """Emit loops on threads; if the amount of work is dynamic, on the condition that it is at least `least`.

    If the work suffices with every symbol equal to 1, no run-time check is needed.
    """
    if isinstance(work, int) or evaluated(work, dict.fromkeys(work.symbols, 1)) >= least:
        emit()
        return
    enough = arith.cmpi(arith.CmpIPredicate.sge, value_of(shapes, work), value_of(shapes, least))
    threaded = ir.Operation.create("sched.threaded", operands=[enough], regions=1)
    with ir.InsertionPoint(threaded.regions[0].blocks.append()):
        emit()


class _Lowering:
    """Emits stages, each inside its fused loops."""

    def __init__(self, loops: FusedLoops, state: PassState) -> None:
        self.loops, self.stages, self.state = loops, loops.stages, state
        self.target, self.costs = state.target, state.machine.costs

    def run(self, index: int, level: int) -> tuple[int, int]:
        """A key that is equal for stages that are emitted together: their fused loop at that level, or else the stage itself."""
        path = self.loops.paths[index]
        return (path[level][1], -1) if len(path) > level else (-1, index)

    def emit(self, indices: Sequence[int], ivs: list[ir.Value], shrunk: dict[ir.Value, Shrunk], low: int | Size = 0) -> None:
        """Emit neighbouring stages, inside the fused loops with the induction variables `ivs`; the next fused loop starts at iteration `low`."""
        level = len(ivs)
        for _, run in groupby(indices, key=lambda index: self.run(index, level)):
            inside = list(run)
            stage = self.stages[inside[0]]
            if len(self.loops.paths[inside[0]]) == level:
                self._nest(stage, ivs, shrunk)
            elif level == 0 and stage.root.fused[0].chunks > 1:
                work = total(work_of(self.stages[index].root, self.costs) for index in inside)
                on_threads(stage.root.shapes, work, self.costs.threaded_work, partial(self._chunks, inside))
            else:
                self._loop(inside, ivs, shrunk or self._slices(inside, None), low)

    def _nest(self, stage: Stage, ivs: list[ir.Value], shrunk: dict[ir.Value, Shrunk]) -> None:
        with stage.root.operation.location:
            dims = {loop.dim: place for place, loop in enumerate(stage.root.fused)}
            initial = stage.fill.operation.operands[0] if stage.fill else None
            nest = Nest.from_op(stage.root, self.target)
            use = available(stage.root, self.target).get(nest.intrinsic)
            context = NestContext(stage.root, nest, initial, stage.epilogues, Enclosing(ivs, dims, shrunk), use, self.target)

            def emit() -> None:
                report = emit_nest(context, Nest.versions_of(stage.root, self.target))
                for by, why in report.declined:
                    self.state.decline(by, stage.root.operation, why)
                for by in report.used:
                    self.state.did(by, stage.root.operation, "computes register tiles")

            if nest.parallel:
                on_threads(stage.root.shapes, work_of(stage.root, self.costs), self.costs.threaded_work, emit)
            else:
                emit()

    def _loop(self, indices: Sequence[int], ivs: list[ir.Value], shrunk: dict[ir.Value, Shrunk], begin: int | Size) -> None:
        """Emit all iterations of a fused loop from `begin` on."""
        root, level = self.stages[indices[0]].root, len(ivs)
        low, low_operands = bound_of(root.shapes, begin)
        high, operands = bound_of(root.shapes, rounds(root, level))
        loop = affine.AffineForOp(low, high, lower_bound_operands=low_operands, upper_bound_operands=operands)
        with ir.InsertionPoint(loop.body):
            self.emit(indices, [*ivs, loop.induction_variable], shrunk)
            affine.AffineYieldOp([])

    def _chunks(self, indices: Sequence[int]) -> None:
        """Emit an outermost fused loop as a parallel loop over chunks of neighbouring iterations."""
        root = self.stages[indices[0]].root
        chunks, count = root.fused[0].chunks, rounds(root, 0)
        dealt = parallel_loop([Segment(0, chunks, 1)])
        block = dealt.regions[0].blocks[0]
        with ir.InsertionPoint(block):
            chunk = block.arguments[0]
            shrunk = self._slices(indices, chunk)
            operands = [chunk] if isinstance(count, int) else [chunk, value_of(root.shapes, count)]
            all_of_them: Any = ir.AffineConstantExpr.get(count) if isinstance(count, int) else ir.AffineSymbolExpr.get(0)
            rounds_of_a_chunk = -(-count // chunks) if isinstance(count, int) else ir.AffineExpr.get_ceil_div(all_of_them, chunks)
            first = ir.AffineDimExpr.get(0) * rounds_of_a_chunk
            end = [first + rounds_of_a_chunk] + ([all_of_them] if not isinstance(count, int) or count % chunks else [])
            low, high = (ir.AffineMap.get(1, len(operands) - 1, exprs) for exprs in ([first], end))
            loop = affine.AffineForOp(low, high, lower_bound_operands=operands, upper_bound_operands=operands)
            with ir.InsertionPoint(loop.body):
                self.emit(indices, [loop.induction_variable], shrunk)
                affine.AffineYieldOp([])
            affine.AffineYieldOp([])

    def _slices(self, indices: Sequence[int], chunk: ir.Value | None) -> dict[ir.Value, Shrunk]:
        """The slices that replace whole buffers which only these stages use; with `chunk`, the slices of that chunk."""
        out: dict[ir.Value, Shrunk] = {}
        for index in indices:
            stage = self.stages[index]
            for member, access in [(m, a) for m in stage.members for a in m.accesses if a.is_shaped]:
                view = None if access.value in out else defining_op(origin(access.value, RESHAPES))
                kept = BufferInfo(view).slice if view is not None else None
                if kept is not None:
                    out[access.value] = self._slice(view, kept, stage, member, access, chunk)
        return out

    def _slice(self, view: Any, kept: Slice, stage: Stage, member: Structured, access: Access, chunk: ir.Value | None) -> Shrunk:
        shape, places, shapes = list(access.exact_shape), set(), stage.root.shapes
        for loop in stage.root.fused[: kept.loops]:
            found = stage.walk(member, access, loop.dim)
            assert found is not None  # otherwise it would have been kept whole
            shape[found.place] = loop.step * found.stride
            places.add(found.place)
        shift = view.operands[1]
        if chunk is not None and isinstance(kept.bytes, int):
            offset = ir.AffineMap.get(1, 0, [ir.AffineDimExpr.get(0) * kept.bytes])
            shift = arith.AddIOp(shift, affine.AffineApplyOp(ir.AffineMapAttr.get(offset), [chunk]).result).result
        elif chunk is not None:
            shift = arith.addi(shift, arith.muli(chunk, value_of(shapes, kept.bytes)))
        kind = ir.MemRefType.get([size if isinstance(size, int) else ir.ShapedType.get_dynamic_size() for size in shape], access.element_type)
        free = [value_of(shapes, size) for size in shape if isinstance(size, Size)]
        return Shrunk(memref.ViewOp(kind, view.operands[0], shift, free).result, frozenset(places))
