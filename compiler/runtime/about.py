"""What is known of code whatever sizes it runs: the IR of each level, how long it took to make, and its kernels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stepwell.dialects.support.errors import InputError, shown


@dataclass(frozen=True)
class About:
    """What a model tells of its code."""

    snapshots: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Gives the text of each level."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """The seconds it took to reach each level."""
    kernels: int = 0
    """Number of distinct kernels."""

    def ir(self, level: str) -> str:
        """The text at `level`. Raises InputError for an unknown level."""
        if not isinstance(level, str) or level not in self.snapshots:
            raise InputError(f"unknown level {shown(level)}; known: {', '.join(self.snapshots)}")
        return self.snapshots[level]()
