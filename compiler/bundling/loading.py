"""`stepwell.load`: runs a bundle through its interface in C."""

import collections
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stepwell.arguments import checked
from stepwell.bundling.interface import ALLOCATE, MAX_RANK, Interface, Tensor
from stepwell.bundling.manifest import Manifest, read_manifest
from stepwell.dialects.support.buffers import address
from stepwell.dialects.support.errors import InputError, ModelError, StepwellError
from stepwell.dialects.target.cores import thread_count
from stepwell.runtime.about import InMemory
from stepwell.runtime.fitting import as_tensor, by_name, class_text, count_error, names_error
from stepwell.runtime.model import Arrays
from stepwell.signature import TensorInfo, shape_text

if TYPE_CHECKING:
    import ctypes


Run: TypeAlias = Callable[[Sequence[object], Mapping[str, np.ndarray]], list[np.ndarray]]
"""A function of the inputs in the model's order and of outputs to write to by name, which returns the outputs in the model's order."""


class BundledModel(InMemory):
    """A loaded bundle, with the interface of `CompiledModel`. Safe to call from several threads at once, unless it has a state.

    Each concurrent call has a context of its own, with a workspace and threads; the weights are shared.
    """

    kind = "a loaded bundle"

    def __init__(self, folder: Path, manifest: Manifest, threads: int, *, verify: bool, copied: bool) -> None:
        self.folder, self.manifest = folder, manifest
        self.name = manifest.name
        self.threads = threads
        """The number of threads of a run; it holds for contexts that are made later."""
        self.inputs, self.outputs = (tuple(entry.info for entry in side) for side in (manifest.inputs, manifest.outputs))
        self.keeps_state = bool(manifest.state)
        self._contexts: collections.deque[_Context] = collections.deque()
        self._interface = Interface(folder / f"lib{self.name}.so", self.name)
        weights = manifest.weights
        try:
            self._model = self._interface.open(None if weights is None else os.fsencode(folder / weights.file), verify=verify, copied=copied)
        except StepwellError:
            self._interface.unload()
            raise

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs in the model's order; returns the outputs in the model's order.

        Raises InputError if an array does not fit, IndexRangeError if an index is out of range, LimitError if a run needs more than the limits,
        ResourceError if memory runs out, ModelError if the weights are damaged.
        """
        if len(arrays) != len(self.inputs):
            raise count_error(self.inputs, arrays)
        return self._run(arrays, {})

    def run(self, inputs: Mapping[str, np.ndarray], *, out: Mapping[str, np.ndarray] | None = None) -> Arrays:
        """Run on inputs by name; returns outputs by name. `out` has arrays to write to, by name. Raises like a call."""
        return self._by_name(self._run, inputs, out)

    def stream_runner(self, threads: int, *, spins: bool) -> "_ContextRunner":
        """A stream has a context of its own. Its state, if there is one, is empty at first."""
        return _ContextRunner(self, threads, spins=spins)

    def _by_name(self, run: "Run", inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None) -> Arrays:
        given = by_name(inputs, [info.name for info in self.inputs])
        names = [info.name for info in self.outputs]
        if out is not None and (not isinstance(out, Mapping) or set(out) - set(names)):
            raise names_error(out, names, "output", some=True)
        results = run([given[info.name] for info in self.inputs], dict(out or {}))
        return dict(zip(names, results, strict=True))

    def reset(self) -> None:
        """Forget the state that the model keeps from run to run."""
        for context in self._contexts:
            self._interface.reset(context.handle)

    def verify(self) -> None:
        """Compare the digest of the weights now. Raises ModelError if it is another one."""
        self._interface.verify(self._model)

    def close(self) -> None:
        """Free the model and its contexts, and unload the library. No run may be going on, and none may follow."""
        while self._contexts:
            self._contexts.pop().close()
        if self._model:
            self._interface.close(self._model)
            self._model.value = None
            self._interface.unload()

    @property
    def context_bytes(self) -> int:
        """The bytes of memory of each context."""
        context = self._taken()
        try:
            return self._interface.context_bytes(context.handle)
        finally:
            self._contexts.append(context)

    def __del__(self) -> None:
        if hasattr(self, "_model"):
            self.close()

    def _run(self, arrays: Sequence[object], out: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        context = self._taken()
        try:
            return self._run_in(context, arrays, out)
        finally:
            self._contexts.append(context)

    def _run_in(self, context: "_Context", arrays: Sequence[object], out: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        fitting = [as_tensor(f"input '{info.name}'", info, array) for info, array in zip(self.inputs, arrays, strict=True)]
        given = [np.require(array, requirements=("C", "A")) for array in fitting]
        results: list[np.ndarray | None] = [_destination(info, out[info.name]) if info.name in out else _result(info) for info in self.outputs]
        return context.run(given, results)

    def _taken(self) -> "_Context":
        try:
            return self._contexts.pop()
        except IndexError:
            return _Context(self, self._interface, self.threads)


class _Context:
    """A context, and the structures for its calls. Used by one thread at a time."""

    def __init__(self, model: BundledModel, interface: Interface, threads: int, *, spins: bool = True) -> None:
        self._outputs = model.outputs
        self._made: dict[int, np.ndarray] = {}
        self._failed: BaseException | None = None
        self._allocate = ALLOCATE(self._array)
        self._interface = interface
        self.handle = interface.context(model._model, threads, self._allocate, spins=spins)
        self._ins, self._outs = (Tensor * max(len(model.inputs), 1))(), (Tensor * max(len(model.outputs), 1))()
        self._numbers = [entry.onnx_dtype for entry in model.manifest.inputs]

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Run; returns the outputs, with new arrays for those that are None."""
        for tensor, array, number in zip(self._ins, inputs, self._numbers, strict=False):
            if array.ndim > MAX_RANK:
                raise InputError(f"expected arrays of at most {MAX_RANK} dimensions, got one of {array.ndim}")
            tensor.data, tensor.bytes, tensor.dtype, tensor.rank = address(array), array.nbytes, number, array.ndim
            tensor.shape[: array.ndim] = array.shape
        for tensor, given in zip(self._outs, outputs, strict=False):
            tensor.data, tensor.bytes = (None, 0) if given is None else (address(given), given.nbytes)
        self._made, self._failed = {}, None
        status = self._interface.run(self.handle, self._ins, self._outs)
        made, self._made = self._made, {}
        if self._failed is not None:
            raise self._failed
        if status:
            raise self._interface.error(status, self.handle)
        return [given if given is not None else made[number] if number in made else self._empty(number) for number, given in enumerate(outputs)]

    def _empty(self, number: int) -> np.ndarray:
        """The output with that number, which has no elements: no memory was asked for."""
        tensor = self._outs[number]
        return np.empty(tuple(tensor.shape[: tensor.rank]), self._outputs[number].dtype)

    def _array(self, _user: int, number: int, tensor: "ctypes._Pointer[Tensor]") -> int | None:
        """Memory for an output of the shape that a run has found."""
        try:
            wanted = tensor.contents
            self._made[number] = np.empty(tuple(wanted.shape[: wanted.rank]), self._outputs[number].dtype)
            return address(self._made[number])
        except BaseException as error:  # Python cannot raise it through compiled code
            self._failed = error
            return None

    def close(self) -> None:
        """Free it."""
        self._interface.context_free(self.handle)


