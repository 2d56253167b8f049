"""Interpretations of calls, loops and branches, and of the few memory ops that lead from the arena of weights to tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.flow.boxes import BOX_OP, UNBOX_OP
from stepwell.dialects.flow.control import called_by
from stepwell.dialects.interpreter.base import Interpreter, ReferenceFault, Values, meaning, scalar_dtype, sizes_of
from stepwell.dialects.interpreter.tensors import owned


@meaning("func.call")
def call(machine: Interpreter, op: ir.Operation, operands: list[Any], _: Values) -> Sequence[Any]:
    """The results of the function."""
    return machine.call(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, operands)


@meaning("scf.for")
def loop(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """One iteration after the other. The carried arrays are private, so that `tensor.insert` may write to them.

    In the body of a structured op, where the trip count may depend on the point, each point keeps its values after its last iteration.
    """
    lower, upper, step, *initial = operands
    if np.ndim(lower) or np.ndim(upper):
        return rounds_by_place(machine, op, operands, values)
    if step <= 0:
        raise ReferenceFault(f"a loop with a step of {int(step)}")
    carried = [np.array(x) for x in initial]
    handed_over = list(op.regions[0].blocks[0].operations)[-1].operands
    own = [owned(value) and value.owner != op.regions[0].blocks[0] for value in handed_over]
    for i in range(int(lower), int(upper), int(step)):
        results = machine.run(op, 0, [np.asarray(i), *carried], values)
        carried = [x if mine or not x.ndim else x.copy() for x, mine in zip(results, own, strict=True)]
    return carried


def rounds_by_place(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """The loop of every point of an iteration space at once: the largest trip count of all points."""
    lower, upper, step, *carried = operands
    if np.ndim(step) or step != 1:
        raise ReferenceFault("a loop of other steps than 1 whose bounds depend on the place in an iteration space")
    for i in range(int(np.min(lower, initial=0)), int(np.max(upper, initial=0))):
        results = machine.run(op, 0, [np.asarray(i), *carried], values)
        active = (lower <= i) & (i < upper)
        carried = [np.where(active, new, old) for new, old in zip(results, carried, strict=True)]
    return carried


@meaning("scf.if")
def branch(machine: Interpreter, op: ir.Operation, operands: list[Any], values: Values) -> Sequence[Any]:
    """One of two regions."""
    if operands[0].ndim:
        raise ReferenceFault("a branch that depends on the place in an iteration space")
    if not operands[0] and not op.regions[1].blocks:
        return []
    return machine.run(op, 0 if operands[0] else 1, [], values)


@meaning("flow.bind_sizes")
def bind_sizes(machine: Interpreter, op: ir.Operation, operands: list[Any], _: Values) -> Sequence[Any]:
    """The numbers, which must agree with known values."""
    machine.bind_sizes(op, operands[0])
    return [np.asarray(number) for number in operands[0]]


@meaning("flow.size")
def size(machine: Interpreter, op: ir.Operation, _: list[Any], __: Values) -> Sequence[Any]:
    """A size that is known when the function begins."""
    return [np.asarray(machine.sizes[ir.StringAttr(op.attributes["size"]).value])]


@meaning(BOX_OP)
def box(machine: Interpreter, _: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """A box of the current value of the first operand."""
    return [machine.boxes.box(operands[0])]


@meaning(UNBOX_OP)
def unbox(machine: Interpreter, _: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """The content of the box."""
    return [machine.boxes.unbox(operands[0])]


@meaning("flow.if")
def branch_of_program(machine: Interpreter, op: ir.Operation, operands: list[Any], _: Values) -> Sequence[Any]:
    """The results of one of two functions."""
    count = len(operands) - ir.IntegerAttr(op.attributes["destinations"]).value
    then, otherwise = called_by(op)
    return machine.call_region(then if operands[0] else otherwise, operands[1:count])


@meaning("flow.loop")
def loop_of_program(machine: Interpreter, op: ir.Operation, operands: list[Any], _: Values) -> Sequence[Any]:
    """One iteration after the other: the final carried values, the collected values, and the trip count."""
    carried, places = (ir.IntegerAttr(op.attributes[name]).value for name in ("carried", "destinations"))
    (body,) = called_by(op)
    trip_count, condition, *inputs = operands[: len(operands) - places]
    rest = inputs[carried:]
    state, parts, count = machine.rounds(lambda *state: machine.call_region(body, [*state, *rest]), trip_count, condition, inputs[:carried])
    collected = machine.collected(op.results[carried:-1], parts, operands[len(operands) - places + carried : -1] if places else ())
    return [*state, *collected, np.array([count])]


@meaning("memref.view")
def view(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """Bytes of a buffer as an array."""
    kind, (buffer, offset, *dynamic) = op.results[0].type, operands
    dtype, sizes = scalar_dtype(kind.element_type), sizes_of(op.results[0].type, dynamic)
    size = dtype.itemsize * int(np.prod(sizes))
    if offset < 0 or offset + size > buffer.nbytes:
        raise ReferenceFault(f"{size} bytes from {int(offset)} on are not in a buffer of {buffer.nbytes} bytes")
    return [buffer[int(offset) : int(offset) + size].view(dtype).reshape(sizes)]


@meaning("bufferization.to_tensor", "sched.boundary", "tensor.cast")
def same(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """The operand itself."""
    return operands
