"""Output of the `stepwell` command: tables on standard output, progress on standard error."""

import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

STAGES = ("graph", "graph-opt", "linalg", "scheduled", "affine", "llvm", "obj")
PLAIN_WIDTH = 200  # columns where no terminal says how many there are


def console(stream: TextIO) -> "Console":
    """A console that prints text as it is: names and types have brackets in them."""
    from rich.console import Console

    made = Console(file=stream, markup=False, highlight=False, emoji=False)
    if not made.is_terminal:
        made = Console(file=stream, markup=False, highlight=False, emoji=False, width=PLAIN_WIDTH)
    return made


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, numbers: Sequence[int] = ()) -> None:
    """Print a table to standard output; `numbers` are the columns to align on the right. A table without rows is not printed."""
    if not rows:
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False, title_style="bold")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out = console(sys.stdout)
    out.print(table)
    out.print()


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
    """The time that each level took, on one line."""
    return ", ".join(f"{level} {seconds(amount)}" for level, amount in timings.items())


class Progress:
    """Shows which level is being worked on, on standard error where that is a terminal; use as a context manager."""

    def __init__(self, start: str | None = None) -> None:
        self.next = STAGES[0 if start is None else STAGES.index(start) + 1]
        self.status: Status | None = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            self.status = console(sys.stderr).status(self.next)
            self.status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.status is not None:
            self.status.stop()

    def level(self, name: str, elapsed: float) -> None:
        """A level was reached; what `stepwell.compile` calls as `on_level`."""
        self.say(STAGES[min(STAGES.index(name) + 1, len(STAGES) - 1)] if name in STAGES else name)

    def say(self, what: str) -> None:
        """Show what is being done."""
        self.next = what
        if self.status is not None:
            self.status.update(what)
