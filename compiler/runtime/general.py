"""A shape-polymorphic program: its code, and the data for running it with given sizes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.size_table import MOST_TOTAL, SizeStatus, Verdict
from stepwell.dialects.core.sizes import Size, is_static
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


@dataclass(frozen=True)
class Prepared:
    """A shape-polymorphic program with the sizes of a run."""

    executable: Executable
    shapes: Sequence[tuple[int | str | None, ...]]
    """The shapes of the outputs."""
    checks: Sequence[IndexCheck]
    workspace_bytes: int


class GeneralProgram:
    """Makes a model for any sizes that fulfil the program's assumptions, in microseconds: all of them share code, weights and workspaces."""

    def __init__(
        self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], general: General, checks: Sequence[IndexCheck], sized: Sized,
        make: Callable[..., CompiledModel], about: About, weights: Weights,
    ) -> None:  # fmt: skip
        """`checks` are for any sizes. `make` makes a CompiledModel of infos, checks, an executable and the bytes of its workspace."""
        self.inputs, self.outputs, self.general, self.checks, self.about = inputs, outputs, general, checks, about
        self.weights = weights
        self._sized, self._make = sized, make
        self._symbolic = [not (check.compared or is_static([*check.sizes, check.count])) for check in checks]

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
        return self._make(
            inputs=inputs, outputs=outputs, checks=prepared.checks, executable=prepared.executable, workspace_bytes=prepared.workspace_bytes
        )

    def prepared(self, values: Mapping[str, int]) -> Prepared | None:
        """The executable for these numbers of all symbols; None if they violate an assumption. Raises like `model`."""
        general = self.general
        table = np.zeros(general.entries, np.int64)
        table[: len(general.symbols)] = [values[name] for name in general.symbols]
        verdict = Verdict.decoded(self._sized.complete(table))
        if verdict.status in _OTHERWISE:
            return None
        numbers = table.tolist()
        found = {name: numbers[entry] for name, entry in general.places.items()}
        shapes = [tuple(found.get(size, size) if isinstance(size, str) else size for size in info.shape) for info in self.outputs]
        if verdict.status is not SizeStatus.OK:
            raise self._too_large(verdict, found, numbers[general.workspace], shapes)
        total = numbers[general.workspace]
        checks = [_check_at(check, found) if symbolic else check for check, symbolic in zip(self.checks, self._symbolic, strict=True)]
        return Prepared(self._sized.executable(table, total), shapes, checks, total)

    def _too_large(self, verdict: Verdict, found: Mapping[str, int], total: int, shapes: Sequence[tuple[int | str | None, ...]]) -> LimitError:
        """The error for sizes that need more memory than the limits allow."""
        general, number = self.general, verdict.number
        most = f"more than {general.most_value_bytes} (limit value_bytes)"
        if verdict.status is SizeStatus.DIMENSION:  # of values without elements, too, loops take their time
            longest = general.symbols[number]
            return LimitError(f"a dimension of size {longest} = {found[longest]} is {most}")
        if verdict.status is SizeStatus.OUTPUT:
            info = replace(self.outputs[number], shape=shapes[number])
            size = math.prod(size for size in shapes[number] if isinstance(size, int)) * info.dtype.itemsize
            return LimitError(f"output '{info.name}' {info} would take {size} bytes, {most}")
        sizes = ", ".join(f"{name} = {found[name]}" for name in general.symbols)
        needed = f"at least {MOST_TOTAL}" if verdict.status is SizeStatus.OVERFLOW else total
        most = f"more than {general.most_bytes} (limit workspace_bytes)"
        return LimitError(f"intermediate results for {sizes} would take {needed} bytes of memory, {most}")


_OTHERWISE = (SizeStatus.NEGATIVE, SizeStatus.ASSUMPTION, SizeStatus.DIVISION)
"""The verdicts for sizes that need a specialised version."""


def _check_at(check: IndexCheck, found: Mapping[str, int]) -> IndexCheck:
    """A check with numbers for the sizes that are known before the run."""
    sizes = tuple(_number(size, found) for size in check.sizes)
    return replace(check, sizes=sizes, count=_number(check.count, found))


def _number(size: int | Size, found: Mapping[str, int]) -> int | Size:
    return found.get(str(size), size) if isinstance(size, Size) else size


def valued(names: Sequence[str], elements: Sequence[Sequence[object]]) -> dict[str, str]:
    """The symbols among the `elements` of each input, as text, by the input's name; None stands for an element that is no symbol."""
    found = {name: [str(symbol) for symbol in symbols if symbol is not None] for name, symbols in zip(names, elements, strict=False)}
    return {name: f"its elements are the sizes {', '.join(symbols)}" for name, symbols in found.items() if symbols}
