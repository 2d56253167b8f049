"""The pass that outlines each distinct group as a function, a kernel."""

import hashlib
from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.kernel_info import Concat, KernelInfo
from stepwell.dialects.core.mlir import create_operation, func, ir, ops_below, replace_op
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.sizes import Size, product, symbol
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.flow import control as flow, dialect as flow_dialect
from stepwell.dialects.flow.boxes import BoxOp
from stepwell.dialects.graph import BindSizesOp, ConcatOp, FirstOp, GraphBuilder, GraphOp, OverwriteOp
from stepwell.dialects.graph.base import make_op
from stepwell.dialects.graph.constants import ConstantOp, constant_array
from stepwell.dialects.graph.traits import Fusion
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.numbered import numbered_line
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions, program_functions
from stepwell.passes.graph.matching import category

HASH_DIGITS = 8  # hexadecimal digits of a kernel's name


def body_text(fused: ir.Operation) -> str:
    """The body of a `graph.fused` as text that is equal for equal computations: no locations, values numbered in order."""
    block = fused.regions[0].blocks[0]
    numbers: dict[ir.Value, int] = {}
    lines = []
    for argument in block.arguments:
        numbers[argument] = len(numbers)
        lines.append(str(argument.type))
    for inner in block.operations:
        op = inner.operation
        if len(op.regions):
            raise PassError(f"'{op.name}' at {op.location} has regions and cannot be part of a kernel")
        lines.append(numbered_line(op, numbers))
    return "\n".join(lines)


def missing_symbols(fused: ir.Operation) -> list[str]:
    """The symbols in a group's types and attributes that are not by themselves the size of an operand or a result.

    An expression that is such a size is not enough: half of it, for instance, may simplify to one of the symbols.
    """
    block = fused.regions[0].blocks[0]
    given = [size for value in (*fused.operands, *fused.results) for size in type_of(value).shape]
    used = {name: None for size in given if isinstance(size, Size) for name in size.symbols}
    for op in (inner.operation.opview for inner in block.operations):
        found = [size for value in op.operation.results for size in type_of(value).shape]
        if isinstance(op, GraphOp):
            found += [entry for value in op.attribute_values().values() if isinstance(value, tuple) for entry in value if isinstance(entry, Size)]
        for size in found:
            if isinstance(size, Size):
                used.update(dict.fromkeys(size.symbols))
    alone = {str(size) for size in given if isinstance(size, Size) and size.is_symbol}
    return [name for name in used if name not in alone]


def root_of(fused: ir.Operation) -> ir.Operation:
    """The op after which a group is named: its contraction or reduction if it has one, else its first op."""
    ops = [o.operation for o in fused.regions[0].blocks[0].operations]
    compute = [o for o in ops if category(o) != Fusion.FREE]
    heavy = [o for o in compute if category(o) not in (Fusion.INJECTIVE, Fusion.PAD) and not isinstance(o.opview, FirstOp)]
    return (heavy or compute or ops)[0]


