"""IR of a compiled model, created on request by lowering it again: the cache stores code, not IR."""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from stepwell.backends.registry import find_backend
from stepwell.dialects.support.processes import Lock

if TYPE_CHECKING:
    from stepwell.pipelines.lowered import Lowered


def texts_by_level(first: str, start: "Callable[[], Lowered]", backend: str) -> dict[str, Callable[[], str]]:
    """Functions that return the text of a model at each level from `first` on, and each translation of its backend.

    `start` returns the model at level `first`; it is called once, by the first of them.
    """
    chosen, lock, started = find_backend(backend), Lock(), cache(start)

    def lowered_to(level: str) -> "Lowered":
        from stepwell.driver.lowering import descend

        lowered = started()
        if level not in lowered.snapshots:
            descend(lowered, level)
        return lowered

    def text(level: str) -> str:
        with lock:
            return str(lowered_to(level).snapshots[level].get_asm(enable_debug_info=True))

    def translation(name: str) -> str:
        with lock:
            return str(chosen.translations()[name](lowered_to(chosen.path.last)))

    translations = {name: partial(translation, name) for name in chosen.translations()}
    return {**{level: partial(text, level) for level in chosen.path.since(first)}, **translations}
