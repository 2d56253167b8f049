"""The pass that takes a model from tensors to memory: kernels in place, @main as calls on one workspace and one weight arena."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import arith, defining_op, func, ir, memref
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.sizes import Dim, Size, product, size_text, symbol
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, constant, index_arithmetic, likely_size, reshaped_pointer
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.limits import Limits, over
from stepwell.passes.bufferize.buffers import Assignment, Buffer, assign, callee
from stepwell.passes.bufferize.kernels import bufferise_kernels, copy_generic, memref_bytes
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import find_function, functions, reinterpreted
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.schedulers import choose

COPY = "copy_"  # how the names of kernels begin that only copy: a result that is an input, or given twice


@register_pass("bufferize", level="scheduled")
@dataclass
class Bufferize(Pass):
    """Bufferise the kernels' bodies and assign the buffers of @main.

    @main becomes `@main(inputs…, outputs…, %weights: memref<?xi8>, %workspace: memref<?xi8>)`: each tensor is a view at a constant
    offset. Concatenations are written in place by their producers, element-wise results overwrite inputs that die, results go
    straight to the caller's buffers; whatever must still be copied is a kernel of its own.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = find_function(op, "main")
        if not len(main.regions[0].blocks):
            raise PassError("@main has no body")
        block = op.regions[0].blocks[0]
        main.operation.detach_from_parent()
        bufferise_kernels(op, state)
        kernels = {f.sym_name.value: f for f in functions(op) if KernelInfo(f).is_kernel}
        named = [kind.shape for _, kind in ModuleInfo(op).inputs] if ModuleInfo(op).has_signature else []
        shapes = SymbolicShapes(main.operation, named, hints=ModuleInfo(op).size_hints)
        plan = assign(main, kernels, shapes)
        _check_workspace(plan, state.budget.limits)
        for call, copies in plan.copies.items():
            why = NoMatch(f"{len(copies)} of its operands are copied: what makes them could not write them where it reads them")
            if copies:
                state.decline(self.name, call, why)
        info = ModuleInfo(op)
        _MainBuilder(op, main, kernels, plan, shapes, state).build(ir.InsertionPoint(block))
        info.workspace_bytes, info.workspace_lower_bound = plan.workspace_bytes, plan.lower_bound
        if plan.layout:
            info.layout = plan.layout
        for name in set(kernels) - plan.aliased_kernels:
            _promise_no_alias(kernels[name])
        state.count("in-place results", plan.in_place)
        state.count("copies", sum(len(c) for c in plan.copies.values()))


def _check_workspace(plan: Assignment, limits: Limits) -> None:
    """Raise LimitError, naming the node of the largest buffer, if a run would take more memory than it may, as far as that is known."""
    if plan.layout or plan.workspace_bytes <= limits.workspace_bytes:
        return
    largest, where = 0, ""
    for value, buffer in plan.values.items():
        op = defining_op(value)
        size = likely_size(buffer.size)
        if buffer.place == "workspace" and size > largest and op is not None:
            largest, where = size, " and ".join(node_names(op.location)) or "an unnamed node"
    what = f"the intermediate results (the largest, of {where}, has {largest} bytes)"
    raise over(what, "workspace_bytes", plan.workspace_bytes, limits)


def _promise_no_alias(kernel: Any) -> None:
    """No call of this kernel shares memory between its destinations, or between one of them and what it reads."""
    count = len(kernel.arguments)
    first = KernelInfo(kernel).first_destination(count)
    attributes = [ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()} if i >= first else {}) for i in range(count)]
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


