"""`stepwell run --sweep`: the time of a model with dynamic sizes over a range of them: general code, specialised code, and ONNX Runtime."""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stepwell.analysis.random_inputs import random_array
from stepwell.border.model import BorderModel
from stepwell.cli.common import UsageError
from stepwell.cli.display import Progress, plural, print_table, say, seconds
from stepwell.cli.session import Session
from stepwell.cli.shapes import free_sizes, parse_given, sized, sweep_points, usual_ranges
from stepwell.dialects.support.errors import ModelError
from stepwell.dialects.target.cores import thread_count
from stepwell.driver.dynamic import DynamicModel
from stepwell.frontends.registry import BUILT_IN, find_frontend
from stepwell.options import CompileOptions

SECONDS = 2.0  # the time limit for one engine at one combination: further runs are skipped after at least three
PEER = "onnxruntime"
COLOURS = {"general": "#4477aa", "for the size": "#228833", PEER: "#ddaa33"}  # distinguishable by colour-blind readers too

Run = Callable[[Mapping[str, np.ndarray]], object]


@dataclass
class Timed:
    """The median time of each engine over shape combinations."""

    points: list[dict[str, int]] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)
    compiled: list[float] = field(default_factory=list)
    """The time for compiling specialised code for each combination."""


def sweep(session: Session, rounds: int) -> None:
    """Time each engine `rounds` times at each shape combination; prints a table and writes the picture.

    Raises UsageError or StepwellError.
    """
    options = session.options
    general = _compiled(session, replace(session.how, specialise="never"))
    if isinstance(general, BorderModel):
        raise UsageError(f"--sweep is for a model that is all compiled: nodes of {options.model} run in Python (stepwell inspect lists them)")
    if not isinstance(general, DynamicModel):
        raise UsageError(f"--sweep is for a model with free sizes: {options.model} has none left")
    own = _compiled(session, replace(session.how, specialise="always"))
    ranges = usual_ranges(parse_given(options.shape), general.inputs, free_sizes(general.inputs))
    points = sweep_points(ranges, options.sweep)
    timed = Timed()
    threads = thread_count(options.threads)
    peer = _onnxruntime(options.model, threads)
    with Progress() as progress:
        for point in points:
            said = ", ".join(f"{name} {size}" for name, size in point.items())
            progress.say(said)
            infos = [sized(info, point) for info in general.inputs]
            feed = {info.name: random_array(info, 0, i) for i, info in enumerate(infos)}
            begin = time.perf_counter()
            try:
                made = own.specialise({info.name: info.shape for info in infos})
            except ModelError as error:  # such as an image that is too small for a window
                if point is points[-1] and not timed.points:
                    raise
                say(f"stepwell run: left out: {said}: {str(error.args[0]).strip().splitlines()[-1].strip()}", file=sys.stderr)
                continue
            timed.points.append(point)
            timed.compiled.append(time.perf_counter() - begin)
            peer = _able(peer, feed)
            engines: dict[str, Run] = {"general": general.run, "for the size": made.run, **({} if peer is None else {PEER: peer})}
            for name, median in medians(engines, feed, rounds).items():
                timed.times.setdefault(name, []).append(median)
    if peer is None:
        timed.times.pop(PEER, None)  # it has no time for some of the sizes
    _show(timed, threads)
    if options.plot is not None:
        plot(timed, Path(options.plot), f"{Path(options.model).name}, {plural(threads, 'thread')}")
        say(f"plotted to {options.plot}")


def medians(engines: Mapping[str, Run], feed: Mapping[str, np.ndarray], rounds: int) -> dict[str, float]:
    """The median time of each engine. Engines take turns, in another order each round, after a warm-up run of each."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for run in engines.values():
        run(feed)
    for number in range(rounds):
        order = list(engines)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            begin = time.perf_counter()
            engines[name](feed)
            times[name].append(time.perf_counter() - begin)
        if number >= 2 and max(map(sum, times.values())) > SECONDS:
            break
    return {name: statistics.median(taken) for name, taken in times.items()}


def _compiled(session: Session, how: CompileOptions) -> Any:
    from stepwell.driver.compilation import compile

    options = session.options
    with Progress() as progress:
        return compile(options.model, options=how, threads=options.threads, cache=not options.no_cache, on_level=progress.level)


def _onnxruntime(model: str, threads: int) -> Run | None:
    """ONNX Runtime's session, or None if it is not installed, or the model has another format."""
    if importlib.util.find_spec(PEER) is None or find_frontend(model).name != BUILT_IN:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # `_able` reports models that it cannot run, once
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feed: session.run(None, feed)


def _able(peer: Run | None, feed: Mapping[str, np.ndarray]) -> Run | None:
    """ONNX Runtime if it can run on these inputs; otherwise None, after a message on standard error."""
    if peer is None:
        return None
    try:
        peer(feed)
    except Exception as error:  # its exceptions have no common base
        say(f"stepwell run: left out: onnxruntime cannot run the model: {str(error).strip().splitlines()[0]}", file=sys.stderr)
        return None
    return peer


def _show(timed: Timed, threads: int) -> None:
    names = list(timed.points[0])
    rows = []
    for i, point in enumerate(timed.points):
        taken = {name: times[i] for name, times in timed.times.items()}
        ratios = [f"{taken[other] / taken['general']:.2f}" for other in taken if other != "general"]
        rows.append([*(str(point[name]) for name in names), *map(seconds, taken.values()), *ratios, seconds(timed.compiled[i])])
    others = [name for name in timed.times if name != "general"]
    header = [*names, *timed.times, *(f"{other} / general" for other in others), "made in"]
    print_table(header, rows, title=f"medians on {plural(threads, 'thread')}", numbers=range(len(header)))


def plot(timed: Timed, path: Path, title: str) -> None:
    """Write the picture of a sweep: the time of each engine over the shape combinations."""
    import matplotlib as mpl

    mpl.use("Agg")  # needs no screen
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
    places = range(len(timed.points))
    for name, times in timed.times.items():
        axis.plot(places, [1e3 * t for t in times], marker="o", color=COLOURS.get(name), label=name)
    axis.set_yscale("log", subs=(2, 5))
    for ticks in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
        ticks("{x:g}")
    axis.set_xticks(list(places), ["\n".join(map(str, point.values())) for point in timed.points])
    names = list(timed.points[0])
    axis.set_xlabel(", ".join(names) + (" (from top to bottom)" if len(names) > 1 else ""))
    axis.set_ylabel("median, ms")
    axis.set_title(title, loc="left")
    axis.grid(axis="y", which="both", color="#dddddd")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
