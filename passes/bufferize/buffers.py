"""Buffer assignment of @main: the placement of each tensor of the list of kernel launches.

It works on whole launches, like XLA's: aliases first (views, concatenations in place, results that overwrite a dead input), then
lifetimes, then offsets in one workspace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.layout import Slot
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Size, is_static
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.dialects.flow.boxes import BOX_OP, UNBOX_OP, may_hold_boxes
from stepwell.dialects.flow.control import CONTROL, called_by, destinations_of
from stepwell.dialects.support.errors import PassError
from stepwell.passes.bufferize.control_memory import control_memory
from stepwell.passes.bufferize.late_sizes import BINDS, LateSizes, Waits, late_sizes
from stepwell.passes.bufferize.packing import Lifetime, Piece, lower_bound, pack, slots
from stepwell.passes.bufferize.places import BoxMemory, Input, Opened, Output, Place, Weights, Workspace
from stepwell.passes.linalg.views import WHOLE_TENSOR_VIEWS


@dataclass(eq=False)
class Buffer:
    """A range of memory. A buffer of the workspace may lie inside a `parent` at `offset` bytes; only roots are placed."""

    size: int | Size
    place: Place = field(default_factory=Workspace)
    parent: "Buffer | None" = None
    offset: int | Size = 0  # within the parent, or for a root within its place
    first: int = 1 << 60
    last: int = -1
    members: list[tuple["Buffer", int | Size]] = field(default_factory=list)  # each with its offset
    slot: int | None = None  # for a root with dynamic placement: its number in the layout, or among the slots of its `late` sizes
    late: LateSizes | None = None  # for a root: the sizes that it waits for
    written: int = -1  # the launch from which it holds data itself, independently of its members

    def root(self) -> "tuple[Buffer, int | Size]":
        """The outermost buffer that contains this one, and the byte offset in it."""
        way: list[Buffer] = []
        buffer = self
        while buffer.parent is not None:
            way.append(buffer)
            buffer = buffer.parent
        offset: int | Size = 0
        for inner in reversed(way):  # path compression: thousands of results may be nested in each other
            offset += inner.offset
            inner.parent, inner.offset = buffer, offset
        return buffer, offset

    def put_into(self, parent: "Buffer", offset: int | Size) -> None:
        """Make this root a part of `parent`, whose lifetime then covers both."""
        self.parent, self.offset = parent, offset
        parent.members.append((self, offset))
        holder, _ = parent.root()
        holder.first, holder.last = min(holder.first, self.first), max(holder.last, self.last)

    def stretches(self) -> list[Piece] | None:
        """The extents that it and its members cover, unordered and perhaps overlapping; None if one is dynamic."""
        found: list[Piece] = []
        waiting: list[tuple[Buffer, int | Size]] = [(self, 0)]
        while waiting:
            buffer, at = waiting.pop()
            if not isinstance(at, int) or not isinstance(buffer.size, int):
                return None
            found.append(Piece(at, buffer.size, buffer.written))
            waiting += [(member, at + inside) for member, inside in buffer.members]
        return found

    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of this root that hold data from different launches on, in the order of bytes; empty if it is one piece."""
        held = self.stretches()
        if held is None:
            return ()
        cuts = sorted({p.offset for p in held} | {p.offset + p.size for p in held})
        found: list[Piece] = []
        for low, high in pairwise(cuts):
            first = min(p.first for p in held if p.offset <= low and high <= p.offset + p.size)
            if found and found[-1].first == first:
                low = found.pop().offset
            found.append(Piece(low, high - low, first))
        return tuple(found) if len(found) > 1 else ()

    @property
    def is_free_root(self) -> bool:
        return self.parent is None and isinstance(self.place, Workspace)


@dataclass
class Assignment:
    """The result: a buffer for each tensor value, scratch for each launch, and the copies that aliasing could not avoid."""

    values: dict[ir.Value, Buffer] = field(default_factory=dict)
    scratch: dict[ir.Operation, Buffer] = field(default_factory=dict)
    copies: dict[ir.Operation, list[tuple[ir.Value, Buffer, int | Size]]] = field(default_factory=dict)  # before this op: value -> buffer + offset
    layout: list[Slot] = field(default_factory=list)
    """The layout that determines offsets from dynamic sizes; empty if offsets are numbers."""
    laid_out: list[Buffer] = field(default_factory=list)
    """The buffers of the layout, in order."""
    late: list[LateSizes] = field(default_factory=list)
    """The points where sizes become known, in order."""
    workspace_bytes: int = 0
    lower_bound: int = 0
    boxed: dict[ir.Operation, Buffer] = field(default_factory=dict)
    """The buffer of the tensor in each `flow.box`."""
    opened: list[ir.Operation] = field(default_factory=list)
    """Each `flow.unbox`, in order."""
    grown: dict[tuple[ir.Operation, Buffer], int] = field(default_factory=dict)
    """The copies that the runtime may avoid, by op and target, with the number of the `flow.unbox` whose content is copied."""
    makes_boxes: bool = False
    """Whether the function, or one of its callees, has a `flow.box`."""
    in_place: int = 0
    aliased_kernels: set[str] = field(default_factory=set)


