"""The IR of a compiled model at each level, made when it is asked for: code is kept, IR is not."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from stepwell.dialects.support.processes import Lock
from stepwell.passes.framework.levels import LEVELS

if TYPE_CHECKING:
    from stepwell.driver.lowered import Lowered


class Snapshots:
    """Lowers a model again, as far down as somebody wants to see it. `start` gives it at the level `first`."""

    def __init__(self, first: str, start: "Callable[[], Lowered]") -> None:
        self.levels = LEVELS[LEVELS.index(first) :]
        self._start = start
        self._lowered: Lowered | None = None
        self._lock = Lock()

    def by_level(self) -> Mapping[str, Callable[[], str]]:
        """A function for each level there is, and for the LLVM IR."""
        return {**{level: partial(self._text, level) for level in self.levels}, "llvm-ir": self._llvm_ir}

    def _at(self, level: str) -> "Lowered":
        from stepwell.driver.lowering import descend

        if self._lowered is None:
            self._lowered = self._start()
        if level not in self._lowered.snapshots:
            descend(self._lowered, level)
        return self._lowered

    def _text(self, level: str) -> str:
        with self._lock:
            return str(self._at(level).snapshots[level].get_asm(enable_debug_info=True))

    def _llvm_ir(self) -> str:
        from stepwell.codegen.artifacts import llvm_ir

        with self._lock:
            return llvm_ir(self._at(LEVELS[-1]).module)
