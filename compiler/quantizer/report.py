"""The report on a quantised network: rows of a table, and a page of HTML with a picture for each layer, the most harmful first."""

import importlib.util
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepwell.arguments import checked_by
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.files import write_atomically
from stepwell.quantizer import arguments
from stepwell.quantizer.histogram import Histogram

if TYPE_CHECKING:
    from stepwell.quantizer.quality import LayerQuality, Quality

HEADER = ("layer", "operator", "share of error", "SQNR alone", "SQNR", "seen", "range", "clipped")
NUMBERS = (2, 3, 4, 7)
"""The columns of numbers."""
BARS = 96  # the largest number of bars in a picture: bins are added up to that
LEAST = 0.5  # the smallest value of the logarithmic scale of counts
NEEDED = ("matplotlib", "jinja2")
# Colours that the page replaces by its own, which change with the reader's light or dark theme.
THEME = {"#010101": "var(--ink)", "#020202": "var(--inside)", "#030303": "var(--outside)", "#040404": "var(--range)"}
INK, INSIDE, OUTSIDE, RANGE = THEME


def rows(quality: "Quality") -> list[list[str]]:
    """The rows of the table, for the columns `HEADER`: ratios are in dB, and a share is above 100 % if other layers compensate for it."""
    return [
        [
            layer.name, layer.kind, f"{100 * layer.share:.1f} %", decibels(layer.ratio_alone), decibels(layer.ratio),
            interval(layer.seen.low, layer.seen.high), "" if layer.range is None else interval(layer.range.low, layer.range.high),
            f"{100 * layer.clipped:.2g} %",
        ]
        for layer in quality.worst_first()
    ]  # fmt: skip


def decibels(ratio: float) -> str:
    """A signal-to-noise ratio: `38.2 dB`, or the statement that there is no noise."""
    return "no noise" if ratio == math.inf else f"{ratio:.1f} dB"


def interval(low: float, high: float) -> str:
    """`-1.5 … 3.02`."""
    return f"{low:.3g} … {high:.3g}"


def check_report() -> None:
    """Raise InputError unless the packages for making a page are installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"report: a page needs {' and '.join(missing)}: pip install 'stepwell[quantize]'")


@checked_by(
    quality=arguments.QUALITY, title=arguments.like("text"), facts=arguments.texts_by_name, notes=arguments.names
)  # fmt: skip
def save_html(
    path: str | os.PathLike[str], quality: "Quality", *, title: str, facts: Mapping[str, str] | None = None, notes: Sequence[str] = ()
) -> None:
    """Write the report as one page without external files: the table, and for each layer the histogram of its numbers with the chosen range.

    `facts` are shown below the title, such as the quantisation options; `notes`, a line each, at the end, such as those of `equalized`. Raises
    InputError if matplotlib or jinja2 is missing, ResourceError if it cannot be written.
    """
    check_report()
    from jinja2 import Environment, StrictUndefined

    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(template)
    layers = quality.worst_first()
    greatest = max((layer.share for layer in layers if math.isfinite(layer.share)), default=0.0)
    shown = [
        {"cells": cells, "picture": picture(layer), "bar": min(100.0, 100 * layer.share / greatest) if greatest > 0 else 0.0}
        for layer, cells in zip(layers, rows(quality), strict=True)
    ]
    outputs = {name: decibels(ratio) for name, ratio in quality.outputs.items()}
    text = page.render(
        title=title, facts=dict(facts or {}), notes=notes, header=HEADER, numbers=NUMBERS, layers=shown, outputs=outputs, quality=quality
    )  # fmt: skip
    write_atomically(path, text)


def bars(seen: Histogram, most: int = BARS) -> tuple[np.ndarray, np.ndarray]:
    """Counts and edges of at most `most` bars, which sum adjacent bins of a histogram."""
    together = max(1, -(-len(seen.counts) // most))
    starts = np.arange(0, len(seen.counts), together)
    return np.add.reduceat(seen.counts, starts) if len(starts) else seen.counts, np.append(seen.edges[:-1][starts], seen.edges[-1:])


def picture(layer: "LayerQuality") -> str:
    """An SVG element: the distribution of numbers on a logarithmic scale, and the range of the integers; colours are those of the page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    counts, edges = bars(layer.seen)
    # Texts stay texts, for the page's font; names of parts depend only on the layer.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": layer.name, "font.size": 9}):
        figure = Figure(figsize=(4.4, 2.0), layout="constrained")
        axis = figure.add_subplot()
        inside = np.ones(len(counts), bool)
        if layer.range is not None:
            inside = (edges[1:] > layer.range.low) & (edges[:-1] < layer.range.high)
            for bound in (layer.range.low, layer.range.high):
                axis.axvline(bound, color=RANGE, linewidth=1.2, linestyle="--")
        for chosen, colour in ((inside, INSIDE), (~inside, OUTSIDE)):
            if not chosen.any():
                continue
            axis.stairs(np.where(chosen, np.maximum(counts, LEAST), LEAST), edges, baseline=LEAST, fill=True, color=colour, linewidth=0)
        axis.set_yscale("log")
        axis.set_ylim(bottom=LEAST)
        axis.minorticks_off()
        axis.set_ylabel("numbers", color=INK)
        axis.tick_params(colors=INK)
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["bottom", "left"]].set_color(INK)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :]  # without the declarations of a separate file
    for sentinel, colour in THEME.items():
        drawn = drawn.replace(sentinel, colour)
    return drawn
