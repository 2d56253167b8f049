"""The interface of backends: pipeline, code generation, loading and execution. Subclass `Backend`, and register it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stepwell.dialects.target.description import Target
from stepwell.driver.artifact import Artifact
from stepwell.driver.default_pipelines import CPU
from stepwell.runtime.executable import Executable

if TYPE_CHECKING:
    from stepwell.cache.disk import Cache
    from stepwell.driver.lowered import Lowered


@dataclass
class Code:
    """What a backend made of a model: any data, by name."""

    objects: dict[str, bytes]
    kernels: int
    """Number of distinct kernels."""
    keys: dict[str, str] = field(default_factory=dict)
    """Where the cache has some of the objects already, because the backend looked for them there by itself; it gets the others."""
    lines: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """For each object that numbers ONNX nodes by itself, the indices of its nodes in the model, for listings."""


class Backend:
    """Pipeline, code generation, loading and execution. One instance serves all models, in several threads at once.

    What a backend makes has to be the same for the same model, options and machine: it is kept in the cache. Weights lie in one arena (level
    linalg: the last argument of `@main`), which is packed, kept and read for every backend alike.
    """

    name: ClassVar[str]
    levels: ClassVar[Sequence[str]]
    """The levels that code can be made from, highest first, all at linalg or below. Pipelines go down to the last of them."""
    description: ClassVar[str] = ""
    """What it is, in a line."""

    def pipeline(self, target: "str | Target") -> str:
        """The text of the default pipeline; stages below the last of `levels` do not run."""
        return CPU

    def check_target(self, target: "str | Target") -> None:
        """Raise InputError for a machine that the backend makes no code for."""

    def prepare(self) -> None:
        """Start slow preparations for code generation, in parallel with the remaining passes."""

    def generate(self, lowered: "Lowered", store: "Cache | None", reached: Callable[[], None]) -> Code:
        """Code for a model at one of `levels`, whose module may be used up.

        `store` is the cache, for backends that store parts of the code themselves; the driver stores the rest. A backend that lowers a model further
        itself calls `reached` at the last of its levels. Raises CodegenError, naming the function, for what it cannot translate.
        """
        raise NotImplementedError

    def load(self, artifact: Artifact, weights: np.ndarray, threads: int) -> Executable:
        """What runs the code of `artifact`, which may come from the cache, on its arena of weights, with so many threads at most."""
        raise NotImplementedError

    def translations(self) -> "Mapping[str, Callable[[Lowered], str]]":
        """Texts that are made from a model at the last of `levels`, by the names that `--emit` and `CompiledModel.ir` know them by."""
        return {}

    def listings(self) -> Mapping[str, Callable[[Artifact], str]]:
        """Texts that are made from code."""
        return {}

    def files(self) -> "Mapping[str, Callable[[Lowered], bytes]]":
        """Files that are made from a model at the last of `levels`, for `--emit`."""
        return {}
