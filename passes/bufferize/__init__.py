"""From tensors to memory: which buffer holds what, where it lies, and what is computed in place."""

from stepwell.passes.bufferize import bufferize, control

__all__ = ["bufferize", "control"]
