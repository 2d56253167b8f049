"""A shape-polymorphic program: its code, and the data for running it with given sizes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from stepwell.dialects.core.size_table import MOST_TOTAL, Status, Verdict
from stepwell.dialects.support.errors import LimitError
from stepwell.runtime.about import About
from stepwell.runtime.executable import Executable
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import Weights
from stepwell.signature import TensorInfo


class Sized(Protocol):
    """The loaded form of such a program in a backend."""

    def complete(self, table: np.ndarray) -> int:
        """Complete a table that begins with the symbols, like `@sizes`; returns the code of a `Verdict`."""

    def executable(self, table: np.ndarray, workspace_bytes: int) -> Executable:
        """The executable for the sizes in a table, of which it keeps the entries that `@main` reads."""


@dataclass(frozen=True)
class General:
    """The interface of a shape-polymorphic program: its symbols, its table and its limits."""

    symbols: Sequence[str]
    """The symbols, in the order of the table."""
    places: Mapping[str, int]
    """The table entry of each requested size, by its text; symbols are among them."""
    workspace: int
    """The entry for the bytes of the workspace. `@main` reads the entries before it."""
    entries: int
    """The number of entries in the table."""
    elements: Sequence[Sequence[str | None]]
    """For each input, the symbols of its elements; None for an element that is no symbol."""
    most_bytes: int
    """The most bytes of the workspace (the limit `workspace_bytes`), for messages: the code compares."""
    most_value_bytes: int
    """The most bytes of an output or a cache (the limit `value_bytes`)."""
    assumptions: Sequence[str] = ()
    """The assumptions about sizes that the code checks, in the order of their numbers in a `Verdict`."""


@dataclass(frozen=True)
class Prepared:
    """A shape-polymorphic program with the sizes of a run."""

    executable: Executable
    shapes: Sequence[tuple[int | str | None, ...]]
    """The shapes of the outputs."""
    workspace_bytes: int


class GeneralProgram:
    """Makes a model for any sizes that fulfil the program's assumptions, in microseconds: all of them share code, weights and workspaces."""

    def __init__(
        self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], general: General, sized: Sized,
        make: Callable[..., CompiledModel], about: About, weights: Weights,
    ) -> None:  # fmt: skip
        """`make` makes a CompiledModel of infos, an executable and the bytes of its workspace."""
        self.inputs, self.outputs, self.general, self.about = inputs, outputs, general, about
        self.weights = weights
        self._sized, self._make = sized, make

    @property
    def valued(self) -> dict[str, str]:
        """The symbols of the elements of each input that has some, as text."""
        return valued([info.name for info in self.inputs], self.general.elements)

    def model(self, shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, np.ndarray]) -> CompiledModel | None:
        """The model for inputs of these shapes, which fit the program's, and these arrays for the `valued` inputs; None if the sizes violate an
        assumption.

        Raises LimitError if the sizes need more memory than the limits allow.
        """
        values = {
            size: number
            for info in self.inputs
            for size, number in zip(info.shape, shapes[info.name], strict=True)
            if isinstance(size, str) and size in self.general.symbols
        }
        for info, names in zip(self.inputs, self.general.elements, strict=False):
            values.update({name: int(n) for name, n in zip(names, arrays[info.name].reshape(-1), strict=True) if name} if any(names) else {})
        prepared = self.prepared(values)
        if prepared is None:
            return None
        inputs = [TensorInfo(info.name, tuple(shapes[info.name]), info.dtype) for info in self.inputs]
        outputs = [TensorInfo(info.name, shape, info.dtype) for info, shape in zip(self.outputs, prepared.shapes, strict=True)]
        return self._make(inputs=inputs, outputs=outputs, executable=prepared.executable, workspace_bytes=prepared.workspace_bytes)

    def prepared(self, values: Mapping[str, int]) -> Prepared | None:
        """The executable for these numbers of all symbols; None if they violate an assumption. Raises like `model`."""
        general = self.general
        verdict, table = self._completed([values[name] for name in general.symbols])
        if verdict.status in _OTHERWISE:
            return None
        found = self._found(table)
        shapes = [tuple(found.get(size, size) if isinstance(size, str) else size for size in info.shape) for info in self.outputs]
        if verdict.status is not Status.OK:
            raise self._too_large(verdict, found, int(table[general.workspace]), shapes)
        total = int(table[general.workspace])
        return Prepared(self._sized.executable(table, total), shapes, total)

    def sizes(self, values: Mapping[str, int]) -> dict[str, int]:
        """The sizes of inputs and outputs by their texts, as the code computes them from the values of symbols; one that is not given counts as 0."""
        return self._found(self._completed([values.get(name, 0) for name in self.general.symbols])[1])

    def _completed(self, symbols: Sequence[int]) -> tuple[Verdict, np.ndarray]:
        """The table for these values of the symbols, and what the code finds wrong with them."""
        table = np.zeros(self.general.entries, np.int64)
        table[: len(symbols)] = symbols
        return Verdict.decoded(self._sized.complete(table)), table

    def _found(self, table: np.ndarray) -> dict[str, int]:
        numbers = table.tolist()
        return {name: numbers[entry] for name, entry in self.general.places.items()}

    def _too_large(self, verdict: Verdict, found: Mapping[str, int], total: int, shapes: Sequence[tuple[int | str | None, ...]]) -> LimitError:
        """The error for sizes that need more memory than the limits allow."""
        general, number = self.general, verdict.number
        most = f"more than {general.most_value_bytes} (limit value_bytes)"
        if verdict.status is Status.DIMENSION:  # of values without elements, too, loops take their time
            longest = general.symbols[number]
            return LimitError(f"a dimension of size {longest} = {found[longest]} is {most}")
        if verdict.status is Status.OUTPUT:
            info = replace(self.outputs[number], shape=shapes[number])
            size = math.prod(size for size in shapes[number] if isinstance(size, int)) * info.dtype.itemsize
            return LimitError(f"output '{info.name}' {info} would take {size} bytes, {most}")
        sizes = ", ".join(f"{name} = {found[name]}" for name in general.symbols)
        needed = f"at least {MOST_TOTAL}" if verdict.status is Status.OVERFLOW else total
        most = f"more than {general.most_bytes} (limit workspace_bytes)"
        return LimitError(f"intermediate results for {sizes} would take {needed} bytes of memory, {most}")


_OTHERWISE = (Status.NEGATIVE, Status.ASSUMPTION, Status.DIVISION)
"""The verdicts for sizes that need a specialised version."""


def valued(names: Sequence[str], elements: Sequence[Sequence[object]]) -> dict[str, str]:
    """The symbols among the `elements` of each input, as text, by the input's name; None stands for an element that is no symbol."""
    found = {name: [str(symbol) for symbol in symbols if symbol is not None] for name, symbols in zip(names, elements, strict=False)}
    return {name: f"its elements are the sizes {', '.join(symbols)}" for name, symbols in found.items() if symbols}
