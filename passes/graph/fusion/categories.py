"""How an op may be fused: what its class says, for ops of whatever dialect."""

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.traits import Fusion


def category(op: ir.Operation) -> Fusion:
    """How an op as it stands may be fused; ops that are not of ours are left outside."""
    view = op.opview
    return view.fusion_category() if isinstance(view, GraphOp) else Fusion.FREE
