"""The launches of a model one by one: native code replayed in the order of `@main`, on real data, and timed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from stepwell.analysis.launches import KernelLaunch, Operand
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.errors import CodegenError
from stepwell.runtime.loader import load
from stepwell.runtime.openmp import openmp

Runner = Callable[[], None]


class Replay:
    """A model's kernel launches, bound to memory of their own.

    `inputs`, `outputs` (with the hidden ones for index checks behind the model's own), `weights` and a workspace are the arguments of `@main`;
    `objects` is the code of `main` and of each kernel. Run in order, each launch finds the caches as in the model, and real data: a kernel that runs
    repeatedly on its own result would drift towards infinities or denormal numbers.
    """

    def __init__(
        self, launches: Sequence[KernelLaunch], objects: Mapping[str, bytes], *, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray],
        weights: np.ndarray, workspace_bytes: int, threads: int, located: np.ndarray | None = None, workspace: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """`weights` is their arena; `located` is the table that the code of `main` takes instead, if it looks them up.

        `workspace` is memory of at least `workspace_bytes`, which replays that run in turns may share; new memory if None.
        """
        self.launches = tuple(launches)
        self.inputs, self.outputs, self.weights = tuple(inputs), tuple(outputs), weights
        self.workspace = aligned_empty(workspace_bytes) if workspace is None else workspace
        self.arrays = (*self.inputs, *self.outputs, weights, self.workspace)
        self._located = weights if located is None else located
        self.threads = threads
        self._code = load(objects, exports=list(objects))
        addresses = [address(array) for array in self.arrays]
        self.runners = [self._bind(launch, addresses) for launch in launches]

    def _bind(self, launch: KernelLaunch, addresses: Sequence[int]) -> Runner:
        function = self._code.function(launch.kernel, len(launch.operands))
        operands = [addresses[operand.argument] + operand.offset for operand in launch.operands]
        return lambda: function(*operands)

    @contextmanager
    def on_threads(self) -> "Iterator[None]":
        """Let launches inside the block use the replay's number of threads."""
        runtime = openmp()
        before = runtime.set_threads(self.threads) if runtime is not None else None
        try:
            yield
        finally:
            if runtime is not None and before is not None:
                runtime.set_threads(before)

    def run(self, first: int = 0, end: int | None = None) -> None:
        """Run the launches from `first` to before `end`, once."""
        with self.on_threads():
            for run in self.runners[first:end]:
                run()

    def times(self, repeats: int, beside: Runner | None = None) -> tuple[list[list[float]], list[float]]:
        """Seconds of each launch, `repeats` times each; alternating with `beside`, which runs the whole model, if given."""
        clock = time.perf_counter
        samples: list[list[float]] = [[] for _ in self.runners]
        whole = []
        with self.on_threads():
            for _ in range(max(1, repeats)):
                if beside is not None:
                    start = clock()
                    beside()
                    whole.append(clock() - start)
                for run, seconds in zip(self.runners, samples, strict=True):
                    start = clock()
                    run()
                    seconds.append(clock() - start)
        return samples, whole

    def alone(self, index: int, repeats: int) -> list[float]:
        """Seconds of one launch, run repeatedly with its inputs in the caches; inputs that it overwrites are restored before each run."""
        launch, run, clock = self.launches[index], self.runners[index], time.perf_counter
        own = [source for source in launch.sources if any(source.overlaps(target) for target in launch.destinations)]
        kept = [self.bytes(source).copy() for source in own]
        seconds = []
        with self.on_threads():
            for number in range(max(1, repeats) + 1):
                for source, content in zip(own, kept, strict=True):
                    self.bytes(source)[:] = content
                start = clock()
                run()
                if number:  # the first one warms up
                    seconds.append(clock() - start)
        return seconds

    def bytes(self, operand: Operand) -> np.ndarray:
        """The memory of an operand."""
        return self.arrays[operand.argument].reshape(-1).view(np.uint8)[operand.offset : operand.end]

    def main(self, *, shares: bool = False) -> Runner:
        """A function that runs all of `@main`, in memory of its own or in that of the launches."""
        outputs, workspace = (self.outputs, self.workspace) if shares else ([*map(np.zeros_like, self.outputs)], aligned_empty(self.workspace.nbytes))
        arrays = [*self.inputs, *outputs, self._located, workspace]
        function, addresses = self._code.packed_function("main", len(arrays)), [address(array) for array in arrays]

        def run() -> None:
            function(addresses)

        run.keep = arrays  # type: ignore[attr-defined]  # kept alive by what reads them
        return run


def check_same(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Raise CodegenError unless a replay gives the model's results, bit by bit. Outputs beyond `expected` are hidden ones."""
    for mine, other in zip(got, expected, strict=False):
        if not np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f"):
            raise CodegenError("the replayed launches give another result than the model: their times would be of other work")
