"""Facts about code that hold for all sizes: the IR of each level, its time, and the number of kernels; and models with code in memory."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from stepwell.dialects.support.errors import InputError, shown

if TYPE_CHECKING:
    from stepwell.runtime.serving.requests import Runner
    from stepwell.runtime.serving.streams import Streams
    from stepwell.signature import TensorInfo


@dataclass(frozen=True)
class About:
    """The description of a model's code."""

    snapshots: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Functions that return the text of each level."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """The seconds until each level was reached."""
    kernels: int = 0
    """The number of distinct kernels."""
    plan: str | None = None
    """The text of the plan in use."""

    def ir(self, level: str) -> str:
        """The text at `level`. Raises InputError for an unknown level."""
        if not isinstance(level, str) or level not in self.snapshots:
            raise InputError(f"unknown level {shown(level)}; known: {', '.join(self.snapshots)}")
        return self.snapshots[level]()


class InMemory:
    """A model whose code is in the memory of this process: copies share the code, and it cannot be pickled."""

    kind: ClassVar[str] = "a compiled model"
    inputs: "tuple[TensorInfo, ...]"
    """The inputs that a run takes."""
    keeps_state: bool = False
    """Whether it keeps a state from run to run."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run on inputs by name; returns outputs by name."""
        raise NotImplementedError

    def streams(
        self, streams: int | str, *, threads: int | None = None, queue: int = 64, callers: int | None = None,
        example: Mapping[str, np.ndarray] | None = None,
    ) -> "Streams":  # fmt: skip
        """Streams that run this model for many callers: so many, each with `threads` threads, by default its share of the cores.

        At most `queue` requests wait. With "auto", the fastest way to share the cores out among `callers` callers, by default one for each core, is
        measured within a second, with runs on `example` (inputs by name), by default arrays of the model's sizes; `Streams.choice` has the result.
        Raises InputError for a wrong argument, ResourceError if there is no memory or there are no threads.
        """
        from stepwell.runtime.serving.choice import open_streams  # imported here, because most programs do not need it

        return open_streams(self, streams, threads=threads, queue=queue, callers=callers, example=example)

    def stream_runner(self, threads: int, *, spins: bool) -> "Runner":
        """The runner for one stream: see `stepwell.runtime.serving.choice.Served`."""
        from stepwell.runtime.serving.streams import ContextRunner

        return ContextRunner(self.run, threads, spins=spins)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)

    def __reduce__(self) -> str:
        where = "pickle its ONNX model, and compile that where it is needed: what is in the cache is there at once"
        raise InputError(f"pickle: {self.kind} is code in the memory of this process, which cannot be pickled; {where}")


class Described(InMemory):
    """A model of which the description of its code is known."""

    @property
    def _described(self) -> "About | Described":
        """The description, or another model with the same one."""
        raise NotImplementedError

    @property
    def timings(self) -> dict[str, float]:
        """The seconds it took to reach each level."""
        return dict(self._described.timings)

    @property
    def kernels(self) -> int:
        """Number of distinct kernels."""
        return self._described.kernels

    @property
    def plan(self) -> str | None:
        """The text of the plan that its code was made by, as a file for `plan` would have it: the given one, with what tuning records added to it.

        None if neither a plan nor records decided anything.
        """
        return self._described.plan

    def ir(self, level: str) -> str:
        """The text of the model at `level`. Raises InputError for an unknown level."""
        return self._described.ir(level)
