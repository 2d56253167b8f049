"""The pass that makes every function argument convert to a bare pointer."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import defining_op, func, ir, known_index, memref, ops_below, replace_op, use_count
from stepwell.dialects.core.module_info import ValueInfo
from stepwell.dialects.core.symbolic_shapes import constant, reshaped_pointer, shapes_around
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import CAST, functions, main_function


@register_pass("bare-arguments", level="affine")
class BareArguments(Pass):
    """Make every argument a memref that converts to one pointer.

    rewrite: @main(…, %a: memref<?xi8> {stepwell.bytes = N})  ->  @main(…, %a: memref<Nxi8>)
    rewrite: call @kernel(…, %empty: memref<2x0xf32>, …)      ->  call @kernel(…)
    rewrite: call @kernel(%x: memref<?x4xf32>)                ->  call @kernel(%x: memref<1xf32>, %n: index)

    A memref of dynamic size would be passed as a descriptor; instead, kernels receive each distinct size as an argument of its own. Upstream cannot
    convert a memref without elements; nothing reads it, so kernels drop it. In @main, whose caller still passes a pointer, it becomes a memref<1xi8>.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = main_function(op)
        others = [f for f in functions(op) if f.sym_name.value != "main" and len(f.regions[0].blocks)]  # declarations belong to the run time
        sized = {f.sym_name.value: f for f in others if any(_is_dynamic(a.type) for a in f.arguments)}
        taken = {name: _take_sizes(function) for name, function in sized.items()}
        for call in ops_below(op, "func.call") if taken else ():
            places = taken.get(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
            if places is not None:
                _pass_sizes(call, places)
        dropped = {f.sym_name.value: _drop_empty_arguments(f) for f in others}
        for call in ops_below(op, "func.call"):
            gone = dropped.get(ir.FlatSymbolRefAttr(call.attributes["callee"]).value, set())
            if gone:
                with ir.InsertionPoint(call), call.location:
                    _replace(call, [v for i, v in enumerate(call.operands) if i not in gone])
        _remove_empty_views(op)
        declared = ValueInfo.arguments(main)
        for index, argument in enumerate(main.arguments):
            size = 1 if is_empty(argument.type) else declared[index].byte_count
            if _is_dynamic(argument.type) and declared[index].name is not None:
                _forget_size(argument)
            elif size is not None:
                argument.set_type(ir.MemRefType.get([size], ir.IntegerType.get_signless(8)))
            elif _is_dynamic(argument.type):
                name = ValueInfo.byte_count.name
                raise PassError(f"argument {index} of @main at {main.location} is a {argument.type} without the attribute '{name}': it has no size")
        _retype(main)


def _is_dynamic(mlir_type: ir.Type) -> bool:
    return isinstance(mlir_type, ir.MemRefType) and not mlir_type.has_static_shape


Place = tuple[int, int]
"""An argument and one of its dimensions."""


def _take_sizes(kernel: ir.OpView) -> list[Place]:
    """Make a kernel's dynamic arguments pointers to their first elements, with an argument for each of the sizes that differ.

    Returns, in order, the argument and dimension from which a caller reads each size.
    """
    block = kernel.regions[0].blocks[0]
    shapes = shapes_around(kernel.operation)
    attributes = list(kernel.attributes["arg_attrs"]) if "arg_attrs" in kernel.attributes else None
    places: list[Place] = []
    values: dict[Any, ir.Value] = {}
    for number, argument in enumerate(list(block.arguments)):
        if not _is_dynamic(argument.type):
            continue
        kind, own = argument.type, []
        for dim, size in enumerate(shapes.shape(argument)):
            key = size if size is not None else (number, dim)  # a size without a name is an argument of its own
            if not isinstance(size, int) and key not in values:
                values[key] = block.add_argument(ir.IndexType.get(), argument.location)
                places.append((number, dim))
            own.append(values.get(key))
        element = ir.MemRefType.get([1], kind.element_type)
        for use in [use.owner.operation for use in argument.uses if use.owner.operation.name == "memref.dim"]:
            known = own[known_index(use.operands[1]) or 0]
            if known is not None:
                replace_op(use, [known])
        with ir.InsertionPoint.at_block_begin(block), kernel.location:
            argument.set_type(element)
            seen = reshaped_pointer(argument, kind, own)
        made = defining_op(seen)
        assert made is not None
        # A view of its bytes needs only the start address, and a cast from a memref of another rank is not a cast of pointers.
        as_pointer = [use.owner.operation for use in argument.uses if use.owner.operation.name == CAST]
        argument.replace_all_uses_except(seen, [made, *as_pointer])
    if attributes is not None:
        kernel.attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes, *[ir.DictAttr.get({})] * len(places)])
    _retype(kernel)
    return places


