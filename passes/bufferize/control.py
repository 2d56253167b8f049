"""Conditionals and loops on memory: branches between blocks that call the functions of their regions.

A loop keeps addresses from round to round. Each carried value has two places, that of the result and a spare one: a round reads one of
them, the initial value at first, and writes the other. What the last round has written elsewhere is copied to the result in the end.
"""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import arith, cf, func, ir, memref
from stepwell.dialects.core.sizes import Dim, product
from stepwell.dialects.core.symbolic_shapes import constant, element_bits
from stepwell.dialects.flow.control import CONTROL, called_by, destinations_of, passed_on
from stepwell.passes.bufferize import runtime
from stepwell.passes.bufferize.boxes import as_i64
from stepwell.passes.bufferize.control_memory import KEEP_ENTRY, KEEP_HEAD, ControlMemory, control_memory
from stepwell.passes.bufferize.kernels import as_memref
from stepwell.passes.bufferize.program import ProgramBuilder, address_of, emits


@emits(*CONTROL)
def emit(b: ProgramBuilder, op: ir.Operation) -> None:
    """Build a `flow.if` or a `flow.loop`; what comes behind it goes on in a new block."""
    scratch = control_memory(op, b.shapes, b.program.plans)
    if op.name == "flow.if":
        _if(b, op, scratch)
    else:
        _loop(b, op, scratch)


def _call(b: ProgramBuilder, name: str, operands: Sequence[ir.Value], inner: ir.Value) -> ir.Value:
    """Call the function of a region; whether to go on, as i64. `inner` is its workspace."""
    memory = [b.weights, inner, b.base, b.table]
    kinds = b.program.region_memory(name)
    cast = [v if v.type == kind else first_bytes(v, kind) for v, kind in zip(memory, [*kinds, b.table.type], strict=True)]
    return func.CallOp([ir.IntegerType.get_signless(64)], name, [*operands, *cast]).results[0]


def _inner(b: ProgramBuilder, op: ir.Operation, scratch: ControlMemory, name: str) -> ir.Value:
    """The workspace of a function that is called, in the scratch of the op."""
    _, kind, _ = b.program.region_memory(name)
    if op not in b.plan.scratch or not b.program.plans[name].workspace_bytes:
        return first_bytes(b.base, kind)
    return b.view(b.plan.scratch[op], scratch.inner, kind, list(kind.shape))


def first_bytes(value: ir.Value, kind: ir.MemRefType) -> ir.Value:
    """The beginning of a memref of bytes, as one of another size."""
    return memref.ReinterpretCastOp(kind, value, [], [], [], [0], list(kind.shape), [1]).result


def _is(value: ir.Value, predicate: Any, other: ir.Value) -> ir.Value:
    return arith.CmpIOp(predicate, value, other).result


def _number(value: int) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return arith.ConstantOp(i64, ir.IntegerAttr.get(i64, value)).result


def _if(b: ProgramBuilder, op: ir.Operation, scratch: ControlMemory) -> None:
    view: Any = op.opview
    names = called_by(op)
    operands = [b.operand(v) for v in (*passed_on(view), *destinations_of(view))]  # before the blocks part
    inner = [_inner(b, op, scratch, name) for name in names]
    condition = memref.LoadOp(b.operand(view.condition), []).result
    failed, rest = b.failed(), b.new_block()
    i64 = ir.IntegerType.get_signless(64)
    joined = b.new_block(i64)
    blocks = [b.new_block() for _ in names]
    cf.CondBranchOp(condition, [], [], *blocks)
    for block, name, own in zip(blocks, names, inner, strict=True):
        with ir.InsertionPoint(block):
            cf.BranchOp([_call(b, name, operands, own)], joined)
    with ir.InsertionPoint(joined):
        cf.CondBranchOp(_is(joined.arguments[0], arith.CmpIPredicate.ne, _number(0)), [], [], rest, failed)
    b.block = rest


