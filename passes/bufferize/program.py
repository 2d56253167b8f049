"""Builds the functions of a program on memory: @main and region functions, as calls of kernels on views of workspaces."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import arith, cf, func, ir, memref
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.runtime_interface import ENTRIES
from stepwell.dialects.core.segments import Segment, decided_assumptions, symbol_places
from stepwell.dialects.core.size_table import Status, Verdict
from stepwell.dialects.core.sizes import Dim, Size, product, size_text, static_sizes, symbol
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, constant, index_arithmetic, reshaped_pointer
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import PassError
from stepwell.passes.bufferize import runtime
from stepwell.passes.bufferize.buffers import Assignment, Buffer, callee
from stepwell.passes.bufferize.kernels import as_memref, copy_generic, memref_bytes
from stepwell.passes.bufferize.late_sizes import BINDS
from stepwell.passes.bufferize.places import Input, Opened, Output, Place, TableEntry, Weights, Workspace
from stepwell.passes.bufferize.size_arithmetic import compare, constant as i64_constant
from stepwell.passes.bufferize.size_function import add_checks_function, add_segment_function
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import reinterpreted
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg.views import row_major
from stepwell.passes.schedule.schedulers import choose

Emitter: TypeAlias = "Callable[[ProgramBuilder, ir.Operation], None]"
_EMITTERS: dict[str, Emitter] = {}
COPY = "copy_"  # prefix of the names of kernels that only copy: a result that is an input, or returned twice


def emits(*names: str) -> Callable[[Emitter], Emitter]:
    """Register a function that builds ops with these names on memory; it may leave the builder in another block."""

    def register(function: Emitter) -> Emitter:
        _EMITTERS.update(dict.fromkeys(names, function))
        return function

    return register


class Program:
    """The common parts of a program's functions: its kernels, and its table of sizes and of offsets of buffers."""

    def __init__(
        self, module: ir.Operation, kernels: dict[str, Any], plans: dict[str, Assignment], segments: Sequence[Segment], state: PassState
    ) -> None:
        self.module, self.kernels, self.plans, self.segments, self.state = module, kernels, plans, segments, state
        self.symbols = ModuleInfo(module).symbols
        self.places = symbol_places(segments, self.symbols)
        """The table entry of each symbol."""
        self.assumptions = decided_assumptions(segments, self.symbols, ModuleInfo(module).assumptions)
        """The assumptions that become decidable with each segment."""
        self.calls_back = bool(segments) or len(plans) > 1
        """Whether code may call the runtime, to which its table leads."""
        sizes = [len(self.symbols) + len(plans["main"].layout), *(segment.end for segment in segments)]
        self.entries = max(sizes) + ENTRIES * self.calls_back

    def segment_function(self, segment: int, location: ir.Location) -> str:
        """The name of the function that checks the numbers of a segment."""
        assumptions = self.assumptions[segment]
        return add_segment_function(self.module, self.entries, self.segments[segment], segment, self.places, assumptions, location)

    def region_memory(self, name: str) -> list[ir.MemRefType]:
        """The types of the last operands of a region function: weights, its own workspace, and that of @main."""
        sizes = (ModuleInfo(self.module).weights_bytes, self.plans[name].workspace_bytes, 1)
        return [ir.MemRefType.get([max(size, 1)], ir.IntegerType.get_signless(8)) for size in sizes]

    def copy_kernel(self, flat: ir.MemRefType, location: ir.Location) -> str:
        """The name of the kernel that copies vectors of this type."""
        name = f"{COPY}{size_text(flat.shape[0]).replace('?', 'any')}x{flat.element_type}"
        if name in self.kernels:
            return name
        with ir.InsertionPoint.at_block_begin(self.module.regions[0].blocks[0]), location:
            kernel = func.FuncOp(name, ir.FunctionType.get([flat, flat], []), visibility="private")
            KernelInfo(kernel).make_kernel()
            if not flat.has_static_shape:
                KernelInfo(kernel).sizes = [(symbol("count"),)] * 2
            block = kernel.add_entry_block([location] * 2)
            with ir.InsertionPoint(block):
                copied = copy_generic(*block.arguments)
                ScheduleInfo(copied).nest = choose(Structured(copied), self.state.target)
                func.ReturnOp([])
        self.kernels[name] = kernel
        return name


