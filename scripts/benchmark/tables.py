"""The tables that a run ends with."""

import sys
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from benchmark.forks import ForkJoin
from benchmark.jobs import Contestant, KernelTime, Profile
from benchmark.kernels import KernelComparison, Part
from benchmark.results import SIZES, Comparison, geometric_mean, means, plural
from stepwell.analysis.estimates import Statistic

__all__ = [
    "console",
    "show_ablation",
    "show_comparison",
    "show_fork_join",
    "show_kernel_sums",
    "show_kernels",
    "show_operators",
    "show_profile",
    "show_throughput",
]

NOTHING = "–"
SAME = "same code"
LEFT = ("ONNX nodes", "shape", "from")  # columns of words
PLAIN_WIDTH = 200  # columns where no terminal says how many there are
NODES_SHOWN = 4
PARTS_SHOWN = 8  # that two variants differ in most
USUAL_GAIN = 0.7  # what N threads reach of N times one in registers alone: less where many of them lower the clock
LOW = 0.8  # ratios below this are listed once more
LEAST_SHOWN = 50e-6  # seconds below which a run is mostly the call of it


def console() -> Console:
    """Standard output; text is printed unchanged."""
    made = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    return made if made.is_terminal else Console(file=sys.stdout, markup=False, highlight=False, emoji=False, width=PLAIN_WIDTH)


def show_fork_join(out: Console, found: Iterable[ForkJoin]) -> None:
    """A row for each size of the loop."""
    table = _table("one loop that adds 1 to each element: median microseconds", "threads", "elements", "serial", "threaded", "gain")
    for times in found:
        row = (f"{times.serial * 1e6:.2f}", f"{times.threaded * 1e6:.2f}", f"{times.serial / times.threaded:.2f}")
        table.add_row(str(times.threads), str(times.elements), *row)
    out.print(table)


def show_comparison(out: Console, c: Comparison) -> None:
    """One table for each number of threads, geometric means below, then starts and memory."""
    for threads in c.threads:
        _show_times(out, c, threads)
    _show_starts(out, c)
    if any(contestant.of_floats for contestant in c.contestants):
        _show_parts(out, c)
    _show_notes(out, c)


def _show_times(out: Console, c: Comparison, threads: int) -> None:
    kind = "mean" if c.classical else "median"
    title = f"{plural(threads, 'thread')}: {kind} ms of one run, its middle half in brackets; how many times faster stepwell is"
    peers = [p.label for p in c.contestants if not p.is_ours]
    ours = any(p.is_ours for p in c.contestants)
    compared = peers if ours else []
    heads = [*(p.label for p in c.contestants), *(f"to {peer}" for peer in compared), *(["to the best"] if compared else []), "error"]
    table = _table(title, "network", *heads)
    for network in c.networks:
        row = [network]
        row += [_time(c, network, p.label, threads) for p in c.contestants]
        row += [_ratio(c.ratio(network, threads, of=peer, to="stepwell")) for peer in compared]
        row += [_ratio(c.best_ratio(network, threads), spread=True)] if compared else []
        table.add_row(*row, _errors(c, network, threads))
    found = [mean for mean in means(c) if mean["threads"] == threads] if compared else []
    for i, mean in enumerate(found):
        if i == 0:
            table.add_section()
        count = mean["group"] if mean["networks"] == mean["of"] else f"{mean['group']}, {mean['networks']} of {mean['of']}"
        table.add_row(f"geometric mean of {count}", *[""] * (len(c.contestants) + len(compared)), f"{mean['ratio']:.2f}", "")
    out.print(table)
    out.print()


