"""Runs compiled models on memory that is watched: guard bytes round each buffer, any alignment, nothing but NaN where nothing was written."""

from collections.abc import Mapping
from math import prod

import numpy as np

from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.target.host import runs_here
from stepwell.dialects.target.registry import resolve, target_names
from stepwell.runtime.executable import NativeExecutable
from stepwell.runtime.model import CompiledModel
from stepwell.signature import TensorInfo

FILL = 0xFF  # makes NaN of every floating-point type
MARGIN = 192  # bytes beside a buffer that are watched: three of the widest vectors
TARGETS = [name for name in target_names() if runs_here(resolve(name))]
NAMED = [name for name in TARGETS if name != "host"]  # each width of vectors once
EVERYWHERE = [name for name in target_names() if name != "host"]  # of these a test skips those that do not run here, so that all machines have it


def run(model: CompiledModel, inputs: Mapping[str, np.ndarray], shift: int) -> dict[str, np.ndarray]:
    """The outputs, with all tensors `shift` elements from where vectors are aligned and surrounded by NaN, the workspace full of it.

    Raises AssertionError if anything is written but outputs and workspace.
    """
    given = {info.name: Guarded(inputs[info.name].nbytes, shift * info.dtype.itemsize) for info in model.inputs}
    taken = {info.name: Guarded(prod(sizes(info)) * info.dtype.itemsize, shift * info.dtype.itemsize) for info in model.outputs}
    workspace = Guarded(model.memory.workspace_bytes, 0)
    assert isinstance(model.executable, NativeExecutable)
    model.executable.workspaces.clear()
    model.executable.workspaces.append(workspace.inner)
    for name, buffer in given.items():
        buffer.inner[:] = bits(inputs[name])
    arrays = {info.name: given[info.name].inner.view(info.dtype).reshape(sizes(info)) for info in model.inputs}
    out = {info.name: taken[info.name].inner.view(info.dtype).reshape(sizes(info)) for info in model.outputs}
    model.run(arrays, out=out)
    for name, buffer in given.items():
        assert (buffer.inner == bits(inputs[name])).all(), f"input {name} was written to"
    for name, buffer in {**given, **taken, "workspace": workspace}.items():
        assert buffer.untouched(), f"something was written beside {name}"
    return {name: array.copy() for name, array in out.items()}


def bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def sizes(info: TensorInfo) -> tuple[int, ...]:
    """The shape of an input or output of a compiled model, all of whose sizes are numbers."""
    return tuple(int(size) for size in info.shape if size is not None)


class Guarded:
    """A buffer within a larger one, all filled with NaN."""

    def __init__(self, size: int, shift: int) -> None:
        """`size` bytes, `shift` bytes from where vectors are aligned."""
        self._whole = aligned_empty(size + shift + 2 * MARGIN)
        self._whole[:] = FILL
        self._start = MARGIN + shift
        self.inner = self._whole[self._start : self._start + size]

    def untouched(self) -> bool:
        """Whether what is around the buffer is as it was."""
        return bool((self._whole[: self._start] == FILL).all() and (self._whole[self._start + self.inner.size :] == FILL).all())
