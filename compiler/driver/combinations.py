"""The shape combinations of a model with dynamic shapes: the program that runs each, the number of calls, and the jobs that specialise it."""

import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeAlias, TypeVar

import numpy as np

from stepwell.dialects.support.errors import InputError, LimitError, shown
from stepwell.dialects.support.processes import Lock
from stepwell.driver.background import Job, submit
from stepwell.runtime.about import Described
from stepwell.runtime.model import Arrays, CompiledModel
from stepwell.runtime.weights import Weights, beyond
from stepwell.signature import Shape, TensorInfo

K = TypeVar("K")
V = TypeVar("V")
M = TypeVar("M")
Shapes = Mapping[str, Shape]
Key: TypeAlias = tuple[tuple[Shape, ...], tuple[bytes, ...]]
"""A combination: the shapes of the inputs that code is specialised for, and the bytes of those whose values it is specialised for."""
InBackground: TypeAlias = Callable[[Shapes, Arrays, Callable[[M], None], Callable[[Exception], None]], Job]
"""Creates the background job that specialises one combination. The callbacks receive the finished model or the exception."""

AFTER = 3
"""The number of calls after which a shape combination gets its own specialised version."""
REMEMBERED = 64
"""The number of recent combinations, run by the shape-polymorphic program, whose calls are counted."""
LEAST_BYTES = 64 << 20
"""The default limit, in bytes, for weights of specialised versions: those of small models cannot be shared."""