def assign(
    main: ir.OpView, kernels: dict[str, Any], shapes: SymbolicShapes, symbols: Sequence[str] = (), regions: "Mapping[str, Assignment] | None" = None,
    bound: Sequence[tuple[int, int]] = (),
) -> Assignment:  # fmt: skip
    """Assign a buffer to every tensor of @main, a block of kernel launches, views, concatenations and weights.

    `kernels` are the bufferised functions by name, for their scratch and the arguments they may overwrite; `shapes` are those of @main's
    values, and `symbols` the sizes that are known when it begins; `regions` are the assignments of its callees by name;
    `bound` are pairs of an input and the result that shares its memory. A
    region function also gets a workspace from its caller, but only of a static size. The workspace is laid out by
    lifetimes; `lower_bound` is the number of live bytes at the busiest launch. Buffers whose sizes become known later have separate
    blocks. Raises PassError for an op that does not belong in @main.
    """
    block = main.regions[0].blocks[0]
    plan = Assignment()
    ops = [o.operation for o in block.operations]
    position = {o: i for i, o in enumerate(ops)}
    for index, argument in enumerate(block.arguments):
        if isinstance(argument.type, ir.RankedTensorType):
            plan.values[argument] = Buffer(shapes.bytes(argument), Input(index))
    concats = _hold_results(plan, ops, kernels, shapes, [Input(index) for index, _ in bound])
    plan.late = late_sizes(ops)
    beginning = LateSizes([], -1, nodes_text(main.location))
    waits = Waits(plan.late, symbols, beginning if KernelInfo(main).is_region else None)
    _find_lifetimes(plan, ops, position)
    for op in concats:
        _join(plan, op, position[op], shapes, waits)
    _place_boxed(plan, ops, position, shapes)
    _place_outputs(plan, ops[-1], position[ops[-1]], shapes, bound)
    _reuse_in_place(plan, ops, position, kernels)
    for op in ops:
        scratch = control_memory(op, shapes, regions or {}).size if op.name in CONTROL else _scratch_bytes(op, kernels)
        if scratch != 0:
            plan.scratch[op] = Buffer(scratch, first=position[op], last=position[op])
    _lay_out(plan, waits, beginning, shapes)
    _find_growing(plan, concats, position)
    inner = [(regions or {})[name] for op in ops if op.name in CONTROL for name in called_by(op)]
    plan.makes_boxes = bool(plan.boxed) or any(region.makes_boxes for region in inner)
    return plan


def _hold_results(
    plan: Assignment, ops: Sequence[ir.Operation], kernels: dict[str, Any], shapes: SymbolicShapes, shared: Sequence[Input]
) -> list[ir.Operation]:
    """Assign buffers to the results of all ops, and return the concatenations. `shared` are the inputs that share memory with a result."""
    concats = []
    for op in ops:
        if op.name == "tensor.empty":
            plan.values[op.results[0]] = Buffer(shapes.bytes(op.results[0]))
        elif op.name in WHOLE_TENSOR_VIEWS:
            plan.values[op.results[0]] = plan.values[op.operands[0]]
        elif op.name == "bufferization.to_tensor":
            plan.values[op.results[0]] = Buffer(shapes.bytes(op.results[0]), Weights(), offset=_weight_offset(op))
        elif op.name in CONTROL:
            view: Any = op.opview
            plan.values |= {result: plan.values[out] for result, out in zip(op.results, destinations_of(view), strict=True)}
        elif op.name == "func.call":
            outs = call_destinations(op)
            for argument, number in KernelInfo(kernels[callee(op)]).overwrites:
                written = op.operands[argument]
                if plan.values[written].place in shared:
                    plan.values[outs[number]] = plan.values[written]
                else:  # it belongs to the caller, or may be read again
                    plan.copies.setdefault(op, []).append((written, plan.values[outs[number]], 0))
            plan.values |= {result: plan.values[out] for result, out in zip(op.results, outs, strict=True)}
        elif op.name == BOX_OP:
            plan.values[op.results[0]] = plan.values[op.operands[1]]
        elif op.name == UNBOX_OP:
            plan.values[op.results[0]] = Buffer(shapes.bytes(op.results[0]), Opened(len(plan.opened)))
            plan.opened.append(op)
        elif op.name == "tensor.concat":
            plan.values[op.results[0]] = Buffer(shapes.bytes(op.results[0]))
            concats.append(op)
        elif op.name not in ("memref.view", "func.return", "tensor.dim", "tensor.extract", "flow.size", BINDS) and not op.name.startswith("arith."):
            raise PassError(f"'{op.name}' at {op.location} has no place in @main, which holds kernel calls, views and concatenations")
    return concats


