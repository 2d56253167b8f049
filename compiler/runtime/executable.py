"""The interface of loaded code, and its implementation for native code."""

import collections
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from stepwell.dialects.core.size_table import SIZES_FUNCTION, Status, Verdict
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import IndexRangeError
from stepwell.runtime.boxes import contents
from stepwell.runtime.context import current
from stepwell.runtime.index_checks import IndexChecks
from stepwell.runtime.late_sizes import LateSizes, Run, running
from stepwell.runtime.loader import LoadedCode
from stepwell.runtime.openmp import openmp
from stepwell.runtime.workspaces import SMALL, SizedWorkspaces, Workspaces

NO_CHECKS = IndexChecks(())


class Executable(Protocol):
    """Loaded code of a model, with its weights. Safe to call from several threads at once."""

    threads: int
    """The maximal number of cores for a run; can be set between runs."""

    def run(self, inputs: Sequence[np.ndarray], outputs: list[Any]) -> None:
        """Compute `outputs`, which are arrays to write to, from `inputs`; both are contiguous, aligned, and of the types the model declares.

        An output whose size only the run tells is None, and replaced by an array of the right one. May raise MemoryError, IndexRangeError for
        an index that is out of range (`IndexChecks`) or data that ask for sizes that do not fit, LimitError for some that are too large.
        """


class NativeExecutable:
    """Native code. Its `main` takes an array of pointers: for each input and each output, then the weights and the workspace.

    Shape-polymorphic code takes one more pointer, the `table` of sizes and offsets; executables of one program may share `workspaces`.
    """

    def __init__(
        self, code: LoadedCode, weights: np.ndarray, *, workspace_bytes: int, threads: int, arguments: int, table: np.ndarray | None = None,
        workspaces: "collections.deque[np.ndarray] | SizedWorkspaces | None" = None, late: LateSizes | None = None,
        boxed: Mapping[int, tuple[np.dtype, int]] = MappingProxyType({}), checks: IndexChecks = NO_CHECKS, symbols: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`boxed` are the outputs that are rows of boxes, by their numbers, as `boxed_results` gives them: a run gives lists of arrays for them.

        `symbols` are the first entries of the table.
        """
        if late is not None:  # each run has a table of its own, for what becomes known
            table = np.concatenate([np.empty(0, np.int64) if table is None else table, np.zeros(late.entries, np.int64)])[: late.entries]
        self._plain = late is None and not checks.hidden
        """Whether nothing can be wrong with a run."""
        self.main = code.packed_function("main", arguments + 2 + (table is not None), status=not self._plain)
        self.threads = threads
        self.workspace_bytes = workspace_bytes
        self.weights = weights
        """The weights argument of `main`: the arena, or a table with the address of each weight."""
        self._weights_address = address(weights)
        self._openmp = openmp()
        self._table = table  # `main` gets it like the weights
        self._table_address = () if table is None else (address(table),)
        self._late, self._boxed, self._symbols = late, dict(boxed), tuple(symbols)
        self.checks = checks
        """The checks of indices, whose hidden results come behind the outputs."""
        self.workspaces: collections.deque[np.ndarray] | SizedWorkspaces = collections.deque() if workspaces is None else workspaces
        """Free workspaces, one per concurrent call of threads without a `Context`. Taking and returning them is atomic."""

    def run(self, inputs: Sequence[np.ndarray], outputs: list[Any]) -> None:
        """See `Executable`."""
        context = current.context
        workspaces = self.workspaces if context is None else context.workspaces.sized(self.workspace_bytes)
        try:
            workspace = workspaces.pop()
        except IndexError:
            workspace = self._new_workspace()
        if workspace.nbytes < self.workspace_bytes:  # made for other sizes
            workspace = self._new_workspace()
        try:
            if self._plain:
                self._call([*map(address, inputs), *map(address, outputs), self._weights_address, address(workspace), *self._table_address])
                return
            hidden = self.checks.parts()
            if self._late is not None:
                self._run_late(self._late, inputs, outputs, hidden, workspace)
                return
            results = outputs + hidden
            code = self._call([*map(address, inputs), *map(address, results), self._weights_address, address(workspace), *self._table_address])
            if code:
                raise self._out_of_range(code, hidden, self._table)
        finally:
            workspaces.append(workspace)

    def _out_of_range(self, code: int, hidden: Sequence[np.ndarray], table: np.ndarray | None) -> IndexRangeError:
        """The error for the check whose status code gives; `table` has the sizes of the run."""
        places = {name: place for place, name in enumerate(self._symbols)} | (dict(self._late.places) if self._late is not None else {})
        values = {} if table is None else {name: int(table[place]) for name, place in places.items()}
        return self.checks.error(Verdict.decoded(code).number, hidden, values)

    def _run_late(
        self, late: LateSizes, inputs: Sequence[np.ndarray], outputs: list[Any], hidden: Sequence[np.ndarray], workspace: np.ndarray
    ) -> None:
        """A run in which sizes become known."""
        assert self._table is not None
        begin = address(workspace)
        run = Run(late, self._table.copy(), begin, outputs)
        key = address(run.table)
        try:
            running[key] = run
            places = [0 if output is None else address(output) for output in (*outputs, *hidden)]
            code = self._call([*map(address, inputs), *places, self._weights_address, begin, key])
        finally:
            if key in running:  # no call of a function, after which what the handler of a signal raises could keep this from being done
                del running[key]
        if code:
            raise self._out_of_range(code, hidden, run.table) if Verdict.decoded(code).status is Status.INDEX else run.error_for(code)
        for place, (dtype, rank) in self._boxed.items():
            outputs[place] = contents(outputs[place], begin, dtype, rank)

    def _call(self, addresses: Sequence[int]) -> int | None:
        """Run `main`; returns its status, if that may be another than 0."""
        if self._openmp is None:
            return self.main(addresses)
        context = current.context
        threads = self.threads if context is None else context.threads
        before = self._openmp.get_threads()
        try:
            self._openmp.set_threads(threads, before)
            return self.main(addresses)
        finally:
            if before != threads:
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
        self._complete = code.function(SIZES_FUNCTION, 1, status=True)
        self._executable, self._workspaces = executable, Workspaces()

    def complete(self, table: np.ndarray) -> int:
        """See `Sized`."""
        return int(self._complete(address(table)))

    def executable(self, table: np.ndarray, workspace_bytes: int) -> Executable:
        """See `Sized`."""
        workspaces = self._workspaces.sized(workspace_bytes) if workspace_bytes > SMALL else None
        return self._executable(table=table, workspace_bytes=workspace_bytes, workspaces=workspaces)
