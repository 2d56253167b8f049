"""IR snapshots of a compiled model, created on request by lowering it again: the cache stores code, not IR."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from stepwell.backends.registry import find_backend
from stepwell.dialects.support.processes import Lock

if TYPE_CHECKING:
    from stepwell.pipelines.lowered import Lowered


class Snapshots:
    """Lowers a model again to the requested level. `start` returns it at level `first`."""

    def __init__(self, first: str, start: "Callable[[], Lowered]", backend: str) -> None:
        self.backend = find_backend(backend)
        self.levels = self.backend.path.since(first)
        self._start = start
        self._lowered: Lowered | None = None
        self._lock = Lock()

    def by_level(self) -> Mapping[str, Callable[[], str]]:
        """A function for each level, and for each translation of the backend."""
        translations = {name: partial(self._translation, name) for name in self.backend.translations()}
        return {**{level: partial(self._text, level) for level in self.levels}, **translations}

    def _lowered_to(self, level: str) -> "Lowered":
        from stepwell.driver.lowering import descend

        if self._lowered is None:
            self._lowered = self._start()
        if level not in self._lowered.snapshots:
            descend(self._lowered, level)
        return self._lowered

    def _text(self, level: str) -> str:
        with self._lock:
            return str(self._lowered_to(level).snapshots[level].get_asm(enable_debug_info=True))

    def _translation(self, name: str) -> str:
        with self._lock:
            return str(self.backend.translations()[name](self._lowered_to(self.backend.path.last)))
