"""Values that the regions of conditionals and loops capture from their surroundings."""

from stepwell.dialects.core.mlir import defining_op, ir, ops_below

REPEATED = ("graph.constant", "graph.parameter", "graph.sizes")
"""The ops that are not captured: each function made from a region recomputes them."""


def captured_by(op: ir.Operation) -> list[ir.Value]:
    """The values that the regions of an op use but do not define, without constants and duplicates."""
    inside: set[ir.Value] = set()
    used: dict[ir.Value, None] = {}
    for inner in ops_below(op):
        used.update(dict.fromkeys(inner.operands))
        inside |= set(inner.results)
        inside |= {argument for region in inner.regions for block in region.blocks for argument in block.arguments}
    inside |= {argument for region in op.regions for block in region.blocks for argument in block.arguments}
    return [v for v in used if v not in inside and ((source := defining_op(v)) is None or source.name not in REPEATED)]