def show_throughput(out: Console, c: Comparison, callers: int) -> None:
    """Images a second and latencies of several callers, ratios to the best peer and their mean, and how the engines shared the cores out."""
    (threads,) = c.threads
    title = f"{plural(threads, 'core')}, {plural(callers, 'caller')}: images a second (ms to the answer: median, 99th percentile)"
    labels = [contestant.label for contestant in c.contestants]
    table = _table(title, "network", *labels, "to the best peer", "error")
    for network in c.networks:
        served = [_served(c, network, label, threads) for label in labels]
        table.add_row(network, *served, _ratio(c.best_ratio(network, threads), spread=True), _errors(c, network, threads))
    for mean in (mean for mean in means(c) if mean["group"] == "all"):
        table.add_section()
        table.add_row(f"geometric mean of {mean['networks']} of {mean['of']}", *[""] * len(labels), f"{mean['ratio']:.2f}", "")
    out.print(table)
    for network in c.networks:
        settings = {label: c.cell(network, label, threads).settings for label in labels}
        shared = [f"{label} {_streams(found)}" for label, found in settings.items() if _streams(found)]
        out.print(f"{network}: {'; '.join(shared)}")
    _show_notes(out, c)


def _served(c: Comparison, network: str, label: str, threads: int) -> str:
    cell, statistic = c.cell(network, label, threads), c.statistic(network, label, threads)
    if statistic is None or not cell.latencies:
        return _time(c, network, label, threads)
    ordered = sorted(cell.latencies)
    slow = ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)]
    return f"{1 / statistic.value:.1f} ({_ms(ordered[len(ordered) // 2])}, {_ms(slow)})"


def _streams(settings: Mapping[str, str]) -> str:
    """The streams that an engine has chosen, in its own words."""
    chosen = settings.get("streams x threads", "")
    return chosen.rstrip(".") if "(" in chosen else f"NUM_STREAMS {settings['NUM_STREAMS']}" if "OPTIMAL_NUMBER_OF_INFER_REQUESTS" in settings else ""


def show_operators(out: Console, c: Comparison, verbose: bool = False) -> None:
    """A row for each case and number of threads; then the summary of ours, and the cases that are far behind.

    `verbose` says why an engine took no part.
    """
    for threads in c.threads:
        title = f"{plural(threads, 'thread')}: {'mean' if c.classical else 'median'} µs of one run; how many times faster stepwell is than the best"
        table = _table(title, "operator", "shape", "from", *(p.label for p in c.contestants), "ratio", "error")
        for name, case in c.cases.items():
            times = [_microseconds(c.statistic(name, p.label, threads)) for p in c.contestants]
            table.add_row(case.operator, case.shape, case.origin, *times, _ratio(c.best_ratio(name, threads)), _errors(c, name, threads))
        out.print(table)
        out.print()
    _show_behind(out, c)
    show_protocol(out, c)
    if verbose:
        for line in c.lacks():
            out.print(line)
        for name, path in c.settings.get("files", {}).items():
            out.print(f"{name}: {path}")
    show_problems(out, c, verbose)


def _show_behind(out: Console, c: Comparison) -> None:
    """Number of cases, geometric means, and the cases with a low ratio, lowest first."""
    for threads in c.threads:
        ratios = {name: ratio.value for name in c.cases if (ratio := c.best_ratio(name, threads)) is not None}
        mean = geometric_mean(ratios.values())
        low = sorted((value, name) for name, value in ratios.items() if value < LOW)
        compared = f"{len(ratios)} with a peer; geometric mean of ratios {NOTHING if mean is None else f'{mean:.2f}'}; {len(low)} below {LOW:g}"
        out.print(f"{plural(threads, 'thread')}: {plural(len(c.cases), 'case')}, {compared}", style="bold")
        for value, name in low:
            ours = c.statistic(name, "stepwell", threads)
            short = ", most of it the call" if ours is not None and ours.value < LEAST_SHOWN else ""
            out.print(f"  {value:.2g} of {c.best_peer(name, threads)}: {name} ({c.cases[name].origin}{short})")


def _microseconds(statistic: Statistic | None) -> str:
    return NOTHING if statistic is None else f"{statistic.value * 1e6:.{1 if statistic.value < 1e-4 else 0}f}"


