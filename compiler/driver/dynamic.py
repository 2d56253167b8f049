"""A model with free input dimensions: compiled for each combination of shapes on first use."""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.sizes import evaluated, parse
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.processes import Lock
from stepwell.driver.arguments import check_shapes
from stepwell.runtime.model import Arrays, CompiledModel, Memory, TensorInfo, as_array, as_dtype, names_error

Shapes = Mapping[str, tuple[int, ...]]
_Key = tuple[tuple[int, ...], ...]


class DynamicModel:
    """The interface of a `CompiledModel`, over one such model for each combination of input shapes.

    `compile_shapes` compiles for the shapes of all inputs by name. At most `capacity` models are kept; the least recently
    used one is dropped first. Safe to call from several threads; a call waits for shapes that another thread is compiling.
    `timings`, `kernels`, `memory` and `ir` are those of the most recently used model.
    """

    def __init__(
        self, *, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], compile_shapes: Callable[[Shapes], CompiledModel], capacity: int = 8
    ) -> None:
        if not isinstance(capacity, int) or capacity < 1:
            raise InputError(f"capacity: expected at least 1 model to keep, got {shown(capacity)}")
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.capacity = capacity
        self._compile = compile_shapes
        self._models: collections.OrderedDict[_Key, CompiledModel] = collections.OrderedDict()
        self._lock = Lock()
        self._compiling: dict[_Key, Lock] = {}

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run on the inputs in the model's order; compiles if these shapes are new. Raises InputError if an array does not fit."""
        if len(arrays) != len(self.inputs):
            names = ", ".join(info.name for info in self.inputs) or "none"
            raise InputError(f"expected {len(self.inputs)} inputs ({names}), got {len(arrays)}")
        fitting = [_fit(info, array) for info, array in zip(self.inputs, arrays, strict=True)]
        return self._model(tuple(array.shape for array in fitting))(*fitting)

    def run(self, inputs: Mapping[str, np.ndarray], *, out: Mapping[str, np.ndarray] | None = None) -> Arrays:
        """Run on inputs by name; compiles if these shapes are new. Like `CompiledModel.run`."""
        names = [info.name for info in self.inputs]
        if not isinstance(inputs, Mapping) or set(inputs) != set(names):
            raise names_error(inputs, names, "input")
        fitting = {info.name: _fit(info, inputs[info.name]) for info in self.inputs}
        return self._model(tuple(array.shape for array in fitting.values())).run(fitting, out=out)

    def specialise(self, shapes: Shapes) -> CompiledModel:
        """The model for these input shapes by name, compiled if necessary. Inputs without free dimensions may be left out."""
        check_shapes("shapes", shapes)
        given = []
        for info in self.inputs:
            shape = tuple(shapes[info.name]) if info.name in shapes else info.shape
            if not all(isinstance(size, int) for size in shape):
                raise InputError(f"input '{info.name}': expected a shape for {info}, got none")
            given.append(shape)
        unknown = set(shapes) - {info.name for info in self.inputs}
        if unknown:
            raise names_error({**{info.name: None for info in self.inputs}, **shapes}, [info.name for info in self.inputs], "input")
        return self._model(tuple(given))  # type: ignore[arg-type]

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

    def _latest(self) -> CompiledModel:
        with self._lock:
            if not self._models:
                free = ", ".join(f"'{info.name}' {info}" for info in self.inputs)
                raise InputError(f"nothing is compiled yet, as the inputs have free dimensions ({free}): run the model or give shapes")
            return next(reversed(self._models.values()))

    def _model(self, shapes: _Key) -> CompiledModel:
        with self._lock:
            model = self._models.get(shapes)
            if model is not None:
                self._models.move_to_end(shapes)
                return model
        self._check(shapes)
        with self._lock:
            turn = self._compiling.setdefault(shapes, Lock())
        with turn:
            with self._lock:
                model = self._models.get(shapes)
            if model is None:
                try:
                    model = self._compile({info.name: shape for info, shape in zip(self.inputs, shapes, strict=True)})
                finally:
                    with self._lock:
                        self._compiling.pop(shapes, None)
            with self._lock:
                self._models[shapes] = model
                self._models.move_to_end(shapes)
                while len(self._models) > self.capacity:
                    self._models.popitem(last=False)
        return model

    def _check(self, shapes: _Key) -> None:
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


def _fit(info: TensorInfo, value: Any) -> np.ndarray:
    """`value` as an array of the input's dtype, checked here too, so that nothing is compiled for a bad array."""
    what = f"input '{info.name}'"
    return as_dtype(what, info, as_array(what, info, value))
