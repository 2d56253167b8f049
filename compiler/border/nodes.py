"""A node of the border: an operator with its attributes, and the names of its inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, TypeAlias

import numpy as np

from stepwell.border.registry import Kind, Prepared
from stepwell.dialects.support.errors import InputError, ModelError, ResourceError, StepwellError
from stepwell.dialects.support.names import printable
from stepwell.dialects.support.properties import cached_property

Attribute: TypeAlias = "int | float | str | tuple[int | float | str, ...] | np.ndarray"
"""The value of an attribute of a node."""


@dataclass(frozen=True)
class BorderNode:
    """A node that runs in Python. Absent inputs and outputs have empty names."""

    operator: str
    domain: str
    opset: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]

    def __str__(self) -> str:
        return f'{f"{self.domain}." if self.domain else ""}{self.operator} "{self.name}"'

    @cached_property
    def prepared(self) -> Prepared:
        """The operator with the attributes. Raises ModelError or UnsupportedError."""
        from stepwell.border.lookup import find_operator  # imported here, because operators take time to load, and few models have a border

        found = find_operator(self.domain, self.operator, self.opset)
        if found is None:
            raise ModelError(f"{self}: there is no such operator that runs in Python")
        return found.prepare(self.attributes)

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Its outputs by name, from its inputs. Raises InputError, naming the node, for data that it refuses."""
        try:
            made = self.prepared.run(*(values[name] if name else None for name in self.inputs))
        except StepwellError as error:
            raise type(error)(f"{self}, which runs in Python: {printable(str(error.args[0]))}") from error
        except MemoryError as error:
            raise ResourceError(f"{self}, which runs in Python: out of memory") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # raised by numpy, for shapes that do not fit
            raise InputError(f"{self}, which runs in Python: {printable(str(error))}") from error
        return self._named(made)

    def infer(self, kinds: Mapping[str, Kind]) -> dict[str, Kind]:
        """The types and shapes of its outputs by name, from those of its inputs.

        Raises ModelError or UnsupportedError, which do not name the node.
        """
        given = [kinds[name] if name else None for name in self.inputs]
        try:
            signature(self.prepared.run).bind(*given)
        except TypeError:
            raise ModelError(f"it has {len(given)} inputs, which is not the number that its operator takes") from None
        return self._named(self.prepared.infer(*given))

    def _named(self, made: Any) -> dict[str, Any]:
        every = made if isinstance(made, tuple) else (made,)
        if len(self.outputs) > len(every):
            raise ModelError(f"it has {len(self.outputs)} outputs, its operator gives {len(every)}")
        return {name: value for name, value in zip(self.outputs, every, strict=False) if name}