def _show_starts(out: Console, c: Comparison) -> None:
    most = max(c.threads)
    labels = [p.label for p in c.contestants]
    heads = [f"{label} {what}" for what in ("cold s", "warm s", "MB") for label in labels]
    table = _table(
        "start: seconds to the first result, engine imported, cold and with what its cache keeps; memory above the weights in the file, after runs",
        "network", *heads,
    )  # fmt: skip
    for network in c.networks:
        starts = [c.starts.get((network, label)) for label in labels]
        row = [_number(start.cold if start else None) for start in starts] + [_number(start.warm if start else None) for start in starts]
        above = [c.above_weights(network, label, most) for label in labels]
        table.add_row(network, *row, *(NOTHING if size is None else f"{size / 1e6:.0f}" for size in above))
    out.print(table)
    out.print()


def _show_parts(out: Console, c: Comparison) -> None:
    """How much less memory quantised networks take."""
    most = max(c.threads)
    table = _table("memory of stepwell: the arena of weights, the workspace of a call, and what parts they are of those of floats", "network",
                   *(head for what in SIZES for head in (f"{what} MB", "of floats")))  # fmt: skip
    for network in c.networks:
        row = [network]
        for what in SIZES:
            size, part = c.cell(network, "stepwell", most).memory.get(what), c.part_of_floats(network, most, what)
            row += [NOTHING if size is None else f"{size / 1e6:.2f}", NOTHING if part is None else f"{part:.3f}"]
        table.add_row(*row)
    out.print(table)
    out.print()


def _show_notes(out: Console, c: Comparison) -> None:
    show_protocol(out, c)
    for label, statistic in c.overhead.items():
        value, low, high = (f"{seconds * 1e6:.1f}" for seconds in (statistic.value, statistic.low, statistic.high))
        out.print(f"a call of {label} costs {value} µs [{low} {high}]: ReLU of four numbers")
    for line in c.lacks():
        out.print(f"no part: {line}")
    show_problems(out, c)


def show_protocol(out: Console, c: Comparison) -> None:
    """The settings of the measurement, in a line or two."""
    p = c.settings["protocol"]
    inputs = plural(p["images"], "image")
    processes = "one process" if p["processes"] == 1 else f"{p['processes']} processes, one after the other,"
    out.print(f"{plural(p['rounds'], 'round')} of {plural(p['runs'], 'run')} of {inputs} in turn, {processes} for each engine and number of threads")
    engines = {contestant.label: contestant.engine for contestant in c.contestants}
    for name, settings in {engines[label]: cell.settings for (_, label, _), cell in c.cells.items() if cell.settings}.items():
        out.print(f"{name}: {', '.join(f'{key} {value}' for key, value in settings.items() if 'thread' not in key.lower())}")


def show_problems(out: Console, c: Comparison, verbose: bool = True) -> None:
    """Failures, checks that were impossible (if `verbose`), and whether the machine was busy with other processes."""
    for name, why in c.settings.get("not checked", {}).items() if verbose else ():
        out.print(f"not checked: {name}: {why}", style="yellow")
    for threads, seen in c.settings.get("cores", {}).items():
        if seen["repeated"]:
            again = f"{plural(seen['repeated'], 'turn')} done again, as the machine gave less of its cores than it can"
            left = f"in {seen['disturbed']} of {seen['kept']} that count it did, too"
            out.print(f"{plural(threads, 'thread')}: {again}; {left}", style="yellow" if seen["disturbed"] else None)
        if seen["gain"] < USUAL_GAIN * threads:
            out.print(f"{plural(threads, 'thread')} never reached more than {seen['gain']:.2f} times the arithmetic of one", style="yellow")
    others = c.settings.get("cores kept busy by others while timing")
    if others is not None and others > 0.05:
        out.print(f"other processes kept {others:.2f} cores busy while it was timed: the figures are not to be relied on", style="yellow")
    for line in c.failures():
        out.print(f"failed: {line}", style="red")


