"""Lowering from linalg to affine loops with vector ops."""

from stepwell.passes.linalg_to_affine import lower_to_affine, merge_versions, skip_joined

__all__ = ["lower_to_affine", "merge_versions", "skip_joined"]
