"""Taps: a compiled model that also returns values inside it."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, ValueInfoProto, numpy_helper

from stepwell.driver.compilation import compile
from stepwell.importer.source import copy_without
from stepwell.quantizer.graphs import check_has, input_names, value_types


def with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """A copy of `model` whose outputs are its own and, behind these, the values called `names`.

    Values that nodes of the main graph make can be outputs; inputs, weights and what is an output already are left out. Raises ModelError for a
    name that the model does not have.
    """
    check_has(model, names)
    made = {name for node in model.graph.node for name in node.output}
    has = {value.name for value in model.graph.output}
    added = [name for name in dict.fromkeys(names) if name in made and name not in has]
    tapped = copy_without(model)
    types = value_types(model) if added else {}
    tapped.graph.output.extend(types.get(name) or ValueInfoProto(name=name) for name in added)
    kept = [copy_without(value) for value in tapped.graph.value_info if value.name not in set(added)]
    del tapped.graph.value_info[:]
    tapped.graph.value_info.extend(kept)
    return tapped


class Tapped:
    """A model that is compiled for the shapes that it is run with, and that returns the values called `names` of each run."""

    def __init__(self, model: ModelProto, names: Sequence[str], *, threads: int | None = None, cache: bool = True) -> None:
        """`threads` and `cache` are those of `stepwell.compile`. Raises ModelError for a name that the model does not have, and what
        `stepwell.compile` raises."""
        self.names = tuple(dict.fromkeys(names))
        stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self._stored = {name: numpy_helper.to_array(stored[name]) for name in self.names if name in stored}
        self._inputs = input_names(model)
        self._model = compile(with_outputs(model, self.names), specialise="always", threads=threads, cache=cache)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The values by name, of one run on `inputs`. Raises InputError if an array is missing or does not fit."""
        results = self._model.run(dict(inputs))
        known = {**self._stored, **{name: inputs[name] for name in self._inputs}}
        return {name: results[name] if name in results else known[name] for name in self.names}