def _pass_sizes(call: ir.Operation, places: Sequence[Place]) -> None:
    """Call a kernel whose sizes are separate arguments."""
    with ir.InsertionPoint(call), call.location:
        sizes = [_size_of(call.operands[number], dim) for number, dim in places]
        _replace(call, [*map(_pointer, call.operands), *sizes])


def _replace(call: ir.Operation, operands: Sequence[ir.Value]) -> None:
    """Call the same function with other operands."""
    replace_op(call, func.CallOp([result.type for result in call.results], call.attributes["callee"], list(operands)).results)


def _size_of(operand: ir.Value, dim: int) -> ir.Value:
    """The size of a dynamic dimension of a kernel operand, which is a view that states its sizes."""
    view, dynamic = defining_op(operand), ir.ShapedType.get_dynamic_size()
    assert view is not None  # bufferize passes no argument of @main directly
    if view.name == "memref.cast" and view.operands[0].type.is_dynamic_dim(dim):
        return _size_of(view.operands[0], dim)
    if view.name == "memref.cast":
        return constant(view.operands[0].type.shape[dim])
    nth = list(operand.type.shape)[:dim].count(dynamic)
    before = 2 if view.name == "memref.view" else 1 + view.attributes["operandSegmentSizes"][1]  # source and offset, or source and offsets
    return view.operands[before + nth]


def _pointer(operand: ir.Value) -> ir.Value:
    """Cast an operand of dynamic size to one that converts to a pointer to its first element."""
    if not _is_dynamic(operand.type):
        return operand
    return memref.ReinterpretCastOp(ir.MemRefType.get([1], operand.type.element_type), operand, [], [], [], [0], [1], [1]).result


def _forget_size(argument: ir.Value) -> None:
    """Make an argument of @main whose sizes are never read a pointer to its first element."""
    kind = argument.type
    argument.set_type(ir.MemRefType.get([1], kind.element_type))
    for use in list(argument.uses):
        user = use.owner.operation
        if user.name == "memref.reinterpret_cast" and user.results[0].type == argument.type:
            replace_op(user, [argument])


def is_empty(mlir_type: ir.Type) -> bool:
    """Whether a memref has no elements."""
    return isinstance(mlir_type, ir.MemRefType) and 0 in mlir_type.shape


def _drop_empty_arguments(function: ir.OpView) -> set[int]:
    """Remove a kernel's arguments without elements; returns their positions."""
    _remove_empty_views(function.operation)
    gone = [i for i, a in enumerate(function.arguments) if is_empty(a.type)]
    block = function.regions[0].blocks[0]
    attributes = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else None
    for index in reversed(gone):
        if use_count(block.arguments[index]):
            raise PassError(f"@{function.sym_name.value} at {function.location} uses its argument {index}, which has no elements")
        block.erase_argument(index)
        if attributes is not None:
            del attributes[index]
    if gone:
        if attributes is not None:
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        _retype(function)
    return set(gone)


def _remove_empty_views(op: ir.Operation) -> None:
    """Erase views without elements that nothing uses (any more)."""
    for inner in reversed(ops_below(op)):
        if inner.name.startswith("memref.") and len(inner.results) == 1 and is_empty(inner.results[0].type) and not use_count(inner.results[0]):
            inner.erase()


def _retype(function: ir.OpView) -> None:
    """Make a function's type agree with the arguments of its block."""
    types = [a.type for a in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, function.type.results))
