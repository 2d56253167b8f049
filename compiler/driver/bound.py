"""A model with a state: outputs of one call that are inputs of the next, caches that grow among them."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from stepwell.dialects.core.layout import Room, evaluator
from stepwell.dialects.core.sizes import Size, parse
from stepwell.dialects.support.errors import InputError, LimitError
from stepwell.driver.general import GeneralProgram
from stepwell.runtime.buffers import aligned_empty
from stepwell.runtime.infos import TensorInfo
from stepwell.runtime.model import Arrays, IndexChecks, as_array, as_dtype, names_error
from stepwell.runtime.results import Results

LEAST = 64
"""Elements along its axis that memory for a cache has room for at least."""


class Model(Protocol):
    """What can be given a state."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name, from inputs by name."""

    def check(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise InputError if shapes, of all inputs, do not fit the model's, or give one symbol two sizes."""


@dataclass
class _Cache:
    """An input that is given what an output has in memory with room for more."""

    taker: int
    giver: int
    axis: int
    capacity: str
    """The symbol of how much there is room for."""
    memory: np.ndarray
    length: int = 0
    """How much is there along the axis."""

    def valid(self) -> np.ndarray:
        """The part that was written."""
        return self.memory[(*[slice(None)] * self.axis, slice(0, self.length))]


class BoundModel:
    """A model that keeps a state from call to call: made by `bind` of a model.

    A call takes the other inputs and gives the other outputs. The state begins empty: along dimensions whose size no other input says it has no
    elements, and others are zeros; `reset` begins anew. It is for one thread at a time, others get an InputError; any number of
    them share one model, its code and its weights. After an error the state is what it was before the call.
    """

    def __init__(self, model: Model, pairs: Mapping[str, str], program: GeneralProgram | None) -> None:
        """`pairs` maps inputs to outputs, by name. `program` is one in which those that can share memory."""
        self.pairs = dict(pairs)
        self.inputs = tuple(info for info in model.inputs if info.name not in pairs)
        """The inputs that a call takes."""
        self.outputs = tuple(info for info in model.outputs if info.name not in pairs.values())
        """The outputs that a call gives."""
        self._model = model
        self._numbers = {info.name: i for i, info in enumerate(model.inputs)}
        self._open = [i for i, info in enumerate(model.inputs) if info.name not in pairs]
        self._given = [i for i, info in enumerate(model.outputs) if info.name not in pairs.values()]
        givers = {info.name: i for i, info in enumerate(model.outputs)}
        self._pairs = [(self._numbers[taker], givers[giver]) for taker, giver in pairs.items()]
        self._growing = {} if program is None else _growing(model, program, self._pairs)
        self._program = program if self._growing else None
        self._state: dict[int, np.ndarray] = {}
        self._caches: list[_Cache] = []
        self._before: list[_Cache] = []
        """Those before the last `reset`, whose memory is used again."""
        self._busy = threading.Lock()
        self._results = Results()
        self._room: Room | None = None
        self._fitting: tuple[tuple[int, ...], ...] | None = None
        """The shapes of inputs that have no room for more, in the last call."""
        known = [] if program is None else list(program.general.symbols)
        self._lengths = dict(self._growing.values())  # of what is there -> of how much there is room for
        symbols = [name for name in known if name not in self._lengths.values()]
        self._after = {
            i: evaluator([parse(str(model.outputs[giver].shape[self._axis(i)]))], symbols) for i, giver in self._pairs if i in self._growing
        }
        self._symbols = symbols
        shown = [parse(size) for i in self._open for size in model.inputs[i].shape if isinstance(size, str)]
        self._follows = any(isinstance(size, Size) and not self._lengths.keys().isdisjoint(size.symbols) for size in shown)
        """Whether a size of another input follows from how much is there."""

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs that are no state, in the model's order; gives the outputs that are none. Raises as the model's call."""
        if len(arrays) != len(self.inputs):
            names = ", ".join(info.name for info in self.inputs) or "none"
            raise InputError(f"expected {len(self.inputs)} inputs ({names}), got {len(arrays)}")
        return self._run([_fit(info, array) for info, array in zip(self.inputs, arrays, strict=True)])

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Run on the inputs that are no state, by name; gives the outputs that are none, by name. Raises as the model's `run`."""
        names = [info.name for info in self.inputs]
        if not isinstance(inputs, Mapping) or set(inputs) != set(names):
            raise names_error(inputs, names, "input")
        results = self._run([_fit(info, inputs[info.name]) for info in self.inputs])
        return {info.name: result for info, result in zip(self.outputs, results, strict=True)}

    @property
    def state(self) -> Arrays:
        """The state, by the names of inputs: views of its memory, which the next call may write to or leave; empty before the first call."""
        caches = {cache.taker: cache.valid() for cache in self._caches}
        found = {**self._state, **caches}
        views = {self._model.inputs[taker].name: found[taker].view() for taker, _ in self._pairs if taker in found}
        for view in views.values():
            view.flags.writeable = False
        return views

    def reset(self, state: Mapping[str, np.ndarray] | None = None) -> None:
        """Begin anew, with a `state` by the names of inputs, of which a copy is made, or an empty one. Raises InputError if it does not fit."""
        with _Turn(self._busy):
            self._fitting = None
            self._before = self._caches or self._before
            if state is None:
                self._state, self._caches = {}, []
                return
            if not isinstance(state, Mapping) or set(state) != set(self.pairs):
                raise names_error(state, list(self.pairs), "state")
            fitting = {name: _fit(self._model.inputs[self._numbers[name]], array) for name, array in state.items()}
            for name, array in fitting.items():
                info = self._model.inputs[self._numbers[name]]
                if array.ndim != len(info.shape) or any(isinstance(size, int) and size != n for size, n in zip(info.shape, array.shape, strict=True)):
                    raise InputError(f"state '{name}': expected {info}, got shape {'x'.join(map(str, array.shape)) or '() (a scalar)'}")
            self._take({self._numbers[name]: array for name, array in fitting.items()})

    def _take(self, state: Mapping[int, np.ndarray]) -> None:
        """Make copies of arrays the state."""
        self._state = {taker: array.copy() for taker, array in state.items() if taker not in self._growing}
        caches = []
        for taker, giver in self._pairs:
            if taker in self._growing:
                axis, array = self._axis(taker), state[taker]
                memory = self._spare(taker, array.shape)
                if memory is None:
                    memory = self._memory(taker, [_room(n) if i == axis else n for i, n in enumerate(array.shape)], array.shape[axis])
                cache = _Cache(taker, giver, axis, self._growing[taker][1], memory, array.shape[axis])
                cache.valid()[...] = array
                caches.append(cache)
        self._caches = caches

    def _spare(self, taker: int, shape: Sequence[int]) -> np.ndarray | None:
        """Memory of the state before that has room for a cache of this shape."""
        axis = self._axis(taker)
        for cache in self._before:
            have = cache.memory.shape
            if cache.taker == taker and have[axis] >= shape[axis] and all(i == axis or have[i] == n for i, n in enumerate(shape)):
                return cache.memory
        return None

    def _axis(self, taker: int) -> int:
        """The axis along which a cache grows."""
        return list(self._model.inputs[taker].shape).index(self._growing[taker][0])

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with _Turn(self._busy):
            if not self._state and not self._caches and self._pairs:
                self._take(self._empty([array.shape for array in arrays]))
            if self._program is None:
                return self._run_apart(arrays)
            return self._run_sharing(self._program, arrays)

    def _empty(self, shapes: Sequence[tuple[int, ...]]) -> dict[int, np.ndarray]:
        """The state before the first call, for inputs of these shapes: what no other input says the size of has no elements."""
        values: dict[str, int] = {}
        for number, shape in zip(self._open, shapes, strict=True):
            values.update({size: n for size, n in zip(self._model.inputs[number].shape, shape, strict=False) if isinstance(size, str)})
        made = {}
        for taker, _ in self._pairs:
            info = self._model.inputs[taker]
            made[taker] = np.zeros([size if isinstance(size, int) else values.get(str(size), 0) for size in info.shape], info.dtype)
        return made

    def _run_apart(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A call of the model itself: the state is handed over as arrays."""
        infos = self._model.inputs
        feed = {infos[i].name: array for i, array in [*zip(self._open, arrays, strict=True), *self._state.items()]}
        results = list(self._model.run(feed).values())
        self._state = {taker: results[giver] for taker, giver in self._pairs}
        return [results[i] for i in self._given]

    def _run_sharing(self, program: GeneralProgram, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A call of the program that writes to caches."""
        whole: dict[int, np.ndarray] = {**dict(zip(self._open, arrays, strict=True)), **self._state}
        shapes = {i: array.shape for i, array in whole.items()}
        for cache in self._caches:
            shapes[cache.taker] = tuple(cache.length if i == cache.axis else n for i, n in enumerate(cache.memory.shape))
        values = self._values(shapes)
        ends = [int(self._after[cache.taker](**values)[0]) for cache in self._caches]
        self._grow(ends)
        values.update({cache.capacity: cache.memory.shape[cache.axis] for cache in self._caches})
        # Places are computed for as much as there is room for, so that they stay the same from token to token.
        spans = {self._growing[cache.taker]: end for cache, end in zip(self._caches, ends, strict=True)}
        later = {length: max(values[capacity] - (end - values[length]), values[length]) for (length, capacity), end in spans.items()}
        self._room = program.room_for({**values, **later}, self._room)
        prepared = program.prepared(values, self._room)
        if prepared is None:
            return self._run_outside(whole)
        for cache in self._caches:
            whole[cache.taker] = cache.memory
        lengths = np.array([values[name] for name in program.general.elements[-1] if name is not None], np.int64)
        given = [np.require(whole[i], requirements=("C", "A")) for i in range(len(whole))]
        shared = {cache.giver: cache.memory for cache in self._caches}
        self._results.begin()
        results: list[Any] = [
            shared[i] if i in shared else None if late(shape) else self._results.empty(cast(tuple[int, ...], shape), info.dtype)
            for i, (info, shape) in enumerate(zip(program.outputs, prepared.shapes, strict=True))
        ]
        checks = IndexChecks(prepared.checks)
        hidden = checks.buffer()
        every = [*results, *checks.parts(hidden)]
        told = prepared.executable.run([*given, lengths], every)
        checks.raise_any(hidden, told)
        for cache, end in zip(self._caches, ends, strict=True):
            cache.length = end
        if any(cache.length != spans[self._growing[cache.taker]] for cache in self._caches):
            self._fitting = None  # they did not grow in step
        self._state = {taker: every[giver] for taker, giver in self._pairs if taker in self._state}
        return [every[i] for i in self._given]

    def _values(self, shapes: Mapping[int, tuple[int, ...]]) -> dict[str, int]:
        """What the symbols are, from the shapes of all inputs. Raises InputError where these do not fit."""
        fixed = tuple(shapes[i] for i in range(len(shapes)) if i not in self._growing)
        if self._follows or fixed != self._fitting:  # else only caches have grown, all in step
            self._model.check([shapes[i] for i in range(len(shapes))])
            self._fitting = fixed
        values: dict[str, int] = {}
        for i, info in enumerate(self._model.inputs):
            values.update({size: n for size, n in zip(info.shape, shapes[i], strict=True) if isinstance(size, str)})
        return {name: values[name] for name in self._symbols}

    def _run_outside(self, whole: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """A call with sizes that the program does not take: that of the model, on copies."""
        whole = {**whole, **{cache.taker: cache.valid() for cache in self._caches}}
        infos = self._model.inputs
        results = list(self._model.run({infos[i].name: np.ascontiguousarray(array) for i, array in whole.items()}).values())
        self._take({taker: results[giver] for taker, giver in self._pairs})
        return [results[i] for i in self._given]

    def _grow(self, ends: Sequence[int]) -> None:
        """Give each cache memory for so many elements along its axis; what is there is copied when it has grown to twice the size."""
        for cache, end in zip(self._caches, ends, strict=True):
            have = cache.memory.shape[cache.axis]
            if end > have:
                memory = self._memory(cache.taker, [_room(end) if i == cache.axis else n for i, n in enumerate(cache.memory.shape)], end)
                before, cache.memory = cache.valid(), memory
                cache.valid()[...] = before

    def _memory(self, taker: int, shape: Sequence[int], least: int | None = None) -> np.ndarray:
        """Memory for a cache, with less room, but for `least`, if it would be larger than a value may be. Raises LimitError."""
        info, axis = self._model.inputs[taker], self._axis(taker)
        most = math.inf if self._program is None else self._program.general.most_value_bytes
        if _bytes(shape, info) > most and least is not None:
            shape = [least if i == axis else n for i, n in enumerate(shape)]
        if _bytes(shape, info) > most:
            what = f"state '{info.name}': {shape[axis]} elements along dimension {axis} would take {_bytes(shape, info)} bytes"
            raise LimitError(f"{what}, more than {most} (limit value_bytes)")
        return aligned_empty(_bytes(shape, info)).view(info.dtype).reshape(shape)


class _Turn:
    """Holds a lock, or says that another thread does."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InputError("the state is used by another thread; expected one thread at a time, others bind the model for a state of their own")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _growing(model: Model, program: GeneralProgram, pairs: Sequence[tuple[int, int]]) -> dict[int, tuple[str, str]]:
    """For each input that is memory with room for more, the symbols of how much is there, and of how much there is room for."""
    found = {}
    for taker, _ in pairs:
        before, now = model.inputs[taker].shape, program.inputs[taker].shape
        other = [(a, b) for a, b in zip(before, now, strict=True) if a != b]
        if other:
            found[taker] = (str(other[0][0]), str(other[0][1]))
    return found


def _room(needed: int) -> int:
    """For how many elements there is to be room. What is not written to yet takes no memory of the machine."""
    return max(2 * needed, LEAST)


def late(shape: Sequence[int | str | None]) -> bool:
    """Whether only a run tells one of these sizes."""
    return not all(isinstance(size, int) for size in shape)


def _bytes(shape: Sequence[int], info: TensorInfo) -> int:
    return math.prod(shape) * info.dtype.itemsize


def _fit(info: TensorInfo, value: Any) -> np.ndarray:
    what = f"input '{info.name}'"
    return as_dtype(what, info, as_array(what, info, value))
