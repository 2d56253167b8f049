"""A model under construction, for front ends: inputs with the sizes and values from options, nodes with names, and the result."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np

from stepwell.dialects.core.locations import node_location
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType, from_numpy, sizes_text
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph.base import compatible
from stepwell.dialects.support.errors import InferenceError, InputError, ModelError
from stepwell.dialects.support.limits import Budget
from stepwell.frontends.base import ImportedModel, ImportOptions
from stepwell.frontends.builder import ModelBuilder, Value
from stepwell.frontends.main_function import MainFunction
from stepwell.frontends.symbols import Symbols

Declared: TypeAlias = tuple[str, Sequence[int | str | None]]
"""An element type, and sizes; dynamic ones are names (equal names are equal sizes) or None."""


class NewModel:
    """A model at level `graph` that a front end builds.

    ```
    model = NewModel(context, {"x": ("f32", ("batch", 16))}, options)
    with model.node("first layer"):
        y = model.builder.relu(model.values["x"])
    return model.finished({"y": y}, content=content)
    ```
    """

    def __init__(self, context: ir.Context, inputs: Mapping[str, Declared], options: ImportOptions) -> None:
        """Raises InputError, naming the input, if shapes or values of the options do not fit the `inputs`."""
        self._budget, self._nodes = Budget(options.limits), list[str]()
        sizes = _with_given_sizes(inputs, options)
        texts = {name: [size if isinstance(size, str) and options.same_names else "" for size in sizes[name]] for name in inputs}
        symbols = Symbols(text for names in texts.values() for text in names if text)
        self.builder = ModelBuilder(WeightTable(), self._budget, symbols)
        """Builds ops at the current node: `builder.relu(x)`, and blocks of several ops."""
        taken = []
        for name, (dtype, _) in inputs.items():
            if name not in options.values:
                tensor = TensorType(dtype, tuple(size if isinstance(size, int) else None for size in sizes[name]))
                taken.append((name, symbols.of_input(name, tensor, texts[name])))
                self.builder.check_size(taken[-1][1])
        self._main = MainFunction(context, self.builder, taken)
        self.values: dict[str, Value] = dict(zip((name for name, _ in taken), self._main.arguments, strict=True))
        """The inputs by name; those whose values are given are constants."""
        for name, array in options.values.items():
            self.values[name] = self._constant(name, array, inputs)

    @contextmanager
    def node(self, name: str) -> Iterator[None]:
        """Ops that are built inside belong to a node of that name, which listings and messages show.

        Operands that do not fit raise ModelError, naming the node.
        """
        self._nodes.append(name)
        with self._main.building(), node_location(name, len(self._nodes) - 1):
            try:
                yield
            except InferenceError as error:
                raise ModelError(f"node '{name}': {error.args[0]}") from error

    def weight(self, name: str, array: np.ndarray) -> Value:
        """A weight of the model; called inside a node."""
        self._budget.given_bytes += array.nbytes
        return self.builder.weight(name, array)

    def finished(
        self, outputs: Mapping[str, Value], *, content: memoryview | None = None, files: Mapping[Path, memoryview] | None = None,
        warnings: Sequence[str] = (),
    ) -> ImportedModel:  # fmt: skip
        """The model with these outputs; `content`, `files` and `warnings` are as in `ImportedModel`."""
        with self._main.building():
            self._main.finish(list(outputs.items()), self._nodes)
        return ImportedModel(
            self._main.module, self.builder.weights, self._main.inputs, self._main.outputs, self._nodes, content, dict(files or {}), self._budget,
            tuple(warnings), elements=tuple(self._main.elements),
        )  # fmt: skip

    def _constant(self, name: str, array: np.ndarray, inputs: Mapping[str, Declared]) -> Value:
        if name not in inputs:
            raise InputError(f"there is no input '{name}' to give a value to; the model's inputs: {', '.join(inputs) or 'none'}")
        dtype, sizes = inputs[name]
        declared, given = TensorType(dtype, tuple(s if isinstance(s, int) else None for s in sizes)), TensorType(from_numpy(array.dtype), array.shape)
        if not compatible(declared, given):
            raise InputError(f"input '{name}' is {declared}, the value given is {given}")
        with self.node(name):
            return self.weight(name, array)


def _with_given_sizes(inputs: Mapping[str, Declared], options: ImportOptions) -> dict[str, list[int | str | None]]:
    """The sizes of the inputs, with those that the options fix; a named size is the same everywhere if equal names are equal sizes."""
    found = {name: list(sizes) for name, (_, sizes) in inputs.items()}
    named: dict[str, tuple[int, str]] = {}
    shapes = {**options.shapes, **{name: array.shape for name, array in options.values.items()}}
    for name, shape in shapes.items():
        if name not in found:
            raise InputError(f"there is no input '{name}' to give a shape to; the model's inputs: {', '.join(inputs) or 'none'}")
        if shape is None or any(size is not None and not isinstance(size, (int, np.integer)) for size in shape) or len(shape) != len(found[name]):
            raise InputError(f"input '{name}' is a tensor of {len(found[name])} dimensions, the shape given is {shape}")
        for axis, (have, size) in enumerate(zip(list(found[name]), shape, strict=True)):
            if size is None:
                continue
            known, where = (have, name) if isinstance(have, int) else named.setdefault(have, (int(size), name)) if have is not None else (size, name)
            if known != size and (isinstance(have, int) or options.same_names):
                raise InputError(f"dimension {axis} of input '{name}' is {known} in '{where}', the shape given says {size}: {sizes_text(shape)}")
            found[name][axis] = int(size)
    if options.same_names:
        found = {name: [named[s][0] if isinstance(s, str) and s in named else s for s in sizes] for name, sizes in found.items()}
    return found
