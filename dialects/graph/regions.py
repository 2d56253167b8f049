"""What the regions of conditionals and loops use of what is around them."""

from stepwell.dialects.core.mlir import defining_op, ir, ops_below

REPEATED = ("graph.constant", "graph.parameter", "graph.sizes")
"""The ops that are not captured: each function that is made of a region computes them itself."""


def captured_by(op: ir.Operation) -> list[ir.Value]:
    """What the regions of an op use of what is defined around it, but constants, each once."""
    inside: set[ir.Value] = set()
    used: dict[ir.Value, None] = {}
    for inner in ops_below(op):
        used.update(dict.fromkeys(inner.operands))
        inside |= set(inner.results)
        inside |= {argument for region in inner.regions for block in region.blocks for argument in block.arguments}
    inside |= {argument for region in op.regions for block in region.blocks for argument in block.arguments}
    return [v for v in used if v not in inside and ((source := defining_op(v)) is None or source.name not in REPEATED)]