class _Recent(OrderedDict[K, V]):
    """The last `REMEMBERED` entries."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > REMEMBERED:
            self.popitem(last=False)


@dataclass
class Entry(Generic[M]):
    """The model for a combination, and the inputs that it takes, by index: inputs with known values are part of its code.

    For a sequence or an optional, it takes the tensors in it separately: the second number is the tensor's index, or None for the input as a whole.
    """

    model: M
    places: tuple[tuple[int, int | None], ...]
    is_shared: bool = False
    """Whether it is no specialised version, but a model that runs other combinations too, and bounds its weights itself."""
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


class Combinations(Described, Generic[M]):
    """The table of a model's combinations, each of which a model of type `M` runs. Safe to use from several threads.

    `capacity` and `capacity_bytes` bound the specialised versions; the least recently used one is dropped first.
    """

    def __init__(
        self, inputs: Sequence[TensorInfo], *, values: Mapping[str, str], by_shape: bool, capacity: int, capacity_bytes: int | None,
        weights: Weights | None, background: InBackground[M] | None,
    ) -> None:  # fmt: skip
        """`values` and `by_shape` are as in `DynamicModel`. `weights` are those of the shape-polymorphic program, if there is one.

        With `background`, a specialised version is compiled for a combination that this program has run `AFTER` times. Raises InputError.
        """
        if not isinstance(capacity, int) or capacity < 1:
            raise InputError(f"capacity: expected at least 1 model to keep, got {shown(capacity)}")
        if capacity_bytes is not None and (not isinstance(capacity_bytes, int) or capacity_bytes < 0):
            raise InputError(f"capacity_bytes: expected a number of bytes from 0, got {shown(capacity_bytes)}")
        self.inputs = tuple(inputs)
        self.values = dict(values)
        self.by_shape = by_shape
        self.capacity = capacity
        """How many specialised versions are kept."""
        self.capacity_bytes = max(weights.nbytes, LEAST_BYTES) if capacity_bytes is None and weights is not None else capacity_bytes
        """How many bytes of weights specialised versions may hold beside those of the shape-polymorphic program; None for any number."""
        self._weights = weights
        self._background = background
        self._keyed = [i for i, info in enumerate(self.inputs) if by_shape or info.form or info.name in self.values]
        self._valued = [i for i, info in enumerate(self.inputs) if info.name in self.values]
        self._clear()

    def _clear(self) -> None:
        """Begin with an empty table."""
        self._models: OrderedDict[Key, Entry[M]] = OrderedDict()
        """Specialised versions, and shared models other than the shape-polymorphic program."""
        self._general: _Recent[Key, Entry[M]] = _Recent()
        self._jobs: dict[Key, Job] = {}
        self._dropped: _Recent[Key, int] = _Recent()
        """How many times the version of a combination has been dropped."""
        self._failed: _Recent[Key, Exception] = _Recent()
        self._last: Entry[M] | None = None
        self._compiling: dict[Key, Lock] = {}
        self._lock = Lock()
        weakref.finalize(self, _cancel, self._jobs).atexit = False

    def __copy__(self) -> Self:
        """A model that shares the immutable code and weights, and counts its own calls."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._clear()
        with self._lock:
            for table, own in ((self._models, made._models), (self._general, made._general)):
                for key, entry in table.items():
                    own[key] = replace(entry)
                    made._last = own[key] if entry is self._last else made._last
        return made

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """How the last combinations are run."""
        with self._lock:
            busy = {key for key, job in self._jobs.items() if job.is_alive}
            others = [
                Specialisation(key[0], "compiling" if key in busy else "failed" if key in self._failed else "general", self._failed.get(key))
                for key in self._general
            ]
            own = [
                Specialisation(
                    key[0], "general" if entry.is_shared else "specialised", None, sum(weights.own_bytes for weights in _weights_of(entry.model))
                )
                for key, entry in self._models.items()
            ]  # fmt: skip
        return (*others, *own)

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until no code is being compiled in the background for this model, at most `seconds`. Returns whether that is so."""
        end = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            waits: list[Callable[[float | None], bool]] = [job.wait for job in self._jobs.values() if job.is_alive]
            waits += [entry.model.settle for entry in self._models.values() if isinstance(entry.model, Combinations)]
        return all(wait(None if end is None else max(0.0, end - time.monotonic())) for wait in waits)

    def _key(self, shapes: Sequence[Shape], values: Arrays) -> Key:
        """The combination of these shapes of all inputs, and these values of those that need them."""
        return tuple(shapes[i] for i in self._keyed), tuple(values[self.inputs[i].name].tobytes() for i in self._valued)

    def _named(self, shapes: Sequence[Shape]) -> dict[str, Any]:
        """The shapes of the inputs that code is specialised for, by name."""
        return {self.inputs[i].name: shapes[i] for i in self._keyed}

    def _is_open(self, key: Key) -> bool:
        """Whether code for a combination may be requested. A job of a parent process does not count."""
        if self._background is None or key in self._failed:
            return False
        alive = [other for other, job in self._jobs.items() if job.is_alive]
        return key not in alive and len(alive) < self.capacity

    def _request(self, key: Key, shapes: Sequence[Shape], values: Arrays) -> None:
        """Request a specialised version for a combination that the general program has run."""
        # The job must not keep this model alive, whose end cancels it.
        here = weakref.ref(self)

        def done(model: M) -> None:
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

        assert self._background is not None
        job = self._background(self._named(shapes), {name: array.copy() for name, array in values.items()}, done, failed)
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

    def _entry_of(self, model: M, *, is_shared: bool = False) -> Entry[M]:
        """The entry for a model, from the names of its inputs."""
        places = {info.name: i for i, info in enumerate(self.inputs)}
        taken: list[tuple[int, int | None]] = []
        for info in model.inputs:  # type: ignore[attr-defined]  # all kinds of models have inputs
            whole, _, number = info.name.rpartition(".")
            taken.append((places[info.name], None) if info.name in places else (places[whole], int(number)))
        return Entry(model, tuple(taken), is_shared)

    def _specialised(self, key: Key, compile: Callable[[], M]) -> Entry[M]:
        """The specialised version of a combination, compiled if it does not exist; waits for a thread that is compiling it."""
        with self._lock:
            turn = self._compiling.setdefault(key, Lock())
        with turn:
            with self._lock:
                entry = self._models.get(key)
            if entry is None:
                try:
                    entry = self._entry_of(compile())
                finally:
                    with self._lock:
                        self._compiling.pop(key, None)
            self._keep(key, entry)
        return entry

    def _keep(self, key: Key, entry: Entry[M]) -> None:
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

    def _beyond(self, entries: Iterable[Entry[M]]) -> int:
        """The bytes of weights of specialised versions, if they exceed the limit; else 0."""
        if self.capacity_bytes is None:
            return 0
        held = beyond((weights for entry in entries if not entry.is_shared for weights in _weights_of(entry.model)), self._weights)
        return held if held > self.capacity_bytes else 0


def _weights_of(model: object) -> Iterator[Weights]:
    """The weights of a model, and of all models kept in it."""
    if isinstance(model, CompiledModel):
        yield model.weights
    elif isinstance(model, Combinations):
        for entry in list(model._models.values()):
            yield from _weights_of(entry.model)


def _cancel(jobs: Mapping[Key, Job]) -> None:
    for job in list(jobs.values()):
        job.cancel()
