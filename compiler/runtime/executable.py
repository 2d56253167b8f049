"""The interface of loaded code, and its implementation for native code."""

import collections
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from stepwell.dialects.core.size_table import SIZES_FUNCTION
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.runtime.boxes import contents
from stepwell.runtime.late_sizes import LateSizes, Run, running
from stepwell.runtime.loader import LoadedCode
from stepwell.runtime.openmp import openmp
from stepwell.runtime.workspaces import SMALL, SizedWorkspaces, Workspaces


class Executable(Protocol):
    """Loaded code of a model, with its weights. Safe to call from several threads at once."""

    threads: int
    """The maximal number of cores for a run; can be set between runs."""

    def run(self, inputs: Sequence[np.ndarray], outputs: list[Any]) -> Mapping[str, int] | None:
        """Compute `outputs`, which are arrays to write to, from `inputs`; both are contiguous, aligned, and of the types the model declares.

        An output whose size only the run tells is None, and replaced by an array of the right one. After the model's outputs come hidden
        results that say how far indices reach, if there are any (`IndexCheck`). May raise MemoryError, IndexRangeError for data that ask
        for sizes that do not fit, LimitError for some that are too large. Gives the sizes that only the run has told, if there are any.
        """


class NativeExecutable:
    """Native code. Its `main` takes an array of pointers: for each input and each output, then the weights and the workspace.

    Shape-polymorphic code takes one more pointer, the `table` of sizes and offsets; executables of one program may share `workspaces`.
    """

    def __init__(
        self, code: LoadedCode, weights: np.ndarray, *, workspace_bytes: int, threads: int, arguments: int, table: np.ndarray | None = None,
        workspaces: "collections.deque[np.ndarray] | SizedWorkspaces | None" = None, late: LateSizes | None = None,
        boxed: Mapping[int, tuple[np.dtype, int]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """`boxed` are the outputs that are rows of boxes, by their numbers, as `boxed_results` gives them: a run gives lists of arrays for them."""
        if late is not None:  # each run has a table of its own, for what becomes known
            table = np.concatenate([np.empty(0, np.int64) if table is None else table, np.zeros(late.entries, np.int64)])[: late.entries]
        self.main = code.packed_function("main", arguments + 2 + (table is not None))
        self.threads = threads
        self.workspace_bytes = workspace_bytes
        self.weights = weights
        """The weights argument of `main`: the arena, or a table with the address of each weight."""
        self._weights_address = address(weights)
        self._openmp = openmp()
        self._table = table  # `main` gets it like the weights
        self._table_address = () if table is None else (address(table),)
        self._late, self._boxed = late, dict(boxed)
        self.workspaces: collections.deque[np.ndarray] | SizedWorkspaces = collections.deque() if workspaces is None else workspaces
        """Free workspaces, one per concurrent call. Taking and returning them is atomic."""

    def run(self, inputs: Sequence[np.ndarray], outputs: list[Any]) -> Mapping[str, int] | None:
        """See `Executable`."""
        try:
            workspace = self.workspaces.pop()
        except IndexError:
            workspace = self._new_workspace()
        if workspace.nbytes < self.workspace_bytes:  # made for other sizes
            workspace = self._new_workspace()
        try:
            if self._late is not None:
                return self._run_late(self._late, inputs, outputs, workspace)
            self._call([*map(address, inputs), *map(address, outputs), self._weights_address, address(workspace), *self._table_address])
            return None
        finally:
            self.workspaces.append(workspace)

    def _run_late(self, late: LateSizes, inputs: Sequence[np.ndarray], outputs: list[Any], workspace: np.ndarray) -> Mapping[str, int]:
        """A run in which sizes become known."""
        assert self._table is not None
        begin = address(workspace)
        run = Run(late, self._table.copy(), begin, outputs)
        key = address(run.table)
        try:
            running[key] = run
            places = [0 if output is None else address(output) for output in outputs]
            self._call([*map(address, inputs), *places, self._weights_address, begin, key])
        finally:
            if key in running:  # no call of a function, after which what the handler of a signal raises could keep this from being done
                del running[key]
        run.raise_any()
        for place, (dtype, rank) in self._boxed.items():
            outputs[place] = contents(outputs[place], begin, dtype, rank)
        return run.values

    def _call(self, addresses: Sequence[int]) -> None:
        if self._openmp is None:
            self.main(*addresses)
            return
        before = self._openmp.get_threads()
        try:
            self._openmp.set_threads(self.threads, before)
            self.main(*addresses)
        finally:
            if before != self.threads:
                self._openmp.set_threads(before)

    def _new_workspace(self) -> np.ndarray:
        try:
            return aligned_empty(self.workspace_bytes)
        except OSError as error:  # raised when memory is mapped
            raise MemoryError(str(error)) from error


class NativeSized:
    """Native shape-polymorphic code, with its workspaces: see `Sized`."""

    def __init__(self, code: LoadedCode, executable: "Callable[..., NativeExecutable]") -> None:
        """`executable` makes an Executable from the code, a table, the bytes of a workspace and a source of workspaces."""
        self._complete = code.status_function(SIZES_FUNCTION)
        self._executable, self._workspaces = executable, Workspaces()

    def complete(self, table: np.ndarray) -> int:
        """See `Sized`."""
        return self._complete(address(table))

    def executable(self, table: np.ndarray, workspace_bytes: int) -> Executable:
        """See `Sized`."""
        workspaces = self._workspaces.sized(workspace_bytes) if workspace_bytes > SMALL else None
        return self._executable(table=table, workspace_bytes=workspace_bytes, workspaces=workspaces)
