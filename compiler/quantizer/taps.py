"""Taps: a compiled model that also returns intermediate values."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, ValueInfoProto, numpy_helper

from stepwell.dialects.support.errors import ModelError
from stepwell.driver.compilation import compile
from stepwell.frontends.onnx.source import copy_without
from stepwell.quantizer.graphs import input_infos, replace, value_types

if TYPE_CHECKING:
    from stepwell.border.model import BorderModel
    from stepwell.driver.dynamic import DynamicModel
    from stepwell.runtime.model import CompiledModel

SHAPES = 8  # the largest number of recent shapes for which code is kept


def with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """A copy of `model` whose outputs are its own, followed by the values in `names`.

    Results of nodes of the main graph can be outputs; inputs, weights and existing outputs are left out. Raises ModelError for a name that the model
    does not have.
    """
    made = {name for node in model.graph.node for name in node.output}
    known = made | {value.name for value in (*model.graph.input, *model.graph.initializer)}
    if missing := [name for name in names if name not in known]:
        raise ModelError(f"the model has no value '{missing[0]}'" + (f", nor {len(missing) - 1} others that were asked for" if missing[1:] else ""))
    has = {value.name for value in model.graph.output}
    added = [name for name in dict.fromkeys(names) if name in made and name not in has]
    tapped = copy_without(model)
    types = value_types(model) if added else {}
    tapped.graph.output.extend(types.get(name) or ValueInfoProto(name=name) for name in added)
    replace(tapped.graph.value_info, [value for value in tapped.graph.value_info if value.name not in set(added)])
    return tapped


class Tapped:
    """A model that is compiled for the shapes of each run, and that returns the values in `names`."""

    def __init__(self, model: ModelProto, names: Sequence[str], *, threads: int | None = None, cache: bool = True) -> None:
        """`threads` and `cache` are those of `stepwell.compile`. Raises ModelError for a name that the model does not have."""
        self.names = tuple(dict.fromkeys(names))
        stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self._stored = {name: numpy_helper.to_array(stored[name]) for name in self.names if name in stored}
        self._infos = input_infos(model)
        tapped = with_outputs(model, self.names)

        @lru_cache(SHAPES)
        def compiled(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> "CompiledModel | DynamicModel | BorderModel":
            return compile(tapped, shapes=dict(shapes) or None, specialise="always", threads=threads, cache=cache)

        self._compiled = compiled
        """The model compiled for shapes of inputs, by name: with static sizes, more models can be compiled."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The values by name, of one run on `inputs`.

        Raises InputError if an array is missing or does not fit, and the errors of `stepwell.compile`.
        """
        free = [info.name for info in self._infos if not info.is_static and info.name in inputs]
        results = self._compiled(tuple((name, np.shape(inputs[name])) for name in free)).run(dict(inputs))
        known = {**self._stored, **{info.name: inputs[info.name] for info in self._infos}}
        return {name: results[name] if name in results else known[name] for name in self.names}
