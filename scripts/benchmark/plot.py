"""The picture of a run: how many times faster Stepwell is than each peer, network by network."""

from pathlib import Path
from typing import Any

from benchmark.jobs import ENGINES, PEERS
from benchmark.results import SEVEN, Comparison, geometric_mean, means, plural

__all__ = ["plot"]

COLOURS = {"onnxruntime": "#4477aa", "openvino": "#ddaa33", "mnn": "#aa3377", "ncnn": "#228833"}  # told apart by colour-blind readers too
GAP = 0.6  # before the geometric means
BEHIND_LABELS = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}  # the line at 1 is not drawn through them


def plot(comparison: Comparison, path: Path, note: str = "") -> None:
    """Write the picture to a file whose name ends in .png, .svg or .pdf: one panel for each number of threads, a bar for each peer."""
    import matplotlib as mpl

    mpl.use("Agg")  # no screen is needed
    from matplotlib import pyplot

    c = comparison
    peers = [p.label for p in c.contestants if not p.is_ours]
    width = max(8.0, 1.1 * (len(c.networks) + 3))
    figure, axes = pyplot.subplots(len(c.threads), 1, figsize=(width, 3.6 * len(c.threads) + 0.6), squeeze=False, sharex=True, layout="constrained")
    for axis, threads in zip(axes[:, 0], c.threads, strict=True):
        _panel(axis, c, peers, threads)
    axes[0, 0].legend(loc="upper left", bbox_to_anchor=(0, 1.2), ncols=len(peers), frameon=False)
    figure.suptitle("Stepwell's speed relative to its peers (above 1: Stepwell is faster)", fontsize=13)
    if note:
        figure.supxlabel(note, fontsize=8, color="#555555")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _panel(axis: Any, c: Comparison, peers: list[str], threads: int) -> None:
    groups = _groups(c)
    places = [i + (GAP if not single else 0) for i, (_, _, single) in enumerate(groups)]
    bar = 0.8 / max(1, len(peers))
    top = 1.0
    for number, peer in enumerate(peers):
        label: str | None = {**ENGINES, **PEERS}.get(peer, peer)
        for place, (_, members, single) in zip(places, groups, strict=True):
            ratios = [r for name in members if (r := c.ratio(name, threads, of=peer, to="stepwell")) is not None]
            value = geometric_mean(r.value for r in ratios)
            if value is None:
                continue
            x = place + (number - (len(peers) - 1) / 2) * bar
            axis.bar(x, value, bar * 0.94, color=COLOURS.get(peer), label=label, alpha=1 if single else 0.75)
            label = None  # the legend has one entry for a peer
            high = value
            if single:
                low, high = min(ratios[0].low, value), max(ratios[0].high, value)
                axis.errorbar(x, value, [[value - low], [high - value]], color="#333333", linewidth=1, capsize=2)
            axis.annotate(f"{value:.2f}", (x, high), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8, bbox=BEHIND_LABELS)
            top = max(top, high)
    axis.axhline(1, color="#333333", linewidth=1)
    axis.set_xlim(-0.7, places[-1] + 0.7)
    axis.set_ylim(0, top * 1.15)
    axis.set_ylabel("times faster")
    best = ", ".join(f"{mean['ratio']:.2f} ({mean['group']})" for mean in means(c) if mean["threads"] == threads and mean["networks"] == mean["of"])
    axis.set_title(plural(threads, "thread") + (f"; geometric mean to the best peer of each: {best}" if best else ""), loc="right", fontsize=10)
    axis.set_xticks(places, [title for title, _, _ in groups], rotation=30, ha="right")
    axis.tick_params(axis="x", labelbottom=True)
    axis.grid(axis="y", color="#dddddd")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _groups(c: Comparison) -> list[tuple[str, list[str], bool]]:
    """The groups of bars from left to right: title, networks, whether it is a single one. Geometric means only of more than one."""
    groups = [(name, [name], True) for name in c.networks]
    seven = [name for name in SEVEN if name in c.networks]
    if len(seven) == len(SEVEN):
        groups.append(("mean of the 7", seven, False))
    if len(c.networks) > 1 and set(seven) != set(c.networks):
        groups.append((f"mean of all {len(c.networks)}", c.networks, False))
    return groups
