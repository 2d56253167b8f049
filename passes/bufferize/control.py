"""Conditionals and loops on memory: branches between blocks that call the functions of their regions.

A loop carries addresses. Each carried value has two places, that of the result and a spare one: an iteration reads one of
them (at first the initial value) and writes the other. A final value in the wrong place is copied to the result at the end.
"""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import arith, cf, func, ir, memref
from stepwell.dialects.core.size_table import Status
from stepwell.dialects.core.sizes import Dim, product
from stepwell.dialects.core.symbolic_shapes import constant, element_bits
from stepwell.dialects.flow.control import CONTROL, called_by, destinations_of, passed_on
from stepwell.passes.bufferize import runtime
from stepwell.passes.bufferize.control_memory import KEEP_ENTRY, KEEP_HEAD, ControlMemory, control_memory
from stepwell.passes.bufferize.kernels import as_memref
from stepwell.passes.bufferize.program import ProgramBuilder, address_of, emits, is_told
from stepwell.passes.bufferize.size_arithmetic import as_i64, compare, constant as i64_constant


@emits(*CONTROL)
def emit(b: ProgramBuilder, op: ir.Operation) -> None:
    """Build a `flow.if` or a `flow.loop`; the builder continues in a new block."""
    scratch = control_memory(op, b.shapes, b.program.plans)
    if op.name == "flow.if":
        _if(b, op, scratch)
    else:
        _Loop(b, op, scratch).build()


def _call(b: ProgramBuilder, name: str, operands: Sequence[ir.Value], inner: ir.Value) -> ir.Value:
    """Call the function of a region, whose workspace is `inner`; returns its status."""
    memory = [b.weights, inner, b.base, b.table]
    kinds = b.program.region_memory(name)
    cast = [v if v.type == kind else first_bytes(v, kind) for v, kind in zip(memory, [*kinds, b.table.type], strict=True)]
    return func.CallOp([ir.IntegerType.get_signless(64)], name, [*operands, *cast]).results[0]


def _inner(b: ProgramBuilder, op: ir.Operation, scratch: ControlMemory, name: str) -> ir.Value:
    """The workspace of a callee, in the scratch of the op."""
    _, kind, _ = b.program.region_memory(name)
    if op not in b.plan.scratch or not b.program.plans[name].workspace_bytes:
        return first_bytes(b.base, kind)
    return b.view(b.plan.scratch[op], scratch.inner, kind, list(kind.shape))


def first_bytes(value: ir.Value, kind: ir.MemRefType) -> ir.Value:
    """The beginning of a memref of bytes, as a memref of another size."""
    return memref.ReinterpretCastOp(kind, value, [], [], [], [0], list(kind.shape), [1]).result


def _if(b: ProgramBuilder, op: ir.Operation, scratch: ControlMemory) -> None:
    view: Any = op.opview
    names = called_by(op)
    operands = [b.operand(v) for v in (*passed_on(view), *destinations_of(view))]  # before the branch
    inner = [_inner(b, op, scratch, name) for name in names]
    condition = memref.LoadOp(b.operand(view.condition), []).result
    rest = b.new_block()
    joined = b.new_block(ir.IntegerType.get_signless(64))
    blocks = [b.new_block() for _ in names]
    cf.CondBranchOp(condition, [], [], *blocks)
    for block, name, own in zip(blocks, names, inner, strict=True):
        with ir.InsertionPoint(block):
            cf.BranchOp([_call(b, name, operands, own)], joined)
    with ir.InsertionPoint(joined):
        b.go_on_unless(joined.arguments[0], rest)
    b.block = rest


