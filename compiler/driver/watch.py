"""What follows a compilation while it goes on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from stepwell.passes.framework.instrumentation import Instrumentation

OnLevel: TypeAlias = Callable[[str, float], None]
"""Called as each level is reached, with the seconds that it took."""


@dataclass(frozen=True)
class Watch:
    """The functions that are told how a compilation goes on."""

    on_level: OnLevel | None = None
    instrumentation: "Instrumentation | None" = None
    """Watches the passes, so that they must run: a model from the cache will not do."""

    @property
    def needs_passes(self) -> bool:
        """Whether the passes are watched."""
        return self.instrumentation is not None

    def reached(self, level: str, seconds: float) -> None:
        """Tell that a level has been reached."""
        if self.on_level is not None:
            self.on_level(level, seconds)
