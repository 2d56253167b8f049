"""The pass that makes @main take one array of pointers and return a status."""


from stepwell.dialects.core.llvm_ops import element_address, integer, llvm_functions, load
from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.registry import Pass, PassState, register_pass


@register_pass("pack-arguments", level="llvm")
class PackArguments(Pass):
    """Make `@main` take one pointer to an array of its arguments, each of which is loaded from there at its uses, and return a status.

    rewrite: llvm.func @main(%a: !llvm.ptr, …) { use(%a) }  ->  llvm.func @main(%arguments: !llvm.ptr) -> i64 { use(load %arguments[0]); return 0 }

    A model may have thousands of inputs and outputs. Callers cannot call a C function with so many arguments, and LLVM needs quadratic time to keep
    them all live from the first instruction on. The pass runs after descriptors are gone, since these would load all arguments at the start. A
    `@main` that already takes one pointer is left unchanged.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in llvm_functions(op):
            if ir.StringAttr(function.attributes["sym_name"]).value == "main" and len(function.regions[0].blocks) > 0:
                _pack(function)


def _pack(function: ir.Operation) -> None:
    block = function.regions[0].blocks[0]
    pointer = ir.Type.parse("!llvm.ptr")
    count = len(block.arguments)
    if count == 1 and block.arguments[0].type == pointer:
        return
    packed = block.add_argument(pointer, function.location)
    for index in range(count):
        for use in list(block.arguments[index].uses):
            user = use.owner.operation
            with ir.InsertionPoint(user), user.location:
                place = element_address(packed, pointer, index)
                user.operands[use.operand_number] = load(pointer, place)
    for index in reversed(range(count)):
        block.erase_argument(index)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse("!llvm.func<i64 (ptr)>"))
    for block in function.regions[0].blocks:
        end = list(block.operations)[-1].operation
        if end.name == "llvm.return" and not end.operands:
            with ir.InsertionPoint(end), end.location:
                ir.Operation.create("llvm.return", operands=[integer(0)])
            end.erase()
    if "arg_attrs" in function.attributes:
        del function.attributes["arg_attrs"]
