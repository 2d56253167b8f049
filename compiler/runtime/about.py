"""Facts about code that hold for all sizes: the IR of each level, its time, and the number of kernels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stepwell.dialects.support.errors import InputError, shown


@dataclass(frozen=True)
class About:
    """The description of a model's code."""

    snapshots: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Functions that return the text of each level."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """The seconds until each level was reached."""
    kernels: int = 0
    """The number of distinct kernels."""

    def ir(self, level: str) -> str:
        """The text at `level`. Raises InputError for an unknown level."""
        if not isinstance(level, str) or level not in self.snapshots:
            raise InputError(f"unknown level {shown(level)}; known: {', '.join(self.snapshots)}")
        return self.snapshots[level]()
