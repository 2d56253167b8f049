"""The pass that gives block arguments that are tile registers the type that LLVM has for them."""


from stepwell.dialects.core.mlir import ir, mentions, ops_below, use_count
from stepwell.passes.framework.registry import Pass, PassState, register_pass

CAST = "builtin.unrealized_conversion_cast"
TILE = "!x86.amx.tile<"


@register_pass("carry-tiles", level="affine")
class CarryTiles(Pass):
    """Pass tile registers from block to block as `!llvm.x86_amx`, their type after `convert-vector-to-llvm`.

    rewrite: cf.br ^next(%cast : !x86.amx.tile<16x16xf32>)  ->  cf.br ^next(%r : !llvm.x86_amx)    where %cast is a cast of %r

    Upstream's conversions of branches do not handle these registers.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        if state.machine.capabilities.tile_registers is None or not mentions(op, TILE):
            return
        carried = [a for o in ops_below(op) for region in o.regions for block in region.blocks for a in block.arguments if is_tile(a.type)]
        for argument in carried:
            argument.set_type(ir.Type.parse("!llvm.x86_amx"))
            state.count(self.name)
        for cast in ops_below(op, CAST):
            source, result = cast.operands[0], cast.results[0]
            if is_tile(result.type) or source.type == result.type:
                result.replace_all_uses_with(source)
        for cast in reversed(ops_below(op, CAST)):
            if len(cast.operands) == 1 and use_count(cast.results[0]) == 0:
                cast.erase()


def is_tile(kind: ir.Type) -> bool:
    """Whether a type is that of a tile register."""
    return str(kind).startswith(TILE)
