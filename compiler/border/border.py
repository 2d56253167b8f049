"""The border of a model: the nodes that run in Python before and after the compiled code, and the values between these."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stepwell.border.nodes import BorderNode
from stepwell.border.registry import Kind
from stepwell.dialects.support.errors import StepwellError
from stepwell.signature import TensorInfo

VOCABULARIES = ("keys_strings", "keys_tensor", "classes_strings", "cats_strings", "string_vocabulary", "int64_vocabulary")
"""The attributes that list the possible elements."""


@dataclass(frozen=True)
class Border:
    """The part of a model that runs in Python.

    The compiled part takes inputs of the model and results of `before`; nodes of `behind` also take its outputs.
    """

    inputs: tuple[TensorInfo, ...]
    """The model's inputs."""
    outputs: tuple[str, ...]
    """The names of the model's outputs."""
    before: tuple[BorderNode, ...]
    behind: tuple[BorderNode, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def reads(self) -> frozenset[str]:
        """The names of the values that nodes in Python read, and of outputs."""
        return frozenset(name for node in (*self.before, *self.behind) for name in node.inputs) | frozenset(self.outputs)

    def words(self, name: str) -> tuple[str, ...]:
        """The strings that nodes before the compiled code know as elements of this input."""
        reached, found = {name}, list[str]()
        for node in self.before:
            if reached.isdisjoint(node.inputs):
                continue
            reached.update(node.outputs)
            lists = (node.attributes.get(key, ()) for key in VOCABULARIES)
            found += [text for texts in lists if isinstance(texts, (tuple, np.ndarray)) for text in np.array(texts).reshape(-1).tolist()]
        return tuple(dict.fromkeys(text for text in found if isinstance(text, str)))

    def run_before(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All values that are known before the compiled code runs, by name, from the inputs. Raises InputError for data that a node refuses."""
        return self._run(self.before, {**self.constants, **given})

    def run_behind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs in order, from the values of `run_before` and the outputs of the compiled code."""
        found = self._run(self.behind, values)
        return {name: found[name] for name in self.outputs}

    @staticmethod
    def _run(nodes: Iterable[BorderNode], values: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(values)
        for node in nodes:
            found.update(node.run(found))
        return found

    def kinds_before(self, shapes: Mapping[str, Sequence[int | None]] | None = None) -> dict[str, Kind]:
        """The types and shapes of all values before the compiled code, given the shapes of some inputs."""
        sizes: dict[str, int] = {}
        for info in self.inputs:
            given = (shapes or {}).get(info.name, ())
            sizes.update({size: n for size, n in zip(info.shape, given, strict=False) if isinstance(size, str) and n is not None})
        found = {name: Kind.constant(array) for name, array in self.constants.items()}
        for info in self.inputs:
            now = (shapes or {}).get(info.name)
            shape = info.shape if now is None else tuple(b if n is None else n for b, n in zip(info.shape, now, strict=True))
            found[info.name] = replace(Kind.from_info(info), shape=tuple(sizes.get(n, n) if isinstance(n, str) else n for n in shape))
        return _inferred(self.before, found)

    def described(self, compiled: Sequence[TensorInfo]) -> tuple[TensorInfo, ...]:
        """The model's outputs, given those of the compiled code."""
        found = self.kinds_before()
        found.update((info.name, Kind.from_info(info)) for info in compiled)
        kinds, known = _inferred(self.behind, found), {info.name: info for info in compiled}
        return tuple(known[name] if name in known else kinds[name].info(name) for name in self.outputs)


def _inferred(nodes: Iterable[BorderNode], kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    found = dict(kinds)
    for node in nodes:
        try:
            found.update(node.infer(found))
        except StepwellError as error:
            raise type(error)(f"{node}: {error.args[0]}") from None
    return found
