"""A program for all sizes: its code, and what it takes to run it for some."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.layout import Joined, Layout, Room, Slot, evaluator
from stepwell.dialects.core.sizes import Assumption, Size, compare, evaluated_if_known, known, parse
from stepwell.dialects.support.errors import LimitError
from stepwell.runtime.about import About
from stepwell.runtime.executable import Executable
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import Weights
from stepwell.signature import TensorInfo

Sized = Callable[[np.ndarray, int], Executable]
"""What a backend loads of such a program: from the table of sizes and offsets, and the bytes of workspace, it makes what runs for them."""


@dataclass(frozen=True)
class General:
    """What code for all sizes is made for."""

    symbols: Sequence[str]
    """The sizes that it takes, in the order of its table."""
    layout: Sequence[Slot]
    """How the offsets in its workspace follow from them; empty if all of its buffers have sizes in numbers."""
    workspace_bytes: int
    """What the workspace takes in that case."""
    most_bytes: int
    """What it may take (the limit `workspace_bytes`)."""
    assumptions: Sequence[Assumption]
    """What the sizes must fulfil."""
    elements: Sequence[Sequence[str | None]] = ()
    """Of each input, the symbols that its elements are; None for one that is none."""
    joined: Joined | None = None
    """How they follow in runs in which a size is 1, where that is different."""
    most_value_bytes: int = 1 << 62
    """What an output may take (the limit `value_bytes`)."""


@dataclass(frozen=True)
class Prepared:
    """A program for all sizes with the sizes of a run."""

    executable: Executable
    shapes: Sequence[tuple[int | str | None, ...]]
    """Of the outputs."""
    checks: Sequence[IndexCheck]
    workspace_bytes: int


class GeneralProgram:
    """Gives a model for any sizes that fulfil the program's assumptions, in microseconds: all of them share code, weights and workspaces."""

    def __init__(
        self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], general: General, checks: Sequence[IndexCheck], sized: Sized,
        make: Callable[..., CompiledModel], about: About, weights: Weights,
    ) -> None:  # fmt: skip
        """`checks` are for any sizes. `make` makes a CompiledModel of infos, checks, an executable and the bytes of its workspace."""
        self.inputs, self.outputs, self.general, self.checks, self.about = inputs, outputs, general, checks, about
        self.weights = weights
        self._sized, self._make = sized, make
        self._layout = Layout(general.layout, general.symbols, general.joined)
        self._shapes = [_Shapes(side, general.symbols) for side in (inputs, outputs)]
        sides = [[assumption.left for assumption in general.assumptions], [assumption.right for assumption in general.assumptions]]
        self._sides = [evaluator(side, general.symbols) for side in sides]
        self._symbolic = [not known([*check.sizes, check.count]) for check in checks]

    @property
    def valued(self) -> dict[str, str]:
        """For each input whose elements are sizes, which these are."""
        return valued([info.name for info in self.inputs], self.general.elements)

    def model(self, shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, np.ndarray]) -> CompiledModel | None:
        """The model for inputs of these shapes, which fit the program's, and these arrays for those that are `valued`; None if it assumes
        something else of sizes.

        Raises LimitError where they would take more memory than they may.
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
        sides = (self._shapes[0](values), prepared.shapes)
        inputs, outputs = (
            [TensorInfo(info.name, shape, info.dtype) for info, shape in zip(infos, found, strict=True)]
            for infos, found in zip((self.inputs, self.outputs), sides, strict=True)
        )
        return self._make(
            inputs=inputs, outputs=outputs, checks=prepared.checks, executable=prepared.executable, workspace_bytes=prepared.workspace_bytes
        )

    def prepared(self, values: Mapping[str, int], room: Room | None = None) -> Prepared | None:
        """What runs these sizes, the numbers of all symbols; None if it assumes something else of them. Raises as `model`.

        Where buffers lie is taken from `room`, as `room_for` gives it, if that is large enough.
        """
        if min(values.values(), default=0) < 0 or not self._holds(values):
            return None
        found = self._layout.room(values, room) if self.general.layout else Room((), (), self.general.workspace_bytes)
        offsets, total = found.offsets, found.total
        if total > self.general.most_bytes:
            sizes = ", ".join(f"{name} = {number}" for name, number in values.items())
            most = f"more than {self.general.most_bytes} (limit workspace_bytes)"
            raise LimitError(f"intermediate results for {sizes} would take {total} bytes of memory, {most}")
        table = np.array([*(values[name] for name in self.general.symbols), *offsets], dtype=np.int64)
        shapes = self._shapes[1](values)
        for info, shape in zip(self.outputs, shapes, strict=True):
            size = math.prod(size for size in shape if isinstance(size, int)) * info.dtype.itemsize
            if size > self.general.most_value_bytes:
                most = f"more than {self.general.most_value_bytes} (limit value_bytes)"
                raise LimitError(f"output '{info.name}' {replace(info, shape=shape)} would take {size} bytes, {most}")
        longest = max(values, key=lambda name: values[name], default=None)
        if longest is not None and values[longest] > self.general.most_value_bytes:  # of values without elements, too, loops take their time
            most = f"more than {self.general.most_value_bytes} (limit value_bytes)"
            raise LimitError(f"a dimension of size {longest} = {values[longest]} is {most}")
        checks = [check.at(values) if symbolic else check for check, symbolic in zip(self.checks, self._symbolic, strict=True)]
        return Prepared(self._sized(table, total), shapes, checks, total)

    def room_for(self, values: Mapping[str, int], room: Room | None = None) -> Room | None:
        """Where buffers of these sizes may lie, `room` itself if that is large enough; None if these sizes take more memory than they may."""
        found = self._layout.room(values, room) if self.general.layout else None
        return found if found is None or found.total <= self.general.most_bytes else None

    def _holds(self, values: Mapping[str, int]) -> bool:
        """Whether the assumptions are fulfilled. A division by 0 fulfils nothing."""
        try:
            sides = [side(**values) for side in self._sides]
        except ZeroDivisionError:
            return False
        return all(compare(assumption.relation, left, right) for assumption, left, right in zip(self.general.assumptions, *sides, strict=True))


class _Shapes:
    """Computes the shapes of inputs or outputs."""

    def __init__(self, infos: Sequence[TensorInfo], symbols: Sequence[str]) -> None:
        sizes = [[parse(size) if isinstance(size, str) else size for size in info.shape] for info in infos]
        self._late = any(not _early(size, symbols) for shape in sizes for size in shape)
        self._sizes = sizes
        self._ends = list(itertools.accumulate((len(shape) for shape in sizes), initial=0))
        self._all = None if self._late else evaluator([size for shape in sizes for size in shape if size is not None], symbols)

    def __call__(self, values: Mapping[str, int]) -> list[tuple[int | str | None, ...]]:
        """The shapes, with numbers for sizes as far as they are known before the run."""
        if self._all is not None:
            found = self._all(**values)
            return [tuple(found[start:end]) for start, end in itertools.pairwise(self._ends)]
        return [tuple(_numbered(size, values) for size in shape) for shape in self._sizes]


def _early(size: "int | Size | None", symbols: Sequence[str]) -> bool:
    return size is not None and (isinstance(size, int) or set(symbols).issuperset(size.symbols))


def _numbered(size: "int | Size | None", values: Mapping[str, int]) -> int | str | None:
    found = None if size is None else evaluated_if_known(size, values)
    return found if found is None or isinstance(found, int) else str(found)


def valued(names: Sequence[str], elements: Sequence[Sequence[object]]) -> dict[str, str]:
    """For each input, by its name, whose `elements` are sizes, which these are; None stands for one that is none."""
    found = {name: [str(symbol) for symbol in symbols if symbol is not None] for name, symbols in zip(names, elements, strict=False)}
    return {name: f"its elements are the sizes {', '.join(symbols)}" for name, symbols in found.items() if symbols}
