"""Rewrites and lowerings, one folder per step of the stair; importing this registers every built-in pass."""

from stepwell.passes import affine_to_llvm, graph, graph_to_linalg, linalg, linalg_to_affine

__all__ = ["affine_to_llvm", "graph", "graph_to_linalg", "linalg", "linalg_to_affine"]
