"""What a model must be given before all of its nodes can be imported: values of inputs, and sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stepwell.border.border import Border
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.origins import Origins
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.support.limits import KNOWN_ELEMENTS
from stepwell.signature import TensorInfo


@dataclass
class Needs:
    """Collects what is needed, while a model is imported."""

    names: Mapping[ir.Value, str] = field(default_factory=dict)
    """Those of the inputs, by the arguments of @main."""
    values: dict[str, str] = field(default_factory=dict)
    """For each input whose values are needed, the first problem that they solve."""
    sizes: str = ""
    """The first problem that the sizes of inputs solve."""
    structure: str = ""
    """Which inputs are sequences or optionals, of which it must be known what they consist of."""

    def add(self, origins: Origins, problem: str) -> str | None:
        """Note that a problem is solved by what `origins` says. Returns what forbids that, or None."""
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

    def __bool__(self) -> bool:
        return bool(self.values or self.sizes or self.structure)


class NeedsError(UnsupportedError):
    """A model whose nodes can be imported only if values or sizes of its inputs are given.

    `needs` says which; `inputs` and `outputs` are what calls take and return, the others as in `ImportedModel`.
    """

    def __init__(self, message: str, *, details: Sequence[str], needs: Needs, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        super().__init__(message, details=details)
        self.needs, self.inputs, self.outputs = needs, inputs, outputs
        self.content: memoryview | None = None
        self.files: dict[Path, memoryview] = {}
        self.unread: list[Path] = []
        """External data files that were not read before it was known what is needed."""
        self.warnings: tuple[str, ...] = ()
        self.border: Border | None = None
