"""A model with state: outputs of one call that are inputs of the next, including growing KV caches."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.support.errors import InputError, LimitError
from stepwell.dialects.support.processes import Turn
from stepwell.driver.pairs import Sizes, check_sizes
from stepwell.runtime.about import InMemory
from stepwell.runtime.fitting import as_tensor, by_name, count_error
from stepwell.runtime.general import GeneralProgram
from stepwell.runtime.model import Arrays
from stepwell.runtime.results import Results
from stepwell.runtime.serving.requests import Runner
from stepwell.runtime.serving.streams import ContextRunner
from stepwell.signature import TensorInfo

R = TypeVar("R")
LEAST = 64
"""The smallest capacity of a cache, in elements along its axis."""


class Model(Protocol):
    """The interface of a model that can be given a state."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name, from inputs by name."""

    @property
    def sizes(self) -> Sizes:
        """Computes sizes of inputs and outputs, by their texts, from values of symbols."""

    def check(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise InputError if shapes, of all inputs, do not fit the model's, or give one symbol two sizes."""


@dataclass(frozen=True)
class _Cache:
    """A state tensor (such as a KV cache) in a buffer with spare capacity: an output that is fed back as an input.

    Its length is part of the state.
    """

    taker: int
    giver: int
    axis: int
    capacity: str
    """The symbol of its capacity."""
    memory: np.ndarray

    def first(self, length: int) -> np.ndarray:
        """The first `length` elements along the axis."""
        return self.memory[(*[slice(None)] * self.axis, slice(0, length))]


class _State(NamedTuple):
    """The state of a model. It is replaced as a whole, by one assignment, so that an exception at any moment leaves a consistent state."""

    is_begun: bool = False
    """Whether there is a state; otherwise the first call begins with one that fits its inputs."""
    arrays: Mapping[int, np.ndarray] = {}
    """Arrays that are passed on, by the indices of inputs."""
    caches: tuple[_Cache, ...] = ()
    lengths: tuple[int, ...] = ()
    """The length of each cache along its axis."""
    spare: tuple[_Cache, ...] = ()
    """The caches before the last `reset`, whose memory is reused."""
    fitting: tuple[tuple[int, ...], ...] | None = None
    """The shapes of the inputs without spare capacity in the last call; None if the next call must check all shapes."""

    def valid(self) -> dict[int, np.ndarray]:
        """The valid part of each cache, by the indices of inputs."""
        return {cache.taker: cache.first(length) for cache, length in zip(self.caches, self.lengths, strict=True)}


class BoundModel(InMemory):
    """A model that keeps a state from call to call, created by `bind` of a model.

    A call takes the other inputs and returns the other outputs. The state begins empty: dimensions whose size follows from no other input have no
    elements, and others are zeros; `reset` starts over. Use it from one thread at a time; other threads get an InputError. Several bound models may
    share one model, its code and its weights. After an error the state is the one before the call. `copy.copy` returns a model with an independent
    copy of the state.
    """

    kind = "a model with a state"
    keeps_state = True

    def __init__(self, model: Model, pairs: Mapping[str, str], program: GeneralProgram | None) -> None:
        """`pairs` maps inputs to outputs, by name. `program` is one in which paired tensors can share memory."""
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
        self._growing = {} if program is None else growing_caches(model.inputs, program.inputs, [taker for taker, _ in self._pairs])
        self._program = program if self._growing else None
        self._state = _State()
        self._turn = Turn()
        self._results = Results()
        known = [] if program is None else list(program.general.symbols)
        self._lengths = dict(self._growing.values())  # maps the length symbol to the capacity symbol
        symbols = [name for name in known if name not in self._lengths.values()]
        self._after = {i: str(model.outputs[giver].shape[self._axis(i)]) for i, giver in self._pairs if i in self._growing}
        self._symbols = symbols
        shown = [parse(size) for i in self._open for size in model.inputs[i].shape if isinstance(size, str)]
        self._follows = any(isinstance(size, Size) and not self._lengths.keys().isdisjoint(size.symbols) for size in shown)
        """Whether a size of another input follows from how much is there."""

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs that are not state, in the model's order; returns the outputs that are not state. Raises like the model's call."""
        if len(arrays) != len(self.inputs):
            raise count_error(self.inputs, arrays)
        return self._run([_fit(info, array) for info, array in zip(self.inputs, arrays, strict=True)])

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Run on the inputs that are not state, by name; returns the outputs that are not state, by name. Raises like the model's `run`."""
        given = by_name(inputs, [info.name for info in self.inputs])
        results = self._run([_fit(info, given[info.name]) for info in self.inputs])
        return {info.name: result for info, result in zip(self.outputs, results, strict=True)}

    @property
    def state(self) -> Arrays:
        """The state, by the names of inputs: views of its memory, which the next call may overwrite or release; empty before the first call."""
        state = self._state
        found = {**state.arrays, **state.valid()}
        views = {self._model.inputs[taker].name: found[taker].view() for taker, _ in self._pairs if taker in found}
        for view in views.values():
            view.flags.writeable = False
        return views

    def reset(self, state: Mapping[str, np.ndarray] | None = None) -> None:
        """Start over with a copy of `state`, by the names of inputs, or with an empty state.

        `state` may come from the property `state`. Raises InputError if it does not fit the model or its parts do not fit each other, LimitError if
        it is too large; the state is then unchanged.
        """
        self._alone(lambda: self._reset(state))

    def __copy__(self) -> "BoundModel":
        return self._alone(self._copied)

    def stream_runner(self, threads: int, *, spins: bool) -> Runner:
        """A stream begins with a copy of the state of now; the next caller after `Streams.release` begins with an empty one."""
        own = copy.copy(self)
        return ContextRunner(own.run, threads, spins=spins, reset=own.reset)

    def _alone(self, call: Callable[[], R]) -> R:
        """The result of a call that excludes all concurrent ones."""
        expected = "expected one thread at a time, others bind the model for a state of their own"
        return self._turn.alone(call, InputError(f"the state is used by another thread; {expected}"))

    def _reset(self, state: Mapping[str, np.ndarray] | None) -> None:
        before = self._state
        if state is None:
            self._state = _State(spare=before.caches or before.spare)
            return
        given = by_name(state, list(self.pairs), "state")
        infos = [self._model.inputs[taker] for taker, _ in self._pairs]
        fitting = [_fit(info, given[info.name], "state") for info in infos]
        check_sizes(infos, [array.shape for array in fitting], self._model.sizes, "state")
        self._state = self._taken({taker: array for (taker, _), array in zip(self._pairs, fitting, strict=True)}, before.spare)

    def _copied(self) -> "BoundModel":
        made, state = BoundModel(self._model, self.pairs, self._program), self._state
        arrays = {taker: array.copy() for taker, array in state.arrays.items()}
        caches = [replace(cache, memory=self._memory(cache.taker, cache.memory.shape)) for cache in state.caches]
        for cache, before, length in zip(caches, state.caches, state.lengths, strict=True):
            cache.first(length)[...] = before.first(length)
        made._state = state._replace(arrays=arrays, caches=tuple(caches), spare=())
        return made

    def _taken(self, state: Mapping[int, np.ndarray], spare: Sequence[_Cache]) -> _State:
        """A state with copies of arrays, in memory of the caches `spare` if that is large enough."""
        caches, used = [], []
        for taker, giver in self._pairs:
            if taker in self._growing:
                axis, shape = self._axis(taker), state[taker].shape
                memory = self._spare(spare, taker, shape)
                if memory is not None:
                    used.append(memory)
                else:
                    memory = self._memory(taker, [_room(n) if i == axis else n for i, n in enumerate(shape)], shape[axis])
                caches.append(_Cache(taker, giver, axis, self._growing[taker][1], memory))
        # Views of the state before `reset` may be passed, even for other inputs.
        given = {i: array.copy() if any(np.may_share_memory(array, memory) for memory in used) else array for i, array in state.items()}
        lengths = [given[cache.taker].shape[cache.axis] for cache in caches]
        for cache, length in zip(caches, lengths, strict=True):
            cache.first(length)[...] = given[cache.taker]
        return _State(True, {i: array.copy() for i, array in state.items() if i not in self._growing}, tuple(caches), tuple(lengths))

    def _spare(self, spare: Sequence[_Cache], taker: int, shape: Sequence[int]) -> np.ndarray | None:
        """Memory of one of the caches `spare` that is large enough for a cache of this shape."""
        axis = self._axis(taker)
        for cache in spare:
            have = cache.memory.shape
            if cache.taker == taker and have[axis] >= shape[axis] and all(i == axis or have[i] == n for i, n in enumerate(shape)):
                return cache.memory
        return None

    def _axis(self, taker: int) -> int:
        """The axis along which a cache grows."""
        return list(self._model.inputs[taker].shape).index(self._growing[taker][0])

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._alone(lambda: self._run_alone(arrays))

    def _run_alone(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        state = self._state
        if not state.is_begun:  # a new state is kept only if the call succeeds
            state = self._taken(self._empty([array.shape for array in arrays]), state.spare)
        whole = {**dict(zip(self._open, arrays, strict=True)), **state.arrays}
        return self._run_model(state, whole) if self._program is None else self._run_sharing(self._program, state, whole)

    def _empty(self, shapes: Sequence[tuple[int, ...]]) -> dict[int, np.ndarray]:
        """The state before the first call, for inputs of these shapes: dimensions whose size follows from no other input have no elements."""
        values: dict[str, int] = {}
        for number, shape in zip(self._open, shapes, strict=True):
            values.update({size: n for size, n in zip(self._model.inputs[number].shape, shape, strict=False) if isinstance(size, str)})
        made = {}
        for taker, _ in self._pairs:
            info = self._model.inputs[taker]
            made[taker] = np.zeros([size if isinstance(size, int) else values.get(str(size), 0) for size in info.shape], info.dtype)
        return made

    def _run_model(self, state: _State, whole: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """A call of the model itself, with the state passed as arrays: without a program, or with sizes that it does not support."""
        feed = {self._model.inputs[i].name: array for i, array in {**whole, **state.valid()}.items()}
        results = list(self._model.run(feed).values())
        handed = {taker: results[giver] for taker, giver in self._pairs}
        self._state = _State(True, handed) if self._program is None else self._taken(handed, state.spare)
        return [results[i] for i in self._given]

    def _run_sharing(self, program: GeneralProgram, state: _State, whole: dict[int, np.ndarray]) -> list[np.ndarray]:
        """A call of the program that writes to caches in place."""
        shapes = {i: array.shape for i, array in whole.items()}
        for cache, length in zip(state.caches, state.lengths, strict=True):
            shapes[cache.taker] = tuple(length if i == cache.axis else n for i, n in enumerate(cache.memory.shape))
        fixed = tuple(shapes[i] for i in range(len(shapes)) if i not in self._growing)
        values = self._values(shapes, fits=fixed == state.fitting and not self._follows)  # else only caches have grown, all in step
        sizes = self._model.sizes(values)
        ends = tuple([sizes[self._after[cache.taker]] for cache in state.caches])
        caches = self._grown(state, ends)
        if caches is not state.caches and self._state is state:
            self._state = state = state._replace(caches=caches)  # the same state with more capacity, even if the call fails
        values.update({cache.capacity: cache.memory.shape[cache.axis] for cache in caches})
        spans = {self._growing[cache.taker]: end for cache, end in zip(caches, ends, strict=True)}
        prepared = program.prepared(values)
        if prepared is None:
            return self._run_model(state, whole)
        for cache in caches:
            whole[cache.taker] = cache.memory
        lengths = np.array([values[name] for name in program.general.elements[-1] if name is not None], np.int64)
        given = [np.require(whole[i], requirements=("C", "A")) for i in range(len(whole))]
        shared = {cache.giver: cache.memory for cache in caches}
        self._results.begin()
        results: list[Any] = [
            shared[i] if i in shared
            else self._results.empty(cast(tuple[int, ...], shape), info.dtype) if all(isinstance(size, int) for size in shape)
            else None  # for a size that only the run tells
            for i, (info, shape) in enumerate(zip(program.outputs, prepared.shapes, strict=True))
        ]  # fmt: skip
        prepared.executable.run([*given, lengths], results)
        in_step = all(end == spans[self._growing[cache.taker]] for cache, end in zip(caches, ends, strict=True))
        handed = {taker: results[giver] for taker, giver in self._pairs if taker in state.arrays}
        self._state = _State(True, handed, caches, ends, (), fixed if in_step else None)
        return [results[i] for i in self._given]

    def _values(self, shapes: Mapping[int, tuple[int, ...]], *, fits: bool) -> dict[str, int]:
        """The values of the symbols, from the shapes of all inputs. Raises InputError if these do not fit, unless `fits` says that they do."""
        if not fits:
            self._model.check([shapes[i] for i in range(len(shapes))])
        values: dict[str, int] = {}
        for i, info in enumerate(self._model.inputs):
            values.update({size: n for size, n in zip(info.shape, shapes[i], strict=True) if isinstance(size, str)})
        return {name: values[name] for name in self._symbols}

    def _grown(self, state: _State, ends: Sequence[int]) -> tuple[_Cache, ...]:
        """The caches with memory for `ends` elements along their axes; the content is copied when a cache outgrows its capacity."""
        if all(end <= cache.memory.shape[cache.axis] for cache, end in zip(state.caches, ends, strict=True)):
            return state.caches
        found = []
        for cache, length, end in zip(state.caches, state.lengths, ends, strict=True):
            if end > cache.memory.shape[cache.axis]:
                shape = [_room(end) if i == cache.axis else n for i, n in enumerate(cache.memory.shape)]
                larger = replace(cache, memory=self._memory(cache.taker, shape, end))
                larger.first(length)[...] = cache.first(length)
                cache = larger
            found.append(cache)
        return tuple(found)

    def _memory(self, taker: int, shape: Sequence[int], least: int | None = None) -> np.ndarray:
        """Memory for a cache; its capacity is reduced, down to `least`, if it would exceed the limit for a value. Raises LimitError."""
        info, axis = self._model.inputs[taker], self._axis(taker)
        most = math.inf if self._program is None else self._program.general.most_value_bytes
        if _bytes(shape, info) > most and least is not None:
            shape = [least if i == axis else n for i, n in enumerate(shape)]
        if _bytes(shape, info) > most:
            what = f"state '{info.name}': {shape[axis]} elements along dimension {axis} would take {_bytes(shape, info)} bytes"
            raise LimitError(f"{what}, more than {most} (limit value_bytes)")
        return aligned_empty(_bytes(shape, info)).view(info.dtype).reshape(shape)


def growing_caches(before: Sequence[TensorInfo], now: Sequence[TensorInfo], takers: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Maps each of the inputs `takers` with spare capacity to its length symbol and its capacity symbol.

    `before` are the inputs of the model, `now` those of the program in which such an input shares memory with its output.
    """
    found = {}
    for taker in takers:
        other = [(a, b) for a, b in zip(before[taker].shape, now[taker].shape, strict=True) if a != b]
        if other:
            found[taker] = (str(other[0][0]), str(other[0][1]))
    return found


def _room(needed: int) -> int:
    """The capacity for `needed` elements. Memory that is not written to yet takes no physical memory."""
    return max(2 * needed, LEAST)


def _bytes(shape: Sequence[int], info: TensorInfo) -> int:
    return math.prod(shape) * info.dtype.itemsize


def _fit(info: TensorInfo, value: Any, kind: str = "input") -> np.ndarray:
    return as_tensor(f"{kind} '{info.name}'", info, value)
