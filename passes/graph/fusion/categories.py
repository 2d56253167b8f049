"""The fusion category of an op of any dialect, stated by its class."""

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.traits import Fusion


def category(op: ir.Operation) -> Fusion:
    """The fusion category of this op; ops of upstream's dialects stay outside kernels."""
    view = op.opview
    return view.fusion_category() if isinstance(view, GraphOp) else Fusion.FREE
