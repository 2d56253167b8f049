"""The pass that gives @main's byte arenas their static size, so that every function can take bare pointers."""

from dataclasses import dataclass

from stepwell.dialects.mlir import ir
from stepwell.passes.registry import Pass, PassState, register_pass
from stepwell.passes.rewriting import find_function

BYTES = "stepwell.bytes"


@register_pass("bare-arguments", level="affine")
@dataclass
class BareArguments(Pass):
    """rewrite: @main(…, %a: memref<?xi8> {stepwell.bytes = N}) -> @main(…, %a: memref<Nxi8>)

    A memref of dynamic size travels as a descriptor; with its size written down it travels as one pointer.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = find_function(op, "main")
        if "arg_attrs" not in main.attributes:
            return
        for argument, attributes in zip(main.arguments, main.attributes["arg_attrs"], strict=True):
            entry = ir.DictAttr(attributes)
            if BYTES in entry:
                size = ir.IntegerAttr(entry[BYTES]).value
                argument.set_type(ir.MemRefType.get([size], ir.IntegerType.get_signless(8)))
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in main.arguments], []))
