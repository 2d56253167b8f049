"""Collects the inputs whose values or sizes are needed before all nodes of a model can be imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.origins import Origins
from stepwell.dialects.support.limits import KNOWN_ELEMENTS
from stepwell.frontends.base import Needs


@dataclass
class CollectedNeeds(Needs):
    """Collects the needs while a model is imported."""

    names: Mapping[ir.Value, str] = field(default_factory=dict)
    """The names of the inputs, by the arguments of @main."""

    def add(self, origins: Origins, problem: str) -> str | None:
        """Record that knowing the inputs in `origins` solves a problem. Returns the reason that forbids it, or None."""
        for argument in origins.arguments:
            tensor = type_of(argument)
            if tensor.is_static and tensor.elements > KNOWN_ELEMENTS:
                many = f"input '{self.names[argument]}' of {tensor.elements} elements"
                return f"it is computed from {many}, and code is made for the values of {KNOWN_ELEMENTS} at most"
        for argument in origins.arguments:
            self.values.setdefault(self.names[argument], problem)
        if origins.sizes:
            self.sizes = self.sizes or problem
        return None
