"""The progress of a run: tables that fit any terminal, plain lines elsewhere, and no escape or markup from names."""

import io
import re

import pytest
from rich.console import Console
from tuning_stories import HOSTILE, story

from stepwell.tuning.live import LINE, REDRAW, Progress, SiteProgress, Snapshot, line, view
from stepwell.tuning.story import Ratio

STATES = ("confirmed", "waiting", "racing", "rolled back", "building")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What rich writes to control a terminal."""


class Terminal(io.StringIO):
    """A file that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Gone(Terminal):
    """A terminal that was closed."""

    closed_now = False

    def write(self, text: str) -> int:
        if self.closed_now:
            raise BrokenPipeError
        return super().write(text)


def snapshot(count: int, names: tuple[str, ...] = (), used: float = 150.0) -> Snapshot:
    told = story(count, names=names, tries=1)
    sites = [
        SiteProgress(site.name, site.kind, site.share, site.tried, site.space, site.best, STATES[index % len(STATES)])
        for index, site in enumerate(told.sites)
    ]
    return Snapshot(
        told.run.network, sites, f"racing {names[3] if names else 'conv3'}: 8 candidates", used, 600.0, 1120, 3, 0.004, Ratio(0.96, 0.95, 0.97)
    )


def printed(shown: Snapshot, width: int, height: int, *, colours: bool = False) -> list[str]:
    file = Terminal()
    console = Console(file=file, width=width, height=height, color_system="standard" if colours else None, force_terminal=colours)
    console.print(view(shown, width, height))
    return file.getvalue().split("\n")[:-1]


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_tables_fit_the_terminal(width: int) -> None:
    for count in (0, 1, 200):
        for names in ((), HOSTILE):
            lines = printed(snapshot(count, names), width, 24)
            assert all(text.isprintable() for text in lines)
            assert all(len(text.rstrip()) <= width for text in lines)
            if width >= 40:
                assert len(lines) < 24
                assert any(text.startswith("now: racing") for text in lines)
            if width >= 80:
                assert ("1 site" if count == 0 else "confirmed") in " ".join(["1 site", *lines])


def test_the_table_shows_the_data() -> None:
    shown = snapshot(6)
    header, *body = printed(shown, 200, 24)
    assert header.split() == ["site", "kind", "share", "tried", "best", "so", "far", "state"]
    for site, text in zip(shown.sites, body, strict=False):
        assert site.name in text
        assert site.best is None or str(site.best) in text
        assert text.rstrip().endswith(site.state)
    text = "\n".join(body)
    assert "[#####...............] 2 min 30 s of 10 min used, 7 min 30 s left" in text
    assert "network 0.960 [0.950, 0.970] of its time; 1,120 built, 3 failed; going on may save 0.40 % more" in text
    many = printed(snapshot(200), 80, 24)
    assert sum("contraction" in text for text in many) + int(re.search(r"… and (\d+) more sites", "\n".join(many))[1]) == 200


def test_names_are_no_markup() -> None:
    text = "\n".join(printed(snapshot(len(HOSTILE), HOSTILE), 200, 40, colours=True))
    assert "[bold red]markup[/] [link=x]" in text
    assert "\x1b[32mconfirmed" in text, "colours are ours"
    assert {code for code in ESCAPE.findall(text) if "31" in code} == set(), "and no name has one"
    assert ESCAPE.sub("", text).replace("\n", "").isprintable()


def test_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.delenv("NO_COLOR", raising=False)
    now = [0.0]
    file = Terminal()
    with Progress(file, clock=lambda: now[0]) as progress:
        assert progress.live is not None
        assert not progress.live.auto_refresh, "a thread that draws would disturb what is measured"
        for used in range(5):
            progress.update(snapshot(3, used=float(used)))
        assert file.getvalue().count("of 10 min used") == 1
        now[0] += REDRAW
        progress.update(snapshot(3, used=5.0))
        progress.note("a fault in \x1b[31m[red]conv")
        progress.update(snapshot(3, used=6.0))
    text = file.getvalue()
    assert "6 s of 10 min used" in text, "the last one is shown in any case"
    assert "2 s of 10 min used" not in text
    assert "a fault in \\x1b[31m[red]conv" in text
    assert "\x1b[32m" in text
    monkeypatch.setenv("NO_COLOR", "1")
    with Progress(plain := Terminal()) as progress:
        progress.update(snapshot(3))
    assert "\x1b[32m" not in plain.getvalue()
    assert "confirmed" in plain.getvalue()


def test_other_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for file in (io.StringIO(), Terminal()):
        now = [0.0]
        with Progress(file, clock=lambda now=now: now[0]) as progress:
            for used in (0.0, LINE - 1, LINE, LINE + 1):
                now[0] = used
                progress.update(snapshot(4, HOSTILE, used=used))
            progress.note("noted")
        lines = file.getvalue().splitlines()
        assert [text.partition(" of ")[0] for text in lines] == ["0 s", "10 s", "noted", "11 s"]
        assert all(text.isprintable() for text in lines)
        assert lines[-1] == line(snapshot(4, HOSTILE, used=LINE + 1))
    assert "racing \\x1b[31mred\\x1b[0m: 8 candidates; 1 of 4 sites confirmed; network 0.960" in lines[-1]
    silent = io.StringIO()
    with Progress(silent, quiet=True) as progress:
        progress.update(snapshot(3))
        progress.note("noted")
    assert silent.getvalue() == ""


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_a_terminal_that_is_gone_ends_no_run(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    file = Gone()
    with Progress(file) as progress:
        file.closed_now = True
        progress.update(snapshot(3))
        progress.note("noted")
