"""Collects the problems of a model during the import, and the inputs that must be known to solve them, and reports all at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from onnx import NodeProto

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.origins import Origins
from stepwell.dialects.support.errors import ElementTypeError, InferenceError, ModelError, StepwellError, UnsupportedError
from stepwell.dialects.support.limits import KNOWN_ELEMENTS
from stepwell.dialects.support.names import printable
from stepwell.frontends.base import Needs
from stepwell.frontends.onnx.functions import operator_key

SHOWN = 40  # the largest number of problems in one message
NOTICES_SHOWN = 3  # of one kind


def node_problem(node: NodeProto, opsets: Mapping[str, int], reason: str) -> str:
    """One line about a node that cannot be imported; `reason` should name the supported cases."""
    domain, op, opset = operator_key(node, opsets)
    return f'{f"{domain}." if domain else ""}{op} "{node.name}" (opset {opset}): {printable(reason)}'


@dataclass
class Problems:
    """Collects problems, keeping the first for each subject (the name of a node or an input)."""

    unsupported: dict[str, str] = field(default_factory=dict)
    malformed: dict[str, str] = field(default_factory=dict)
    provisional: set[str] = field(default_factory=set)
    """The subjects whose problem may only follow from unknown properties of others."""

    def add(self, about: str, text: str, *, malformed: bool = False, provisional: bool = False) -> None:
        if about not in self.unsupported and about not in self.malformed:
            (self.malformed if malformed else self.unsupported)[about] = text
            if provisional:
                self.provisional.add(about)

    def since(self, before: "Problems", made: object) -> list[str] | None:
        """The errors since `before` in a branch that gave `made`, perhaps an exception; None if the branch may be valid."""
        found = {about: text for about, text in self.malformed.items() if about not in before.malformed}
        others = self.unsupported.keys() - before.unsupported.keys()
        if others - self.provisional:
            return None
        own = [text for about, text in found.items() if about not in self.provisional]
        if isinstance(made, (ModelError, InferenceError)) and not isinstance(made, ElementTypeError):
            own.append(str(made.args[0]))
        return own if own or not (found or others or isinstance(made, Exception)) else None

    @property
    def are_provisional(self) -> bool:
        """Whether all are."""
        return self.provisional.issuperset((*self.unsupported, *self.malformed))

    def raise_any(self) -> None:
        """Raise one error for all problems: ModelError if anything is malformed, else UnsupportedError if anything is unsupported."""
        error = _error(ModelError, "parts of the model make no sense", list(self.malformed.values()))
        error = error or _error(UnsupportedError, "parts of the model are not supported", list(self.unsupported.values()))
        if error is not None:
            raise error


@dataclass
class CollectedNeeds(Needs):
    """Collects the inputs whose values or sizes are needed before all nodes of a model can be imported."""

    names: Mapping[ir.Value, str] = field(default_factory=dict)
    """The names of the inputs, by the arguments of @main."""

    def add(self, origins: Origins, problem: str) -> str | None:
        """Record that knowing the inputs in `origins` solves a problem. Returns the reason that forbids it, or None."""
        arguments = sorted(origins.arguments, key=lambda argument: self.names[argument])
        for argument in arguments:
            tensor = type_of(argument)
            if tensor.is_static and tensor.elements > KNOWN_ELEMENTS:
                many = f"input '{self.names[argument]}' of {tensor.elements} elements"
                return f"it is computed from {many}, and code is made for the values of {KNOWN_ELEMENTS} at most"
        for argument in arguments:
            self.values.setdefault(self.names[argument], problem)
        if origins.sizes:
            self.sizes = self.sizes or problem
        return None


@dataclass
class Notices:
    """Collects accepted deviations from the standard, by kind: a model with one of a kind often has a thousand."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, text: str) -> None:
        self.found.setdefault(kind, []).append(text)

    def texts(self) -> Iterator[str]:
        """A line for each kind, with its first few instances."""
        for texts in self.found.values():
            more = len(texts) - NOTICES_SHOWN
            yield "; ".join(texts[:NOTICES_SHOWN]) + (f"; and {more} more like this" if more > 0 else "")


def _error(kind: type[StepwellError], what: str, texts: list[str]) -> StepwellError | None:
    if len(texts) < 2:
        return kind(texts[0], details=texts) if texts else None
    more = [f"  … and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return kind("\n".join([f"{len(texts)} {what}:", *(f"  {text}" for text in texts[:SHOWN]), *more]), details=texts)
