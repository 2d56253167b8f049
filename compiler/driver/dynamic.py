"""A model that is compiled when it is run: for each combination of input shapes, and of the values of inputs that must be known for that."""

import collections
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from stepwell.dialects.core.sizes import evaluated, parse
from stepwell.dialects.support.errors import InputError, UnsupportedError, shown
from stepwell.dialects.support.processes import Lock
from stepwell.driver.arguments import check_argument, check_shapes
from stepwell.runtime.model import Arrays, CompiledModel, Memory, TensorInfo, as_array, as_dtype, names_error

Shapes = Mapping[str, tuple[int, ...]]
Made: TypeAlias = "CompiledModel | DynamicModel"
_Key: TypeAlias = tuple[tuple[tuple[int, ...], ...], tuple[bytes, ...]]

MOST_ELEMENTS = 1024
"""Of an input whose values code is made for."""


@dataclass(frozen=True)
class _Entry:
    """What runs a combination, and which inputs it takes, by their numbers: those of known values are in its code."""

    model: Made
    places: tuple[int, ...]


class DynamicModel:
    """The interface of a `CompiledModel`, over one such model for each combination of input shapes.

    `compile_shapes` compiles for the shapes of all inputs and the arrays of those in `values`, both by name. What it returns takes the other
    inputs, and may be a DynamicModel again. At most `capacity` models are kept; the least recently
    used one is dropped first. Safe to call from several threads; a call waits for a combination that another thread is compiling.
    `timings`, `kernels`, `memory` and `ir` are those of the most recently used model.
    """

    def __init__(
        self, *, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], compile_shapes: Callable[[Shapes, Arrays], Made], capacity: int = 8,
        values: Mapping[str, str] | None = None, by_shape: bool = True,
    ) -> None:  # fmt: skip
        """`values` says for each input whose values code is made for, what needs them. Unless it is made `by_shape`, the shapes of the others
        do not matter."""
        if not isinstance(capacity, int) or capacity < 1:
            raise InputError(f"capacity: expected at least 1 model to keep, got {shown(capacity)}")
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.capacity = capacity
        self.values = dict(values or {})
        self.by_shape = by_shape
        self._compile = compile_shapes
        self._keyed = [i for i, info in enumerate(self.inputs) if by_shape or info.name in self.values]
        self._valued = [i for i, info in enumerate(self.inputs) if info.name in self.values]
        self._models: collections.OrderedDict[_Key, _Entry] = collections.OrderedDict()
        self._lock = Lock()
        self._compiling: dict[_Key, Lock] = {}

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs in the model's order; compiles if these shapes are new. Raises InputError if an array does not fit."""
        if len(arrays) != len(self.inputs):
            names = ", ".join(info.name for info in self.inputs) or "none"
            raise InputError(f"expected {len(self.inputs)} inputs ({names}), got {len(arrays)}")
        fitting = [_fit(info, array) for info, array in zip(self.inputs, arrays, strict=True)]
        entry = self._entry(fitting)
        return entry.model(*[fitting[place] for place in entry.places])

    def run(self, inputs: Mapping[str, np.ndarray], *, out: Mapping[str, np.ndarray] | None = None) -> Arrays:
        """Run on inputs by name; compiles if these shapes are new. Like `CompiledModel.run`."""
        names = [info.name for info in self.inputs]
        if not isinstance(inputs, Mapping) or set(inputs) != set(names):
            raise names_error(inputs, names, "input")
        fitting = [_fit(info, inputs[info.name]) for info in self.inputs]
        entry = self._entry(fitting)
        return entry.model.run({names[place]: fitting[place] for place in entry.places}, out=out)

    def specialise(self, shapes: Shapes, values: Mapping[str, np.ndarray] | None = None) -> Made:
        """The model for these input shapes and values by name, compiled if necessary. Inputs without free dimensions may be left out of `shapes`,
        inputs with values too; `values` are needed of those that code is made for the values of."""
        check_shapes("shapes", shapes)
        if values is not None:
            check_argument("values", values)
        names = [info.name for info in self.inputs]
        for given, known in ((shapes, names), (values or {}, list(self.values))):
            if set(given) - set(known):
                raise names_error({**dict.fromkeys(known), **given}, known, "input")
        arrays = {info.name: _fit(info, values[info.name]) for info in self.inputs if values is not None and info.name in values}
        found: list[tuple[int, ...]] = []
        for info in self.inputs:
            if info.name in self.values and info.name not in arrays:
                raise InputError(f"input '{info.name}': expected values, got none: {self.values[info.name]}")
            shape = tuple(shapes[info.name]) if info.name in shapes else arrays[info.name].shape if info.name in arrays else info.shape
            if info.name in arrays and shape != arrays[info.name].shape:
                raise InputError(f"input '{info.name}': expected values of the shape given, {shape}, got {arrays[info.name].shape}")
            if self.by_shape and not all(isinstance(size, int) for size in shape):
                raise InputError(f"input '{info.name}': expected a shape for {info}, got none")
            found.append(shape)  # type: ignore[arg-type]
        return self._made(found, arrays).model

    @property
    def threads(self) -> int:
        return self._latest().threads

    @property
    def timings(self) -> dict[str, float]:
        return self._latest().timings

    @property
    def kernels(self) -> int:
        return self._latest().kernels

    @property
    def memory(self) -> Memory:
        return self._latest().memory

    def ir(self, level: str) -> str:
        """The text of the most recently used model at `level`."""
        return self._latest().ir(level)

    def _latest(self) -> Made:
        with self._lock:
            if not self._models:
                open_ones = [f"'{info.name}' {info}" for info in self.inputs if info.name in self.values or not all(map(_is_number, info.shape))]
                what = "free dimensions" if not self.values else "free dimensions, or values that code is made for"
                raise InputError(f"nothing is compiled yet, as the inputs have {what} ({', '.join(open_ones)}): run the model or give shapes")
            return next(reversed(self._models.values())).model

    def _entry(self, arrays: Sequence[np.ndarray]) -> _Entry:
        """What runs these arrays."""
        key = (tuple(arrays[i].shape for i in self._keyed), tuple(arrays[i].tobytes() for i in self._valued))
        with self._lock:
            entry = self._models.get(key)
            if entry is not None:
                self._models.move_to_end(key)
                return entry
        return self._made([array.shape for array in arrays], {self.inputs[i].name: arrays[i] for i in self._valued})

    def _made(self, shapes: Sequence[tuple[int, ...]], values: Arrays) -> _Entry:
        """The model for a combination, compiled if it is not there."""
        key = (tuple(shapes[i] for i in self._keyed), tuple(values[self.inputs[i].name].tobytes() for i in self._valued))
        self._check(shapes)
        for name, array in values.items():
            if array.size > MOST_ELEMENTS:
                most = f"its values must be known, of which at most {MOST_ELEMENTS} may be"
                raise UnsupportedError(f"input '{name}': {most}, got {array.size}: {self.values[name]}")
        with self._lock:
            turn = self._compiling.setdefault(key, Lock())
        with turn:
            with self._lock:
                entry = self._models.get(key)
            if entry is None:
                try:
                    model = self._compile({self.inputs[i].name: shapes[i] for i in self._keyed}, values)
                finally:
                    with self._lock:
                        self._compiling.pop(key, None)
                taken = {info.name for info in model.inputs}
                entry = _Entry(model, tuple(i for i, info in enumerate(self.inputs) if info.name in taken))
            with self._lock:
                self._models[key] = entry
                self._models.move_to_end(key)
                while len(self._models) > self.capacity:
                    self._models.popitem(last=False)
        return entry

    def _check(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise InputError if shapes do not fit the model's, or give one symbol two sizes."""
        bound: dict[str, tuple[int, str]] = {}
        computed: list[tuple[TensorInfo, str, int]] = []
        for info, shape in zip(self.inputs, shapes, strict=True):
            fits: list[Any] = [size is None or isinstance(size, str) or size == came for size, came in zip(info.shape, shape, strict=False)]
            if len(shape) != len(info.shape) or not all(fits):
                raise InputError(f"input '{info.name}': expected {info}, got shape {'x'.join(map(str, shape)) or '() (a scalar)'}")
            for size, came in zip(info.shape, shape, strict=True):
                if isinstance(size, str) and size.isidentifier():
                    first, where = bound.setdefault(size, (came, info.name))
                    if first != came:
                        raise InputError(f"input '{info.name}': expected {size} = {first}, as in input '{where}', got {came}")
                elif isinstance(size, str):
                    computed.append((info, size, came))
        for info, size, came in computed:
            expected = evaluated(parse(size), {name: number for name, (number, _) in bound.items()})
            if came != expected:
                of = " and ".join(dict.fromkeys(f"'{bound[name][1]}'" for name in parse(size).symbols))  # type: ignore[union-attr]
                raise InputError(f"input '{info.name}': expected {size} = {expected}, as the sizes of {of} say, got {came}")


def _is_number(size: object) -> bool:
    return isinstance(size, int)


def _fit(info: TensorInfo, value: Any) -> np.ndarray:
    """`value` as an array of the input's dtype, checked here too, so that nothing is compiled for a bad array."""
    what = f"input '{info.name}'"
    return as_dtype(what, info, as_array(what, info, value))
