"""Files of IR: their text, and the weight table beside them."""

import sys
from pathlib import Path

from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import IRError


def read_text(file: str) -> str:
    """The text of a file, or of standard input for `-`. Raises IRError if it is not text."""
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    if (zero := data.find(0)) >= 0:  # MLIR's parser would take it for the end of the file
        raise IRError(f"{file}: expected MLIR as text, got a zero byte at offset {zero}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise IRError(f"{file}: expected MLIR as text, got a byte that is not UTF-8 at offset {error.start}") from None


def read_weights(file: str, named: str | None) -> tuple[WeightTable, Path | None]:
    """The weight table of a file of IR and its path: the named one, or the one beside the IR. Raises ModelError."""
    if named is not None:
        return WeightTable.load(named), Path(named)
    beside = Path(file).with_suffix(".safetensors")
    if file != "-" and beside.is_file():
        return WeightTable.load(beside), beside
    return WeightTable(), None
