"""The figures of a tuning run: convergence, predicted against measured times, confirmed gains, the A/A arm, and time saved by site.

They are drawn without pyplot, so no backend is chosen for the process. Call the functions inside `style`, which keeps the user's settings out.
"""

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from stepwell.tuning.story import Milestone, Outcome, Ratio, Site, Story
from stepwell.tuning.texts import count_of, percent, shortened, time_text, unit_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

WIDTH = 8.0  # inches
ROW = 0.25  # inches for a row of a chart with a row for each site
MOST_ROWS = 40  # sites in one chart: more would not fit on a page; the rest is summed up in one row
NAME = 36  # characters of a site's name
FEW_POINTS = 2000  # up to so many points are drawn as vectors in SVG files, more as one embedded picture
INK, QUIET, GRID, PAPER = "#24292f", "#57606a", "#d8dee4", "#fffffe"
"""Text, secondary text, grid lines and the background. Reports replace them by the page's colours, so no other part of a figure uses them."""
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
"""Colours that people with any kind of colour blindness can tell apart (Okabe and Ito, Color Universal Design, 2008)."""
SERIES = ((BLUE, "o"), (VERMILLION, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"))
"""Colours and markers of kinds, in order; kinds beyond these share the last entry of a figure."""
OTHERS = (QUIET, "x")
RIGHT_TO_LEFT = ("R", "AL", "AN")
"""The bidirectional classes of characters that are written from right to left (Unicode Standard Annex 9)."""
STYLE: Mapping[str, object] = {
    "text.parse_math": False, "text.color": INK, "font.size": 10, "font.family": "DejaVu Sans", "svg.fonttype": "none",
    "axes.edgecolor": QUIET, "axes.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "axes.grid": True, "axes.formatter.useoffset": False,
    "grid.color": GRID, "grid.linewidth": 0.7, "xtick.color": QUIET, "ytick.color": QUIET, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "legend.frameon": False, "lines.solid_capstyle": "butt",
}  # fmt: skip
"""Settings of matplotlib. Names come from models, so no text is parsed as mathematics."""


@contextmanager
def style(salt: str = "stepwell") -> Iterator[None]:
    """Settings for drawing and saving figures, restored at the end; `salt` makes the IDs in an SVG file unique and reproducible."""
    from matplotlib.style import context

    with context(["default", {**STYLE, "svg.hashsalt": salt}]):
        yield


def drawable(text: str, length: int) -> str:
    """Text from a model, shortened, with escapes for characters that the font of pictures lacks and for those written from right to left.

    The latter would reorder the numbers and other names beside them.
    """
    from matplotlib.font_manager import findfont, get_font

    if not text.isascii():
        glyphs = get_font(findfont(str(STYLE["font.family"]))).get_charmap()
        text = "".join(c if ord(c) in glyphs and unicodedata.bidirectional(c) not in RIGHT_TO_LEFT else ascii(c)[1:-1] for c in text)
    return shortened(text, length)


def convergence(story: Story) -> "Figure":
    """The best known time of the network over time and over the number of candidates, with the confirmed one and the final measurement."""
    milestones = story.milestones
    if not milestones and story.whole is None:
        return _message("Convergence", "Nothing was measured.")
    timed = [milestone for milestone in milestones if milestone.at is not None]
    panels = [("seconds", timed), ("candidates tried", milestones)] if timed else [("candidates tried", milestones)]
    figure = _figure(3.6)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (label, points) in zip(axes, panels, strict=True):
        by_time = label == "seconds"
        _steps(axis, story, points, by_time)
        axis.axhline(100, color=QUIET, linewidth=1, linestyle="--")
        axis.set_xlabel("seconds since the beginning" if by_time else label)
        axis.set_xlim(left=0)
    axes[0].set_ylabel("time of the network\n(% of the untuned one)")
    _title(figure, f"Convergence: {drawable(story.run.network, NAME)}")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _steps(axis: "Axes", story: Story, points: Sequence[Milestone], by_time: bool) -> None:
    """Draw the estimates as steps, the confirmations and the final measurement with intervals."""

    def place(milestone: Milestone) -> float:
        return (milestone.at or 0.0) if by_time else float(milestone.attempts)

    estimates = [milestone for milestone in points if not milestone.confirmed]
    confirmed = [milestone for milestone in points if milestone.confirmed]
    end = max([place(point) for point in points] + [story.run.spent if by_time else float(len(story.attempts))])
    if estimates:
        xs, ys = [*map(place, estimates), end], [100 * point.ratio.value for point in estimates]
        axis.step(xs, [*ys, ys[-1]], where="post", color=BLUE, linewidth=1.6, label="estimated")
    if confirmed:
        _bars(axis, [*map(place, confirmed)], [point.ratio for point in confirmed], GREEN, "o", "confirmed")
    if story.whole is not None:
        _bars(axis, [end], [story.whole], VERMILLION, "D", "whole network, measured at the end")


def _bars(axis: "Axes", places: Sequence[float], ratios: Sequence[Ratio], colour: str, marker: str, label: str) -> None:
    """Draw ratios in percent with the finite ends of their intervals."""
    values = np.array([100 * ratio.value for ratio in ratios])
    ends = np.array([_finite(ratio) for ratio in ratios]).T * 100
    axis.errorbar(
        places, values, yerr=[values - ends[0], ends[1] - values], color=colour, marker=marker, linestyle="", capsize=3, markersize=6, label=label,
        clip_on=False, zorder=3,
    )  # fmt: skip


def _finite(ratio: Ratio) -> tuple[float, float]:
    """The interval, or the value twice if the interval is unknown."""
    return (min(ratio.low, ratio.value), max(ratio.high, ratio.value)) if math.isfinite(ratio.high) else (ratio.value, ratio.value)


def prediction(story: Story) -> "Figure":
    """Predicted against measured times relative to the default's, by kind of choice, with Spearman's rank correlations."""
    pairs = [
        (attempt, attempt.predicted, attempt.measured.value) for attempt in story.attempts
        if attempt.predicted is not None and attempt.measured is not None and attempt.predicted > 0 and attempt.measured.value > 0
    ]  # fmt: skip
    if not pairs:
        return _message("Predicted against measured", "No candidate has both a prediction and a measurement.")
    figure = _figure(4.6)
    axis = figure.add_subplot()
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for attempt, predicted, measured in pairs:
        by_kind.setdefault(attempt.kind, []).append((predicted, measured))
    handles: list[Artist] = []
    labels: list[str] = []
    frequent = sorted(by_kind, key=lambda kind: -len(by_kind[kind]))
    groups = [(drawable(kind, 18), by_kind[kind]) for kind in frequent[: len(SERIES)]]
    if rest := [pair for kind in frequent[len(SERIES) :] for pair in by_kind[kind]]:
        groups.append(("other kinds", rest))
    for (label, points), (colour, marker) in zip(groups, [*SERIES, OTHERS], strict=False):
        xs, ys = np.array(points).T
        opacity = 0.8 if len(pairs) <= 200 else 0.35
        handles.append(axis.scatter(xs, ys, s=22, c=colour, marker=marker, alpha=opacity, linewidths=0.8, rasterized=len(pairs) > FEW_POINTS))
        labels.append(f"{label}: {_correlation(points)}")
    values = np.array([pair[1:] for pair in pairs])
    low, high = values.min(axis=0) / 1.05, values.max(axis=0) * 1.05
    ends = [low.min(), high.max()]
    handles += axis.plot(ends, ends, color=QUIET, linewidth=1, linestyle="--")
    labels.append("equal")
    axis.set(xscale="log", yscale="log", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    _ticks(axis.xaxis, low[0], high[0])
    _ticks(axis.yaxis, low[1], high[1])
    axis.set_xlabel("predicted time relative to the default")
    axis.set_ylabel("measured time relative to the default")
    _title(figure, "Predicted against measured")
    everything = _correlation([(predicted, measured) for _, predicted, measured in pairs])
    title = f"Spearman's rank correlation\n(number of candidates)\nall: {everything}"
    figure.legend(handles, labels, loc="outside right upper", title=title, alignment="left")
    return figure


def _correlation(points: Sequence[tuple[float, float]]) -> str:
    value = rank_correlation(points)
    return f"{'not defined' if value is None else f'{value:.2f}'} ({len(points):,})"


def rank_correlation(points: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation, in which equal values have their mean rank; None if one side has fewer than two different values."""
    columns = []
    for values in zip(*points, strict=True):
        different, place, count = np.unique(values, return_inverse=True, return_counts=True)
        if len(different) < 2:
            return None
        columns.append((np.cumsum(count) - (count - 1) / 2)[place])
    return float(np.corrcoef(columns[0], columns[1])[0, 1]) if columns else None


def _ticks(axis: "Axis", low: float, high: float) -> None:
    """Ticks of a logarithmic axis as plain numbers: matplotlib's own are mathematics, and too few for a small range."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    axis.set_major_locator(MaxNLocator(6) if high / low < 5 else LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def gains(story: Story) -> "Figure":
    """A forest plot of the confirmed gains with their intervals, the largest first, and the whole network last."""
    confirmed = sorted(((site, site.best) for site in story.with_outcome(Outcome.CONFIRMED) if site.best is not None), key=lambda pair: pair[1].value)
    rows = [(_label(site), ratio) for site, ratio in confirmed[:MOST_ROWS]]
    whole = story.whole
    if not rows and whole is None:
        return _message("Confirmed gains", "No gain was confirmed.")
    ratios = [ratio for _, ratio in rows] + ([whole] if whole is not None else [])
    places = [*map(float, range(len(rows)))] + ([len(rows) + 0.5] if whole is not None else [])
    figure = _figure(1.3 + ROW * (places[-1] + 1))
    axis = figure.add_subplot()
    axis.axvline(1, color=QUIET, linewidth=1, linestyle="--")
    ends = np.array([_finite(ratio) for ratio in ratios])
    for place, ratio, (low, high) in zip(places, ratios, ends, strict=True):
        is_whole = ratio is whole
        axis.plot([low, high], [place, place], color=VERMILLION if is_whole else BLUE, linewidth=1.8)
        axis.plot([ratio.value], [place], color=VERMILLION if is_whole else BLUE, marker="D" if is_whole else "o", markersize=6)
        text = axis.text(1.01, place, str(ratio), transform=axis.get_yaxis_transform(), va="center", fontsize=9)
        text.set_fontweight("bold" if is_whole else "normal")
    if whole is not None and rows:
        axis.axhline(len(rows) - 0.25, color=QUIET, linewidth=0.7)
    axis.set_yticks(places, [label for label, _ in rows] + (["whole network"] if whole is not None else []), fontsize=9)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.set_ylim(places[-1] + 0.7, -0.7)
    spread = max(float(np.abs(ends - 1).max()), 0.005)
    axis.set_xlim(min(1.0, float(ends.min())) - 0.06 * spread, max(1.0, float(ends.max())) + 0.06 * spread)
    rest = len(confirmed) - len(rows)
    axis.set_xlabel("time relative to the default, interval at 95 %" + (f"\n{count_of(rest, 'smaller gain')} not shown" if rest else ""))
    _title(figure, "Confirmed gains")
    return figure


def _label(site: Site) -> str:
    return f"{drawable(site.name, NAME)} ({drawable(site.kind, 16)})"


def self_tests(story: Story) -> "Figure":
    """The A/A arm: ratios of code to itself with their intervals, in the order of measurement. Those that exclude 1 stand out."""
    tests = story.self_tests
    if not tests:
        return _message("A/A arm", "There was no measurement of code against itself.")
    from matplotlib.ticker import MaxNLocator

    ratios = [test.ratio for test in tests]
    values, (lows, highs) = np.array([ratio.value for ratio in ratios]), np.array([_finite(ratio) for ratio in ratios]).T
    odd = np.array([ratio.excludes_one() for ratio in ratios])
    figure = _figure(3.6)
    axis = figure.add_subplot()
    axis.axhline(1, color=QUIET, linewidth=1, linestyle="--")
    # A few outliers must not hide the others: the axis contains 49 of 50 intervals, and values beyond it are drawn at its ends.
    reach = 1.1 * max(float(np.quantile(np.abs([lows - 1, highs - 1]), 0.98, method="lower")), 1e-4)
    beyond = int((np.abs(values - 1) > reach).sum())
    axis.set_ylim(1 - reach, 1 + reach)
    drawn = np.clip(values, 1 - reach, 1 + reach)
    places = np.arange(1, len(tests) + 1)
    thin = len(tests) > 100
    handles = []
    for chosen, colour, marker, opacity in ((~odd, BLUE, "o", 0.3 if thin else 1), (odd, VERMILLION, "D", 1)):
        many = len(tests) > FEW_POINTS
        axis.vlines(
            places[chosen], lows[chosen], highs[chosen], color=colour, linewidth=0.8 if thin else 1.6, alpha=opacity, rasterized=many
        )  # fmt: skip
        size = (4 if thin else 20) * (1 + (marker == "D"))
        handles.append(axis.scatter(places[chosen], drawn[chosen], c=colour, marker=marker, s=size, zorder=3, clip_on=False, rasterized=many))
    axis.set_xlim(0.25, len(tests) + 0.75)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(visible=False, axis="x")
    axis.set_xlabel("measurement" + (f" ({beyond} beyond the ends of the axis)" if beyond else ""))
    axis.set_ylabel("time of the same code\nrelative to itself")
    _title(figure, "A/A arm")
    share = odd.sum() / len(tests)
    labels = ["interval contains 1", f"interval excludes 1: {odd.sum():,} of {len(tests):,} ({percent(share)}; 5 % are expected)"]
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def savings(story: Story) -> "Figure":
    """The time that each confirmed site saves in one run of the network, the largest first."""
    saved = sorted(((site, site.saved) for site in story.with_outcome(Outcome.CONFIRMED) if site.saved is not None), key=lambda pair: -pair[1])
    if not saved:
        return _message("Time saved by site", "No site saves time." if story.untuned else "No saved time is known.")
    rows = [(_label(site), seconds) for site, seconds in saved[:MOST_ROWS]]
    if len(saved) > MOST_ROWS:
        rows.append((count_of(len(saved) - MOST_ROWS, "other site"), sum(seconds for _, seconds in saved[MOST_ROWS:])))
    figure = _figure(1.2 + ROW * len(rows))
    axis = figure.add_subplot()
    size, unit = unit_of(max(abs(seconds) for _, seconds in rows))
    places = range(len(rows))
    colours = [BLUE] * min(len(saved), MOST_ROWS) + [SKY] * (len(saved) > MOST_ROWS)
    axis.barh(places, [seconds / size for _, seconds in rows], height=0.7, color=colours)
    for place, (_, seconds) in zip(places, rows, strict=True):
        text = time_text(seconds) + (f" ({percent(seconds / story.untuned)})" if story.untuned else "")
        axis.text(1.01, place, text, transform=axis.get_yaxis_transform(), va="center", fontsize=9)
    axis.set_yticks(places, [label for label, _ in rows], fontsize=9)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlabel(f"{unit} saved in a run of the network")
    total = time_text(sum(seconds for _, seconds in saved))
    _title(figure, f"Time saved by site: {total}" + (f" of {time_text(story.untuned)}" if story.untuned else ""))
    return figure


def _figure(height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def _title(figure: "Figure", text: str) -> None:
    figure.suptitle(text, x=0.01, ha="left", fontsize=11, fontweight="bold")


def _message(title: str, text: str) -> "Figure":
    """A figure without data, which states why."""
    figure = _figure(1.5)
    axis = figure.add_subplot()
    _title(figure, title)
    axis.set_axis_off()
    axis.text(0.5, 0.5, text, ha="center", va="center", color=QUIET, transform=axis.transAxes)
    return figure


FIGURES: Mapping[str, tuple[Callable[[Story], "Figure"], str]] = {
    "convergence": (convergence, "The best known time of the network during the run"),
    "gains": (gains, "Confirmed gains with their confidence intervals"),
    "savings": (savings, "Time saved by each site in one run of the network"),
    "prediction": (prediction, "Predicted against measured times of the candidates"),
    "self-tests": (self_tests, "A/A arm: code measured against itself"),
}
"""For each name of a picture, the function that draws it, and its caption."""