class _MainBuilder:
    """Builds the @main on memory beside the old one on tensors."""

    def __init__(
        self, module: ir.Operation, main: Any, kernels: dict[str, Any], plan: Assignment, shapes: SymbolicShapes, state: PassState
    ) -> None:
        self.module, self.main, self.kernels, self.plan, self.shapes, self.state = module, main, kernels, plan, shapes, state
        self.views: dict[tuple[Any, int | Size, str, tuple[Dim, ...]], ir.Value] = {}
        self.symbols = ModuleInfo(module).symbols
        self.numbers: dict[int, ir.Value] = {}  # read from the table of sizes and offsets, by index
        self.arguments: list[ir.Value] = []
        self.parted: dict[ir.Value, ir.Value] = {}  # as bytes, of outputs that are written in parts
        self.inputs = [a for a in main.arguments if isinstance(a.type, ir.RankedTensorType)]

    def build(self, ip: ir.InsertionPoint) -> None:
        old = self.main.operation
        i8 = ir.IntegerType.get_signless(8)
        arena = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], i8)
        returned = list(self.main.regions[0].blocks[0].operations)[-1].operation
        types = [as_memref(a.type) for a in self.inputs] + [as_memref(v.type) for v in returned.operands] + [arena, arena]
        if self.symbols:
            types.append(ir.MemRefType.get([len(self.symbols) + len(self.plan.layout)], ir.IntegerType.get_signless(64)))
        with ip, old.location:
            new = func.FuncOp("main", ir.FunctionType.get(types, []))
            ValueInfo.set_arguments(new, self._argument_info())
            block = new.add_entry_block([old.location] * len(types))
            self.arguments = list(block.arguments)
            with ir.InsertionPoint(block):
                for op in self.main.regions[0].blocks[0].operations:
                    self._emit(op.operation)

    def _argument_info(self) -> list[ValueInfo]:
        """Inputs and outputs by their names, then weights and workspace with their sizes."""
        arguments, results = ValueInfo.arguments(self.main), ValueInfo.results(self.main)
        named = [ValueInfo(name=value.name) for value in [*arguments[: len(self.inputs)], *results]]
        sizes = (ModuleInfo(self.module).weights_bytes, self.plan.workspace_bytes)
        table = [ValueInfo(symbols=self.symbols)] if self.symbols else []
        return [*named, *(ValueInfo(byte_count=size) for size in sizes), *table]

    def _emit(self, op: ir.Operation) -> None:
        with op.location:
            for value, buffer, offset in self.plan.copies.get(op, []):
                self._copy(value, buffer, offset)
            if op.name == "func.call":
                operands = [self._operand(v) for v in op.operands]
                if op in self.plan.scratch:
                    scratch = self.kernels[callee(op)].arguments
                    buffer = self.plan.scratch[op]
                    operands.append(self._view(buffer, 0, scratch[len(scratch) - 1].type, [buffer.size]))
                func.CallOp([], callee(op), operands)
            elif op.name == "func.return":
                func.ReturnOp([])

    def _operand(self, value: ir.Value) -> ir.Value:
        """What a kernel is called with for a tensor, or for a size."""
        if isinstance(value.type, ir.IndexType):
            return self._size(self.shapes.index(value))
        return self._view(self.plan.values[value], 0, as_memref(value.type), self.shapes.shape(value))

    def _copy(self, value: ir.Value, buffer: Buffer, offset: int | Size) -> None:
        """A call of a kernel that copies a contiguous stretch of elements."""
        count = product(self.shapes.shape(value))
        flat = ir.MemRefType.get([count if isinstance(count, int) else ir.ShapedType.get_dynamic_size()], value.type.element_type)
        source, target = self._view(self.plan.values[value], 0, flat, [count]), self._view(buffer, offset, flat, [count])
        func.CallOp([], self._copy_kernel(flat), [source, target])

    def _copy_kernel(self, flat: ir.MemRefType) -> str:
        name = f"{COPY}{size_text(flat.shape[0]).replace('?', 'any')}x{flat.element_type}"
        if name in self.kernels:
            return name
        with ir.InsertionPoint.at_block_begin(self.module.regions[0].blocks[0]):
            kernel = func.FuncOp(name, ir.FunctionType.get([flat, flat], []), visibility="private")
            KernelInfo(kernel).make_kernel()
            if not flat.has_static_shape:
                KernelInfo(kernel).sizes = [(symbol("count"),)] * 2
            block = kernel.add_entry_block([self.main.location] * 2)
            with ir.InsertionPoint(block):
                copied = copy_generic(*block.arguments)
                ScheduleInfo(copied).nest = choose(Structured(copied), self.state.target)
                func.ReturnOp([])
        self.kernels[name] = kernel
        return name

    def _view(self, buffer: Buffer, extra: int | Size, memref_type: ir.MemRefType, shape: Sequence[Dim]) -> ir.Value:
        """A memref of that type and shape on a buffer, `extra` bytes into it."""
        root, inner = buffer.root()
        offset = inner + extra + (root.offset if root.place in ("workspace", "weights") else 0)
        place = root.place if root.slot is None else ("slot", root.slot)
        key = (place, offset, str(memref_type), tuple(shape))
        if key not in self.views:
            self.views[key] = self._new_view(place, offset, memref_type, [self._size(s) for s in shape if not isinstance(s, int)])
        return self.views[key]

    def _new_view(self, place: Any, offset: int | Size, memref_type: ir.MemRefType, free: Sequence[ir.Value]) -> ir.Value:
        if place in ("workspace", "weights") or place[0] == "slot":
            base = self.arguments[len(self.arguments) - 1 - bool(self.symbols) - (place == "weights")]
            start = self._size(offset)
            if place[0] == "slot":
                lies = self._number(len(self.symbols) + place[1])
                start = lies if offset == 0 else arith.AddIOp(lies, start).result
            view: ir.Value = memref.ViewOp(memref_type, base, start, free).result
            return view
        kind, index = place
        argument = self.arguments[index if kind == "input" else len(self.inputs) + index]
        if offset != 0 and kind == "input":
            raise PassError(f"@main's input {index} cannot be read {offset} bytes in")
        if self.symbols and not argument.type.has_static_shape:
            if argument.type == memref_type and offset == 0:
                kind, sizes = argument.type, iter(free)
                return reshaped_pointer(argument, kind, [next(sizes) if size < 0 else None for size in kind.shape])  # which says its sizes
            return memref.ViewOp(memref_type, self._bytes(argument), self._size(offset), free).result
        if offset != 0 or free or memref_bytes(argument.type) != memref_bytes(memref_type):  # a part of it, which another kernel writes
            if argument not in self.parted:
                self.parted[argument] = as_bytes(argument)
            return memref.ViewOp(memref_type, self.parted[argument], self._size(offset), free).result
        return argument if argument.type == memref_type else reshaped(argument, memref_type)

    def _bytes(self, argument: ir.Value) -> ir.Value:
        """The bytes of an argument of dynamic shape."""
        if argument not in self.parted:
            i8 = ir.IntegerType.get_signless(8)
            self.parted[argument] = reinterpreted(argument, ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], i8))
        return self.parted[argument]

    def _size(self, size: Dim) -> ir.Value:
        """A size as a value of type index."""
        assert size is not None  # or it would have no buffer
        if isinstance(size, int):
            return constant(size)

        def leaf(part: Size) -> ir.Value | None:
            return self._number(self.symbols.index(str(part))) if part.is_symbol else None

        return size.fold(leaf, constant, index_arithmetic())

    def _number(self, index: int) -> ir.Value:
        """An entry of the table of sizes and offsets."""
        if index not in self.numbers:
            kind = ir.IndexType.get()
            self.numbers[index] = arith.IndexCastOp(kind, memref.LoadOp(self.arguments[-1], [constant(index)]).result).result
        return self.numbers[index]


def reshaped(value: ir.Value, memref_type: ir.MemRefType) -> ir.Value:
    """A contiguous memref seen in another shape of as many elements."""
    shape = list(memref_type.shape)
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return memref.ReinterpretCastOp(memref_type, value, [], [], [], [0], shape, strides).result


def as_bytes(value: ir.Value) -> ir.Value:
    """The bytes of a contiguous memref."""
    kind = value.type
    flat = reshaped(value, ir.MemRefType.get([element_count(kind)], kind.element_type))
    bytes_ = ir.MemRefType.get([memref_bytes(kind)], ir.IntegerType.get_signless(8))
    return reinterpreted(flat, bytes_)


def element_count(tensor_type: Any) -> int:
    """The number of elements of a statically shaped type."""
    count = 1
    for size in tensor_type.shape:
        count *= size
    return count


def as_memref(tensor_type: Any) -> ir.MemRefType:
    """The contiguous memref type of a ranked tensor type."""
    return ir.MemRefType.get(list(tensor_type.shape), tensor_type.element_type)
