"""The interface of loaded code, and its implementation for native code."""

import collections
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from stepwell.runtime.buffers import address, aligned_empty
from stepwell.runtime.loader import LoadedCode
from stepwell.runtime.openmp import openmp
from stepwell.runtime.workspaces import SizedWorkspaces


class Executable(Protocol):
    """Loaded code of a model, with its weights. Safe to call from several threads at once."""

    threads: int
    """The maximal number of cores for a run; can be set between runs."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Compute `outputs`, which are arrays to write to, from `inputs`; both are contiguous, aligned, and of the types the model declares.

        After the model's outputs come hidden results that say how far indices reach, if there are any (`IndexCheck`). May raise MemoryError.
        """


class NativeExecutable:
    """Native code. Its `main` takes an array of pointers: for each input and each output, then the weight arena and the workspace.

    Code for all sizes takes one more, the `table` of sizes and offsets; what runs it for other sizes may share `workspaces`.
    """

    def __init__(
        self, code: LoadedCode, weights: np.ndarray, *, workspace_bytes: int, threads: int, arguments: int, table: np.ndarray | None = None,
        workspaces: "collections.deque[np.ndarray] | SizedWorkspaces | None" = None,
    ) -> None:  # fmt: skip
        self.main = code.packed_function("main", arguments + 2 + (table is not None))
        self.threads = threads
        self.workspace_bytes = workspace_bytes
        self._weights = weights  # keeps the memory alive that the address points to
        self._weights_address = address(weights)
        self._openmp = openmp()
        self._table = table  # as with the weights
        self._table_address = () if table is None else (address(table),)
        self.workspaces: collections.deque[np.ndarray] | SizedWorkspaces = collections.deque() if workspaces is None else workspaces
        """Free workspaces, one per concurrent call. Taking and returning them is atomic."""

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """See `Executable`."""
        try:
            workspace = self.workspaces.pop()
        except IndexError:
            workspace = self._new_workspace()
        if workspace.nbytes < self.workspace_bytes:  # made for other sizes
            workspace = self._new_workspace()
        try:
            addresses = [*map(address, inputs), *map(address, outputs), self._weights_address, address(workspace), *self._table_address]
            if self._openmp is None:
                self.main(*addresses)
            else:
                before = self._openmp.set_threads(threads := self.threads)
                try:
                    self.main(*addresses)
                finally:
                    if before != threads:
                        self._openmp.set_threads(before)
        finally:
            self.workspaces.append(workspace)

    def _new_workspace(self) -> np.ndarray:
        try:
            return aligned_empty(self.workspace_bytes)
        except OSError as error:  # from mapping memory
            raise MemoryError(str(error)) from error