def _weight_offset(op: ir.Operation) -> int:
    """The byte offset of a weight: bufferization.to_tensor of memref.view %weights[constant]."""
    view = defining_op(op.operands[0])
    constant = defining_op(view.operands[1]) if view is not None and view.name == "memref.view" else None
    if constant is None or constant.name != "arith.constant":
        raise PassError(f"'{op.name}' at {op.location} must read a memref.view of the weights at a constant offset")
    return ir.IntegerAttr(constant.attributes["value"]).value


def _find_lifetimes(plan: Assignment, ops: list[ir.Operation], position: dict[ir.Operation, int]) -> None:
    for op in ops:
        if op.name in ("func.call", "func.return", "tensor.concat", BINDS, BOX_OP, UNBOX_OP, *CONTROL):
            for value in [*op.operands, *op.results]:
                if value in plan.values:
                    buffer = plan.values[value]
                    buffer.first, buffer.last = min(buffer.first, position[op]), max(buffer.last, position[op])
    for buffer in plan.values.values():
        buffer.written = buffer.first


def _join(plan: Assignment, op: ir.Operation, launch: int, shapes: SymbolicShapes, waits: Waits) -> None:
    """Place a concatenation's operands in its result, so that their producers write there; copy those that cannot move."""
    result = plan.values[op.results[0]]
    offset: int | Size = 0
    for value in op.operands:
        buffer, inner = plan.values[value].root()
        size = shapes.bytes(value)
        is_whole = buffer.is_free_root and inner == 0 and buffer.size == size
        if is_whole and buffer is not result and max(waits.until(result.size), waits.until(offset)) < buffer.first:
            buffer.put_into(result, offset)
        else:
            plan.copies.setdefault(op, []).append((value, result, offset))
            result.first = min(result.first, launch)
        offset += size


def _place_boxed(plan: Assignment, ops: list[ir.Operation], position: dict[ir.Operation, int], shapes: SymbolicShapes) -> None:
    """Give boxed tensors separate memory; copy those with a place: an input, a weight, part of something larger, a tensor boxed twice."""
    for op in ops:
        if op.name == BOX_OP:
            value = op.operands[0]
            buffer, offset = plan.values[value].root()
            place = BoxMemory(may_hold_boxes(value.type))
            if buffer.is_free_root and offset == 0 and buffer.size == shapes.bytes(value):
                buffer.place = place
            else:
                buffer = Buffer(shapes.bytes(value), place, first=position[op], last=position[op])
                plan.copies.setdefault(op, []).append((value, buffer, 0))
            plan.boxed[op] = buffer


def _find_growing(plan: Assignment, concats: Sequence[ir.Operation], position: Mapping[ir.Operation, int]) -> None:
    """Find the boxed concatenations that begin with the content of another box: if the memory behind that is free, it is not copied.

    rewrite: box(concat(unbox(%old), x))  ->  x written behind the content of %old, if the runtime allows it
    """
    boxed = list(plan.boxed.values())
    for op in concats:
        opening, buffer = defining_op(op.operands[0]), plan.values[op.results[0]]
        root, offset = buffer.root()
        late = root.late
        if opening is None or opening.name != UNBOX_OP or late is None or offset != 0 or root not in boxed:
            continue
        old = opening.operands[0]
        made = defining_op(old)
        if made is None or position[made] < late.position:  # the box exists when memory is allocated
            assert root.slot is not None
            plan.grown[op, buffer] = plan.opened.index(opening)
            late.grows.append((root.slot, old, plan.values[op.operands[0]].size))


