"""Bufferisation of kernel bodies: tensors become memrefs in place; other allocations become scratch."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from stepwell.dialects.core.kernel_info import BufferInfo, KernelInfo, Slice, Version
from stepwell.dialects.core.layout import aligned, aligned_size
from stepwell.dialects.core.mlir import arith, bufferization, defining_op, func, ir, linalg, memref, ops_below, pass_manager, replace_op, users
from stepwell.dialects.core.sizes import Size, evaluated, is_static, maximum, static_sizes
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, element_bits, shapes_around
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import PassError
from stepwell.passes.bufferize.packing import Lifetime, pack
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import functions, retyped
from stepwell.passes.linalg.fused_loops import FusedLoops
from stepwell.passes.linalg.parallel_rounds import owner_of, rounds_of
from stepwell.passes.linalg.stages import buffer_of, stages_on_memrefs
from stepwell.passes.linalg.structured import Structured, structured_ops
from stepwell.passes.linalg.use_destinations import destinations, overwritten
from stepwell.passes.linalg.views import RESHAPES, TENSOR_VIEWS, VIEWS, origin
from stepwell.passes.schedule.assign_schedules import default_schedule
from stepwell.passes.schedule.nest import sums_in_blocks

_BUFFERISE = (
    "builtin.module(canonicalize,"
    "one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map"
    " unknown-type-conversion=identity-layout-map},"
    "canonicalize,cse)"
)


def bufferise_kernels(module: ir.Operation, state: PassState) -> None:
    """Convert every kernel of `module`, which has no calls of them, from tensors to memrefs, with scratch as its last argument."""
    kernels = [f for f in functions(module) if KernelInfo(f).is_kernel]
    for kernel in kernels:
        _protect_inputs(kernel)
        _place_views(kernel)
    try:
        pass_manager(_BUFFERISE, module.context).run(module)
    except ir.MLIRError as error:
        raise PassError(f"bufferisation of the kernels failed: {error}") from None
    for kernel in functions(module):
        if not KernelInfo(kernel).is_kernel:
            continue
        if "arg_attrs" in kernel.attributes:
            del kernel.attributes["arg_attrs"]
        _drop_results(kernel)
        _copies_to_generics(kernel, state)
        _take_scratch(kernel)
        pairs = in_place_arguments(kernel)
        if pairs:
            KernelInfo(kernel).in_place = pairs
    named = {f.sym_name.value: f for f in functions(module)}
    for few in named.values():
        version = KernelInfo(few).version
        if version is not None and version.of in named:
            _match(named[version.of], few, version)


def _match(kernel: ir.OpView, few: Any, version: Version) -> None:
    """Give two versions of a kernel the same arguments, with scratch large enough for either. Pairs share memory only if both versions allow it."""
    infos = KernelInfo(kernel), KernelInfo(few)
    needs = [info.scratch_bytes for info in infos]
    if needs[0] != needs[1]:
        usual, least = (0 if need is None else need for need in needs)
        size = version.size
        if isinstance(size, Size) and size.is_symbol and isinstance(least, Size) and least.symbols == size.symbols:
            least = max(evaluated(least, {str(size): number}) for number in range(version.most + 1))  # it does not run for larger sizes
        largest = maximum(usual, least)
        for function, info, need in zip((kernel, few), infos, needs, strict=True):
            block = function.regions[0].blocks[0]
            if need is None:
                block.add_argument(_bytes_type(largest), function.location)
            else:
                block.arguments[len(block.arguments) - 1].set_type(_bytes_type(largest))
            retyped(function)
            info.scratch_bytes = largest
    pairs = [pair for pair in infos[0].in_place if pair in infos[1].in_place]
    for info in infos:
        if pairs:
            info.in_place = pairs
        else:
            del info.in_place


def _bytes_type(size: int | Size) -> ir.MemRefType:
    return ir.MemRefType.get([size if isinstance(size, int) else ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(8))


def _protect_inputs(kernel: ir.OpView) -> None:
    """Mark all arguments but the destinations read-only: bufferisation then copies an input instead of overwriting it."""
    count, results = len(kernel.arguments), len(destinations(kernel.operation))
    flags = [ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(i >= count - results)}) for i in range(count)]
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(flags)


def _place_views(kernel: ir.OpView) -> None:
    """Copy a result directly to its destination if it is a view of an input (for example a slice), or overwrites an input (a scatter), which may
    be such a view too.

    Upstream would copy it to scratch first, and from there to the destination.
    """
    block = kernel.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    outs = destinations(kernel.operation)
    for argument, number in KernelInfo(kernel).overwrites:  # they share memory
        block.arguments[argument].replace_all_uses_with(outs[number])
    for i, out in enumerate(outs):
        result = end.operands[i]
        start, user, place = origin(result, TENSOR_VIEWS), end, i
        point = ir.InsertionPoint(end)
        if start == result:
            while (below := overwritten(start)) is not None:
                user = ir.OpResult(start).owner.operation
                place = len(user.operands) - len(user.results) + ir.OpResult(start).result_number if user.name != "tensor.insert_slice" else 1
                start, point = below, ir.InsertionPoint.at_block_begin(block)
            result, made, start = start, defining_op(start), origin(start, TENSOR_VIEWS)
            point = point if made is None else ir.InsertionPoint.after(made)
        if start != out and start in list(block.arguments):
            with point, user.location:
                user.operands[place] = bufferization.MaterializeInDestinationOp(result.type, result, out).result


def _drop_results(kernel: ir.OpView) -> None:
    """Make the kernel return nothing: a result that is neither its destination nor a view of it is copied there."""
    block = kernel.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    outs = destinations(kernel.operation)
    with ir.InsertionPoint(end), end.location:
        for result, out in zip(list(end.operands), outs, strict=True):
            if origin(result) != out:
                memref.CopyOp(result, out)
        func.ReturnOp([])
    end.erase()
    if len(outs) != 1:
        KernelInfo(kernel).results = len(outs)
    retyped(kernel)


def _copies_to_generics(kernel: ir.OpView, state: PassState) -> None:
    """rewrite: memref.copy -> linalg.generic (the runtime function of a strided copy is not in the bindings' libraries)."""
    for copy in ops_below(kernel.operation, "memref.copy"):
        source, target = copy.operands
        if source == target:  # remains of an insert_slice whose source was computed in the slice
            copy.erase()
            continue
        own = [value for value in (source, target) if (made := defining_op(value)) is not None and made.name == "memref.alloc"]
        if own:
            state.decline("bufferize", copy, NoMatch(f"{'what it computes' if source in own else 'what it reads'} is copied ({target.type})"))
        with ir.InsertionPoint(copy), copy.location:
            copied = copy_generic(source, target)
        ScheduleInfo(copied).nest = default_schedule(Structured(copied), state.target)
        copy.erase()


def copy_generic(source: ir.Value, target: ir.Value) -> ir.Operation:
    """An element-wise copy between two memrefs of one shape, as linalg.generic."""
    rank = len(source.type.shape)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    op = linalg.GenericOp([], [source], [target], ir.ArrayAttr.get([identity, identity]), ir.ArrayAttr.get([parallel] * rank))
    block = op.regions[0].blocks.append(source.type.element_type, target.type.element_type)
    with ir.InsertionPoint(block):
        linalg.YieldOp([block.arguments[0]])
    return op.operation


@dataclass(frozen=True)
class _Scratch:
    """The scratch that replaces one allocation of a kernel."""

    allocation: ir.Operation
    size: int | Size
    owner: ir.Operation | None
    """The loop whose iterations run on threads, each with its own copy."""
    kept: Slice | None

    @property
    def copy(self) -> int | Size:
        """The bytes of one copy."""
        return self.kept.bytes if self.kept else self.size

    @property
    def copies(self) -> int:
        """The number of copies, not counting the chunks of a slice."""
        return 1 if self.owner is None else rounds_of(self.owner)


def _take_scratch(kernel: ir.OpView) -> None:
    """Replace the kernel's allocations by views of one scratch argument: packed by lifetime, or consecutive if sizes are
    dynamic."""
    stages = stages_on_memrefs(structured_ops(kernel.operation))
    sums = [(s, member.outputs[0].value) for s in stages if not sums_in_blocks(s.root) for member in s.members]
    in_registers = {buffer_of(value) for s, value in sums if s.is_inside(value)}
    allocations = [o for o in ops_below(kernel.operation, "memref.alloc") if not _is_shape_only(o.results[0]) and o.results[0] not in in_registers]
    if not allocations:
        return
    loops, shapes = FusedLoops(stages), shapes_around(kernel.operation)
    needs = [_needed(o, loops, shapes.bytes(o.results[0])) for o in allocations]
    places, total = _packed(kernel, needs, loops) if is_static(need.copy for need in needs) else _in_a_row(needs)
    block = kernel.regions[0].blocks[0]
    scratch = block.add_argument(_bytes_type(total), kernel.location)
    top = None if is_static(size for need in needs for size in (need.size, need.copy)) else ir.InsertionPoint.at_block_begin(block)
    for need, (offset, kept) in zip(needs, places, strict=True):
        view = _view_of(replace(need, kept=kept), scratch, offset, shapes, top)
        if kept:
            BufferInfo(view).slice = kept
        replace_op(need.allocation, [view.result])
    for o in ops_below(kernel.operation, "memref.dealloc"):
        o.erase()
    retyped(kernel)
    KernelInfo(kernel).scratch_bytes = total


def _needed(allocation: ir.Operation, loops: FusedLoops, size: int | Size) -> _Scratch:
    owner, kept = owner_of(allocation, _users_through_views(allocation.results[0])), loops.slice_of(allocation.results[0], size)
    if owner is not None and kept is not None and kept.chunks > 1:
        kept = None  # threads inside a thread's iteration share its copy, which then is whole
    return _Scratch(allocation, size, owner, kept)


def _packed(kernel: ir.OpView, needs: list[_Scratch], loops: FusedLoops) -> tuple[list[tuple[int, Slice | None]], int]:
    """The offset and slice of each buffer, and the total size, if all sizes are static."""
    block = kernel.regions[0].blocks[0]
    position, lifetimes = {o.operation: i for i, o in enumerate(block.operations)}, []
    for need in needs:
        users = [*_users_through_views(need.allocation.results[0]), *loops.alive(need.allocation.results[0], need.kept)]
        alive = [position[_top_level(u, block)] for u in users]
        [copy] = static_sizes([need.copy])
        lifetimes.append(Lifetime(copy if need.owner is None else need.copies * aligned(copy), min(alive, default=0), max(alive, default=0)))
    return _pack_chunks(lifetimes, [need.kept for need in needs])


def _in_a_row(needs: list[_Scratch]) -> tuple[list[tuple[int | Size, Slice | None]], int | Size]:
    """Like `_packed` for dynamic sizes: consecutive buffers, each with all of its copies."""
    places: list[tuple[int | Size, Slice | None]] = []
    start: int | Size = 0
    for need in needs:
        places.append((start, need.kept and replace(need.kept, bytes=aligned_size(need.copy))))
        start += aligned_size(need.copy) * need.copies * (need.kept.chunks if need.kept else 1)
    return places, start


def _view_of(need: _Scratch, scratch: ir.Value, offset: int | Size, shapes: SymbolicShapes, top: ir.InsertionPoint | None) -> Any:
    """The view of scratch that replaces an allocation; inside the loop that owns it, the copy of the iteration. Sizes are computed at `top`."""
    allocation, owner = need.allocation, need.owner
    sizes = [size for size in shapes.shape(allocation.results[0]) if isinstance(size, Size)]
    with ir.InsertionPoint(allocation) if owner is None else ir.InsertionPoint.at_block_begin(owner.regions[0].blocks[0]), allocation.location:
        start = shapes.value(offset, top)
        if owner is not None:
            start = arith.addi(start, arith.muli(owner.regions[0].blocks[0].arguments[0], shapes.value(aligned_size(need.copy), top)))
        return memref.ViewOp(allocation.results[0].type, scratch, start, [shapes.value(size, top) for size in sizes])


def _pack_chunks(lifetimes: list[Lifetime], slices: list[Slice | None]) -> tuple[list[tuple[int, Slice | None]], int]:
    """The offset and slice of each buffer, and the total size.

    Buffers of one parallel fused loop are packed together, and each chunk has its own copy of the pack: one chunk may be in the loop's first
    op while another is in its last.
    """
    packs: dict[int | None, list[int]] = {}
    for i, kept in enumerate(slices):
        packs.setdefault(kept.run if kept and kept.chunks > 1 else None, []).append(i)
    alone = packs.pop(None, [])
    inner = {run: pack([lifetimes[i] for i in members]) for run, members in packs.items()}
    whole = [lifetimes[i] for i in alone]
    for run, members in packs.items():
        chunks = next(kept.chunks for i in members if (kept := slices[i]))
        whole.append(Lifetime(chunks * inner[run][1], min(lifetimes[i].first for i in members), max(lifetimes[i].last for i in members)))
    offsets, total = pack(whole)
    places: dict[int, tuple[int, Slice | None]] = {i: (offset, slices[i]) for i, offset in zip(alone, offsets, strict=False)}
    for (run, members), start in zip(packs.items(), offsets[len(alone) :], strict=True):
        for i, offset in zip(members, inner[run][0], strict=True):
            kept = slices[i]
            places[i] = (start + offset, kept and replace(kept, bytes=inner[run][1]))
    return [places[i] for i in range(len(lifetimes))], total


def _is_shape_only(value: ir.Value) -> bool:
    """Whether a buffer is only used for its shape (the window of a pooling): no body reads it."""
    for user in users(value):
        if user.name != "linalg.generic":
            return False
        if any(a.value == value and a.used for a in Structured(user).accesses):
            return False
    return True


def _top_level(op: ir.Operation, block: ir.Block) -> ir.Operation:
    while op.block != block:
        parent = op.parent
        if parent is None:
            raise PassError(f"'{op.name}' at {op.location} lies outside its kernel")
        op = parent.operation
    return op


def _users_through_views(value: ir.Value) -> list[ir.Operation]:
    found = []
    waiting = [value]
    while waiting:
        for user in users(waiting.pop()):
            found.append(user)
            if user.name in VIEWS:
                waiting.append(user.results[0])
    return found


def as_memref(tensor_type: Any) -> ir.MemRefType:
    """The contiguous memref type of a ranked tensor type."""
    return ir.MemRefType.get(list(tensor_type.shape), tensor_type.element_type)


def memref_bytes(mlir_type: ir.Type) -> int:
    """Bytes of a contiguous memref or tensor of static shape."""
    return prod(mlir_type.shape) * element_bits(mlir_type.element_type) // 8


def in_place_arguments(kernel: ir.OpView) -> list[tuple[int, int]]:
    """The arguments that may share memory with a destination, each with its result: an element is read immediately before it is overwritten.

    That holds if only element-wise ops of one nest read the argument, with the destination's type and map, if that nest does not keep
    partial sums in the destination, and if nothing else uses the destination.
    """
    arguments = list(kernel.regions[0].blocks[0].arguments)
    first = KernelInfo(kernel).first_destination(len(arguments))
    outs = arguments[first : first + KernelInfo(kernel).results]
    allowed = []
    for nest in stages_on_memrefs(structured_ops(kernel.operation)):
        written = nest.root.outputs[0].value
        out = origin(written, RESHAPES)
        if len(nest.root.outputs) != 1 or out not in outs or not _is_permutation_identity(nest.root) or sums_in_blocks(nest.root):
            continue
        members = [o.operation for o in nest.members]
        if not all(u in members or u.name in RESHAPES for u in _users_through_views(out)):
            continue
        elementwise = [o.operation for o in nest.members if o.is_elementwise and not o.is_fill]
        for index, argument in enumerate(arguments[:first]):
            if argument.type != out.type:
                continue
            readers = [u for u in _users_through_views(argument) if u.name not in RESHAPES]
            reads = [a for u in readers if u in elementwise for a in Structured(u).inputs if a.is_shaped and origin(a.value, RESHAPES) == argument]
            same_walk = all(a.map == ir.AffineMap.get_identity(a.map.n_dims) and a.value.type == written.type for a in reads)
            if reads and all(u in elementwise for u in readers) and same_walk:
                allowed.append((index, outs.index(out)))
    return allowed


def _is_permutation_identity(root: Structured) -> bool:
    """Whether the root writes each element of the output once, in the order of its parallel dimensions."""
    results = list(root.outputs[0].map.results)
    return all(isinstance(r, ir.AffineDimExpr) for r in results) and [r.position for r in results] == root.parallel_dims
