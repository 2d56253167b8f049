"""Rules for control flow: branches and trip counts known at compile time are imported in place, the others become graph.if and graph.loop."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast as typed

import numpy as np
from onnx import GraphProto

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import holds, is_static
from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph.control import ControlInfo, IfOp
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import counting, size_scalar, slice_axis, with_new_axes, without_axes
from stepwell.frontends.builder import Value, dims_of, normalized_axis, static_dim
from stepwell.frontends.onnx.branches import BranchesDifferError
from stepwell.frontends.onnx.builder import ImportBuilder, NodeContext
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.boxed_sequences import BoxedSequence
from stepwell.frontends.onnx.rules.loops import ENDLESS, TypeChangesError, covering, empty_stack, is_endless, loop_of
from stepwell.frontends.onnx.rules.sequence_forms import Form, first_form, formed, met, parts_of, regrouped
from stepwell.frontends.onnx.sequences import AnyValue, tensors
from stepwell.frontends.onnx.tensors import onnx_tensor_type
from stepwell.frontends.onnx.walking import nested_nodes

FEW_ROUNDS, FEW_NODES = 16, 1024
"""The largest trip count, and the largest number of nodes over all iterations, for which a loop of known length is unrolled.

A thousand nodes compile in a few seconds, and unrolling saves the start of an iteration; an unrolled loop also computes sizes and indices of each
iteration at compile time.
"""
MATRIX_PRODUCTS, FEW_PRODUCTS = frozenset({"MatMul", "Gemm"}), 4
"""Operators that multiply matrices, and the largest trip count for which a loop of known length with one of them is unrolled."""
_NOT_CARRIED = "the condition of a loop's body, and what it collects,"


@onnx_rule("If", since=1)
def if_(b: ImportBuilder, condition: Value, *, then_branch: GraphProto, else_branch: GraphProto) -> tuple[AnyValue, ...]:
    constant = b.constant_value(condition)
    if constant is not None:
        return b.node.import_graph(then_branch if b.known_scalar(condition, "the condition") else else_branch, ())
    # The branches determine the result types, so they are first built in an op without results. The op is in the module, because the bindings crash
    # if a detached op outlives the owner of its operands.
    holder = ir.Operation.create("graph.if", operands=[condition], results=[], regions=2)
    types: list[list[TensorType]] = []
    graphs = zip(holder.regions, (then_branch, else_branch), strict=True)
    given = b.node.import_branches([(region.blocks.append(), graph) for region, graph in graphs])
    for i, wrong in enumerate(given):
        if isinstance(wrong, str):
            return only_branch(b, condition, holder, 1 - i, given[1 - i], wrong)
    if len(given[0]) != len(given[1]):
        raise ModelError(f"its branches return {len(given[0])} and {len(given[1])} values")
    try:
        forms = [met(b, one, other, "branches that give") for one, other in zip(*given, strict=True)]
    except UnsupportedError as error:
        b.erase(holder)
        raise BranchesDifferError(*error.args) from None
    for i, region in enumerate(holder.regions):
        with ir.InsertionPoint(region.blocks[0]):
            given[i] = tuple(formed(b, given[i], forms))
            values = parts_of(given[i])
            b.yield_(values, result_types=[])
        types.append([type_of(v) for v in values])
    if any((one.dtype, one.rank) != (other.dtype, other.rank) for one, other in zip(*types, strict=True)):
        b.erase(holder)
        shown = [", ".join(map(str, kinds)) for kinds in types]
        text = f"branches that give values of different types ({shown[0]} or {shown[1]}), as only the run decides, are not supported"
        raise BranchesDifferError(f"{text}; supported: one element type and rank, or that what follows in each branch gives it")
    node = by_parts(b.node, given[0])
    names = [*node.output_names, *[""] * len(types[0])]
    results = [b.symbols.completed(name or "branch", kind) for name, kind in zip(names, map(covering, types[0], types[1]), strict=False)]
    made = b.create(IfOp, [b.with_shape(condition, ())], {}, results).operation
    for old, new in zip(holder.regions, made.regions, strict=True):
        old.blocks[0].append_to(new)
    b.erase(holder)
    return regrouped(given[0], made.results)


def only_branch(
    b: ImportBuilder, condition: Value, holder: ir.Operation, branch: int, values: tuple[AnyValue, ...], wrong: str
) -> tuple[AnyValue, ...]:
    """The values of the one branch (0 or 1) of a conditional that can be valid, computed whatever the condition is, which must choose it."""
    for op in list(holder.regions[branch].blocks[0].operations):
        op.operation.move_before(holder)
    b.erase(holder)
    b.require(b.with_shape(condition, ()), value=branch == 0, problem=f"the branch that is taken cannot be valid here: {wrong}", result_types=[])
    return values


@onnx_rule("Loop", since=1)
def loop(
    b: ImportBuilder, trip_count: Value | None = None, condition: Value | None = None, *initial: AnyValue, body: GraphProto
) -> tuple[AnyValue, ...]:
    if len(body.input) != len(initial) + 2 or len(body.output) < len(initial) + 1:
        raise ModelError(f"its body takes {len(body.input)} and returns {len(body.output)} values for {len(initial)} carried ones")
    objection = None
    rounds = None if trip_count is None else b.constant_value(trip_count)
    goes = np.array(True) if condition is None else b.constant_value(condition)
    if rounds is not None and goes is not None:
        count, nodes = int(rounds.reshape(-1)[0]) if goes.reshape(-1)[0] else 0, sum(1 for _ in nested_nodes(body.node))
        if is_long(count, body):
            rolled = b.node.attempt(lambda: loop_without_exit(b, *bounds(b, trip_count, condition), initial, body))
            if rolled is not None:
                ControlInfo(rolled[1]).reason = f"its {count} rounds of {nodes} nodes would take longer to compile than they save"
                return typed(tuple[AnyValue, ...], rolled[0])
        objection = b.unroll(count, nodes)
        if objection is None:
            unrolled = unrolled_loop(b, count, initial, body)
            if unrolled is not None:
                return unrolled
    results, made = rolled_loop(b, *bounds(b, trip_count, condition), initial, body)
    if objection is not None:
        ControlInfo(made).reason = objection
    return results


def bounds(b: ImportBuilder, trip_count: Value | None, condition: Value | None) -> tuple[Value, Value]:
    """The largest trip count of a loop, and whether there is a first iteration, as scalars."""
    limit = b.literal(np.array(ENDLESS)) if trip_count is None else b.with_shape(trip_count, ())
    return limit, b.literal(np.array(True)) if condition is None else b.with_shape(condition, ())


def loop_without_exit(
    b: ImportBuilder, limit: Value, condition: Value, initial: Sequence[AnyValue], body: GraphProto
) -> tuple[tuple[AnyValue, ...], ir.Operation]:
    """Like `rolled_loop`.

    Raises UnsupportedError if not all iterations run, or carried values change sizes: such a loop should rather be unrolled.
    """
    results, made = rolled_loop(b, limit, condition, initial, body)
    inner = made.regions[0].blocks[0]
    goes = list(inner.operations)[-1].operation.operands[0]
    if goes != inner.arguments[1] and ((constant := b.constant_value(goes)) is None or not constant.all()):
        raise UnsupportedError("a loop that its condition may end")
    if any(type_of(before).shape != type_of(after).shape for before, after in zip(made.opview.carried, made.results, strict=False)):
        raise UnsupportedError("a loop that carries values of changing sizes")
    return results, made


def is_long(rounds: int, body: GraphProto) -> bool:
    """Whether a body with that trip count should stay a loop, if possible.

    Iterations that multiply matrices take long compared with their start. As a loop, such a body may become a recurrent layer (`use-recurrences`), or
    its products may become one product (`hoist-from-loops`).
    """
    nodes = list(nested_nodes(body.node))
    if any(node.op_type in MATRIX_PRODUCTS for node in nodes):
        return rounds > FEW_PRODUCTS
    return rounds > FEW_ROUNDS and rounds * len(nodes) > FEW_NODES


def unrolled_loop(b: ImportBuilder, count: int, initial: Sequence[AnyValue], body: GraphProto) -> tuple[AnyValue, ...] | None:
    """Import all iterations in sequence, or return None if only the run time can decide whether there is another iteration."""
    carried: tuple[AnyValue, ...] = tuple(initial)
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - len(initial) - 1)]
    for i in range(count):
        state = as_declared(b, [b.literal(np.array(i, np.int64)), b.literal(np.array(True))], body)
        going_on, *results = b.node.import_graph(body, (*state, *carried))
        carried = tuple(results[: len(initial)])
        goes, *ends = tensors([going_on, *results[len(initial) :]], _NOT_CARRIED)
        for parts, value in zip(collected, ends, strict=True):
            parts.append(with_new_axes(b, value, [0]))
        decision = b.constant_value(goes)
        if decision is None and i + 1 < count:
            return None
        if decision is not None and not decision.reshape(-1)[0]:
            break
    return *carried, *(stacked(b, parts, len(initial) + i) for i, parts in enumerate(collected))


def as_declared(b: ImportBuilder, scalars: Sequence[Value], body: GraphProto) -> list[Value]:
    """Iteration number and condition with the shapes that the body declares: some models declare vectors of one element."""
    declared = [onnx_tensor_type(value.type) for value in body.input]
    return [b.with_shape(v, (1,)) if t is not None and t.rank == 1 else v for v, t in zip(scalars, declared, strict=False)]


def stacked(b: ImportBuilder, parts: Sequence[Value], output: int) -> Value:
    """The collected values, concatenated; without any, an empty value of the type that ONNX infers."""
    if parts:
        return b.concat(list(parts), axis=0)
    tensor = b.node.output_types[output] if output < len(b.node.output_types) else None
    if tensor is None or not is_static(tensor.shape[1:]):
        raise UnsupportedError("values collected over no rounds are not supported; supported: at least one round")
    return empty_stack(b, tensor.with_shape(tensor.shape[1:]))


def rolled_loop(
    b: ImportBuilder, limit: Value, condition: Value, initial: Sequence[AnyValue], body: GraphProto
) -> tuple[tuple[AnyValue, ...], ir.Operation]:
    """The results of a graph.loop with the body as its region, and the op.

    The elements of a sequence of constant length are carried separately, other sequences in boxes: the body is built repeatedly until the properties
    of their elements hold in every iteration. If the first iteration produces values of other types, it is peeled off in front of the loop.
    """
    try:
        return rolled_from(b, 0, limit, condition, initial, body)
    except TypeChangesError as error:
        peeled = b.node.attempt(lambda: after_first_iteration(b, limit, condition, initial, body))
        if peeled is None:
            raise error from None
        return typed(tuple[tuple[AnyValue, ...], ir.Operation], peeled)


def after_first_iteration(
    b: ImportBuilder, limit: Value, condition: Value, initial: Sequence[AnyValue], body: GraphProto
) -> tuple[tuple[AnyValue, ...], ir.Operation]:
    """Like `rolled_loop`, for a loop whose first iteration changes the types of carried values: the run must execute that iteration."""
    any_rounds = b.and_(b.less(b.scalar(0, like=limit), limit), condition)
    what = ", ".join(str(type_of(value)) for value in initial if isinstance(value, ir.Value))
    b.require(any_rounds, value=True, problem=f"no round of the loop takes place, for whose results ({what}) no code is made", result_types=[])
    state = as_declared(b, [b.literal(np.array(0, np.int64)), b.literal(np.array(True))], body)
    goes, *results = b.node.import_graph(body, (*state, *initial))
    again, *ends = tensors([goes, *results[len(initial) :]], _NOT_CARRIED)
    rest = limit if is_endless(b, limit) else b.sub(limit, b.scalar(1, like=limit))
    others, made = rolled_from(b, 1, rest, b.with_shape(again, ()), results[: len(initial)], body)
    collected = tensors(others[len(initial) :], _NOT_CARRIED)
    joined = [b.concat([with_new_axes(b, end, [0]), more], axis=0) for end, more in zip(ends, collected, strict=True)]
    return (*others[: len(initial)], *joined), made


def rolled_from(
    b: ImportBuilder, first: int, limit: Value, condition: Value, initial: Sequence[AnyValue], body: GraphProto
) -> tuple[tuple[AnyValue, ...], ir.Operation]:
    """Like `rolled_loop`, for the iterations from `first` on."""
    forms = [first_form(b, value, body, i) for i, value in enumerate(initial)]
    while True:
        start = formed(b, initial, forms)
        try:
            return _rolled(b, first, limit, condition, start, body)
        except _OtherFormsError as error:
            forms = error.forms


class _OtherFormsError(Exception):
    """The body of a loop was built for carried values in other forms than necessary."""

    def __init__(self, forms: list[Form]) -> None:
        super().__init__()
        self.forms = forms


def _rolled(
    b: ImportBuilder, first: int, limit: Value, condition: Value, initial: Sequence[AnyValue], body: GraphProto
) -> tuple[tuple[AnyValue, ...], ir.Operation]:
    """Like `rolled_from`, for carried values in their forms. Raises _OtherFormsError if the body returns them in others."""
    taken: list[Form] = [value.kind if isinstance(value, BoxedSequence) else None for value in initial]

    def rounds(number: Value, going_on: Value, *carried: Value) -> tuple[Value, ...]:
        number = b.add(number, b.scalar(first, like=number)) if first else number
        state = as_declared(b, [number, going_on], body)
        again, *results = b.node.import_graph(body, (*state, *regrouped(initial, carried)))
        forms = [met(b, one, other, "carried values that are") for one, other in zip(initial, results[: len(initial)], strict=True)]
        if forms != taken:
            raise _OtherFormsError(forms)
        goes, *ends = tensors([again, *results[len(initial) :]], _NOT_CARRIED)
        return b.with_shape(goes, ()), *parts_of(formed(b, results[: len(initial)], forms)), *ends

    start = parts_of(initial)
    rows = {value.rows for value in initial if isinstance(value, BoxedSequence)}
    growing = [i for i, part in enumerate(start) if part in rows]
    with b.at_node(by_parts(b.node, initial)):
        results, made = loop_of(b, limit, condition, start, rounds, growing)
    return (*regrouped(initial, results[: len(start)]), *results[len(start) :]), made


def by_parts(node: NodeContext, values: Sequence[AnyValue]) -> NodeContext:
    """A node whose first outputs are replaced by the tensors in these values."""
    names: list[str] = []
    types: list[TensorType | None] = []
    for value, name, kind in zip(values, node.output_names, node.output_types, strict=False):
        count = len(parts_of([value]))
        names += [name] * count
        types += [kind if isinstance(value, ir.Value) else None] * count
    rest = slice(len(values), None)
    return replace(node, output_names=(*names, *node.output_names[rest]), output_types=(*types, *node.output_types[rest]))


@onnx_rule("Scan", since=9)
def scan(
    b: ImportBuilder,
    *inputs: Value,
    body: GraphProto,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Value, ...]:
    states = len(inputs) - num_scan_inputs
    outputs = len(body.output) - states
    if states < 0 or num_scan_inputs < 1 or outputs < 0 or len(body.input) != len(inputs):
        raise ModelError(
            f"num_scan_inputs {num_scan_inputs} does not fit {len(inputs)} inputs and a body of {len(body.input)} inputs, {len(body.output)} outputs"
        )
    carried, sequences = inputs[:states], inputs[states:]
    axes = [normalized_axis(a, type_of(v).rank, "scan_input_axes") for a, v in zip(scan_input_axes or [0] * num_scan_inputs, sequences, strict=True)]
    length = type_of(sequences[0]).shape[axes[0]]
    nodes = sum(1 for _ in nested_nodes(body.node))
    backwards = list(scan_input_directions) or [0] * num_scan_inputs
    out_axes, out_backwards = list(scan_output_axes) or [0] * outputs, list(scan_output_directions) or [0] * outputs
    how = (carried, sequences, body, axes, backwards, out_axes, out_backwards)
    if isinstance(length, int) and is_long(length, body):
        rolled = b.node.attempt(lambda: rolled_scan(b, *how))
        if rolled is not None:
            return typed(tuple[Value, ...], rolled)
    if not isinstance(length, int) or not length or b.unroll(length, nodes) is not None:
        return rolled_scan(b, *how)
    collected: list[list[Value]] = [[] for _ in range(outputs)]
    for i in range(length):
        parts = [
            without_axes(b, slice_axis(b, v, a, length - 1 - i if back else i, 1), [a]) for v, a, back in zip(sequences, axes, backwards, strict=True)
        ]
        results = tensors(b.node.import_graph(body, (*carried, *parts)), "the outputs of its body")
        carried = tuple(results[:states])
        for values, value in zip(collected, results[states:], strict=True):
            values.append(value)
    ends = []
    for values, axis, back in zip(collected, out_axes, out_backwards, strict=True):
        axis = normalized_axis(axis, type_of(values[0]).rank + 1, "scan_output_axes")
        ends.append(b.concat([with_new_axes(b, v, [axis]) for v in (reversed(values) if back else values)], axis=axis))
    return *carried, *ends


def rolled_scan(
    b: ImportBuilder, initial: Sequence[Value], sequences: Sequence[Value], body: GraphProto, axes: Sequence[int], backwards: Sequence[int],
    out_axes: Sequence[int], out_backwards: Sequence[int],
) -> tuple[Value, ...]:  # fmt: skip
    """A Scan as a loop over the elements of its sequences."""
    length = dims_of(sequences[0])[axes[0]]
    for value, axis in zip(sequences, axes, strict=True):
        if not holds(dims_of(value)[axis], "==", length):
            raise ModelError(f"its sequences have different lengths: {', '.join(str(type_of(v)) for v in sequences)}")
    limit = size_scalar(b, length, like=b.literal(np.array(0, np.int64)))

    def rounds(number: Value, going_on: Value, *carried: Value) -> tuple[Value, ...]:
        parts = [b.at_round(v, number, axis=axis, backwards=bool(back)) for v, axis, back in zip(sequences, axes, backwards, strict=True)]
        return going_on, *tensors(b.node.import_graph(body, (*carried, *parts)), "the outputs of its body")

    results, _ = loop_of(b, limit, b.literal(np.array(True)), initial, rounds)
    ends = []
    for value, axis, back in zip(results[len(initial) :], out_axes, out_backwards, strict=True):
        rank = type_of(value).rank
        if back:
            size = dims_of(value)[0]
            last = size_scalar(b, size - 1, like=b.literal(np.array(0, np.int64)))
            value = b.gather(value, b.sub(last, counting(b, size)), axis=0)
        place = normalized_axis(axis, rank, "scan_output_axes")
        ends.append(b.transposed(value, [*range(1, place + 1), 0, *range(place + 1, rank)]))
    return *results[: len(initial)], *ends


@onnx_rule("Scan", since=8)
def scan_of_batches(
    b: ImportBuilder, lengths: Value | None = None, *inputs: Value, body: GraphProto, num_scan_inputs: int, directions: Sequence[int] = ()
) -> tuple[Value, ...]:
    """A separate scan for each batch (dimension 0) along dimension 1; outputs beyond the end of a shorter sequence are 0."""
    states = len(inputs) - num_scan_inputs
    if not inputs or not 0 <= states < len(inputs) or any(type_of(v).rank < (1 if i < states else 2) for i, v in enumerate(inputs)):
        raise ModelError(f"num_scan_inputs {num_scan_inputs} does not fit the inputs {', '.join(str(type_of(v)) for v in inputs)}")
    batches, longest = (static_dim(inputs[-1], axis, "what is scanned") for axis in range(2))
    if not batches:
        raise UnsupportedError(f"over {type_of(inputs[-1])} is not supported; supported: batches from 1")
    counts = (longest,) * batches if lengths is None else b.known_ints(lengths, "the lengths of the sequences")
    if len(counts) != batches or max(counts) > longest:
        raise ModelError(f"the lengths {list(counts)} do not fit {batches} sequences of {longest} elements")
    made = []
    for i, count in enumerate(counts):
        parts = [without_axes(b, slice_axis(b, v, 0, i, 1), [0]) for v in inputs]
        parts[states:] = [slice_axis(b, v, 0, 0, count) for v in parts[states:]]
        results = scan(b, *parts, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
        outputs = [padded_at_end(b, v, longest) for v in results[states:]]
        made.append([with_new_axes(b, v, [0]) for v in (*results[:states], *outputs)])
    return tuple(b.concat(list(values), axis=0) for values in zip(*made, strict=True))


def padded_at_end(b: ImportBuilder, x: Value, size: int) -> Value:
    """`x` padded with zeros at the end of dimension 0, to that size."""
    tensor = type_of(x)
    missing = size - (tensor.shape[0] or 0)
    none = (0,) * tensor.rank
    return b.pad(x, low=none, high=(missing, *none[1:]), mode="constant", value=0.0) if missing else x
