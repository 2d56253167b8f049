"""From tensors to memory: which buffer holds what, where it lies, and what is computed in place."""

from stepwell.passes.bufferize import bufferize

__all__ = ["bufferize"]
