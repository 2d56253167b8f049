"""A model that is compiled when it is run: for each combination of input shapes, and of those input values that compilation needs."""

import collections
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from stepwell import checks
from stepwell.dialects.support.errors import InputError, LimitError, ModelWarning, StepwellError, UnsupportedError, shown, warn_caller
from stepwell.dialects.support.limits import KNOWN_ELEMENTS
from stepwell.dialects.support.names import printable_keys
from stepwell.dialects.support.processes import Lock
from stepwell.driver.background import Job, submit
from stepwell.driver.bound import BoundModel
from stepwell.driver.pairs import ContradictionError, Sizes, check_pairs, check_sizes, sizes_without_code, usual_pairs
from stepwell.runtime.about import About
from stepwell.runtime.general import GeneralProgram
from stepwell.runtime.model import Arrays, CompiledModel, Memory, as_array, as_dtype, names_error, unpicklable
from stepwell.runtime.weights import WeightPool, Weights, beyond
from stepwell.signature import OPTIONAL, SEQUENCE, UNRANKED, Shape, TensorInfo, shape_of

Shapes = Mapping[str, Shape]
Made: TypeAlias = "CompiledModel | DynamicModel"
_Key: TypeAlias = tuple[tuple[Shape, ...], tuple[bytes, ...]]

AFTER = 3
"""The number of calls after which a shape combination gets its own specialised version."""
REMEMBERED = 64
"""The number of recent combinations, run by the shape-polymorphic program, whose calls are counted."""
LEAST_BYTES = 64 << 20
"""The default limit, in bytes, for weights of specialised versions: those of small models cannot be shared."""


@dataclass
class _Entry:
    """The model for a combination, and the inputs that it takes, by index: inputs with known values are part of its code.

    For a sequence or an optional, it takes the tensors in it separately: the second number is the tensor's index, or None for the input as a whole.
    """

    model: Made
    places: tuple[tuple[int, int | None], ...]
    calls: int = 1

    def arrays(self, given: Sequence[Any]) -> list[np.ndarray]:
        """The arrays to pass to it, from the given inputs."""
        return [given[place] if part is None or isinstance(given[place], np.ndarray) else given[place][part] for place, part in self.places]


@dataclass(frozen=True)
class Specialisation:
    """How a combination is run: its state is "general", "compiling", "specialised" or "failed"."""

    shapes: tuple[Shape, ...]
    """The shapes of the inputs that code is specialised for, in order."""
    state: str
    error: Exception | None = None
    """Why there is no specialised version, if it failed."""
    own_weights_bytes: int = 0
    """The bytes of the version's weights that no other program of the model reads."""


InBackground: TypeAlias = Callable[[Shapes, Arrays, Callable[[Made], None], Callable[[Exception], None]], Job]
"""Creates the background job that specialises one combination. The callbacks receive the finished model or the exception."""