class _Loop:
    """A `flow.loop` as blocks: `head` decides whether there is another iteration, `ask` calls the runtime, `work` executes the iteration.

    The constructor builds everything that precedes the blocks: views of the scratch, addresses, and sizes.
    """

    def __init__(self, b: ProgramBuilder, op: ir.Operation, scratch: ControlMemory) -> None:
        view: Any = op.opview  # a LoopOp of `flow`, whose accessors are created at run time
        (self.name,) = called_by(op)
        self.b, self.scratch, self.index = b, scratch, ir.IndexType.get()
        self.i1, i64 = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(64)
        carried = self.carried = view.attribute_values()["carried"]
        self.inputs, self.places = passed_on(view), destinations_of(view)
        own = b.plan.scratch[op]
        number, flag = ir.MemRefType.get([], i64), ir.MemRefType.get([], self.i1)
        self.number = b.view(own, scratch.round, number, [])
        self.condition, self.going_on = (b.view(own, place, flag, []) for place in (scratch.condition, scratch.going_on))
        self.captured = [b.operand(v) for v in self.inputs[carried:]]
        self.inner = _inner(b, op, scratch, self.name)
        self.limit = arith.IndexCastOp(self.index, memref.LoadOp(b.operand(view.trip_count), []).result).result
        self.first = memref.LoadOp(b.operand(view.condition), []).result
        self.begin = [b.address(b.plan.values[v]) for v in self.inputs[:carried]]
        self.home = [b.address(b.plan.values[v]) for v in self.places[:carried]]
        self.spare = [b.address(own, place) for place in scratch.spare]
        self.whole = [b.address(b.plan.values[v]) for v in self.places[carried:-1]]
        self.part_bytes = [b.size(_part_bytes(b, v)) for v in self.places[carried:-1]]
        self.count = b.operand(self.places[-1])
        self.zero, self.one = constant(0), constant(1)
        for value in (*self.inputs[:carried], *self.places):
            for dim in b.shapes.shape(value):
                b.size(dim)
        record = ir.MemRefType.get([(KEEP_HEAD + KEEP_ENTRY * len(scratch.holders)) // 8], i64)
        self.kept = None if scratch.kept is None else b.view(own, scratch.kept, record, list(record.shape))

    def build(self) -> None:
        """Build the blocks; the builder continues in the last one."""
        b, carried, cmp = self.b, self.carried, arith.CmpIPredicate
        # The iteration, when to call the runtime, whether to continue; where values are, where the iteration writes them, and the free place.
        state = [self.index, self.index, self.i1, *[self.index] * (3 * carried)]
        head, ask, work, after = b.new_block(*state), b.new_block(), b.new_block(self.index), b.new_block()
        starting = [self.zero, self.one, self.first, *self.begin, *self.home, *self.spare]
        if self.kept is None:
            cf.BranchOp(starting, head)
        else:
            memref.StoreOp(i64_constant(len(self.scratch.holders)), self.kept, [self.zero])
            memref.StoreOp(i64_constant(-1), self.kept, [self.one])
            self._keep(self.kept, head, starting)
        at, due, goes, *addresses = head.arguments
        now, next_, other = (addresses[i * carried : (i + 1) * carried] for i in range(3))
        checked = b.new_block()
        with ir.InsertionPoint(head):
            more = arith.AndIOp(goes, compare(cmp.slt, at, self.limit)).result
            cf.CondBranchOp(more, [], [], checked, after)
        with ir.InsertionPoint(checked):
            cf.CondBranchOp(compare(cmp.eq, at, due), [], [due], ask, work)
        with ir.InsertionPoint(ask):
            answer = runtime.poll(b.table, as_i64(at))
            b.go_on_if(is_told(answer), Status.STOPPED, work, [arith.IndexCastOp(self.index, answer).result])
        with ir.InsertionPoint(work):
            status = self._round(at, goes, now, next_)
            again = memref.LoadOp(self.going_on, []).result
            coming = [arith.AddIOp(at, self.one).result, work.arguments[0], again, *next_, *other, *next_]
            self._go_on(work, status, coming, next_, head)
        with ir.InsertionPoint(after):
            memref.StoreOp(as_i64(at), self.count, [self.zero])
        b.block = after
        self._bring_home(now)

    def _round(self, at: ir.Value, goes: ir.Value, now: Sequence[ir.Value], next_: Sequence[ir.Value]) -> ir.Value:
        """Call the region function: it reads carried values `now`, and writes the `next_` ones and its part of the collected results."""
        b = self.b
        memref.StoreOp(as_i64(at), self.number, [])
        memref.StoreOp(goes, self.condition, [])
        reads = [b.memref_at(address, as_memref(v.type), b.shapes.shape(v)) for address, v in zip(now, self.inputs, strict=False)]
        writes = [b.memref_at(address, as_memref(v.type), b.shapes.shape(v)) for address, v in zip(next_, self.places, strict=False)]
        parts = []
        for start, size, v in zip(self.whole, self.part_bytes, self.places[self.carried : -1], strict=True):
            kind = as_memref(v.type)
            part = ir.MemRefType.get(list(kind.shape)[1:], kind.element_type)
            parts.append(b.memref_at(arith.AddIOp(start, arith.MulIOp(at, size).result).result, part, b.shapes.shape(v)[1:]))
        return _call(b, self.name, [self.number, self.condition, *reads, *self.captured, self.going_on, *writes, *parts], self.inner)

    def _keep(self, kept: ir.Value, head: ir.Block, coming: Sequence[ir.Value]) -> None:
        """Tell the runtime what the record of boxes holds, and go on with the next round."""
        self.b.go_on_if(is_told(runtime.keep(self.b.table, as_i64(address_of(kept)))), Status.STOPPED, head, coming)

    def _go_on(self, work: ir.Block, status: ir.Value, coming: Sequence[ir.Value], next_: Sequence[ir.Value], head: ir.Block) -> None:
        """Go on with the next round, unless this one ends the run; the runtime is told of boxes that the round wrote."""
        b = self.b
        if self.kept is None:
            b.go_on_unless(status, head, coming)
            return
        done = work.create_after()
        b.go_on_unless(status, done)
        with ir.InsertionPoint(done):
            for place, i in enumerate(self.scratch.holders):
                rows = product([*b.shapes.shape(self.places[i])[:-1]])
                for entry, value in enumerate((next_[i], b.size(rows))):
                    memref.StoreOp(as_i64(value), self.kept, [constant(2 + 2 * place + entry)])
            self._keep(self.kept, head, coming)

    def _bring_home(self, now: Sequence[ir.Value]) -> None:
        """Copy carried values to the results if the last iteration has not written them there."""
        b = self.b
        for address, target, value in zip(now, self.home, self.places[: self.carried], strict=True):
            with ir.InsertionPoint(b.block):
                rest, copy = b.new_block(), b.new_block()
                cf.CondBranchOp(compare(arith.CmpIPredicate.eq, address, target), [], [], rest, copy)
            with ir.InsertionPoint(copy):
                flat, length = b.flat(value)
                kernel = b.program.copy_kernel(flat, b.function.location)
                func.CallOp([], kernel, [b.memref_at(address, flat, [length]), b.memref_at(target, flat, [length])])
                cf.BranchOp([], rest)
            b.block = rest


def _part_bytes(b: ProgramBuilder, value: ir.Value) -> Dim:
    """The bytes that an iteration adds to a collected result."""
    return product([element_bits(value.type.element_type) // 8, *b.shapes.shape(value)[1:]])
