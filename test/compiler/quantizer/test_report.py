"""The report: rows in the order of what hurts, and one page with a picture of each layer."""

import importlib.util
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from stepwell.dialects.support.errors import InputError, ResourceError
from stepwell.quantizer.histogram import Histogram
from stepwell.quantizer.quality import LayerQuality, Quality
from stepwell.quantizer.ranges import Parameters
from stepwell.quantizer.report import HEADER, bars, rows, save_html

SVG = "{http://www.w3.org/2000/svg}"


def layer(name: str, share: float, seed: int, parameters: Parameters | None, ratio: float = 30.0) -> LayerQuality:
    seen = Histogram()
    seen.add(np.random.default_rng(seed).normal(0.5, 1, 5000).astype(np.float32))
    return LayerQuality(
        name=name, kind="Conv", ratio=ratio, ratio_alone=ratio + 5, share=share, seen=seen, parameters=parameters, clipped=0.0123,
    )  # fmt: skip


@pytest.fixture
def quality() -> Quality:
    layers = (
        layer("first<&>", 0.25, 0, Parameters(np.float32(0.01), np.uint8(128))), layer("second", 1.5, 1, Parameters(np.float32(0.05), np.uint8(100))),
        layer("last", 0.0, 2, None, math.inf),
    )  # fmt: skip
    return Quality(layers, {"y": 28.44}, 5, 1)


def test_rows(quality: Quality):
    table = rows(quality)
    assert [row[0] for row in table] == ["second", "first<&>", "last"]
    assert all(len(row) == len(HEADER) for row in table)
    assert table[1][1:5] == ["Conv", "25.0 %", "35.0 dB", "30.0 dB"]
    assert table[1][6:] == ["-1.28 … 1.27", "1.2 %"]
    assert table[2][3:5] == ["no noise", "no noise"]
    assert table[2][6] == ""


def test_the_page(quality: Quality, tmp_path: Path):
    path = tmp_path / "report.html"
    save_html(path, quality, title="net <v1>", facts={"method": "mse & more"}, notes=["a, b: <left>"])
    text = path.read_text()
    assert "<title>net &lt;v1&gt;</title>" in text
    assert "<dt>method</dt><dd>mse &amp; more</dd>" in text
    assert "<dt>output y</dt><dd>SQNR 28.4 dB</dd>" in text
    assert "<summary>1 note</summary>" in text
    assert "<li>a, b: &lt;left&gt;</li>" in text
    names = re.findall(r"<h2>\d+\. (.*?) \(Conv\)</h2>", text)
    assert names == ["second", "first&lt;&amp;&gt;", "last"]
    for number, name in enumerate(names, start=1):
        assert f'<a href="#layer{number}">{name}</a>' in text
        assert f'id="layer{number}"' in text
    assert re.findall(r'class="bar" style="width: ([\d.]+)%"', text) == ["100.0", "16.7", "0.0"]
    # One file: nothing is fetched, and nothing runs.
    assert not re.search(r"<script|<link|<img|@import|src=|url\((?!#)", text)
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_pictures(quality: Quality, tmp_path: Path):
    """Each is an SVG of its own whose parts have the page's colours: numbers outside of the range, and its bounds, where there is one."""
    save_html(tmp_path / "report.html", quality, title="net")
    drawn = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", (tmp_path / "report.html").read_text(), re.S)]
    assert len(drawn) == 3
    for svg, has_range in zip(drawn, (True, True, False), strict=True):
        styles = [path.get("style", "") for path in svg.iter(f"{SVG}path")]
        assert sum("var(--range)" in style for style in styles) == 2 * has_range
        assert any("var(--inside)" in style for style in styles)
        assert not any(re.search(r"#0[1-4]0[1-4]0[1-4]", style) for style in styles)
        assert {text.text for text in svg.iter(f"{SVG}text")} >= {"numbers"}


def test_bars_add_up_bins():
    seen = Histogram()
    seen.add(np.random.default_rng(4).exponential(3, 10000).astype(np.float32))
    assert len(seen.counts) > 1000
    counts, edges = bars(seen)
    assert len(counts) + 1 == len(edges) <= 97
    assert counts.sum() == 10000
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= seen.low <= seen.high <= edges[-1]
    values = np.random.default_rng(4).exponential(3, 10000).astype(np.float32)
    np.testing.assert_array_equal(counts, np.histogram(values, edges)[0])


def test_a_layer_that_only_gives_zeros(tmp_path: Path):
    seen = Histogram()
    seen.add(np.zeros(10, np.float32))
    used = Parameters(np.float32(1), np.uint8(0))
    nothing = LayerQuality(name="dead", kind="Conv", ratio=math.inf, ratio_alone=math.inf, share=0.0, seen=seen, parameters=used, clipped=0.0)
    save_html(tmp_path / "report.html", Quality((nothing,), {"y": math.inf}, 1, 1), title="net")
    assert "SQNR no noise" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_package_is_missing(missing: str, quality: Quality, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == missing else find(name, *more))
    with pytest.raises(InputError, match=rf"report: a page needs {missing}: pip install 'stepwell\[quantize\]'"):
        save_html(tmp_path / "report.html", quality, title="net")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(quality: Quality, tmp_path: Path):
    with pytest.raises(ResourceError, match="its folder does not exist"):
        save_html(tmp_path / "none" / "report.html", quality, title="net")
