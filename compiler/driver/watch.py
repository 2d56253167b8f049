"""Observers of a compilation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from stepwell.passes.framework.instrumentation import Instrumentation

OnLevel: TypeAlias = Callable[[str, float], None]
"""Called as each level is reached, with the time for it in seconds."""


@dataclass(frozen=True)
class Watch:
    """Functions that are called as a compilation progresses."""

    on_level: OnLevel | None = None
    instrumentation: "Instrumentation | None" = None
    """Observes the passes, so that they must run: a cached model is not enough."""

    @property
    def needs_passes(self) -> bool:
        """Whether the passes are observed."""
        return self.instrumentation is not None

    def reached(self, level: str, seconds: float) -> None:
        """Report that a level has been reached."""
        if self.on_level is not None:
            self.on_level(level, seconds)
