"""A compiled model: checks arrays, runs a backend's code on them, and shows its IR, memory and timings."""

import bisect
import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stepwell.dialects.core.dtypes import plain_booleans
from stepwell.dialects.support.buffers import address
from stepwell.dialects.support.errors import InputError, ResourceError, SizesDifferError
from stepwell.dialects.support.names import ByName, printable_keys
from stepwell.runtime.about import About, Described
from stepwell.runtime.executable import Executable
from stepwell.runtime.fitting import as_array, as_dtype, class_text, count_error, names_error
from stepwell.runtime.weights import Weights
from stepwell.signature import OutputGroup, TensorInfo, gathered, shape_text

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Memory:
    """The memory of a model, in bytes."""

    weights_bytes: int
    """The bytes of all weights that it reads."""
    workspace_bytes: int
    """The bytes for each concurrent call."""
    own_weights_bytes: int
    """The bytes of weights that no other program of the same model reads."""


class CompiledModel(Described):
    """Code for a model of fixed shapes. Safe to call from several threads at once.

    Made by `stepwell.compile`. `executable` is what a backend loaded.
    """

    def __init__(
        self,
        *,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        executable: Executable,
        weights: Weights,
        workspace_bytes: int,
        about: About,
        objects: Mapping[str, bytes] | None = None,
        groups: Sequence[OutputGroup] = (),
        otherwise: "Callable[[SizesDifferError], Any] | None" = None,
    ) -> None:
        """`outputs` are the results of the code; `groups` the outputs that consist of several results, if some are no tensors.

        `otherwise` returns the model for a run whose sizes violate an assumption of the code.
        """
        rest = iter(outputs)
        self.inputs = tuple(inputs)
        self.outputs = tuple(group.described(rest) for group in groups) if groups else tuple(outputs)
        self._groups = tuple(groups)
        self.about = about
        """The description of its code."""
        self.objects = dict(objects or {})
        """The object of each function, `main` and kernels, so that one can be linked and called alone."""
        self.workspace_bytes = workspace_bytes
        self._names = tuple(info.name for info in self.inputs)
        self._results = tuple(outputs)
        self._out_names = frozenset(info.name for info in outputs)
        self._ins = [(_BooleanBinding if info.dtype == np.bool_ else _Binding)(info, "input") for info in self.inputs]
        self._outs = [_Binding(info, "output") for info in outputs]
        self._makers: list[Callable[[], Any]] = [binding.empty if binding.info.is_static else binding.unknown for binding in self._outs]
        # Counted here: a run of a small model takes a few microseconds, and each `zip` a third of one.
        self._fits = [(i, binding.fit) for i, binding in enumerate(self._ins)]
        self._numbered = [(i, info.name) for i, info in enumerate(self.outputs)]
        self._escaped = any("\\" in name for _, name in self._numbered)
        self.weights = weights
        """Its weights, and where they lie."""
        self._otherwise = otherwise
        self.executable = executable
        self._execute = executable.run

    def __copy__(self) -> "CompiledModel":
        """A model that shares code and weights, which never change, and has its own number of threads."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.executable = copy.copy(self.executable)
        made._execute = made.executable.run
        return made

    @property
    def threads(self) -> int:
        """The maximal number of cores for a run."""
        return self.executable.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self.executable.threads = count

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs in the model's order; returns the outputs in the model's order.

        Raises InputError if an array does not fit, IndexRangeError if an index, computed or given, is out of range,
        ResourceError if memory runs out.
        """
        if len(arrays) != len(self._ins):
            raise count_error(self.inputs, arrays)
        try:
            results = self._run(arrays, None)
        except SizesDifferError as error:
            if self._otherwise is None:
                raise
            return list(self._otherwise(error)(*arrays))
        return gathered(self._groups, results) if self._groups else results

    def run(self, inputs: Mapping[str, np.ndarray], *, out: Mapping[str, np.ndarray] | None = None) -> Arrays:
        """Run on inputs by name; returns outputs by name, in the model's order.

        `out` maps some or all outputs to arrays to write to: contiguous, writeable, of the right dtype and shape.
        Raises InputError for a missing or unknown name and for an array that does not fit, IndexRangeError for an index out of range;
        the content of `out` is then undefined.
        """
        try:
            arrays = [inputs[name] for name in self._names]
        except (KeyError, TypeError, IndexError):
            if isinstance(inputs, Mapping) and (ours := printable_keys(inputs)) is not inputs:
                return self.run(ours, out=out)
            raise names_error(inputs, self._names, "input") from None
        if len(inputs) != len(arrays):
            raise names_error(inputs, self._names, "input")
        try:
            results = self._run(arrays, out)
        except SizesDifferError as error:
            if self._otherwise is None:
                raise
            return cast(Arrays, self._otherwise(error).run(inputs, out=out))
        if self._groups:
            results = gathered(self._groups, results)
        found = {name: results[i] for i, name in self._numbered}
        return ByName(found) if self._escaped else found

    @property
    def memory(self) -> Memory:
        """The memory that it holds."""
        return Memory(self.weights.nbytes, self.workspace_bytes, self.weights.own_bytes)

    @property
    def _described(self) -> About:
        return self.about

    def _run(self, arrays: Sequence[Any], out: Mapping[str, np.ndarray] | None) -> list[np.ndarray]:
        try:
            given = [fit(arrays[i]) for i, fit in self._fits]
            if out is None:
                results = [make() for make in self._makers]
            else:
                results = self._destinations(out)
                spans = _spans(results)
                self._check_separate(spans)
                given = _separate(given, spans)
            self._execute(given, results)
        except MemoryError as error:
            sizes = f"{sum(binding.nbytes for binding in self._outs)} bytes of outputs and {self.workspace_bytes} of workspace"
            raise ResourceError(f"the run: out of memory, for {sizes}") from error
        return results

    def _destinations(self, out: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        names = self._out_names
        if not isinstance(out, Mapping) or not names.issuperset(out):
            whole = next((info for info in self.outputs if info.form and isinstance(out, Mapping) and info.name in out), None)
            if whole is not None:
                raise InputError(f"output '{whole.name}': expected no array to write to, since it is {whole}")
            raise names_error(out, [info.name for info in self._results], "output", some=True)
        makers = zip(self._outs, self._makers, strict=True)
        return [binding.check_destination(out[binding.info.name]) if binding.info.name in out else make() for binding, make in makers]

    def _check_separate(self, spans: list[tuple[int, int, int]]) -> None:
        """Raise InputError if two outputs share memory."""
        for (_, end, i), (start, _, j) in itertools.pairwise(spans):
            if start < end:
                one, other = (self._results[k].name for k in (max(i, j), min(i, j)))
                raise InputError(f"output '{one}': expected memory of its own, got memory shared with output '{other}'")


class _Binding:
    """Checks and converts the arrays for one input or output."""

    def __init__(self, info: TensorInfo, kind: str) -> None:
        self.info = info
        self.what = f"{kind} '{info.name}'"
        self.dtype = info.dtype
        self.shape = info.shape

    @property
    def nbytes(self) -> int:
        """Its bytes; 0 if its sizes are known only after a run."""
        return math.prod(cast(tuple[int, ...], self.shape)) * self.dtype.itemsize if self.info.is_static else 0

    def empty(self) -> np.ndarray:
        return np.empty(self.shape, self.dtype)  # type: ignore[arg-type]  # it is static

    def unknown(self) -> None:
        """The placeholder for the array until the run has made it."""

    def fit(self, array: Any) -> np.ndarray:
        """The array itself if the code can read it in place, else a copy. Raises InputError if its type or shape is wrong."""
        if type(array) is np.ndarray and array.dtype is self.dtype and array.shape == self.shape:  # the common case, in a third of the time
            flags = array.flags
            if flags.c_contiguous and flags.aligned:
                return array
        return self._converted(array)

    def _converted(self, array: Any) -> np.ndarray:
        array = as_array(self.what, self.info, array)
        if array.dtype != self.dtype:
            array = as_dtype(self.what, self.info, array)
        if array.shape != self.shape:
            raise InputError(f"{self.what}: expected {self.info}, got shape {shape_text(array.shape)}")
        return np.require(array, requirements=("C", "A"))

    def check_destination(self, array: Any) -> np.ndarray:
        if not isinstance(array, np.ndarray):
            raise InputError(f"{self.what}: expected an array {self.info} to write to, got {class_text(array)}")
        if not self.info.is_static:
            raise InputError(f"{self.what}: expected no array to write to, since only the run tells its size ({self.info})")
        if array.dtype != self.dtype or array.shape != self.shape:
            raise InputError(f"{self.what}: expected {self.info} to write to, got {array.dtype.name}[{shape_text(array.shape)}]")
        if not (array.flags.c_contiguous and array.flags.aligned and array.flags.writeable):
            raise InputError(f"{self.what}: expected a contiguous, aligned, writeable array to write to, got one that is not")
        return array


class _BooleanBinding(_Binding):
    """A boolean input."""

    def fit(self, array: Any) -> np.ndarray:
        return plain_booleans(super().fit(array))


def _spans(arrays: Sequence[np.ndarray]) -> list[tuple[int, int, int]]:
    """Start, end and index of each contiguous array, sorted by address; empty ones are skipped."""
    return sorted([(begin := address(array), begin + array.nbytes, i) for i, array in enumerate(arrays) if array is not None and array.nbytes])


def _separate(arrays: Sequence[np.ndarray], spans: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """`arrays`, copied if they overlap one of the results' spans, because these are written during the run. All are contiguous."""
    starts, ends = [span[0] for span in spans], [span[1] for span in spans]

    def is_shared(array: np.ndarray) -> bool:
        begin = address(array)
        next_one = bisect.bisect_right(ends, begin)  # the first that ends after the beginning of the array
        return next_one < len(starts) and starts[next_one] < begin + array.nbytes

    return [array.copy() if is_shared(array) else array for array in arrays]