def _place_outputs(plan: Assignment, result: ir.Operation, launch: int, shapes: SymbolicShapes, bound: Sequence[tuple[int, int]]) -> None:
    """Place results in the caller's buffers; copy those that are an input, a weight, part of something larger, or returned twice.

    Results that are `bound` to the input that they equal are there already.
    """
    for index, value in enumerate(result.operands):
        buffer, offset = plan.values[value].root()
        if isinstance(buffer.place, Input) and (buffer.place.index, index) in bound:
            continue
        place = Output(index)
        if buffer.is_free_root and offset == 0 and buffer.size == shapes.bytes(value):
            buffer.place = place
        else:
            plan.copies.setdefault(result, []).append((value, Buffer(shapes.bytes(value), place, last=launch), 0))


def _reuse_in_place(plan: Assignment, ops: list[ir.Operation], position: dict[ir.Operation, int], kernels: dict[str, Any]) -> None:
    """If a kernel may overwrite an input that dies there, place its result in that input's memory."""
    for op in ops:
        if op.name != "func.call":
            continue
        taken = set()  # results that already share the memory of an input
        for index, number in KernelInfo(kernels[callee(op)]).in_place:
            if number in taken:
                continue
            target, source = plan.values[op.results[number]], plan.values[op.operands[index]]
            dead = source.last == position[op] and source.first < position[op]
            # Its parts (of a concatenation, or values that it overwrote) must have no later reads either.
            others = [v for i, v in enumerate(op.operands) if i != index and v in plan.values and plan.values[v].root()[0] is source]
            fits = source.size == target.size and source is not target
            if dead and not others and source.is_free_root and fits:
                source.put_into(target, 0)
                plan.in_place += 1
                plan.aliased_kernels.add(callee(op))
                taken.add(number)


def call_destinations(op: ir.Operation) -> list[ir.Value]:
    """The destinations of a launch on tensors."""
    return list(op.operands)[len(op.operands) - len(op.results) :]


def callee(op: ir.Operation) -> str:
    """The name of the function that a func.call calls."""
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value


def _scratch_bytes(op: ir.Operation, kernels: dict[str, Any]) -> int | Size:
    if op.name != "func.call":
        return 0
    size = KernelInfo(kernels[callee(op)]).scratch_bytes
    return 0 if size is None else size


def _lay_out(plan: Assignment, waits: Waits, beginning: LateSizes, shapes: SymbolicShapes) -> None:
    copied = [target for copies in plan.copies.values() for _, target, _ in copies]
    found = dict.fromkeys(buffer.root()[0] for buffer in [*plan.values.values(), *plan.scratch.values(), *copied])
    used = [root for root in found if root.last >= 0]
    for buffer in used:
        late = waits.for_size(buffer.size)
        if late is None and isinstance(buffer.place, BoxMemory):
            late = beginning
        # Inputs, and outputs of region functions, are provided by the caller.
        own = isinstance(buffer.place, (Workspace, BoxMemory)) or (isinstance(buffer.place, Output) and waits.beginning is None)
        if late is not None and own:
            buffer.late, buffer.slot = late, len(late.buffers)
            late.buffers.append(buffer)
    roots = [root for root in used if isinstance(root.place, Workspace) and root.late is None]
    lifetimes = [Lifetime(shapes.likely(b.size), b.first, b.last, b.pieces() if b.members else ()) for b in roots]
    offsets, plan.workspace_bytes = pack(lifetimes)
    plan.lower_bound = lower_bound(lifetimes)
    if is_static(b.size for b in roots):
        for buffer, offset in zip(roots, offsets, strict=True):
            buffer.offset = offset
    else:
        # The stacking order for likely sizes is used for all sizes.
        plan.layout, plan.laid_out = _slots(roots, offsets, shapes), roots
        for number, buffer in enumerate(roots):
            buffer.slot = number
    if beginning.buffers:
        plan.late.insert(0, beginning)
    for late in plan.late:
        offsets, _ = pack([_likely_lifetime(buffer, shapes) for buffer in late.buffers])
        late.slots = _slots(late.buffers, offsets, shapes)


def _likely_lifetime(buffer: Buffer, shapes: SymbolicShapes) -> Lifetime:
    """The lifetime of a buffer of the likely size. An output lies elsewhere and meets no other buffer."""
    own = isinstance(buffer.place, Workspace)
    return Lifetime(shapes.likely(buffer.size), buffer.first, buffer.last) if own else Lifetime(0, -1, -1)


def _slots(buffers: Sequence[Buffer], offsets: Sequence[int], shapes: SymbolicShapes) -> list[Slot]:
    return slots([b.size for b in buffers], [_likely_lifetime(b, shapes) for b in buffers], offsets)
