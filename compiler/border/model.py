"""A compiled model with a border: a call goes through Python nodes, the compiled code, and Python nodes again."""

import copy
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from stepwell import checks
from stepwell.border.border import Border
from stepwell.border.values import fitted
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.names import ByName, printable_keys
from stepwell.driver.combinations import Specialisation
from stepwell.driver.dynamic import DynamicModel
from stepwell.runtime.about import Described
from stepwell.runtime.fitting import by_name, count_error, names_error
from stepwell.runtime.model import Arrays, CompiledModel, Memory
from stepwell.signature import Shape

Inner: TypeAlias = CompiledModel | DynamicModel


class BorderModel(Described):
    """A model of which some nodes, those with strings and maps, run in Python; it has the interface of a `CompiledModel` or a `DynamicModel`.

    `inner` is the compiled part, whose inputs and outputs are the values in between. Strings are arrays of Python objects, and inputs may also be
    numpy's (`U`, or `S` in UTF-8); a map is a dict, a sequence of maps a list of dicts. Safe to call from several threads at once.
    """

    def __init__(self, inner: Inner, border: Border) -> None:
        self.inner = inner
        self.border = border
        known = {info.name: info for info in inner.inputs}
        self.inputs = tuple(known.get(info.name, info) for info in border.inputs)
        self.outputs = border.described(inner.outputs)
        reads, own = border.reads, {info.name for info in border.inputs}
        self._names = [info.name for info in self.inputs]
        self._fitted = [info for info in self.inputs if info.name not in known or info.name in reads]
        self._crossing = [info.name for info in inner.inputs if info.name not in own]
        self._compiled = frozenset(info.name for info in inner.outputs)
        self._escaped = any("\\" in info.name for info in self.outputs)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run on the inputs in the model's order; returns the outputs in the model's order. Raises InputError if a value does not fit."""
        if len(arrays) != len(self._names):
            raise count_error(self.inputs, arrays)
        return list(self._run(dict(zip(self._names, arrays, strict=True)), None).values())

    def run(self, inputs: Mapping[str, Any], *, out: Mapping[str, np.ndarray] | None = None) -> dict[str, Any]:
        """Run on inputs by name; returns outputs by name, in the model's order. Raises InputError, also for Python nodes, which it names.

        `out` maps outputs of the compiled code to arrays to write to, as in `CompiledModel.run`.
        """
        found = self._run(by_name(inputs, self._names), out)
        return ByName(found) if self._escaped else found

    def _run(self, inputs: Mapping[str, Any], out: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        self._check_out(out)
        values = self._before(inputs)
        if self.inner.outputs:
            values |= self.inner.run(self._taken(values), out=out or None)
        return self.border.run_behind(values)

    def _before(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(inputs)
        given.update((info.name, fitted(info, inputs[info.name])) for info in self._fitted)
        return self.border.run_before(given)

    def _taken(self, values: Mapping[str, Any]) -> Arrays:
        """The values that the compiled part takes."""
        return {info.name: np.asarray(values[info.name]) if info.name in self._crossing else values[info.name] for info in self.inner.inputs}

    def crossing(self, inputs: Mapping[str, Any]) -> Arrays:
        """The inputs of `inner` for these inputs of the model."""
        return self._taken(self._before(printable_keys(inputs)))

    def _check_out(self, out: Mapping[str, np.ndarray] | None) -> None:
        if out is None:
            return
        names = [info.name for info in self.outputs]
        if not isinstance(out, Mapping) or not set(out) <= set(names):
            raise names_error(out, names, "output", some=True)
        made = next((info for info in self.outputs if info.name in out and info.name not in self._compiled), None)
        if made is not None:
            raise InputError(f"output '{made.name}': expected no array to write to, since {made} is made in Python")

    def specialise(self, shapes: Mapping[str, Shape], values: Mapping[str, np.ndarray] | None = None) -> "BorderModel":
        """Like `DynamicModel.specialise`, with shapes by the names of the model's inputs.

        Raises InputError for sizes that only Python nodes determine.
        """
        checks.shapes("shapes", shapes)
        if values is not None:
            checks.arrays("values", values)
        if not isinstance(self.inner, DynamicModel):
            raise InputError("specialise: expected a model with free sizes; all of this one are numbers")
        unknown = set(shapes) - set(self._names)
        if unknown:
            raise names_error({**dict.fromkeys(self._names), **shapes}, self._names, "input")
        for info in self.inputs:
            if info.name in shapes and len(shapes[info.name] or ()) != len(info.shape):
                raise InputError(f"input '{info.name}': expected a shape for {info}, got {shapes[info.name]}")
        kinds = self.border.kinds_before({name: shape for name, shape in shapes.items() if shape is not None})
        inner = {name: shape for name, shape in shapes.items() if name in {info.name for info in self.inner.inputs}}
        for name in self._crossing:
            if not all(isinstance(size, int) for size in kinds[name].shape):
                what = f"value '{name}' {kinds[name].info(name)}, which is made in Python, has sizes that follow from none of the shapes"
                raise InputError(f"specialise: {what}")
            inner[name] = kinds[name].shape
        return BorderModel(self.inner.specialise(inner, values), self.border)

    def bind(self, pairs: Mapping[str, str] | None = None) -> Any:
        """Raises InputError: only compiled code can keep a state."""
        nodes = ", ".join(map(str, (*self.border.before, *self.border.behind)))
        raise InputError(f"bind: expected a model that is all compiled, got one with nodes that run in Python: {nodes}")

    def __copy__(self) -> "BorderModel":
        """A model that shares the immutable code and weights."""
        return BorderModel(copy.copy(self.inner), self.border)

    @property
    def threads(self) -> int:
        """The largest number of cores for a run of the compiled code."""
        return self.inner.threads

    @property
    def _described(self) -> Inner:
        return self.inner

    @property
    def memory(self) -> Memory:
        """The memory of the compiled part."""
        return self.inner.memory

    @property
    def general(self) -> bool:
        """Whether there is a shape-polymorphic program."""
        return isinstance(self.inner, DynamicModel) and self.inner.general

    @property
    def why_not_general(self) -> str:
        """Why there is no shape-polymorphic program, if one was requested."""
        return self.inner.why_not_general if isinstance(self.inner, DynamicModel) else ""

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """How the last shape combinations of the compiled part are run."""
        return self.inner.specialisations if isinstance(self.inner, DynamicModel) else ()

    def settle(self, seconds: float | None = None) -> bool:
        """Like `DynamicModel.settle`."""
        return not isinstance(self.inner, DynamicModel) or self.inner.settle(seconds)
