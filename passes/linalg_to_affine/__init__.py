"""The step from linalg to affine loops with vector ops: bufferisation, buffer assignment, the generic lowering."""

from stepwell.passes.linalg_to_affine import bufferize, lower_to_affine

__all__ = ["bufferize", "lower_to_affine"]