def show_ablation(out: Console, c: Comparison) -> None:
    """Show the gain of each switch: the factor by which the network is slower without it."""
    base, *variants = c.contestants
    for threads in c.threads:
        title = f"{plural(threads, 'thread')}: how many times the time is with each switch off (quartiles of the rounds); below 1 it does harm"
        table = _table(title, "without", *c.networks, "geometric mean")
        times = [_time(c, network, base.label, threads) for network in c.networks]
        table.add_row("(nothing), ms", *times, "")
        for variant in variants:
            same = [(network, variant.label) in c.same_code for network in c.networks]
            ratios = [c.ratio(network, threads, of=variant.label, to=base.label) for network in c.networks]
            shown = [SAME if is_same else _ratio(ratio, spread=True) for is_same, ratio in zip(same, ratios, strict=True)]
            mean = geometric_mean([*(ratio.value for ratio in ratios if ratio is not None), *[1.0] * sum(same)])
            table.add_row(_switches(variant), *shown, NOTHING if mean is None else SAME if all(same) else f"{mean:.2f}")
        out.print(table)
        out.print()
    show_protocol(out, c)
    show_problems(out, c)


def _switches(variant: Contestant) -> str:
    return ", ".join(variant.disable)


def show_profile(out: Console, network: str, threads: int, profile: Profile) -> None:
    """The kernels, those that take longest first."""
    total = sum(call.seconds for call in profile.calls)
    peak = profile.peak_flops
    title = f"{network}, {plural(threads, 'thread')}; peak {peak / 1e9:.1f} GFLOP/s (multiply-adds in registers)"
    table = _table(title, "kernel", "calls", "ms", "% of time", "MFLOP", "GFLOP/s", "% of peak", "GB/s", "ONNX nodes")
    for name, calls in sorted(by_kernel(profile.calls).items(), key=lambda entry: -sum(call.seconds for call in entry[1])):
        seconds = sum(call.seconds for call in calls)
        amounts = [call.flops for call in calls]
        flops = None if None in amounts else sum(amount or 0 for amount in amounts)
        nodes = list(dict.fromkeys(node for call in calls for node in call.nodes))
        table.add_row(
            name, str(len(calls)), f"{seconds * 1e3:.3f}", f"{100 * seconds / total:.1f}", *_rates(flops, seconds, peak),
            f"{sum(call.bytes for call in calls) / seconds / 1e9:.1f}",
            _node_names(nodes),
        )  # fmt: skip
    known = sum(call.flops or 0 for call in profile.calls)
    table.add_section()
    table.add_row("all", str(len(profile.calls)), f"{total * 1e3:.3f}", "100", *_rates(known, total, peak), "", "")
    out.print(table)
    out.print(f"the whole model in one call: {profile.whole_seconds * 1e3:.3f} ms; the time of a kernel includes its call from Python")
    out.print("arithmetic is counted as the network states it: a kernel that gets by with less (Winograd's) may show more than the peak")


def show_kernels(out: Console, c: KernelComparison) -> None:
    """The parts of a network whose times differ most between two variants, and all others in a row."""
    title = f"{c.network}, {plural(c.threads, 'thread')}: ms of the fastest runs of the kernels, by the ONNX nodes they compute"
    table = _table(title, "ONNX nodes", *(f"{label}{what}" for label in c.labels for what in (" kernels", " ms")), "ratio")
    ordered = sorted(c.parts, key=lambda part: -abs(part.seconds[0] - part.seconds[1]))
    for part in ordered[:PARTS_SHOWN]:
        table.add_row(_node_names(part.nodes) or NOTHING, *_sums([part]))
    if others := ordered[PARTS_SHOWN:]:
        table.add_row(f"{len(others)} others", *_sums(others))
    table.add_section()
    table.add_row("all", *_sums(c.parts))
    out.print(table)
    out.print()


