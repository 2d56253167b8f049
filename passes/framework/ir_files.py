"""Files of IR with the weights that they use beside them, so that each can be run."""

import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.files import write_atomically
from stepwell.passes.framework.rewriting import used_weights

__all__ = ["IRFiles", "used_weights"]


class IRFiles:
    """Writes IR files, each with its weights beside it. Files of one table share weights on disk if one has all that the other uses."""

    def __init__(self) -> None:
        self._table: WeightTable | None = None
        self._names: Set[str] = frozenset()
        self._written: Path | None = None

    def write(self, file: Path, text: str, weights: WeightTable, used: Set[str]) -> None:
        """Write `text` to `file`, and the `used` subset of `weights` to `file` with the suffix .safetensors. Raises OSError."""
        names = used & weights.keys()
        if names and not self._shared(file, weights, names):
            self._table, self._names, self._written = weights, names, file.with_suffix(".safetensors")
            weights.save(self._written, names)
        write_atomically(file, text)

    def _shared(self, file: Path, weights: WeightTable, names: Set[str]) -> bool:
        """Whether the weights written last include all `names`, and could be hard-linked. The entries of a table do not change."""
        if self._written is None or weights is not self._table or not names <= self._names:
            return False
        target = file.with_suffix(".safetensors")
        with suppress(OSError):  # a file system without links
            if not (target.exists() and target.samefile(self._written)):
                target.unlink(missing_ok=True)
                os.link(self._written, target)
            return True
        return False
