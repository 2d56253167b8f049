"""The pass that makes every function argument convert to a bare pointer."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.mlir import func, ir, use_count
from stepwell.dialects.core.module_info import ValueInfo
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import find_function, functions, ops_below


@register_pass("bare-arguments", level="affine")
@dataclass
class BareArguments(Pass):
    """Make every argument a memref that converts to one pointer.

    rewrite: @main(…, %a: memref<?xi8> {stepwell.bytes = N})  ->  @main(…, %a: memref<Nxi8>)
    rewrite: call @kernel(…, %empty: memref<2x0xf32>, …)      ->  call @kernel(…)

    A memref of dynamic size would be passed as a descriptor. Upstream cannot convert one without elements; nothing reads it, so
    kernels drop it. In @main, whose caller still passes a pointer, it becomes a memref<1xi8>.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = find_function(op, "main")
        dropped = {f.sym_name.value: _drop_empty_arguments(f) for f in functions(op) if f.sym_name.value != "main"}
        for call in ops_below(op, "func.call"):
            gone = dropped.get(ir.FlatSymbolRefAttr(call.attributes["callee"]).value, set())
            if gone:
                with ir.InsertionPoint(call), call.location:
                    func.CallOp([], call.attributes["callee"], [v for i, v in enumerate(call.operands) if i not in gone])
                call.erase()
        _remove_empty_views(op)
        declared = ValueInfo.arguments(main)
        for index, argument in enumerate(main.arguments):
            size = 1 if is_empty(argument.type) else declared[index].byte_count
            if size is not None:
                argument.set_type(ir.MemRefType.get([size], ir.IntegerType.get_signless(8)))
            elif isinstance(argument.type, ir.MemRefType) and not argument.type.has_static_shape:
                name = ValueInfo.byte_count.name
                raise PassError(f"argument {index} of @main at {main.location} is a {argument.type} without the attribute '{name}': it has no size")
        _retype(main)


def is_empty(mlir_type: Any) -> bool:
    """Whether a memref has no elements."""
    return isinstance(mlir_type, ir.MemRefType) and 0 in mlir_type.shape


def _drop_empty_arguments(function: Any) -> set[int]:
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


def _retype(function: Any) -> None:
    """Make a function's type that of its block's arguments."""
    types = [a.type for a in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
