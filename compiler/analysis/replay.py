"""The launches of a model one by one: native code replayed in the order of `@main`, on real data, and timed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from stepwell.analysis.calls import Call, Operand, kernel_calls
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.support.errors import CodegenError, InputError
from stepwell.runtime.buffers import address, aligned_empty
from stepwell.runtime.executable import NativeExecutable
from stepwell.runtime.loader import load
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.openmp import openmp

Launch = Callable[[], None]


class Replay:
    """A model's calls, bound to memory of their own.

    `inputs`, `outputs` (those that tell how far indices reach behind the model's own), `weights` and a workspace are the arguments of `@main`;
    `objects` is the code of `main` and of each kernel. In order, each call finds the caches as it does in the model, and data that is real:
    a kernel run again and again on its own result would drift towards infinities or denormal numbers.
    """

    def __init__(
        self, calls: Sequence[Call], objects: Mapping[str, bytes], *, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray],
        weights: np.ndarray, workspace_bytes: int, threads: int,
    ) -> None:  # fmt: skip
        self.calls = tuple(calls)
        self.inputs, self.outputs, self.weights, self.workspace = tuple(inputs), tuple(outputs), weights, aligned_empty(workspace_bytes)
        self.arrays = (*self.inputs, *self.outputs, weights, self.workspace)
        self.threads = threads
        self._code = load(objects, exports=list(objects))
        addresses = [address(array) for array in self.arrays]
        self._launches = [self._bind(call, addresses) for call in calls]

    def _bind(self, call: Call, addresses: Sequence[int]) -> Launch:
        function = self._code.function(call.kernel, len(call.operands))
        operands = [addresses[operand.argument] + operand.offset for operand in call.operands]
        return lambda: function(*operands)

    @staticmethod
    def of(model: CompiledModel, inputs: Mapping[str, np.ndarray], threads: int | None = None) -> "Replay":
        """The calls of a compiled model, on these inputs by name. Raises InputError for a model that is no native code, or without these inputs.

        Raises IRError for a @main that is more than a list of calls.
        """
        if not isinstance(model.executable, NativeExecutable):
            raise InputError("kernels are timed in native code: expected a model of the backend 'llvm'")
        want = model.run(inputs)
        given = [np.require(inputs[info.name], requirements=("C", "A")) for info in model.inputs]
        # Outputs and workspace of its own, so that the replay cannot find there what it fails to compute.
        outputs = [*map(np.zeros_like, want.values()), *model.checks.parts(model.checks.buffer())]
        return Replay(
            calls_of(model.ir("affine")), model.objects, inputs=given, outputs=outputs, weights=model.weights,
            workspace_bytes=model.memory.workspace_bytes, threads=threads or model.threads,
        )  # fmt: skip

    @contextmanager
    def on_threads(self) -> "Iterator[None]":
        """Have the calls inside of the block use as many threads as the replay is for."""
        runtime = openmp()
        before = runtime.set_threads(self.threads) if runtime is not None else None
        try:
            yield
        finally:
            if runtime is not None and before is not None:
                runtime.set_threads(before)

    def run(self, first: int = 0, end: int | None = None) -> None:
        """The calls from `first` to before `end`, once."""
        with self.on_threads():
            for launch in self._launches[first:end]:
                launch()

    def times(self, repeats: int, beside: Launch | None = None) -> tuple[list[list[float]], list[float]]:
        """Seconds of each call, in turns with the whole model if `beside` runs that: `repeats` times each."""
        clock = time.perf_counter
        samples: list[list[float]] = [[] for _ in self._launches]
        whole = []
        with self.on_threads():
            for _ in range(max(1, repeats)):
                if beside is not None:
                    start = clock()
                    beside()
                    whole.append(clock() - start)
                for launch, seconds in zip(self._launches, samples, strict=True):
                    start = clock()
                    launch()
                    seconds.append(clock() - start)
        return samples, whole

    def alone(self, index: int, repeats: int) -> list[float]:
        """Seconds of one call, run again and again: what it reads is in the caches. What it overwrites of that is put back before each."""
        call, launch, clock = self.calls[index], self._launches[index], time.perf_counter
        own = [source for source in call.sources if any(source.overlaps(target) for target in call.destinations)]
        kept = [self.bytes(source).copy() for source in own]
        seconds = []
        with self.on_threads():
            for number in range(max(1, repeats) + 1):
                for source, content in zip(own, kept, strict=True):
                    self.bytes(source)[:] = content
                start = clock()
                launch()
                if number:  # the first one warms up
                    seconds.append(clock() - start)
        return seconds

    def bytes(self, operand: Operand) -> np.ndarray:
        """The memory of an operand."""
        return self.arrays[operand.argument].reshape(-1).view(np.uint8)[operand.offset : operand.end]

    def main(self) -> Launch:
        """What runs the whole of `@main`, in memory of its own beside that of the calls."""
        arrays = [*self.inputs, *map(np.zeros_like, self.outputs), self.weights, aligned_empty(self.workspace.nbytes)]
        function, addresses = self._code.packed_function("main", len(arrays)), [address(array) for array in arrays]

        def run() -> None:
            function(*addresses)

        run.keep = arrays  # type: ignore[attr-defined]
        return run


def calls_of(text: str) -> list[Call]:
    """The calls of @main, from the text of a model at level affine. Raises IRError for a @main that is more than a list of calls."""
    context = make_context()
    with context:
        return kernel_calls(parse_module(text, context, "affine").operation)


def check_same(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Raise CodegenError unless a replay gave what the model gives, bit by bit: its times would be of other work. More outputs are hidden ones."""
    for mine, other in zip(got, expected, strict=False):
        if not np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f"):
            raise CodegenError("the replayed calls give another result than the model: their times would not be of the same work")
