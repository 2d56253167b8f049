"""The report of a run: one page that is well formed, shows the data, escapes all names and needs no other file."""

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tuning_stories import HOSTILE, failed_story, story

from stepwell.dialects.support.errors import InputError
from stepwell.tuning import report
from stepwell.tuning.figures import FIGURES
from stepwell.tuning.report import HEADER, check_report, rows, save_report, summary
from stepwell.tuning.story import Outcome

VOID = {"meta", "br", "link", "img"}


class Page(HTMLParser):
    """A parser that checks that tags nest, and collects attributes, tables and definitions."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "table":
            self.table = self.tables.setdefault(dict(attrs)["id"] or "", [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append("")
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts[tag][-1] += data
        if "td" in self.open or "th" in self.open:
            self.table[-1][-1] += data


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are tested elsewhere, and cost much."""
    monkeypatch.setattr(report, "svg_element", lambda told, name: f"<svg class='{name}'></svg>")


def page(told, tmp_path: Path) -> tuple[str, Page]:
    save_report(tmp_path / "report.html", told)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    text = (tmp_path / "report.html").read_text()
    return text, Page(text)


def test_a_whole_page(tmp_path: Path) -> None:
    told = story(6, tries=4)
    text, parsed = page(told, tmp_path)
    assert parsed.tags.count("svg") == len(FIGURES)
    ids = [value for name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in parsed.attributes:
        if name in ("src", "href", "xlink:href"):
            assert value is not None
            assert value.startswith(("#", "data:")), "nothing is read from elsewhere"
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text).replace("http-equiv", "")


@pytest.mark.usefixtures("no_pictures")
def test_tables_show_the_data(tmp_path: Path) -> None:
    told = story(200, tries=2)
    _, parsed = page(told, tmp_path)
    header, *body = parsed.tables["sites"]
    assert (header, body) == ([*HEADER], rows(told))
    assert len(body) == 200
    by_name = {row[0]: row for row in body}
    for site in told.sites:
        row = by_name[site.name]
        assert (row[5], row[6]) == (site.outcome, "" if site.best is None else str(site.best))
        assert row[9] == (site.chosen if site.outcome == Outcome.CONFIRMED else "")
    saved = [site.name for site in sorted(told.with_outcome(Outcome.CONFIRMED), key=lambda site: -site.saved)]
    assert [row[0] for row in body[: len(saved)]] == saved
    assert [row[0] for row in parsed.tables["rolled-back"][1:]] == [site.name for site in told.with_outcome(Outcome.ROLLED_BACK)]
    facts = dict(zip(parsed.texts["dt"], parsed.texts["dd"], strict=True))
    assert summary(told).items() <= facts.items()
    assert facts["whole network, tuned against untuned"] == f"{told.whole} (interval at 95 %)"
    assert facts["sites"] == "200, 67 confirmed, 33 rolled back, 67 default kept, 33 not searched"
    assert (facts["CPU"], facts["caches"], facts["seed"], facts["run"]) == ("Imaginary CPU 9000", "32 KiB, 1,024 KiB, 32,768 KiB", "0", "7")
    assert told.command in parsed.texts["pre"]
    assert parsed.tags.count("details") == len(told.faults)


@pytest.mark.usefixtures("no_pictures")
def test_hostile_names(tmp_path: Path) -> None:
    told = story(2 * len(HOSTILE), names=HOSTILE, tries=20)
    text, parsed = page(told, tmp_path)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "script" not in parsed.tags
    assert {"<script>alert('x')</script>&amp;", "line\\nbreak", "\\x1b[31mred\\x1b[0m", "שלום_conv", "\\u202eevil", "a" * 500} <= {
        row[0] for row in parsed.tables["sites"]
    }
    assert parsed.texts["title"] == [f"Tuning of {HOSTILE[0]}"]


@pytest.mark.usefixtures("no_pictures")
def test_failed_and_empty_runs(tmp_path: Path) -> None:
    _, parsed = page(failed_story(), tmp_path)
    facts = dict(zip(parsed.texts["dt"], parsed.texts["dd"], strict=True))
    assert facts["candidates"] == "3 candidates tried, 3 of them without a measurement"
    assert facts["status"].startswith("interrupted")
    assert len(parsed.texts["summary"]) == 3
    assert '{"version": 2}' in "".join(parsed.texts["pre"])
    assert "run" not in facts
    _, parsed = page(story(0), tmp_path)
    assert parsed.tables == {}
    assert "The network has no sites." in parsed.texts["p"]
    assert any("no candidate crashed" in text for text in parsed.texts["p"])


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "jinja2" else find(name, *more))
    with pytest.raises(InputError, match="need jinja2"):
        check_report()