class DynamicModel:
    """A model with the interface of `CompiledModel`, over one such model for each combination of input shapes.

    `compile_shapes` compiles for the shapes of all inputs and the arrays of those in `values`, both by name. The compiled model takes the other
    inputs, and may be a DynamicModel again. At most `capacity` models are kept, and at most `capacity_bytes` of weights beyond those of the
    shape-polymorphic program; the least recently used model is dropped first. Safe to call from several threads; a call waits for a combination that
    another thread is compiling.

    With a shape-polymorphic `program`, new combinations are run by it if it supports them; with `background`, a specialised version is compiled for a
    combination on its third call, and replaces the program when it is ready.

    `timings`, `kernels`, `memory` and `ir` are those of the most recently used model; before there is one, those of the program, except for `memory`
    and `threads`.
    """

    def __init__(
        self, *, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], compile_shapes: Callable[[Shapes, Arrays], Made], capacity: int = 8,
        values: Mapping[str, str] | None = None, by_shape: bool = True, program: Callable[[Any, Arrays], CompiledModel | None] | None = None,
        about: About | None = None, background: InBackground | None = None, why_not_general: str = "",
        compile_bound: Callable[[Mapping[str, str]], GeneralProgram | None] | None = None, compile_apart: Callable[[], Made] | None = None,
        capacity_bytes: int | None = None, pool: WeightPool | None = None, weights: Weights | None = None, sizes: Sizes | None = None,
    ) -> None:  # fmt: skip
        """`values` gives, for each input whose values code is specialised for, the reason. Unless `by_shape`, shapes of other inputs do not matter.

        Without a `program`, `why_not_general` may give the reason. `compile_bound` makes the program for `bind`. `about` is the description of the
        program, and `sizes` computes by its code. `compile_apart` makes the model for sizes that contradict the names of dimensions. `pool` has the
        weights of all programs, `weights` those of the shape-polymorphic program; `capacity_bytes` defaults to the size of these, at least
        `LEAST_BYTES`, and is unbounded without such a program.
        """
        if not isinstance(capacity, int) or capacity < 1:
            raise InputError(f"capacity: expected at least 1 model to keep, got {shown(capacity)}")
        if capacity_bytes is not None and (not isinstance(capacity_bytes, int) or capacity_bytes < 0):
            raise InputError(f"capacity_bytes: expected a number of bytes from 0, got {shown(capacity_bytes)}")
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.capacity = capacity
        self.capacity_bytes = max(weights.nbytes, LEAST_BYTES) if capacity_bytes is None and weights is not None else capacity_bytes
        """How many bytes of weights combinations with code of their own may hold beside those of the program for all; None for any number."""
        self._pool = WeightPool() if pool is None else pool
        self._weights = weights
        self.values = dict(values or {})
        self.by_shape = by_shape
        self.why_not_general = why_not_general
        self._compile = compile_shapes
        self._program = program
        self.sizes = partial(sizes_without_code, self.inputs) if sizes is None else sizes
        """Computes sizes of inputs and outputs from values of symbols."""
        self._about = about
        self._background = background
        self._compile_bound = compile_bound
        self._compile_apart = compile_apart
        self._apart: Made | None = None
        self._apart_turn = Lock()
        self._warned = False
        self._keyed = [i for i, info in enumerate(self.inputs) if by_shape or info.form or info.name in self.values]
        self._valued = [i for i, info in enumerate(self.inputs) if info.name in self.values]
        self._plain = len(self._keyed) == len(self.inputs) and not self._valued and not self._structured
        self._dtypes = [info.dtype for info in self.inputs]
        self._models: collections.OrderedDict[_Key, _Entry] = collections.OrderedDict()
        self._general: collections.OrderedDict[_Key, _Entry] = collections.OrderedDict()
        self._jobs: dict[_Key, Job] = {}
        self._dropped: collections.OrderedDict[_Key, int] = collections.OrderedDict()
        self._failed: collections.OrderedDict[_Key, Exception] = collections.OrderedDict()
        self._last: _Entry | None = None
        weakref.finalize(self, _cancel, self._jobs).atexit = False
        self._lock = Lock()
        self._compiling: dict[_Key, Lock] = {}
        self._binding: dict[tuple[tuple[str, str], ...], Lock] = {}
        self._bound: dict[tuple[tuple[str, str], ...], GeneralProgram | None] = {}

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs in the model's order; compiles if these shapes are new. Raises InputError if an array does not fit."""
        if len(arrays) != len(self.inputs):
            names = ", ".join(info.name for info in self.inputs) or "none"
            raise InputError(f"expected {len(self.inputs)} inputs ({names}), got {len(arrays)}")
        shapes = self._plain_shapes(arrays)
        if shapes is not None:
            return self._entry_for((shapes, ()), shapes, {}).model(*arrays)
        fitting = [_fit(info, array) for info, array in zip(self.inputs, arrays, strict=True)]
        entry = self._entry(fitting)
        return entry.model(*entry.arrays(fitting))

    def run(self, inputs: Mapping[str, np.ndarray], *, out: Mapping[str, np.ndarray] | None = None) -> Arrays:
        """Run on inputs by name; compiles if these shapes are new. Like `CompiledModel.run`."""
        names = [info.name for info in self.inputs]
        if isinstance(inputs, Mapping):
            inputs = printable_keys(inputs)
        if not isinstance(inputs, Mapping) or set(inputs) != set(names):
            raise names_error(inputs, names, "input")
        fitting = [_fit(info, inputs[info.name]) for info in self.inputs]
        entry = self._entry(fitting)
        return entry.model.run(dict(zip((info.name for info in entry.model.inputs), entry.arrays(fitting), strict=True)), out=out)

    def specialise(self, shapes: Shapes, values: Mapping[str, np.ndarray] | None = None) -> Made:
        """The model for these input shapes and values by name, compiled if necessary.

        Inputs without dynamic dimensions may be omitted from `shapes`, and so may inputs with values; `values` are required for inputs whose values
        code is specialised for. With a shape-polymorphic program and specialise="auto", this is a specialised version.
        """
        checks.shapes("shapes", shapes)
        if values is not None:
            checks.arrays("values", values)
        names = [info.name for info in self.inputs]
        for given, known in ((shapes, names), (values or {}, list(self.values))):
            if set(given) - set(known):
                raise names_error({**dict.fromkeys(known), **given}, known, "input")
        arrays = {info.name: _fit(info, values[info.name]) for info in self.inputs if values is not None and info.name in values}
        found: list[Shape] = []
        for info in self.inputs:
            if info.name in self.values and info.name not in arrays:
                raise InputError(f"input '{info.name}': expected values, got none: {self.values[info.name]}")
            if info.form:
                if info.name not in shapes:
                    raise InputError(f"input '{info.name}': expected the shapes of {info}, got none")
                found.append(self._keyed_by(info, shapes[info.name]))
                continue
            sizes = shapes.get(info.name)
            shape = tuple(sizes) if sizes is not None else arrays[info.name].shape if info.name in arrays else info.shape
            if info.name in arrays and shape != arrays[info.name].shape:
                raise InputError(f"input '{info.name}': expected values of the shape given, {shape}, got {arrays[info.name].shape}")
            if (self.by_shape or sizes is not None) and not all(isinstance(size, int) for size in shape):
                raise InputError(f"input '{info.name}': expected a shape for {info}, got none")
            found.append(shape)
        return self._made(found, arrays, own=self._background is not None).model

    def bind(self, pairs: Mapping[str, str] | None = None) -> BoundModel:
        """This model with a state: the output of each of `pairs` becomes the paired input of the next call.

        `pairs` maps names of inputs to those of outputs; by default, inputs and outputs with the usual names of caches are paired (`usual_pairs`).
        Compiles, unless that was done before: if an output is its input with something appended, only the new part is written, into the same memory
        (docs/sizes.md). Each call of `bind` creates a new state. Raises InputError for pairs that do not fit.
        """
        if pairs is not None:
            checks.bound_names("bind", pairs)
        chosen = check_pairs(usual_pairs(self.inputs, self.outputs) if pairs is None else pairs, self.inputs, self.outputs)
        if chosen.keys() & self.values.keys():
            name = next(name for name in chosen if name in self.values)
            raise InputError(f"bind: expected an input of which no values have to be known, got '{name}': {self.values[name]}")
        key = tuple(chosen.items())
        with self._lock:
            turn = self._binding.setdefault(key, Lock())
        with turn:
            if key not in self._bound:
                self._bound[key] = None if self._compile_bound is None else self._compile_bound(chosen)
        return BoundModel(self, chosen, self._bound[key])

    def __copy__(self) -> "DynamicModel":
        """A model that shares the immutable code and weights, and counts its own calls."""
        made = DynamicModel(
            inputs=self.inputs, outputs=self.outputs, compile_shapes=self._compile, capacity=self.capacity, values=self.values,
            by_shape=self.by_shape, program=self._program, about=self._about, background=self._background,
            why_not_general=self.why_not_general, compile_bound=self._compile_bound, compile_apart=self._compile_apart,
            pool=self._pool, weights=self._weights, sizes=self.sizes,
        )  # fmt: skip
        made.capacity_bytes = self.capacity_bytes
        made._apart, made._warned = self._apart, self._warned
        with self._lock:
            for table, own in ((self._models, made._models), (self._general, made._general)):
                for key, entry in table.items():
                    own[key] = replace(entry)
                    made._last = own[key] if entry is self._last else made._last
            made._bound.update(self._bound)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> "DynamicModel":
        return self.__copy__()

    def __reduce__(self) -> str:
        raise unpicklable("a compiled model")

    @property
    def _structured(self) -> bool:
        """Whether inputs are sequences or optionals."""
        return any(info.form for info in self.inputs)

    @property
    def general(self) -> bool:
        """Whether there is a shape-polymorphic program; if not, `why_not_general` gives the reason, if one was requested."""
        return self._program is not None

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """How the last combinations are run."""
        with self._lock:
            own = [_specialisation(key, entry, self._apart) for key, entry in self._models.items()]
            busy = {key for key, job in self._jobs.items() if job.is_alive}
            others = [
                Specialisation(key[0], "compiling" if key in busy else "failed" if key in self._failed else "general", self._failed.get(key))
                for key in self._general
            ]
        return (*others, *own)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until no code is being compiled in the background for this model, at most `seconds`. Returns whether that is so."""
        end = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            waits: list[Callable[[float | None], bool]] = [job.wait for job in self._jobs.values() if job.is_alive]
            waits += [entry.model.settle for entry in self._models.values() if isinstance(entry.model, DynamicModel)]
        return all(wait(None if end is None else max(0.0, end - time.monotonic())) for wait in waits)

    @property
    def threads(self) -> int:
        return self._latest().threads

    @property
    def timings(self) -> dict[str, float]:
        return dict(self._current().timings)

    @property
    def kernels(self) -> int:
        return self._current().kernels

    @property
    def memory(self) -> Memory:
        return self._latest().memory

    @property
    def weights_bytes(self) -> int:
        """The bytes of memory for the weights of all its programs; shared weights count once."""
        return self._pool.held_bytes

    def ir(self, level: str) -> str:
        """The text of the most recently used model, or else of the program, at `level`."""
        return self._current().ir(level)

    def _current(self) -> "Made | About":
        """The model or description with information about its code."""
        return self._about if self._about is not None and self._last is None else self._latest()

    def _latest(self) -> Made:
        with self._lock:
            if self._last is None:
                open_ones = [
                    f"'{info.name}' {info}" for info in self.inputs
                    if info.form or info.name in self.values or not all(isinstance(size, int) for size in info.shape)
                ]
                reasons = [("free dimensions", True), ("values that code is made for", self.values), ("no fixed number", self._structured)]
                what = ", or ".join(text for text, holds in reasons if holds)
                lacking = "nothing is compiled yet" if self._about is None else "not known before a run"
                raise InputError(f"{lacking}, as the inputs have {what} ({', '.join(open_ones)}): run the model or give shapes")
            return self._last.model

    def _plain_shapes(self, arrays: Sequence[Any]) -> tuple[Shape, ...] | None:
        """The shapes of arrays, if these have exactly the inputs' types and only shapes matter for code; else None.

        Most calls are like this, and a small model takes a few microseconds, so nothing else is computed for such arrays.
        """
        if not self._plain:
            return None
        shapes = []
        for array, dtype in zip(arrays, self._dtypes, strict=True):
            if type(array) is not np.ndarray or array.dtype is not dtype:
                return None
            shapes.append(array.shape)
        return tuple(shapes)

    def _entry(self, arrays: Sequence[np.ndarray]) -> _Entry:
        """The entry that runs these arrays."""
        shapes = [self._keyed_by(info, shape_of(array)) for info, array in zip(self.inputs, arrays, strict=True)]
        key = (tuple(shapes[i] for i in self._keyed), tuple(arrays[i].tobytes() for i in self._valued))
        return self._entry_for(key, shapes, {self.inputs[i].name: arrays[i] for i in self._valued})

    def _entry_for(self, key: _Key, shapes: Sequence[Shape], values: Arrays) -> _Entry:
        """The entry that runs a combination: the previous one, if it exists."""
        with self._lock:
            kept = self._models if key in self._models else self._general
            entry: _Entry | None = kept.get(key)
            if entry is not None:
                kept.move_to_end(key)
                self._last = entry
                entry.calls += 1
                due = kept is self._general and entry.calls >= AFTER << self._dropped.get(key, 0) and self._is_open(key)
        if entry is None:
            return self._made(shapes, values)
        if due:
            self._ask(key, shapes, values)
        return entry

    def _keyed_by(self, info: TensorInfo, shape: Shape) -> Shape:
        """The part of an input's shape that code depends on: for sequences and optionals the number and ranks of their tensors, except by shape."""
        if not info.form or shape is None:
            return shape
        parts = tuple(tuple(part) if isinstance(part, (tuple, list)) else part for part in shape)
        return parts if self.by_shape else tuple((None,) * len(part) if isinstance(part, tuple) else None for part in parts)

    def _is_open(self, key: _Key) -> bool:
        """Whether code for a combination may be requested. A job of a parent process does not count."""
        if self._background is None or key in self._failed:
            return False
        alive = [other for other, job in self._jobs.items() if job.is_alive]
        return key not in alive and len(alive) < self.capacity

    def _ask(self, key: _Key, shapes: Sequence[Shape], values: Arrays) -> None:
        """Request specialised code for a combination that the general program has run."""
        # The job must not keep this model alive, whose end cancels it.
        here = weakref.ref(self)

        def done(model: Made) -> None:
            owner = here()
            if owner is not None:
                entry = owner._entry_of(model)
                held = owner._beyond([entry])
                if held:
                    most = f"more than {owner.capacity_bytes} (capacity_bytes of the model)"
                    failed(LimitError(f"code of its own has {held} bytes of weights beside those of the program for all sizes, {most}"))
                else:
                    owner._keep(key, entry)

        def failed(error: Exception) -> None:
            owner = here()
            if owner is not None:
                with owner._lock:
                    owner._failed[key] = error
                    while len(owner._failed) > REMEMBERED:
                        owner._failed.popitem(last=False)

        assert self._background is not None
        given = {name: array.copy() for name, array in values.items()}
        job = self._background({self.inputs[i].name: shapes[i] for i in self._keyed}, given, done, failed)
        try:
            with self._lock:
                if not self._is_open(key):  # another thread was here
                    return
                for old in [other for other, made in self._jobs.items() if not made.is_alive]:
                    del self._jobs[old]
                self._jobs[key] = job
            submit(job)
        except BaseException:  # raised by a signal handler: nobody may wait for the job
            job.drop()
            raise

    def _keep(self, key: _Key, entry: _Entry) -> None:
        """Use this entry for a combination from now on."""
        with self._lock:
            before = self._general.pop(key, None)
            if before is not None and before is self._last:
                self._last = entry
            self._models[key] = entry
            self._models.move_to_end(key)
            while len(self._models) > self.capacity or (len(self._models) > 1 and self._beyond(self._models.values())):
                gone, _ = self._models.popitem(last=False)
                self._dropped[gone] = min(self._dropped.pop(gone, 0) + 1, 20)
                while len(self._dropped) > REMEMBERED:
                    self._dropped.popitem(last=False)

    def _beyond(self, entries: Iterable[_Entry]) -> int:
        """The bytes of weights of specialised versions, if they exceed the limit; else 0."""
        if self.capacity_bytes is None:
            return 0
        held = beyond((weights for entry in entries if entry.model is not self._apart for weights in _weights_of(entry.model)), self._weights)
        return held if held > self.capacity_bytes else 0

    def _entry_of(self, model: Made) -> _Entry:
        places = {info.name: i for i, info in enumerate(self.inputs)}
        taken: list[tuple[int, int | None]] = []
        for info in model.inputs:
            whole, _, number = info.name.rpartition(".")
            taken.append((places[info.name], None) if info.name in places else (places[whole], int(number)))
        return _Entry(model, tuple(taken))

    def _made(self, shapes: Sequence[Shape], values: Arrays, *, own: bool = False) -> _Entry:
        """The model for a combination, compiled if it does not exist; `own` demands a specialised version."""
        key = (tuple(shapes[i] for i in self._keyed), tuple(values[self.inputs[i].name].tobytes() for i in self._valued))
        try:
            self.check(shapes)
        except ContradictionError as error:
            return self._with_distinct_names(error, key, shapes, values, own=own)
        for name, array in values.items():
            if array.size > KNOWN_ELEMENTS:
                most = f"its values must be known, of which at most {KNOWN_ELEMENTS} may be"
                raise UnsupportedError(f"input '{name}': {most}, got {array.size}: {self.values[name]}")
        named = {self.inputs[i].name: shapes[i] for i in self._keyed}
        found = None if self._program is None or own else self._program(named, values)
        if found is not None:
            shared = self._entry_of(found)
            with self._lock:
                self._last = self._general[key] = shared
                while len(self._general) > REMEMBERED:
                    self._general.popitem(last=False)
            return shared
        with self._lock:
            turn = self._compiling.setdefault(key, Lock())
        with turn:
            with self._lock:
                entry = self._models.get(key)
            if entry is None:
                try:
                    entry = self._entry_of(self._compile(named, values))
                finally:
                    with self._lock:
                        self._compiling.pop(key, None)
            self._keep(key, entry)
            self._last = entry
        return entry

    def _with_distinct_names(self, error: ContradictionError, key: _Key, shapes: Sequence[Shape], values: Arrays, *, own: bool) -> _Entry:
        """The entry for sizes that contradict the names of dimensions, as from `_made`: a model in which each dimension has its own symbol.

        If that model runs them, the names are wrong, which is reported as a ModelWarning once; otherwise the sizes are wrong, which is the error.
        """
        if self._compile_apart is None:
            raise error
        with self._apart_turn:
            try:
                apart = self._apart = self._apart or self._compile_apart()
                if not isinstance(apart, DynamicModel) or apart.values.keys() != self.values.keys():
                    raise error
                entry = apart._made(shapes, values, own=own)
            except StepwellError as problem:
                raise error from (None if problem is error else problem)
        if not self._warned:
            self._warned = True
            warn_caller(ModelWarning(f"{error.args[0]}: equal names of dimensions are told apart, and each has a size of its own"))
        if not own:
            self._keep(key, self._entry_of(apart))
        self._last = entry
        return entry

    def check(self, shapes: Sequence[Shape]) -> None:
        """Raise InputError if shapes, of all inputs, do not fit the model's, or give one symbol two sizes."""
        check_sizes(self.inputs, shapes, self.sizes)


