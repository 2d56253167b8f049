"""How an op may be fused: what its class says, for ops of any dialect."""

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.traits import Fusion


def category(op: ir.Operation) -> Fusion:
    """How this op may be fused; ops of upstream's dialects stay outside of kernels."""
    view = op.opview
    return view.fusion_category() if isinstance(view, GraphOp) else Fusion.FREE
