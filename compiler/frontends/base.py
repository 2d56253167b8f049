"""The interface of front ends: which models one accepts, their digests, and their import to the level `graph`. Subclass `FrontEnd`, and register it.

This module loads neither the bindings nor any format's library: a model that comes from the cache needs only its digest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stepwell.dialects.support.digests import digest_of, file_digest
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.support.limits import Budget, Limits
from stepwell.signature import OutputGroup, Shape, TensorInfo

if TYPE_CHECKING:
    from stepwell.border.border import Border
    from stepwell.dialects.core.mlir import ir
    from stepwell.dialects.core.sizes import Size
    from stepwell.dialects.core.types import TensorType
    from stepwell.dialects.core.weights import WeightTable


@dataclass(frozen=True)
class ImportOptions:
    """The options of a compilation that the import uses."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Sizes for inputs with dynamic dimensions, by name, as in `CompileOptions`."""
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Values of inputs, by name, which become constants."""
    limits: Limits = field(default_factory=Limits)
    """The limits for the cost of the import."""
    same_names: bool = True
    """Whether dynamic dimensions with equal names have equal sizes."""
    same_data_sizes: bool = True
    """Whether data-dependent sizes are assumed to be equal if values of these sizes are broadcast."""


@dataclass
class ImportedModel:
    """A model at level `graph`: its module, its weights, its signature, and its origin."""

    module: "ir.Module"
    """One function, `@main`, of `graph` ops on tensors. Locations name the model's nodes (`node_location`)."""
    weights: "WeightTable"
    """The arrays that parameters of the module name."""
    inputs: "list[tuple[str, TensorType]]"
    """The names and types of the arguments of `@main`, in order."""
    outputs: "list[tuple[str, TensorType]]"
    """The names and types of its results, in order."""
    nodes: list[str]
    """The node names that locations refer to by index."""
    content: "memoryview | None" = None
    """The bytes from which the model was read; None if it was read from an object, or from more than one file."""
    files: dict[Path, memoryview] = field(default_factory=dict)
    """Other files from which the model was read, such as weights, with their content. They lie in the folder of the model or below."""
    budget: Budget = field(default_factory=lambda: Budget(Limits()))
    """The limits of the import, and its costs so far; passes go on with it."""
    warnings: tuple[str, ...] = ()
    """The warnings of the import, which are repeated when the model comes from the cache."""
    groups: tuple[OutputGroup, ...] = ()
    """Set if some outputs of the model are sequences or optionals: how `outputs`, which are tensors, form the model's outputs."""
    elements: "tuple[tuple[Size | None, ...], ...]" = ()
    """For each input, its elements that are symbols in types and attributes, as in `ModuleInfo.elements`."""
    border: "Border | None" = None
    """The nodes of the model that run in Python, and are not in the module; `inputs` and `outputs` are those of the module."""

    @property
    def is_general(self) -> bool:
        """Whether types have symbols, whose values come with the inputs."""
        return any(self.elements) or not all(kind.is_static for _, kind in self.inputs)


@dataclass
class Needs:
    """The inputs whose values or sizes must be known before a model can be imported."""

    values: dict[str, str] = field(default_factory=dict)
    """For each input whose values are needed, the first problem that they solve."""
    sizes: str = ""
    """The first problem that the sizes of inputs solve."""
    structure: str = ""
    """Names the inputs that are sequences or optionals, whose structure must be known."""

    def __bool__(self) -> bool:
        return bool(self.values or self.sizes or self.structure)


class NeedsError(UnsupportedError):
    """A model can be imported only if values or sizes of its inputs are given: it is then compiled when it is called.

    `needs` lists them; `inputs` and `outputs` are the signature of the model; the other fields are as in `ImportedModel`.
    """

    def __init__(self, message: str, *, details: Sequence[str], needs: Needs, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        super().__init__(message, details=details)
        self.needs, self.inputs, self.outputs = needs, inputs, outputs
        self.content: memoryview | None = None
        self.files: dict[Path, memoryview] = {}
        self.unread: list[Path] = []
        """Files that were not read before it was known what is needed."""
        self.warnings: tuple[str, ...] = ()
        self.border: Border | None = None


@dataclass(frozen=True)
class Summary:
    """A model's description in its own terms, for `stepwell inspect`; also possible for models that cannot be imported."""

    title: str
    """One line: name, version, origin."""
    inputs: Sequence[tuple[str, str]] = ()
    """Names and types of the inputs, as the model declares them."""
    outputs: Sequence[tuple[str, str]] = ()
    """Names and types of the outputs, as the model declares them."""
    columns: tuple[str, ...] = ("operator", "nodes")
    """Headings of `operators`; the last column is the number of nodes."""
    operators: Sequence[Sequence[str]] = ()
    """A row for each operator, the most frequent first."""


class FrontEnd:
    """Imports models of one format. One instance serves all models, in several threads at once.

    A source is a `Path`, a bytes-like object, or any other Python object. A front end must be deterministic in the source and the options, since
    compiled models are cached: under the digest of the source, and the content of plugins.
    """

    name: ClassVar[str]
    accepted: ClassVar[str] = ""
    """A phrase for error messages, such as "a path of a .chain file or a Chain"."""

    def accepts(self, source: object) -> bool:
        """Whether a source is a model of this format. This should be fast, by type, suffix or the first bytes; `load` reports errors in the model."""
        raise NotImplementedError

    def digest(self, source: object) -> bytes | None:
        """The digest of the source without other files; None if it cannot be read.

        Override it for objects: models with the digest None are never cached, and their changes go unnoticed.
        """
        if isinstance(source, (bytes, bytearray, memoryview)):
            view = memoryview(source)
            return digest_of(view.cast("B") if view.c_contiguous else view.tobytes())
        return file_digest(source) if isinstance(source, Path) else None

    def load(self, source: object, context: "ir.Context", options: ImportOptions) -> ImportedModel:
        """Import a model. Raises ModelError if it is malformed, UnsupportedError, InputError for options that do not fit it, LimitError.

        Raises NeedsError if values or sizes of inputs must be known first. Warnings are issued with `warn_caller`, and listed in the result.
        """
        raise NotImplementedError

    def portable(self, source: object) -> str | bytes | None:
        """An equal source that can be sent to another process: a path or bytes. None if there is none."""
        return bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else str(source) if isinstance(source, Path) else None

    def summary(self, source: object) -> Summary:
        """The description of a model. Raises ModelError if it cannot be read."""
        return Summary(f"a model of front end '{self.name}'")
