"""The `graph` dialect by op family; importing this registers every op."""

from stepwell.dialects.graph import constants, control, elementwise
from stepwell.dialects.graph.base import Graph, GraphOp, op_class, op_classes
from stepwell.dialects.graph.builder import GraphBuilder, constant_value

__all__ = ["Graph", "GraphBuilder", "GraphOp", "constant_value", "constants", "control", "elementwise", "op_class", "op_classes"]
