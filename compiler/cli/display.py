"""Output of the `stepwell` command: tables on standard output, progress on standard error."""

import itertools
import shutil
import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from stepwell.dialects.support.names import printable, printable_lines
from stepwell.passes.framework.levels import IMPORTED, LevelPath
from stepwell.pipelines.routes import CPU_PATH

if TYPE_CHECKING:
    from rich.status import Status

PLAIN_WIDTH = 200  # columns if the output is not a terminal
GAP = " " * 3  # between the columns of a table


def width() -> int:
    """The width of standard output, in columns."""
    return shutil.get_terminal_size((PLAIN_WIDTH, 0)).columns if sys.stdout.isatty() else PLAIN_WIDTH


def say(text: object = "", *, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Print text, by default to standard output: the only way in which commands print, because names, paths and foreign messages may be in it.

    Unprintable characters are escaped, except ends of lines, which are ours, as names are on one line (`stepwell.dialects.support.names`).
    """
    print(printable_lines(str(text)), end=end, file=file, flush=flush)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, numbers: Collection[int] = ()) -> None:
    """Print a table to standard output; `numbers` are the right-aligned columns. A table without rows is not printed.

    Cells that are too wide are folded; unprintable characters in them are escaped.
    """
    if not rows:
        return
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width()
    while excess > 0 and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
        excess -= 1
    lines = [line for row in cells for line in _lines(row, widths, numbers)]
    rule = "─" if (sys.stdout.encoding or "").lower().startswith("utf") else "-"
    below = len(_lines(cells[0], widths, numbers))
    lines.insert(below, rule * (sum(widths) + len(GAP) * (len(widths) - 1)))
    say("\n".join([*([] if title is None else [title]), *lines, ""]))


def _lines(row: Sequence[str], widths: Sequence[int], numbers: Collection[int]) -> list[str]:
    """The lines of a row: several if a cell is wider than its column."""
    folded = [[cell] if columns(cell) <= size else _folded(cell, size) for cell, size in zip(row, widths, strict=True)]
    lines = []
    for parts in itertools.zip_longest(*folded, fillvalue=""):
        spaces = [" " * (size - columns(part)) for part, size in zip(parts, widths, strict=True)]
        padded = [space + part if i in numbers else part + space for i, (part, space) in enumerate(zip(parts, spaces, strict=True))]
        lines.append(GAP.join(padded).rstrip())
    return lines


def _folded(cell: str, size: int) -> list[str]:
    import textwrap

    return textwrap.wrap(cell, size, break_on_hyphens=False)


def columns(text: str) -> int:
    """The number of columns that printable text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def quantity(amount: float, unit: str) -> str:
    """`12.3 MB`, `1.8 GFLOP`: with a decimal prefix."""
    prefixes = ["", "k", "M", "G", "T"]
    while amount >= 999.5 and len(prefixes) > 1:  # 999.6 would be shown as 1e+03
        amount /= 1000
        prefixes.pop(0)
    return f"{amount:.3g} {prefixes[0]}{unit}"


def seconds(amount: float) -> str:
    """`1.24 s`, `3.42 ms`, `18.1 µs`."""
    if amount >= 1:
        return f"{amount:.2f} s"
    return f"{amount * 1e3:.3g} ms" if amount >= 1e-3 else f"{amount * 1e6:.3g} µs"


def plural(count: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`, `2 launches`."""
    ending = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{ending * (count != 1)}"


def level_times(timings: Mapping[str, float]) -> str:
    """The time for each level, on one line."""
    return ", ".join(f"{level} {seconds(amount)}" for level, amount in timings.items())


class Progress:
    """Shows the current level on standard error if that is a terminal; use as a context manager."""

    def __init__(self, path: LevelPath = CPU_PATH, start: str | None = None, *, doing: str | None = None) -> None:
        """It begins with the level below `start`, or with the action `doing`."""
        self.following: dict[str | None, str] = {None: IMPORTED, **dict(itertools.pairwise((*path, "obj")))}
        self.next = self.following[start] if doing is None else doing
        self.status: Status | None = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            from rich.console import Console

            self.status = Console(file=sys.stderr, markup=False, highlight=False, emoji=False).status(self.next)
            self.status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.status is not None:
            self.status.stop()

    def level(self, name: str, elapsed: float) -> None:
        """Called by `stepwell.compile` (as `on_level`) when a level is reached."""
        self.say(self.following.get(name, name))

    def say(self, what: str) -> None:
        """Show the current action."""
        self.next = what
        if self.status is not None:
            self.status.update(printable(what))
