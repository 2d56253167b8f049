"""Destination-passing style: the pass that makes kernels write results into their destinations, and run epilogues in place."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import defining_op, ir, linalg, ops_below, replace_op, tensor, use_count
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.slices import SlicePlace
from stepwell.dialects.core.symbolic_shapes import shapes_around
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.passes.framework.decisions import NoMatch, expect
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import clone_into
from stepwell.passes.linalg.structured import Structured

_MADE_FIRST = ("tensor.empty", "tensor.expand_shape", "tensor.collapse_shape", "tensor.dim", "linalg.fill")


@register_pass("use-destinations", level="linalg", anchor="func.func")
class UseDestinations(Pass):
    """Bring a kernel into destination-passing style throughout, so that bufferisation finds everything in place.

    rewrite: generic ins(%r, …) outs(empty)            -> generic ins(…) outs(%r)             (element-wise over a sole-use result %r)
    rewrite: insert_slice(ops from empty) into %d      -> insert_slice(ops from extract_slice(%d)) into %d
    rewrite: return (ops from empty), …                -> return (ops from the argument that is this result's destination), …
    rewrite: for (…, %a = …) { yield …, ops from empty } -> for (…, %a = …) { yield …, ops from %a }
    rewrite: dim %computed                             -> dim %argument                       (of the same size)

    Ops that initialise a destination, such as the zeros around an image, come first, so that the stages after them stay adjacent and their loops can
    be fused. Sizes are read from arguments, because reading one from a computed value would have to come after that value's stage.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        if not KernelInfo(op).is_kernel:
            return
        block = op.regions[0].blocks[0]
        _ask_arguments(op)
        for operation in ops_below(op, "linalg.generic"):
            with state.attempt(self.name, operation):
                _write_in_place(operation)
        end = block.operations[len(block.operations) - 1].operation
        for result, out in zip(list(end.operands), destinations(op), strict=True):
            point = ir.InsertionPoint.at_block_begin(block)  # found anew each time, because the first op may be gone
            with state.attempt(self.name, defining_op(result) or end), point, end.location:  # if it fails, bufferisation copies the result
                write_into(result, out)
        for loop in ops_below(op, "scf.for"):
            body = loop.regions[0].blocks[0]
            for value, carried in zip(body.operations[len(body.operations) - 1].operands, list(body.arguments)[1:], strict=True):
                if not isinstance(value.type, ir.RankedTensorType):
                    continue
                with state.attempt(self.name, defining_op(value) or loop), ir.InsertionPoint.at_block_begin(body), loop.location:
                    write_into(value, carried)
        for insert in ops_below(op, "tensor.insert_slice"):
            with state.attempt(self.name, insert):
                _write_slice_in_place(insert)


def _ask_arguments(kernel: ir.Operation) -> None:
    """rewrite: dim %computed -> dim %argument, at the top, where an argument has a dimension of the same size."""
    shapes = shapes_around(kernel)
    for dim in ops_below(kernel, "tensor.dim"):
        size = None if dim.operands[0] in shapes.arguments else shapes.index(dim.results[0])
        if isinstance(size, Size) and (size in shapes.places or size in shapes.symbols):
            with ir.InsertionPoint.at_block_begin(shapes.block), dim.location:
                dim.results[0].replace_all_uses_with(shapes.value(size))
            dim.erase()


def destinations(kernel: ir.Operation) -> list[ir.Value]:
    """The destinations of a kernel on tensors: its last arguments, one for each result in order."""
    block = kernel.regions[0].blocks[0]
    results = len(block.operations[len(block.operations) - 1].operation.operands)
    return list(block.arguments)[len(block.arguments) - results :]


def write_into(value: ir.Value, destination: ir.Value) -> None:
    """Let the ops that compute `value` in place start from `destination` instead of a tensor.empty.

    Views of the destination are built at the current insertion point, which must come before these ops. Raises NoMatch, with nothing changed, if
    they do not start at a tensor.empty without other users in their own block.
    """
    while (start := None if value == destination else overwritten(value)) is not None:
        if use_count(start) != 1:
            raise NoMatch("it is computed in memory of its own: what it writes over has another user")
        if not _same_block(start, value):
            raise NoMatch("it is computed in memory of its own: what it writes over is made outside of its loop")
        value = start
    if value == destination:
        return
    op = expect(defining_op(value), "it is computed in memory of its own: it is an argument, or written over one")
    if op.name == "tensor.empty":
        replace_op(op, [destination])
        return
    if op.name in ("tensor.collapse_shape", "tensor.expand_shape") and use_count(op.operands[0]) == 1:
        view = _inverse_view(op, destination)
        try:
            write_into(op.operands[0], view.result)
        except NoMatch:
            view.operation.erase()
            raise
        return
    raise NoMatch(f"it is computed in memory of its own: it begins with '{op.name}', or that has another user")


def overwritten(value: ir.Value) -> ir.Value | None:
    """The operand that an op overwrites to produce `value`; None for a view, or an op that writes nothing."""
    op = defining_op(value)
    if op is None:
        return None
    if op.name == "tensor.insert_slice":
        return op.operands[1]
    if op.name not in ("linalg.generic", "linalg.fill", "scf.for"):  # their last operands correspond to the results
        return None
    return op.operands[len(op.operands) - len(op.results) + ir.OpResult(value).result_number]


def _same_block(value: ir.Value, other: ir.Value) -> bool:
    """Whether two values are defined in one block, so that an op at its top comes before both."""
    op, second = defining_op(value), defining_op(other)
    return op is None or second is None or op.block == second.block


def _inverse_view(op: ir.Operation, destination: ir.Value) -> tensor.ExpandShapeOp | tensor.CollapseShapeOp:
    """`destination` in the shape of the operand of a collapse or expand. Raises NoMatch if one of its sizes is unknown."""
    source_type = op.operands[0].type
    groups = [[int(i) for i in g] for g in op.attributes["reassociation"]]
    if op.name == "tensor.expand_shape":
        return tensor.CollapseShapeOp(source_type, destination, groups)
    free: list[ir.Value] = []
    if not source_type.has_static_shape:
        shapes = shapes_around(op)
        sizes = shapes.shape(op.operands[0])
        if None in sizes:
            raise NoMatch("it is computed in memory of its own: the shape in which its destination would be written is not known")
        free = [shapes.value(size) for size in sizes if isinstance(size, Size)]
    return tensor.ExpandShapeOp(source_type, destination, groups, free, list(source_type.shape))


def _write_in_place(op: ir.Operation) -> None:
    """rewrite: generic ins(%r, …) outs(empty) -> generic ins(…) outs(%r), for an element-wise op over a result %r used nowhere else."""
    structured = Structured(op)
    out = structured.outputs[0]
    origin = defining_op(out.value)
    if not structured.is_elementwise:
        return  # an op that reads several elements for each result cannot overwrite them
    if out.used or origin is None or origin.name != "tensor.empty":
        raise NoMatch("it does not write over an operand: it has a destination already")
    for index, access in enumerate(structured.inputs):
        producer = defining_op(access.value)
        if producer is None or not access.is_shaped or access.map != out.map or access.value.type != out.value.type:
            continue
        if producer.name not in ("linalg.generic", "linalg.fill") or use_count(access.value) != 1:
            continue
        take_output(op, structured, index)
        return
    raise NoMatch("it does not write over an operand: none is made in this kernel, for it alone, and of the type of its result")


def take_output(op: ir.Operation, structured: Structured, index: int) -> None:
    """Rebuild `op`, with its schedule attributes, with input `index` as its output operand."""
    taken = structured.inputs[index].value
    inputs = [a.value for i, a in enumerate(structured.inputs) if i != index]
    maps: list[Any] = [ir.AffineMapAttr.get(a.map) for i, a in enumerate(structured.accesses) if i != index]
    arguments = list(structured.body.arguments)
    with ir.InsertionPoint(op), op.location:
        new = linalg.GenericOp([op.results[0].type], inputs, [taken], ir.ArrayAttr.get(maps), op.attributes["iterator_types"])
        kept = [a for i, a in enumerate(arguments) if i != index]
        block = new.regions[0].blocks.append(*[a.type for a in kept])
        mapping: dict[ir.Value, ir.Value] = dict(zip(kept, block.arguments, strict=True))
        mapping[arguments[index]] = block.arguments[len(block.arguments) - 1]
        for inner in structured.body.operations:
            clone_into(inner.operation, mapping, ir.InsertionPoint(block))
    if ScheduleInfo(op).part:
        ScheduleInfo(new.operation).part = ScheduleInfo(op).part
    if ScheduleInfo(op).fused:
        ScheduleInfo(new.operation).fused = ScheduleInfo(op).fused
    replace_op(op, new.results)


def _write_slice_in_place(insert: ir.Operation) -> None:
    """Compute the source of an insert_slice in the slice itself.

    Ops that initialise the destination move up; if that depends on other computation, the ops of the source move down to the insertion.
    """
    source, into = insert.operands[0], insert.operands[1]
    chain = _in_place(source)
    if use_count(source) != 1 or chain is None:
        raise NoMatch("its source is computed in memory of its own and copied: it has another user, or does not begin in this kernel")
    moved = _hoist(list(insert.operands)[1:], insert.block)
    if moved is not None:
        point = ir.InsertionPoint.after(moved[-1]) if moved else ir.InsertionPoint.at_block_begin(insert.block)
    else:
        if any(op.block != insert.block for op in chain):
            raise NoMatch("its source is computed in memory of its own and copied: that is done outside the loop in which it is inserted")
        if any(len(op.results) > 1 for op in chain):
            raise NoMatch("its source is computed in memory of its own and copied: what computes it has other results, which may be used before")
        for op in chain:  # each has one user, the next one, so it may move there
            op.move_before(insert)
        point = ir.InsertionPoint(chain[0])
    with point, insert.location:
        write_into(source, tensor.ExtractSliceOp(source.type, into, *SlicePlace.from_op(insert).arguments).result)


def _in_place(value: ir.Value) -> list[ir.Operation] | None:
    """The ops of a block that compute a value in place of each other, in order, starting with the tensor.empty.

    None if they do not start with one, or another op uses a value that one of them overwrites: then write_into would refuse.
    """
    found: list[ir.Operation] = []
    while (op := defining_op(value)) is not None:
        found.append(op)
        if op.name == "tensor.empty":
            return found[::-1]
        start = op.operands[0] if op.name in ("tensor.collapse_shape", "tensor.expand_shape") else overwritten(value)
        if start is None or use_count(start) != 1 or not _same_block(start, value):
            return None
        value = start
    return None


def _hoist(values: Sequence[ir.Value], block: ir.Block) -> list[ir.Operation] | None:
    """Move the ops that compute a slice's destination and offsets (constants, views and sizes of arguments, a fill, arithmetic) to a block's top.

    Returns them in order; None if the values depend on other ops of the block, and then the slice keeps its own buffer.
    """
    moved: list[ir.Operation] = []
    pending = list(values)
    while pending:
        op = defining_op(pending.pop())
        if op is None or op in moved or op.block != block:
            continue
        if op.name not in _MADE_FIRST and not op.name.startswith("arith."):
            return None
        moved.append(op)
        pending.extend(op.operands)
    position = {o.operation: i for i, o in enumerate(block.operations)}
    moved.sort(key=position.__getitem__)
    first = block.operations[0].operation
    for op in reversed(moved):
        if op != first:
            op.move_before(first)
        first = op
    return moved