class _ContextRunner:
    """Runs a bundle for one stream: see `Runner`."""

    def __init__(self, model: BundledModel, threads: int, *, spins: bool) -> None:
        self._interface = model._interface
        self._context: _Context | None = _Context(model, self._interface, threads, spins=spins)
        self._run = functools.partial(model._by_name, functools.partial(model._run_in, self._context))

    def enter(self) -> None:
        """See `Runner`. The threads of a context are its own, whatever thread uses it."""

    def run(self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None) -> Arrays:
        """See `Runner`."""
        return self._run(inputs, out)

    def stop(self) -> None:
        """See `Runner`."""
        if self._context is not None:
            self._interface.cancel(self._context.handle)

    def go_on(self) -> None:
        """See `Runner`. The next run takes it back by itself."""

    def reset(self) -> None:
        """See `Runner`."""
        if self._context is not None:
            self._interface.reset(self._context.handle)

    def close(self) -> None:
        """See `Runner`."""
        context, self._context = self._context, None
        if context is not None:
            context.close()

    @property
    def workspace_bytes(self) -> int:
        """See `Runner`."""
        return 0 if self._context is None else self._interface.context_bytes(self._context.handle)


@checked
def load(folder: str | os.PathLike[str], *, threads: int | None = None, verify: bool = True, copied: bool = False) -> BundledModel:
    """Load a bundle that `stepwell.bundle` has written, with a shared library.

    `verify` compares the digest of its weights before the first run. With `copied`, the weights are copied into memory of large pages instead of
    mapped from their file, which processes share: networks that read many weights are then faster.

    Raises ModelError if it is none or is damaged, UnsupportedError if it is for another machine.
    """
    path = Path(folder)
    manifest = read_manifest(path)
    if f"lib{manifest.name}.so" not in manifest.files:
        raise ModelError(f"{path}: expected a bundle with a shared library (--kind shared), got {', '.join(manifest.files)}")
    return BundledModel(path, manifest, thread_count(threads), verify=verify, copied=copied)


def _result(info: TensorInfo) -> np.ndarray | None:
    """An array for an output of known sizes."""
    sizes = [size for size in info.shape if isinstance(size, int)]
    return np.empty(sizes, info.dtype) if len(sizes) == len(info.shape) else None


def _destination(info: TensorInfo, array: object) -> np.ndarray:
    """An array to write to. Raises InputError if it does not fit."""
    what = f"output '{info.name}'"
    if not isinstance(array, np.ndarray) or array.dtype != info.dtype or not info.fits(array.shape):
        came = f"{array.dtype.name}[{shape_text(array.shape)}]" if isinstance(array, np.ndarray) else class_text(array)
        raise InputError(f"{what}: expected {info} to write to, got {came}")
    if not (array.flags.c_contiguous and array.flags.aligned and array.flags.writeable):
        raise InputError(f"{what}: expected a contiguous, aligned, writeable array to write to, got one that is not")
    return array
