"""The progress of a tuning run on a terminal: a table of sites that is redrawn in place, or plain lines at a low rate elsewhere."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from stepwell.dialects.support.names import printable
from stepwell.tuning.story import Ratio
from stepwell.tuning.texts import duration, percent, shortened

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

REDRAW = 0.25
"""Seconds between two drawings of the table, at least."""
LINE = 10.0
"""Seconds between two lines where the output is no terminal, at least."""
AROUND = 7
"""Lines that the table needs beside its sites: its header, its end, and the lines below it."""
FEWEST = 3
"""Sites that are shown even if the terminal has fewer lines."""
FULL, MEDIUM = 96, 56
"""The columns of the terminal from which all columns of the table are shown, or all but the least important ones."""
STYLES = {"confirmed": "green", "rolled back": "yellow", "racing": "bold", "building": "bold", "checking": "bold", "confirming": "bold"}
"""Styles of states; other states have none. No state is told by its colour alone."""


@dataclass(frozen=True)
class SiteProgress:
    """The state of one site."""

    name: str
    kind: str
    share: float | None
    """Its share of the time of the untuned network, from 0 to 1."""
    tried: int
    space: int | None
    """The number of candidates; None if it is unknown."""
    best: Ratio | None
    """The time of its best candidate so far relative to the default's."""
    state: str
    """Its present step or its result: `waiting`, `building`, `racing`, `confirmed`, …"""


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at one moment."""

    network: str
    sites: Sequence[SiteProgress]
    """In the order in which they are shown, the most important first."""
    doing: str
    """The present step, such as `racing conv3: 8 candidates`."""
    used: float
    """Seconds of the budget that have passed."""
    budget: float
    """Seconds that the run may take."""
    built: int = 0
    failed: int = 0
    """The numbers of candidates that were built, and that could not be built or run or gave other bits."""
    expected: float | None = None
    """The share of the network's time, from 0 to 1, that the rest of the budget is expected to save."""
    estimate: Ratio | None = None
    """The best estimate of the network's time relative to the untuned network."""


