"""MLIR's diagnostics about IR, as records with their position in the text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepwell.dialects.support.names import printable_lines

_KINDS = {"ERROR": "error", "WARNING": "warning", "NOTE": "note", "REMARK": "remark"}
PARSED_NAME = "-"  # the file name that the bindings give to text


@dataclass(frozen=True)
class Diagnostic:
    """One message about the IR; `line` is None if its location is no line of the text."""

    kind: str
    message: str
    line: int | None = None
    column: int = 0
    place: str = ""

    def where(self, file: str) -> str:
        """`FILE:LINE:COLUMN`, or the location if it is no line of the file."""
        return f"{file}:{self.line}:{self.column}" if self.line is not None else f"{file}{f' at {self.place}' if self.place else ''}"

    def show(self, file: str) -> str:
        """The usual form of compilers: `FILE:LINE:COLUMN: error: MESSAGE`."""
        return printable_lines(f"{self.where(file)}: {self.kind}: {self.message}")


def diagnosed(message: str, location: Any) -> Diagnostic:
    """An error of ours about the op at a location."""
    place = str(location)
    return Diagnostic("error", message, *line_of(place), "" if place == "loc(unknown)" else place)


def from_native(record: Any) -> list[Diagnostic]:
    """The diagnostics in a record of the bindings and its notes, without those that only repeat the op's text."""
    own = replace(diagnosed(record.message, record.location), kind=_KINDS[record.severity.name])
    notes = [note for inner in record.notes for note in from_native(inner) if not note.message.startswith("see current operation:")]
    return [own, *notes]


def line_of(text: str) -> tuple[int | None, int]:
    """Line and column of the first location in the text that was read; (None, 0) if there is none."""
    found = re.search(rf'"{re.escape(PARSED_NAME)}":(\d+):(\d+)', text)
    return (int(found.group(1)), int(found.group(2))) if found and found.group(1) != "0" else (None, 0)


def summary(found: Sequence[Diagnostic], file: str) -> str:
    """All diagnostics in one line, each with its position; errors without the word `error`."""
    return "; ".join(f"{d.where(file)}: {d.message}" if d.kind == "error" else d.show(file) for d in found)
