"""The interface of backends: phases of passes, code generation, loading and execution. Subclass `Backend`, and register it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stepwell.backends.artifact import Artifact
from stepwell.backends.phases import COMMON
from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.levels import LevelPath
from stepwell.pipelines.phases import Phase
from stepwell.runtime.executable import Executable
from stepwell.runtime.general import Sized

if TYPE_CHECKING:
    from stepwell.cache.disk import Cache
    from stepwell.pipelines.lowered import Lowered


@dataclass
class Code:
    """The output of a backend for a model: any data, by name."""

    objects: dict[str, bytes]
    kernels: int
    """Number of distinct kernels."""
    keys: dict[str, str] = field(default_factory=dict)
    """The cache keys of objects that the backend has stored itself; the driver stores the others."""
    lines: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """For each object with its own numbering of ONNX nodes, the indices of its nodes in the model, for listings."""
    located: bool = False
    """Whether it reads the address of each weight from a table, which `load` then gets instead of the arena (`locate-weights`)."""


class Backend:
    """Phases of passes, code generation, loading and execution. One instance serves all models, in several threads at once.

    A backend must be deterministic in model, options and machine, since its output is cached. Weights lie in one arena (on tensors, the last argument
    of `@main`), which the driver packs, stores and reads for every backend.
    """

    name: ClassVar[str]
    path: ClassVar[LevelPath]
    """The levels that a model goes through; code can be generated from the last, at which weights lie in an arena."""
    code_levels: ClassVar[Sequence[str]] = ()
    """The levels of `path` that code can be generated from, highest first; by default only the last.

    A model is lowered to the first of them, or to the last if its passes are observed.
    """
    description: ClassVar[str] = ""
    """A one-line description."""

    def phases(self, target: "str | Target") -> Sequence[Phase]:
        """The default pipeline: phases for each level of `path` but the first, by default those that all backends share."""
        return COMMON

    def check_target(self, target: "str | Target") -> None:
        """Raise InputError for a machine that the backend does not support."""

    def prepare(self, kernels: int) -> None:
        """Start slow preparations for generating the code of a model with `kernels` kernels, in parallel with the passes after outlining."""

    def generate(self, lowered: "Lowered", store: "Cache | None", reached: Callable[[], None]) -> Code:
        """Code for a model at one of `code_levels`, whose module may be consumed.

        `store` is the cache, for backends that store parts of the code themselves; the driver stores the rest. A backend that lowers a model further
        itself calls `reached` at the last level. Raises CodegenError, naming the function, for IR that it cannot translate.
        """
        raise NotImplementedError

    def cross_compile(self, lowered: "Lowered") -> dict[str, bytes]:
        """The objects of a model at the last level for its target, which need not be this machine. Its module may be consumed.

        Raises CodegenError if it is impossible.
        """
        raise CodegenError(f"backend '{self.name}' makes no code for other machines than this one")

    def load(self, artifact: Artifact, weights: np.ndarray, threads: int) -> Executable:
        """Load the code of `artifact`, which may come from the cache, to run with the arena `weights` on at most `threads` threads.

        If `Code.located` is set, `weights` is the table of their addresses (`runtime.weights`): programs of one model then share weights.
        """
        raise NotImplementedError

    def load_sized(self, artifact: Artifact, weights: np.ndarray, threads: int) -> Sized | None:
        """Like `load`, for code that takes sizes as arguments; None if the backend makes no such code."""
        return None

    def translations(self) -> "Mapping[str, Callable[[Lowered], str]]":
        """Texts generated from a model at the last level, by their names for `--emit` and `CompiledModel.ir`."""
        return {}

    def listings(self) -> Mapping[str, Callable[[Artifact], str]]:
        """Texts generated from code."""
        return {}

    def files(self) -> "Mapping[str, Callable[[Lowered], bytes]]":
        """Files generated from a model at the last level, for `--emit`."""
        return {}