class ProgramBuilder:
    """Builds a function on memory beside the original one on tensors."""

    def __init__(self, program: Program, function: Any, shapes: SymbolicShapes) -> None:
        self.program, self.function, self.shapes = program, function, shapes
        self.module, self.kernels, self.name = program.module, program.kernels, function.sym_name.value
        self.plan, self.is_region = program.plans[self.name], KernelInfo(function).is_region
        self.views: dict[tuple[Any, int | Size, str, tuple[Dim, ...]], ir.Value] = {}
        self.numbers: dict[int, ir.Value] = {}  # read from the table of sizes and offsets, by index
        self.arguments: list[ir.Value] = []
        self.block: ir.Block  # that is being built
        self.end: ir.Block | None = None  # where a run ends early, with a status
        self.opened: dict[int, ir.Value] = {}  # how far from the workspace of @main lies what each `flow.unbox` finds
        self.parted: dict[ir.Value, ir.Value] = {}  # bytes of outputs that are written in parts
        self.inputs = [a for a in function.arguments if isinstance(a.type, ir.RankedTensorType)]
        self.returned = list(list(function.regions[0].blocks[0].operations)[-1].operation.operands)
        self.checks = () if self.is_region else ModuleInfo(self.module).checks
        self.has_status = program.calls_back or bool(self.checks)

    def build(self, ip: ir.InsertionPoint) -> None:
        """Build the function at `ip`."""
        old = self.function.operation
        types = [as_memref(v.type) for v in (*self.inputs, *self.returned)]
        types += self._memory()
        if self.program.entries:
            types.append(ir.MemRefType.get([self.program.entries], ir.IntegerType.get_signless(64)))
        with ip, old.location:
            results = [ir.IntegerType.get_signless(64)] * self.has_status
            new = func.FuncOp(self.name, ir.FunctionType.get(types, results), visibility="private" if self.is_region else None)
            self._describe(new)
            block = new.add_entry_block([old.location] * len(types))
            self.arguments = list(block.arguments)
            self.block = block
            if self.program.calls_back and not self.is_region:
                self._check_runtime()
            for late in self.plan.late[:1] if self.plan.late and not self.plan.late[0].ops else ():
                with ir.InsertionPoint(self.block):
                    self.enter(late.number)
            for op in self.function.regions[0].blocks[0].operations:
                self._emit(op.operation)

    def _memory(self) -> list[Any]:
        """The types of weights and workspace; a region function also takes that of @main, to which the table is relative."""
        if not self.is_region:
            return [ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(8))] * 2
        return self.program.region_memory(self.name)

    def _describe(self, new: Any) -> None:
        """Describe arguments: of @main inputs and outputs by name, weights and workspace with their sizes; of other functions the sizes."""
        if self.is_region:
            KernelInfo(new).is_region = True
            shapes = [self.shapes.shape(value) for value in (*self.inputs, *self.returned)]
            if any(isinstance(size, Size) for shape in shapes for size in shape):
                KernelInfo(new).sizes = [tuple(size for size in shape if not isinstance(size, int)) for shape in shapes]
            return
        arguments, results = ValueInfo.arguments(self.function), ValueInfo.results(self.function)
        named = [ValueInfo(name=value.name) for value in [*arguments[: len(self.inputs)], *results]]
        sizes = (ModuleInfo(self.module).weights_bytes, self.plan.workspace_bytes)
        table = [ValueInfo(symbols=self.program.symbols)] if self.program.entries else []
        ValueInfo.set_arguments(new, [*named, *(ValueInfo(byte_count=size) for size in sizes), *table])

    @property
    def table(self) -> ir.Value:
        """The table of sizes and of offsets of buffers."""
        return self.arguments[-1]

    @property
    def weights(self) -> ir.Value:
        """The arena of all weights."""
        return self.arguments[len(self.inputs) + len(self.returned)]

    @property
    def workspace(self) -> ir.Value:
        """The function's own workspace."""
        return self.arguments[len(self.inputs) + len(self.returned) + 1]

    @property
    def base(self) -> ir.Value:
        """The workspace of @main, to which the table is relative."""
        return self.arguments[len(self.inputs) + len(self.returned) + (2 if self.is_region else 1)]

    def _emit(self, op: ir.Operation) -> None:
        with op.location:
            for value, buffer, offset in self.plan.copies.get(op, []):
                opened = self.plan.grown.get((op, buffer)) if value == op.operands[0] and offset == 0 else None
                with ir.InsertionPoint(self.block):
                    self._copy(value, buffer, offset, None if opened is None else self.opened[opened])
        with ir.InsertionPoint(self.block), op.location:
            if op.name == "func.call":
                operands = [self.operand(v) for v in op.operands]
                if op in self.plan.scratch:
                    scratch = self.kernels[callee(op)].arguments
                    buffer = self.plan.scratch[op]
                    operands.append(self.view(buffer, 0, scratch[len(scratch) - 1].type, [buffer.size]))
                func.CallOp([], callee(op), operands)
            elif op.name == BINDS:
                self._bind(op)
            elif op.name in _EMITTERS:
                _EMITTERS[op.name](self, op)
            elif op.name == "func.return":
                func.ReturnOp([self._status()] if self.has_status else [])

    def new_block(self, *types: ir.Type) -> ir.Block:
        """A block after the current one."""
        return self.block.create_after(*types, arg_locs=[self.function.location] * len(types))

    def _status(self) -> ir.Value:
        """The status at the end: what the hidden results say, if there are any."""
        if not self.checks:
            return i64_constant(0)
        hidden = [self.operand(value) for value in self.returned[-len(widths(self.checks)) :]]
        program, table = self.program, self.arguments[-1:] * bool(self.program.entries)
        kinds, where = [value.type for value in hidden], self.function.location
        name = add_checks_function(self.module, self.checks, kinds, program.entries, program.places, where)
        return func.CallOp([ir.IntegerType.get_signless(64)], name, [*hidden, *table]).result

    def failed(self) -> ir.Block:
        """The block where a run ends early, which takes its status (`Verdict`)."""
        if self.end is None:
            self.end = self.new_block(ir.IntegerType.get_signless(64))
            with ir.InsertionPoint(self.end), self.function.location:
                func.ReturnOp(list(self.end.arguments))
        return self.end

    def go_on_if(self, condition: ir.Value, status: Status, rest: ir.Block, arguments: Sequence[ir.Value] = ()) -> None:
        """Go on in the block `rest`, which takes these arguments, if the condition holds, or else end the run with a status."""
        cf.CondBranchOp(condition, list(arguments), [i64_constant(Verdict(status).code)], rest, self.failed())

    def go_on_unless(self, status: ir.Value, rest: ir.Block, arguments: Sequence[ir.Value] = ()) -> None:
        """Go on in the block `rest`, which takes these arguments, if a status is 0, or else end the run with it."""
        cf.CondBranchOp(compare(arith.CmpIPredicate.eq, status, i64_constant(0)), list(arguments), [status], rest, self.failed())

    def _check_runtime(self) -> None:
        """End the run at once if its table does not lead to the runtime that this code was made for."""
        for is_right in (runtime.is_given, runtime.is_of_version):
            rest = self.new_block()
            with ir.InsertionPoint(self.block), self.function.location:
                self.go_on_if(is_right(self.table), Status.INTERFACE, rest)
            self.block = rest

    def enter(self, segment: int) -> None:
        """Look at the numbers of a segment, and have the runtime give memory; goes on in a new block if all is well."""
        rest, ask = self.new_block(), self.new_block()
        late = next(late for late in self.plan.late if late.number == segment)
        for slot, box, _ in late.grows:
            lies = memref.LoadOp(self.operand(box), [constant(0)]).result
            memref.StoreOp(lies, self.table, [constant(late.start + len(late.sizes) + slot)])
        complete = self.program.segment_function(segment, self.function.location)
        self.go_on_unless(func.CallOp([ir.IntegerType.get_signless(64)], complete, [self.table]).result, ask)
        with ir.InsertionPoint(ask):
            self.go_on_if(is_told(runtime.enter(self.table, segment)), Status.STOPPED, rest)
        self.block = rest

    def _bind(self, op: ir.Operation) -> None:
        """Write the numbers to the table; after the last of several consecutive ops, enter their segment."""
        late = next(late for late in self.plan.late if op in late.ops)
        place = late.start + sum(len(before.results) for before in late.ops[: late.ops.index(op)])
        values = self.operand(op.operands[0])
        for index in range(len(op.results)):
            memref.StoreOp(memref.LoadOp(values, [constant(index)]).result, self.table, [constant(place + index)])
        if op == late.ops[-1]:
            self.enter(late.number)

    def operand(self, value: ir.Value) -> ir.Value:
        """The operand of a kernel call for a tensor or a size."""
        if isinstance(value.type, ir.IndexType):
            return self.size(self.shapes.index(value))
        return self.view(self.plan.values[value], 0, as_memref(value.type), self.shapes.shape(value))

    def _copy(self, value: ir.Value, buffer: Buffer, offset: int | Size, lies: ir.Value | None = None) -> None:
        """Call a kernel that copies a contiguous run, unless it is in place already; `lies` is its distance from the workspace of @main."""
        flat, count = self.flat(value)
        source, target = self.view(self.plan.values[value], 0, flat, [count]), self.view(buffer, offset, flat, [count])
        kernel = self.program.copy_kernel(flat, self.function.location)
        if lies is None:
            func.CallOp([], kernel, [source, target])
            return
        copy, rest = self.new_block(), self.new_block()
        cf.CondBranchOp(compare(arith.CmpIPredicate.eq, lies, self.lies(buffer.root()[0])), [], [], rest, copy)
        with ir.InsertionPoint(copy):
            func.CallOp([], kernel, [source, target])
            cf.BranchOp([], rest)
        self.block = rest

    def flat(self, value: ir.Value) -> tuple[ir.MemRefType, Dim]:
        """The type of a value's elements in one row, and their number."""
        count = product(self.shapes.shape(value))
        return ir.MemRefType.get([count if isinstance(count, int) else ir.ShapedType.get_dynamic_size()], value.type.element_type), count

    def view(self, buffer: Buffer, extra: int | Size, memref_type: ir.MemRefType, shape: Sequence[Dim]) -> ir.Value:
        """A memref of that type and shape on a buffer, `extra` bytes into it."""
        root, inner = buffer.root()
        offset = inner + extra + (root.offset if isinstance(root.place, (Workspace, Weights)) else 0)
        place = root.place if root.slot is None else TableEntry(self._entry(root))
        key = (place, offset, str(memref_type), tuple(shape))
        if key not in self.views:
            self.views[key] = self._new_view(place, offset, memref_type, self._free(memref_type, shape))
        return self.views[key]

    def _free(self, memref_type: ir.MemRefType, shape: Sequence[Dim]) -> list[ir.Value]:
        """The sizes that a memref's type leaves dynamic; some may be numbers, because a buffer with a symbol may have a known size."""
        return [self.size(size) for size, known in zip(shape, memref_type.shape, strict=True) if known < 0]

    def _new_view(self, place: Place | TableEntry, offset: int | Size, memref_type: ir.MemRefType, free: Sequence[ir.Value]) -> ir.Value:
        if isinstance(place, (Workspace, Weights)):
            memory = self.weights if isinstance(place, Weights) else self.workspace
            return memref.ViewOp(memref_type, memory, self.size(offset), free).result
        if isinstance(place, (TableEntry, Opened)):  # the table, or a box, says how far from the workspace
            start = self.size(offset)
            lies = self._number(place.entry) if isinstance(place, TableEntry) else self.opened[place.number]
            return memref.ViewOp(memref_type, self.base, lies if offset == 0 else arith.AddIOp(lies, start).result, free).result
        argument = self.argument(place)
        if offset != 0 and isinstance(place, Input):
            raise PassError(f"@{self.name}'s input {place.index} cannot be read {offset} bytes in")
        if self.program.entries and not argument.type.has_static_shape:
            if argument.type == memref_type and offset == 0:
                kind, sizes = argument.type, iter(free)
                return reshaped_pointer(argument, kind, [next(sizes) if size < 0 else None for size in kind.shape])  # its type has the sizes
            return memref.ViewOp(memref_type, self._bytes(argument), self.size(offset), free).result
        if offset != 0 or free or memref_bytes(argument.type) != memref_bytes(memref_type):  # a part of it that another kernel writes
            if argument not in self.parted:
                self.parted[argument] = as_bytes(argument)
            return memref.ViewOp(memref_type, self.parted[argument], self.size(offset), free).result
        return argument if argument.type == memref_type else reshaped(argument, memref_type)

    def argument(self, place: Place) -> ir.Value:
        """The argument of an input or an output."""
        assert isinstance(place, (Input, Output)), place  # a buffer of a box has an entry of the table
        return self.arguments[place.index if isinstance(place, Input) else len(self.inputs) + place.index]

    def _bytes(self, argument: ir.Value) -> ir.Value:
        """The bytes of an argument of dynamic shape."""
        if argument not in self.parted:
            i8 = ir.IntegerType.get_signless(8)
            self.parted[argument] = reinterpreted(argument, ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], i8))
        return self.parted[argument]

    def address(self, buffer: Buffer, extra: int | Size = 0) -> ir.Value:
        """The address of a byte in a buffer."""
        root, inner = buffer.root()
        if root.slot is not None or isinstance(root.place, Opened):
            start = arith.AddIOp(address_of(self.base), self.lies(root)).result
        elif isinstance(root.place, (Workspace, Weights)):
            start = address_of(self.weights if isinstance(root.place, Weights) else self.workspace)
            inner = inner + root.offset
        else:
            start = address_of(self.argument(root.place))
        offset = inner + extra
        return start if offset == 0 else arith.AddIOp(start, self.size(offset)).result

    def memref_at(self, address: ir.Value, memref_type: ir.MemRefType, shape: Sequence[Dim]) -> ir.Value:
        """A memref of that type and shape that begins at an address; the caller must use it in the block where it was made."""
        free = self._free(memref_type, shape)
        return memref.ViewOp(memref_type, self.base, arith.SubIOp(address, address_of(self.base)).result, free).result

    def lies(self, root: Buffer) -> ir.Value:
        """The distance of a root with dynamic placement from the workspace of @main."""
        if root.slot is not None:
            return self._number(self._entry(root))
        assert isinstance(root.place, Opened), root.place
        return self.opened[root.place.number]

    def _entry(self, root: Buffer) -> int:
        """The table entry with the address of a buffer."""
        assert root.slot is not None
        return root.slot + (len(self.program.symbols) if root.late is None else root.late.start + len(root.late.sizes))

    def size(self, size: Dim) -> ir.Value:
        """A size as a value of type index."""
        assert size is not None  # otherwise it would have no buffer
        if isinstance(size, int):
            return constant(size)

        def leaf(part: Size) -> ir.Value | None:
            return self._number(self.program.places[str(part)]) if part.is_symbol else None

        return size.fold(leaf, constant, index_arithmetic())

    def _number(self, index: int) -> ir.Value:
        """An entry of the table of sizes and offsets."""
        if index not in self.numbers:
            self.numbers[index] = arith.IndexCastOp(ir.IndexType.get(), memref.LoadOp(self.table, [constant(index)]).result).result
        return self.numbers[index]


def is_told(answer: ir.Value) -> ir.Value:
    """Whether the runtime answers that a run goes on."""
    return compare(arith.CmpIPredicate.ne, answer, i64_constant(0))


def address_of(value: ir.Value) -> ir.Value:
    """The address of a memref's first element, as an index."""
    return memref.ExtractAlignedPointerAsIndexOp(value).result


def reshaped(value: ir.Value, memref_type: ir.MemRefType) -> ir.Value:
    """A contiguous memref in another shape with the same number of elements."""
    shape = list(memref_type.shape)
    return memref.ReinterpretCastOp(memref_type, value, [], [], [], [0], shape, static_sizes(row_major(shape))).result


def as_bytes(value: ir.Value) -> ir.Value:
    """The bytes of a contiguous memref."""
    kind = value.type
    flat = reshaped(value, ir.MemRefType.get([prod(kind.shape)], kind.element_type))
    bytes_ = ir.MemRefType.get([memref_bytes(kind)], ir.IntegerType.get_signless(8))
    return reinterpreted(flat, bytes_)