def _loop(b: ProgramBuilder, op: ir.Operation, scratch: ControlMemory) -> None:
    view: Any = op.opview
    (name,) = called_by(op)
    index, i1, cmp = ir.IndexType.get(), ir.IntegerType.get_signless(1), arith.CmpIPredicate
    carried = view.attribute_values()["carried"]
    inputs, places = passed_on(view), destinations_of(view)
    own = b.plan.scratch[op]
    scalar = {kind: ir.MemRefType.get([], element) for kind, element in (("round", ir.IntegerType.get_signless(64)), ("flag", i1))}
    number = b.view(own, scratch.round, scalar["round"], [])
    condition, going_on = (b.view(own, place, scalar["flag"], []) for place in (scratch.condition, scratch.going_on))
    captured = [b.operand(v) for v in inputs[carried:]]
    inner = _inner(b, op, scratch, name)
    limit = arith.IndexCastOp(index, memref.LoadOp(b.operand(view.trip_count), []).result).result
    first = memref.LoadOp(b.operand(view.condition), []).result
    begin = [b.address(b.plan.values[v]) for v in inputs[:carried]]
    home = [b.address(b.plan.values[v]) for v in places[:carried]]
    spare = [b.address(own, place) for place in scratch.spare]
    whole = [b.address(b.plan.values[v]) for v in places[carried:-1]]
    part_bytes = [b.size(_part_bytes(b, v)) for v in places[carried:-1]]
    count = b.operand(places[-1])
    zero, one = constant(0), constant(1)
    for value in (*inputs[:carried], *places):  # their sizes, before the blocks part
        for dim in b.shapes.shape(value):
            b.size(dim)
    record = _record_type(scratch)
    kept = None if scratch.kept is None else b.view(own, scratch.kept, record, list(record.shape))
    state = [index, index, i1, *[index] * (3 * carried)]  # the round, when to ask the runtime, whether to go on; where values are
    head, ask, work, after, failed = b.new_block(*state), b.new_block(), b.new_block(index), b.new_block(), b.failed()
    starting = [zero, one, first, *begin, *home, *spare]
    if kept is None:
        cf.BranchOp(starting, head)
    else:
        memref.StoreOp(_number(len(scratch.holders)), kept, [zero])
        memref.StoreOp(_number(-1), kept, [one])
        runtime.keep(b.module, b.table, as_i64(address_of(kept)), head, starting, failed)
    at, due, goes, *addresses = head.arguments
    now, next_, other = (addresses[i * carried : (i + 1) * carried] for i in range(3))
    checked = b.new_block()
    with ir.InsertionPoint(head):
        more = arith.AndIOp(goes, _is(at, cmp.slt, limit)).result
        cf.CondBranchOp(more, [], [], checked, after)
    with ir.InsertionPoint(checked):
        cf.CondBranchOp(_is(at, cmp.eq, due), [], [due], ask, work)
    with ir.InsertionPoint(ask):
        at_i64 = as_i64(at)
        answer = runtime.poll(b.module, b.table, at_i64)
        cf.CondBranchOp(_is(answer, cmp.ne, _number(0)), [arith.IndexCastOp(index, answer).result], [], work, failed)
    with ir.InsertionPoint(work):
        memref.StoreOp(as_i64(at), number, [])
        memref.StoreOp(goes, condition, [])
        reads = [b.at(address, as_memref(v.type), b.shapes.shape(v)) for address, v in zip(now, inputs, strict=False)]
        writes = [b.at(address, as_memref(v.type), b.shapes.shape(v)) for address, v in zip(next_, places, strict=False)]
        parts = []
        for start, size, v in zip(whole, part_bytes, places[carried:-1], strict=True):
            kind = as_memref(v.type)
            part = ir.MemRefType.get(list(kind.shape)[1:], kind.element_type)
            parts.append(b.at(arith.AddIOp(start, arith.MulIOp(at, size).result).result, part, b.shapes.shape(v)[1:]))
        status = _call(b, name, [number, condition, *reads, *captured, going_on, *writes, *parts], inner)
        again = memref.LoadOp(going_on, []).result
        good = _is(status, cmp.ne, _number(0))
        coming = [arith.AddIOp(at, one).result, work.arguments[0], again, *next_, *other, *next_]
        if kept is None:
            cf.CondBranchOp(good, coming, [], head, failed)
        else:
            done = work.create_after()
            cf.CondBranchOp(good, [], [], done, failed)
            with ir.InsertionPoint(done):
                for place, i in enumerate(scratch.holders):
                    rows = product([*b.shapes.shape(places[i])[:-1]])
                    for entry, value in enumerate((next_[i], b.size(rows))):
                        memref.StoreOp(as_i64(value), kept, [constant(2 + 2 * place + entry)])
                runtime.keep(b.module, b.table, as_i64(address_of(kept)), head, coming, failed)
    with ir.InsertionPoint(after):
        memref.StoreOp(as_i64(at), count, [zero])
    b.block = after
    for address, target, value in zip(now, home, places[:carried], strict=True):
        with ir.InsertionPoint(b.block):
            rest, copy = b.new_block(), b.new_block()
            cf.CondBranchOp(_is(address, cmp.eq, target), [], [], rest, copy)
        with ir.InsertionPoint(copy):
            flat, length = b.flat(value)
            kernel = b.program.copy_kernel(flat, b.function.location)
            func.CallOp([], kernel, [b.at(address, flat, [length]), b.at(target, flat, [length])])
            cf.BranchOp([], rest)
        b.block = rest


def _record_type(scratch: ControlMemory) -> ir.MemRefType:
    """The type of what the runtime is told of boxes."""
    return ir.MemRefType.get([(KEEP_HEAD + KEEP_ENTRY * len(scratch.holders)) // 8], ir.IntegerType.get_signless(64))


def _part_bytes(b: ProgramBuilder, value: ir.Value) -> Dim:
    """The bytes of what a round collects."""
    return product([element_bits(value.type.element_type) // 8, *b.shapes.shape(value)[1:]])
