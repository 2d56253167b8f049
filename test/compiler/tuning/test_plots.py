"""Pictures of runs of all kinds: valid files, escaped names, the numbers of the data, and no setting left changed."""

import importlib.util
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from PIL import Image
from tuning_stories import HOSTILE, failed_story, story

from stepwell.dialects.support.errors import InputError
from stepwell.tuning.figures import FIGURES, MOST_ROWS, NAME, drawable, rank_correlation, style
from stepwell.tuning.plots import save_pictures, svg_element
from stepwell.tuning.story import Outcome, Story
from stepwell.tuning.texts import time_text

SVG = "{http://www.w3.org/2000/svg}"
LOW = 20  # pixels an inch: enough to see that a file is drawn


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """A warning of matplotlib is an error: about glyphs that a font lacks, about layouts without room."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def texts(told: Story, name: str) -> list[str]:
    """The texts of a picture, as a reader of SVG finds them."""
    root = ElementTree.fromstring(svg_element(told, name))
    assert root.tag == f"{SVG}svg"
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def test_files(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    for number, told in enumerate((story(0), failed_story())):
        folder = tmp_path / str(number)
        folder.mkdir()
        files = save_pictures(told, folder, "png", dpi=LOW)
        assert [file.name for file in files] == [f"{name}.png" for name in FIGURES]
        for file in files:
            with Image.open(file) as picture:
                picture.verify()
                assert picture.width == 8 * LOW
    assert dict(mpl.rcParams) == before
    (file, *_) = save_pictures(failed_story(), tmp_path, "svg")
    assert ElementTree.parse(file).getroot().tag == f"{SVG}svg"
    assert file.read_text().startswith("<?xml")
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_no_data_is_stated() -> None:
    nothing = {name: " ".join(texts(failed_story(), name)) for name in FIGURES}
    assert "Nothing was measured." in nothing["convergence"]
    assert "No gain was confirmed." in nothing["gains"]
    assert "No saved time is known." in nothing["savings"]
    assert "No candidate has both" in nothing["prediction"]
    assert "There was no measurement" in nothing["self-tests"]


def test_pictures_show_the_data() -> None:
    told = story(200, tries=2)
    confirmed = sorted(told.with_outcome(Outcome.CONFIRMED), key=lambda site: site.best.value)
    assert len(confirmed) > MOST_ROWS
    seen = texts(told, "gains")
    ratios = [text for text in seen if re.fullmatch(r"\d\.\d{3} \[.*\]", text)]
    assert ratios == [str(site.best) for site in confirmed[:MOST_ROWS]] + [str(told.whole)], "the largest gain first, the whole network last"
    assert f"{len(confirmed) - MOST_ROWS} smaller gains not shown" in seen
    assert "whole network" in seen
    saved = sorted((site.saved for site in confirmed), reverse=True)
    seen = texts(told, "savings")
    assert [text.partition(" (")[0] for text in seen if re.fullmatch(r"[\d.]+ µs \(.*\)", text)][:MOST_ROWS] == [*map(time_text, saved[:MOST_ROWS])]
    assert f"{len(confirmed) - MOST_ROWS} other sites" in seen
    assert f"Time saved by site: {time_text(sum(saved))} of {time_text(told.untuned)}" in seen
    excluded = sum(test.ratio.excludes_one() for test in told.self_tests)
    (share,) = [text for text in texts(told, "self-tests") if "excludes" in text]
    assert share == f"interval excludes 1: {excluded} of 1,200 ({100 * excluded / 1200:.1f} %; 5 % are expected)"
    pairs = [(attempt.predicted, attempt.measured.value) for attempt in told.attempts if attempt.measured is not None]
    legend = texts(told, "prediction")
    assert f"all: {rank_correlation(pairs):.2f} ({len(pairs)})" in legend
    assert sum(text.startswith(("schedule: ", "winograd: ", "fusion: ", "panels: ")) for text in legend) == 4


def test_one_site() -> None:
    told = story(1)
    (site,) = told.sites
    assert {str(site.best), str(told.whole)} <= set(texts(told, "gains"))
    assert "5 % are expected" in " ".join(texts(told, "self-tests"))
    assert "candidates tried" in texts(told, "convergence")


def test_names_are_escaped() -> None:
    told = story(len(HOSTILE), names=HOSTILE, tries=3)
    for name in FIGURES:
        for text in texts(told, name):
            assert text.isprintable(), name
            assert len(text) < 100, name
    seen = " ".join(texts(told, "gains"))
    assert "$\\frac{1}{2}$ and $x$" in seen, "no mathematics"
    assert "line\\nbreak" in seen
    element = svg_element(told, "savings")
    assert "<script" not in element
    with style():
        assert drawable("中文", NAME) == "\\u4e2d\\u6587", "the font has no such glyphs"
        assert drawable("ש", NAME) == "\\u05e9", "it would reorder the line"
        assert all(len(drawable(name, NAME)) <= NAME for name in HOSTILE)


def test_elements_of_a_page_share_no_ids() -> None:
    told = story(3, tries=2)
    ids = [part for name in FIGURES for part in re.findall(r' id="([^"]*)"', svg_element(told, name))]
    assert len(ids) == len(set(ids)) > 50
    element = svg_element(told, "gains")
    used = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', element)
    assert used
    assert {one or other for one, other in used} <= set(ids)
    assert "var(--ink)" in element
    assert element == svg_element(told, "gains"), "it depends on nothing but the story"


def test_rank_correlation() -> None:
    assert rank_correlation([(1, 10), (2, 1000), (3, 1e9)]) == pytest.approx(1)
    assert rank_correlation([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    assert rank_correlation([(1, 1), (1, 2), (2, 3), (3, 3)]) == pytest.approx(8 / 9), "ties have their mean rank"
    assert [rank_correlation(points) for points in ([], [(1, 2)], [(1, 2), (1, 3)])] == [None, None, None]


def test_wrong_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="form: expected png or svg, got 'pdf'"):
        save_pictures(failed_story(), tmp_path, "pdf")
    with pytest.raises(OSError, match="none"):
        save_pictures(failed_story(), tmp_path / "none", dpi=LOW)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "matplotlib" else find(name, *more))
    with pytest.raises(InputError, match=r"need matplotlib: pip install 'stepwell\[tune\]'"):
        save_pictures(failed_story(), tmp_path)
