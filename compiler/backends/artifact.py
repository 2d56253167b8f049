"""The artifact of a compiled model, which a backend loads to run it, and which the cache stores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from stepwell.border.border import Border
from stepwell.cache.disk import Kept
from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.pipelines.routes import DEFAULT
from stepwell.records import APART
from stepwell.runtime.general import General
from stepwell.runtime.late_sizes import LateSizes
from stepwell.runtime.weights import Places
from stepwell.signature import OutputGroup, TensorInfo

Infos: TypeAlias = Sequence[TensorInfo]


@dataclass(kw_only=True)
class Artifact:
    """Everything needed to run a model. The keys locate code (by name) and weights in the cache, if they are there; records hold only the keys."""

    inputs: Infos
    outputs: Infos
    workspace_bytes: int
    nodes: Sequence[str]
    objects: Mapping[str, bytes] = field(default_factory=dict, metadata=APART)
    weights: np.ndarray | Kept = field(default_factory=lambda: np.empty(0, np.uint8), metadata=APART)
    """The arena, or the cache entry with it, to be read once the original weights have been freed."""
    object_keys: Mapping[str, str] = field(default_factory=dict)
    weights_key: str | None = None
    kernels: int = 0
    checks: Sequence[IndexCheck] = ()
    backend: str = DEFAULT
    lines: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Like the field of `Code`."""
    warnings: Sequence[str] = ()
    general: General | None = None
    """Set if the code is shape-polymorphic."""
    late: LateSizes | None = None
    """Set if sizes become known at run time."""
    groups: Sequence[OutputGroup] = ()
    """The outputs made from `outputs`, the results of the code, if some are sequences or optionals."""
    places: Places = ()
    """The offsets of weights in the arena, if the code reads the address of each from a table."""
    plan: str = ""
    """The text of the plan that makes the same code without tuning records; empty if neither a plan nor records decided anything."""
    border: Border | None = None
    """The part of the model that runs in Python, before and after the code."""

    @property
    def is_stored(self) -> bool:
        """Whether all of its code and its weights are in the cache."""
        return self.weights_key is not None and self.object_keys.keys() == self.objects.keys()

    @property
    def described(self) -> Infos:
        """The outputs as calls return them."""
        rest = iter(self.outputs)
        return [group.described(rest) for group in self.groups] if self.groups else self.outputs