def _specialisation(key: _Key, entry: _Entry, apart: "Made | None") -> Specialisation:
    own = sum(weights.own_bytes for weights in _weights_of(entry.model))
    return Specialisation(key[0], "general" if entry.model is apart else "specialised", own_weights_bytes=own)


def _weights_of(model: Made) -> Iterator[Weights]:
    """The weights of a model, and of all models kept in it."""
    if isinstance(model, CompiledModel):
        yield model.weights
    else:
        for entry in list(model._models.values()):
            yield from _weights_of(entry.model)


def _cancel(jobs: Mapping[_Key, Job]) -> None:
    for job in list(jobs.values()):
        job.cancel()


def _fit(info: TensorInfo, value: Any) -> Any:
    """`value` as an array of the input's dtype; for a sequence a list of arrays, for an optional perhaps None.

    Checked here, so that nothing is compiled for an invalid array.
    """
    what = f"input '{info.name}'"
    if not info.form:
        return as_dtype(what, info, as_array(what, info, value))
    if value is None and OPTIONAL in info.form:
        return None
    if SEQUENCE not in info.form:
        return _fitting(what, info, value)
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{what}: expected {info}, a list of arrays, got {'None' if value is None else f'a {type(value).__name__}'}")
    return [_fitting(f"{what}, element {i}", info, array) for i, array in enumerate(value)]


def _fitting(what: str, info: TensorInfo, value: Any) -> np.ndarray:
    """An array in a sequence or an optional, which has their element type."""
    tensor = replace(info, form=())
    array = as_dtype(what, tensor, as_array(what, tensor, value))
    fits = len(array.shape) == len(info.shape) and all(size is None or size == came for size, came in zip(info.shape, array.shape, strict=True))
    if info.shape != UNRANKED and not fits:
        raise InputError(f"{what}: expected {tensor}, got shape {'x'.join(map(str, array.shape)) or '() (a scalar)'}")
    return array