def show_kernel_sums(out: Console, found: Iterable[KernelComparison]) -> None:
    """A row for each network and number of threads: sums over the kernels, the whole model, and geometric means."""
    found = list(found)
    for threads in dict.fromkeys(c.threads for c in found):
        rows = [c for c in found if c.threads == threads]
        title = f"{plural(threads, 'thread')}: ms of the fastest run, and how many times faster {rows[0].labels[1]} is"
        heads = [f"{label}, {what}" if label else "ratio" for what in ("sum of kernels", "whole model") for label in (*rows[0].labels, "")]
        table = _table(title, "network", *heads)
        for c in rows:
            table.add_row(c.network, *_pair(c.seconds), *_pair(c.whole))
        means = [geometric_mean(pair[0] / pair[1] for pair in pairs) for pairs in ([c.seconds for c in rows], [c.whole for c in rows])]
        table.add_section()
        table.add_row("geometric mean", "", "", _number(means[0]), "", "", _number(means[1]))
        out.print(table)
        out.print()


def _sums(parts: Sequence[Part]) -> tuple[str, ...]:
    """Launches and their ms in both variants, and the ratio."""
    first, second, ratio = _pair((sum(part.seconds[0] for part in parts), sum(part.seconds[1] for part in parts)))
    counts = [str(sum(len(part.kernels[which]) for part in parts)) for which in (0, 1)]
    return counts[0], first, counts[1], second, ratio


def _pair(seconds: tuple[float, float]) -> tuple[str, str, str]:
    first, second = seconds
    return f"{first * 1e3:.3f}", f"{second * 1e3:.3f}", f"{first / second:.3f}" if first and second else NOTHING


def _node_names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:NODES_SHOWN]) + (f" and {len(nodes) - NODES_SHOWN} more" if len(nodes) > NODES_SHOWN else "")


def by_kernel(calls: Iterable[KernelTime]) -> dict[str, list[KernelTime]]:
    """The calls of each kernel."""
    found: dict[str, list[KernelTime]] = {}
    for call in calls:
        found.setdefault(call.kernel, []).append(call)
    return found


def _rates(flops: int | None, seconds: float, peak: float) -> tuple[str, str, str]:
    if not flops:
        return NOTHING, NOTHING, NOTHING
    return f"{flops / 1e6:.2f}", f"{flops / seconds / 1e9:.1f}", f"{100 * flops / seconds / peak:.0f}"


def _time(c: Comparison, network: str, label: str, threads: int) -> str:
    statistic = c.statistic(network, label, threads)
    if statistic is None:
        cell = c.cell(network, label, threads)
        return "failed" if cell.failure else "no part" if cell.lack else NOTHING
    return f"{_ms(statistic.value)} [{_ms(statistic.low)} {_ms(statistic.high)}]"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.{1 if seconds >= 0.1 else 2 if seconds >= 0.001 else 3}f}"


def _ratio(statistic: Statistic | None, spread: bool = False) -> str:
    if statistic is None:
        return NOTHING
    return f"{statistic.value:.2f}" + (f" [{statistic.low:.2f} {statistic.high:.2f}]" if spread else "")


def _errors(c: Comparison, network: str, threads: int) -> str:
    """The largest error of any engine of ours; of the peers where we do not take part."""
    ours = [p for p in c.contestants if p.engine == "stepwell"] or c.contestants
    cells = [cell for p in ours if (cell := c.cell(network, p.label, threads)).error is not None and not cell.lack]
    worst = max(cells, key=lambda cell: cell.error or 0.0, default=None)
    return NOTHING if worst is None else f"{worst.error:.1e}" + (" WRONG" if c.is_wrong(network, worst) else "")


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False, title_style="bold")
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="left" if name in LEFT else "right", overflow="fold")
    return table