@register_pass("outline-kernels", level="graph-opt")
class OutlineKernels(Pass):
    """Make each distinct `graph.fused` a private function in destination-passing style, and `@main` a list of calls.

    rewrite: fused(a, …) { body }  ->  call @<root>_<hash of body>(a, …, tensor.empty)

    Groups with equal bodies share one function. The destination is the last argument (one for each result); the body does not use it at this level.
    Constants that stay outside kernels become parameters. After this pass `cse` must not run on `@main`: it would merge the destinations.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        kernels: dict[str, tuple[str, list[str]]] = {}  # maps a body's text to the function's name and the symbols it gets besides its operands
        taken = {f.sym_name.value for f in functions(op)}
        end = op.regions[0].blocks[0]
        builder = GraphBuilder(state.weights)
        for function in program_functions(op):
            if KernelInfo(function).is_region:
                _name_sizes(function)
            named = [type_of(argument).shape for argument in function.arguments]
            shapes = SymbolicShapes(function.operation, named, elements=() if KernelInfo(function).is_region else ModuleInfo(op).elements)
            # Listed before anything is erased: ops inside a group are erased with it.
            for inner in [o for o in ops_below(function) if o.block.owner.operation.name != "graph.fused"]:
                if inner.name == "graph.fused":
                    text = body_text(inner)
                    is_new = text not in kernels
                    if is_new:
                        kernels[text] = _free_name(root_of(inner), text, taken), missing_symbols(inner)
                    name, missing = kernels[text]
                    _call(inner, name, missing, shapes)
                    if is_new:
                        _make_function(inner, name, missing, end)
                    inner.erase()
                    state.count(f"{self.name}.calls")
                elif isinstance(inner.opview, (flow.IfOp, flow.LoopOp)):
                    _add_destinations(inner.opview, shapes)
                elif isinstance(boxing := inner.opview, BoxOp):
                    _add_destination(boxing, shapes)
                elif isinstance(bound := inner.opview, BindSizesOp):
                    _bind(bound)
                elif isinstance(constant := inner.opview, ConstantOp):
                    with ir.InsertionPoint(inner), inner.location:
                        constant.result.replace_all_uses_with(builder.weight("constant", constant_array(constant)))
                    inner.erase()
        state.count(f"{self.name}.kernels", len(kernels))


def _free_name(root: ir.Operation, text: str, taken: set[str]) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    for digits in range(HASH_DIGITS, len(digest) + 1):  # more digits if the digests of two bodies begin alike
        name = f"{root.name.removeprefix('graph.').replace('.', '_')}_{digest[:digits]}"
        if name not in taken:
            taken.add(name)
            return name
    raise PassError(f"no free name for the kernel of '{root.name}' at {root.location}")


def _call(fused: ir.Operation, name: str, missing: Sequence[str], shapes: SymbolicShapes) -> None:
    """Insert a call of the kernel in front of the group, and use its results."""
    with ir.InsertionPoint(fused), fused.location:
        destinations = [_destination(result, fused, shapes) for result in fused.results]
        sizes = [shapes.value(symbol(size)) for size in missing]
        call = func.CallOp([r.type for r in fused.results], name, [*fused.operands, *sizes, *destinations])
    for old, new in zip(fused.results, call.results, strict=True):
        old.replace_all_uses_with(new)


def _destination(result: ir.Value, op: ir.Operation, shapes: SymbolicShapes) -> ir.Value:
    """A tensor for a result of an op."""
    shape = type_of(result).shape
    if None in shape:
        op = root_of(op) if op.name == "graph.fused" else op
        raise PassError(
            f"'{op.name}' at {op.location} gives {result.type}, whose size is not known before it runs; "
            "kernels need a destination of known size. Give the model's free dimensions a size"
        )
    free = [shapes.value(size) for size in shape if isinstance(size, Size)]
    return ir.Operation.create("tensor.empty", results=[result.type], operands=free).results[0]


def _add_destinations(op: "flow.IfOp | flow.LoopOp", shapes: SymbolicShapes) -> None:
    """Give a conditional or a loop a destination for each of its results."""
    old = op.operation
    with ir.InsertionPoint(old), old.location:
        places = [_destination(result, old, shapes) for result in old.results]
    new = flow.with_inputs(op, [*op.inputs, *places], {**op.attribute_values(), "destinations": len(places)}, list(op.result_types()))
    replace_op(old, new.results)


def _add_destination(op: BoxOp, shapes: SymbolicShapes) -> None:
    """Give a box a destination."""
    old = op.operation
    with ir.InsertionPoint(old), old.location:
        place = _destination(old.results[0], old, shapes)
        new = make_op(BoxOp, [op.x, [place]], {}, list(op.result_types())).operation
    replace_op(old, new.results)


def _name_sizes(function: Any) -> None:
    """Create values of type index for the sizes that a function of a region knows from outside."""
    block = function.regions[0].blocks[0]
    own = {str(size) for argument in block.arguments for size in type_of(argument).shape if isinstance(size, Size) and size.is_symbol}
    needed: dict[str, None] = {}
    for inner in block.operations:
        op = inner.operation
        if isinstance(op.opview, BindSizesOp):
            own |= {str(size) for size in op.opview.attribute_values()["sizes"] if isinstance(size, Size) and size.is_symbol}
        for result in op.results:
            needed.update(dict.fromkeys(name for size in type_of(result).shape if isinstance(size, Size) for name in size.symbols))
        if op.name == "graph.fused":
            needed.update(dict.fromkeys(missing_symbols(op)))
    with ir.InsertionPoint.at_block_begin(block), function.location:
        for name in needed:
            if name not in own:
                create_operation(flow_dialect.SizeOp, [], [ir.IndexType.get()], {"size": ir.StringAttr.get(name)})


def _bind(bound: BindSizesOp) -> None:
    """Create values of type index for sizes that become known, for the destinations of later kernels."""
    sizes = bound.attribute_values()["sizes"]
    op = bound.operation
    with ir.InsertionPoint(op), op.location:
        create_operation(flow_dialect.BindSizesOp, [bound.values], [[ir.IndexType.get()] * len(sizes)], {"sizes": op.attributes["sizes"]})
    op.erase()


def _make_function(fused: ir.Operation, name: str, missing: Sequence[str], module_body: ir.Block) -> None:
    """Move the group's body into a new function at the end of the module."""
    results = [r.type for r in fused.results]
    body = fused.regions[0].blocks[0]
    inputs = [a.type for a in body.arguments]
    with ir.InsertionPoint(module_body), fused.location:
        taken = [*inputs, *[ir.IndexType.get()] * len(missing), *results]
        function = func.FuncOp(name, ir.FunctionType.get(taken, results), visibility="private")
        KernelInfo(function).make_kernel()
        if missing:
            KernelInfo(function).symbols = missing
        entry = function.add_entry_block([fused.location] * len(taken))
    for old, new in zip(body.arguments, list(entry.arguments)[: len(inputs)], strict=True):
        old.replace_all_uses_with(new)
    written = [view.x for view in (inner.operation.opview for inner in body.operations) if isinstance(view, OverwriteOp)]
    places = [(list(entry.arguments).index(value), 0) for value in written if value in entry.arguments]  # a constant is copied
    if places:
        KernelInfo(function).overwrites = places
    ops = [o.operation for o in body.operations]
    concat = None if missing or len(ops) != 2 else _concat(ops[0].opview, list(entry.arguments)[: len(inputs)])
    if concat is not None:
        KernelInfo(function).concat = concat
    with ir.InsertionPoint(entry), fused.location:
        end = func.ReturnOp(list(ops[-1].operands)).operation
    for op in ops[:-1]:
        op.move_before(end)


def _concat(op: ir.OpView, arguments: list[ir.Value]) -> Concat | None:
    """The concatenation of the kernel, if it is `op` alone, uses each argument once, and its axis comes after a free dimension."""
    if not isinstance(op, ConcatOp):
        return None
    before = product(type_of(op.result).shape[: op.attribute_values()["axis"]])
    operands = [arguments.index(operand) for operand in op.operation.operands]
    each_once = sorted(operands) == list(range(len(arguments)))
    return Concat(before, tuple(operands)) if isinstance(before, Size) and before.is_symbol and each_once else None
