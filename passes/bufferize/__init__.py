"""From tensors to memory: which buffer holds what, where it lies, and what is computed in place."""

from stepwell.passes.bufferize import boxes, bufferize, control

__all__ = ["boxes", "bufferize", "control"]