class Progress:
    """Shows the snapshots that `update` gets, on standard error by default; use as a context manager.

    It draws only inside `update`, at a bounded rate, and starts no thread: otherwise it would take cores from what is measured.
    Colours follow the conventions of NO_COLOR and TERM.
    """

    def __init__(self, file: TextIO | None = None, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.file, self.quiet, self.clock = file, quiet, clock
        self.console: Console | None = None
        self.live: Live | None = None
        self.latest: Snapshot | None = None
        self.drawn: tuple[float, Snapshot] | None = None
        """The time and the snapshot of the last drawing."""

    def __enter__(self) -> Self:
        if not self.quiet:
            from rich.live import Live

            self.console = _console(self.file or sys.stderr)
            if self.console.is_terminal and not self.console.is_dumb_terminal:
                self.live = Live(console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
                self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.latest is not None and (self.drawn is None or self.drawn[1] is not self.latest):
            self._draw(self.latest)
        if self.live is not None:
            with suppress(OSError):
                self.live.stop()

    def update(self, snapshot: Snapshot) -> None:
        """Show a snapshot, unless another one was shown a moment ago. The last one is shown at the end in any case."""
        self.latest = snapshot
        interval = REDRAW if self.live is not None else LINE
        if self.drawn is None or self.clock() - self.drawn[0] >= interval:
            self._draw(snapshot)

    def note(self, text: str) -> None:
        """Print a line that stays, above the table, such as a fault that was found."""
        if self.console is not None:
            self._print(printable(text), self.console)

    def _draw(self, snapshot: Snapshot) -> None:
        self.drawn = self.clock(), snapshot
        if self.console is None:
            return
        if self.live is None:
            self._print(line(snapshot), self.console)
            return
        with suppress(OSError):
            self.live.update(view(snapshot, self.console.width, self.console.height), refresh=True)

    def _print(self, text: str, console: "Console") -> None:
        """Print a line. A terminal that is gone or a disk that is full does not end the run, whose results are worth more than its progress."""
        with suppress(OSError):
            if self.live is not None:
                console.print(text, soft_wrap=True)
            else:
                print(text, file=console.file, flush=True)


def _console(file: TextIO) -> "Console":
    """A console that prints texts as they are, and nothing more once its reader is gone, for which rich would end the program."""
    from rich.console import Console

    class Lasting(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True

    return Lasting(file=file, markup=False, highlight=False, emoji=False)


def line(snapshot: Snapshot) -> str:
    """A snapshot as one line."""
    done = sum(site.state == "confirmed" for site in snapshot.sites)
    return f"{_budget(snapshot)}: {printable(snapshot.doing)}; {done} of {len(snapshot.sites)} sites confirmed; {'; '.join(_facts(snapshot))}"


def view(snapshot: Snapshot, width: int, height: int) -> "RenderableType":
    """A snapshot as a table with lines below it, for a terminal of that many columns and lines.

    If there are more sites than lines, the sites of the lowest rank are summed up in one line.
    """
    from rich.console import Group
    from rich.text import Text

    shown = max(FEWEST, height - AROUND)
    if shown < len(snapshot.sites):
        shown -= 1  # for the line that sums up the others
    table, rest = _table(snapshot.sites[:shown], width), snapshot.sites[shown:]
    below = []
    if rest:
        waiting = sum(site.tried == 0 for site in rest)
        below.append(Text(f"… and {len(rest)} more sites, {waiting} of them not tried yet", "dim"))
    below.append(Text(f"{_bar(snapshot, width)} {_budget(snapshot)}"))
    below.append(Text(f"now: {printable(snapshot.doing)}", "bold"))
    below.append(Text("; ".join(_facts(snapshot))))
    for text in below[:-1]:
        text.truncate(width, overflow="ellipsis")
    return Group(table, *below) if snapshot.sites else Group(*below)


def _table(sites: Sequence[SiteProgress], width: int) -> "Table":
    """The rows of sites. Narrow terminals get fewer columns, and the names of sites the room that is left."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, expand=False)
    # The columns by importance: name and state are always shown.
    columns = [("site", 0, "left"), ("kind", FULL, "left"), ("share", MEDIUM, "right"), ("tried", MEDIUM, "right"), ("best so far", 0, "right")]
    columns.append(("state", 0, "left"))
    kept = [index for index, (_, least, _) in enumerate(columns) if width >= least]
    rows = [_cells(site, short=width < MEDIUM) for site in sites]
    sizes = [max([len(columns[index][0]), *(len(row[index]) for row in rows)]) for index in kept[1:]]
    room = max(8, width - sum(sizes) - 2 * len(sizes))
    for index in kept:
        label, _, side = columns[index]
        table.add_column(Text(label), justify="right" if side == "right" else "left", no_wrap=True, overflow="ellipsis")
    for site, cells in zip(sites, rows, strict=True):
        cells[0] = shortened(site.name, room)
        styles = ["", "dim", "", "", "", STYLES.get(site.state, "")]
        table.add_row(*(Text(cells[index], styles[index]) for index in kept))
    return table


def _cells(site: SiteProgress, *, short: bool) -> list[str]:
    """The cells of a site, whose first one, the name, depends on the room that is left; `short` leaves intervals out."""
    best = "" if site.best is None else f"{site.best.value:.3f}" if short else str(site.best)
    tried = f"{site.tried:,}" + (f"/{_amount(site.space)}" if site.space is not None else "")
    return ["", shortened(site.kind, 12), percent(site.share), tried, best, shortened(site.state, 12)]


def _amount(number: int) -> str:
    """A count in few characters: spaces of schedules have up to 10^12 candidates."""
    return f"{number:,}" if number < 100_000 else f"{number:.0e}".replace("e+0", "e").replace("e+", "e")


def _budget(snapshot: Snapshot) -> str:
    left = max(0.0, snapshot.budget - snapshot.used)
    return f"{duration(snapshot.used)} of {duration(snapshot.budget)} used, {duration(left)} left"


def _bar(snapshot: Snapshot, width: int) -> str:
    """The used part of the budget as a bar, in characters that every terminal has."""
    size = 20 if width >= FULL else 10
    full = min(size, round(size * snapshot.used / snapshot.budget)) if snapshot.budget > 0 else size
    return f"[{'#' * full}{'.' * (size - full)}]"


def _facts(snapshot: Snapshot) -> list[str]:
    """The numbers that are shown below the table, as texts."""
    facts = [f"network {snapshot.estimate} of its time" if snapshot.estimate is not None else "network not estimated yet"]
    facts.append(f"{snapshot.built:,} built, {snapshot.failed:,} failed")
    if snapshot.expected is not None:
        facts.append(f"going on may save {percent(snapshot.expected)} more")
    return facts
