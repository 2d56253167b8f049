"""The pass that takes a model from tensors to memory: kernels in place, @main as calls on one workspace and one weight arena."""


from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, likely_size, shapes_around
from stepwell.dialects.flow import control as flow
from stepwell.dialects.flow.boxes import BoxOp, UnboxOp
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.limits import Limits, over
from stepwell.passes.bufferize.buffers import Assignment, assign
from stepwell.passes.bufferize.joined import join
from stepwell.passes.bufferize.kernels import bufferise_kernels
from stepwell.passes.bufferize.late_sizes import known_symbols, number_all
from stepwell.passes.bufferize.places import Workspace
from stepwell.passes.bufferize.program import Program, ProgramBuilder
from stepwell.passes.bufferize.size_function import add_sizes_function
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions, innermost_first, main_function, program_functions


@register_pass("bufferize", level="scheduled", converts=[flow.IfOp, flow.LoopOp, BoxOp, UnboxOp])
class Bufferize(Pass):
    """Bufferise the kernels' bodies and assign the buffers of @main and of the functions of its regions.

    @main becomes `@main(inputs…, outputs…, %weights: memref<?xi8>, %workspace: memref<?xi8>)`: each tensor is a view at a constant
    offset. Concatenations are written in place by their producers, element-wise results overwrite inputs that die, results go
    straight to the caller's buffers; whatever must still be copied is a kernel of its own.

    Where sizes are known only at run time, a last argument is a table of them, and of where buffers lie, which a second function, `@sizes`,
    computes from the sizes of the inputs (docs/sizes.md). Runs with a
    single image, say, have a layout of their own, in which concatenations of channels are written in place by their producers too. Conditionals and
    loops become branches between blocks that call the functions of their regions; each has its workspace in that of its caller. These functions, and
    @main if it checks indices or calls the runtime, return a status: 0, or what ends the run.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = main_function(op)
        buffers = [i for i, argument in enumerate(list(main.arguments)[:-1]) if isinstance(argument.type, ir.MemRefType)]
        if buffers:
            raise PassError(f"@main has buffers already: argument {buffers[0]} is a {main.arguments[buffers[0]].type}, expected a tensor")
        block = op.regions[0].blocks[0]
        info = ModuleInfo(op)
        found = {f.sym_name.value: f for f in program_functions(op)}
        shapes = {name: self._shapes(function, info) for name, function in found.items()}
        for function in found.values():
            function.operation.detach_from_parent()
        bufferise_kernels(op, state)
        kernels = {f.sym_name.value: f for f in functions(op) if KernelInfo(f).is_kernel}
        plans: dict[str, Assignment] = {}
        order = innermost_first(found)
        known = known_symbols([found[name] for name in reversed(order)], info.symbols)
        for name in order:
            plans[name] = assign(found[name], kernels, shapes[name], known[name], plans, info.bound if name == "main" else ())
        plan = plans["main"]
        _check_workspace(plan, state.budget.limits)
        for own in plans.values():
            for call, copies in own.copies.items():
                why = NoMatch(f"{len(copies)} of its operands are copied: what makes them could not write them where it reads them")
                if copies:
                    state.decline(self.name, call, why)
        joined, joining = join(plan, found["main"], kernels, shapes["main"], info.symbols)
        for name in set(kernels) - joining:
            KernelInfo(kernels[name]).concat = None
        late = [place for own in reversed(plans.values()) for place in own.late]  # those of @main come first
        returned = list(found["main"].regions[0].blocks[0].operations)[-1].operation.operands
        number_all(late, len(info.symbols) + len(plan.layout), [shapes["main"].shape(value) for value in returned])
        program = Program(op, kernels, plans, [place.segment for place in late], state)
        for name, function in found.items():
            ProgramBuilder(program, function, shapes[name]).build(ir.InsertionPoint(block))
        info.workspace_bytes, info.workspace_lower_bound = plan.workspace_bytes, plan.lower_bound
        if info.symbols:
            limits, where = state.budget.limits, found["main"].location
            info.size_table = add_sizes_function(info, plan.layout, joined, plan.workspace_bytes, program.entries, limits, where)
        if program.calls_back:
            info.segments, info.table_entries = program.segments, program.entries
        aliased = {name for own in plans.values() for name in own.aliased_kernels}
        for name in set(kernels) - aliased:
            _promise_no_alias(kernels[name])
        state.count("joined buffers", 0 if joined is None else sum(slot.inside is not None for slot in joined.slots))
        state.count("in-place results", sum(own.in_place for own in plans.values()))
        state.count("copies", sum(len(c) for own in plans.values() for c in own.copies.values()))

    @staticmethod
    def _shapes(function: ir.OpView, info: ModuleInfo) -> SymbolicShapes:
        if KernelInfo(function).is_region:
            return shapes_around(function.operation)
        named = [kind.shape for _, kind in info.inputs] if info.has_signature else []
        return SymbolicShapes(function.operation, named, elements=info.elements, hints=info.size_hints)


def _check_workspace(plan: Assignment, limits: Limits) -> None:
    """Raise LimitError, naming the node of the largest buffer, if a run would exceed the limit of memory, as far as that is known."""
    if plan.layout or plan.workspace_bytes <= limits.workspace_bytes:
        return
    largest, where = 0, ""
    for value, buffer in plan.values.items():
        op = defining_op(value)
        size = likely_size(buffer.size)
        if isinstance(buffer.place, Workspace) and size > largest and op is not None:
            largest, where = size, " and ".join(node_names(op.location)) or "an unnamed node"
    what = f"the intermediate results (the largest, of {where}, has {largest} bytes)"
    raise over(what, "workspace_bytes", plan.workspace_bytes, limits)


def _promise_no_alias(kernel: ir.OpView) -> None:
    """Declare that in every call of this kernel its destinations share memory neither with each other nor with its inputs."""
    count = len(kernel.arguments)
    first = KernelInfo(kernel).first_destination(count)
    attributes = [ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()} if i >= first else {}) for i in range(count)]
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
