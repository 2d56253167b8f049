"""A program for all sizes: its code, and what it takes to run it for some."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.layout import Layout, Slot
from stepwell.dialects.core.sizes import Assumption, evaluated_if_known, parse
from stepwell.dialects.support.errors import LimitError
from stepwell.runtime.executable import Executable
from stepwell.runtime.infos import TensorInfo
from stepwell.runtime.model import CompiledModel

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
    most_value_bytes: int = 1 << 62
    """What an output may take (the limit `value_bytes`)."""


class GeneralProgram:
    """Gives a model for any sizes that fulfil the program's assumptions, in microseconds: all of them share code, weights and workspaces."""

    def __init__(
        self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], general: General, checks: Sequence[IndexCheck], sized: Sized,
        make: Callable[..., CompiledModel],
    ) -> None:  # fmt: skip
        """`checks` are for any sizes. `make` makes a CompiledModel of infos, checks, an executable and the bytes of its workspace."""
        self.inputs, self.outputs, self.general, self.checks = inputs, outputs, general, checks
        self._sized, self._make = sized, make
        self._layout = Layout(general.layout, general.symbols)

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
        if min(values.values(), default=0) < 0 or not all(assumption.holds(values) for assumption in self.general.assumptions):
            return None
        offsets, total = self._layout.offsets(values) if self.general.layout else ([], self.general.workspace_bytes)
        if total > self.general.most_bytes:
            sizes = ", ".join(f"{name} = {number}" for name, number in values.items())
            most = f"more than {self.general.most_bytes} (limit workspace_bytes)"
            raise LimitError(f"intermediate results for {sizes} would take {total} bytes of memory, {most}")
        table = np.array([*(values[name] for name in self.general.symbols), *offsets], dtype=np.int64)
        inputs, outputs = ([_numbered(info, values) for info in side] for side in (self.inputs, self.outputs))
        for info in outputs:
            size = math.prod(size for size in info.shape if isinstance(size, int)) * info.dtype.itemsize
            if size > self.general.most_value_bytes:
                most = f"more than {self.general.most_value_bytes} (limit value_bytes)"
                raise LimitError(f"output '{info.name}' {info} would take {size} bytes, {most}")
        checks = [check.at(values) for check in self.checks]
        return self._make(inputs=inputs, outputs=outputs, checks=checks, executable=self._sized(table, total), workspace_bytes=total)


def valued(names: Sequence[str], elements: Sequence[Sequence[object]]) -> dict[str, str]:
    """For each input, by its name, whose `elements` are sizes, which these are; None stands for one that is none."""
    found = {name: [str(symbol) for symbol in symbols if symbol is not None] for name, symbols in zip(names, elements, strict=False)}
    return {name: f"its elements are the sizes {', '.join(symbols)}" for name, symbols in found.items() if symbols}


def _numbered(info: TensorInfo, values: Mapping[str, int]) -> TensorInfo:
    """An input or output with numbers for its sizes, as far as they are known before the run."""
    found = (evaluated_if_known(parse(size), values) if isinstance(size, str) else size for size in info.shape)
    return replace(info, shape=tuple(size if size is None or isinstance(size, int) else str(size) for size in found))
