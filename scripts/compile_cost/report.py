"""Tables of what commands cost, in units, and the ratios of one checkout to another."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from stepwell.cli.display import print_table

from .measure import UNIT, Found, Measurement

__all__ = ["as_json", "median", "show"]


def median(values: Sequence[float], digits: int = 2) -> str:
    """`1.90`, or of several values `1.90 (1.87–1.95)`: the median, then the least and the greatest."""
    found = f"{statistics.median(values):.{digits}f}"
    return found if len(values) == 1 else f"{found} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def show(found: Found, names: Sequence[str], passes: int) -> None:
    """Print all tables; `names` are the checkouts, this one first, and `passes` says how many of the hottest passes to show."""
    units = [m.unit for m in found.costs]
    print(f'1 unit: the CPU seconds of `python -c "{UNIT}"`, {median(units)} s here\n')
    _show_costs(found, names)
    for subject in dict.fromkeys(subject for subject, _, _ in found.parts):
        _show_parts(found, subject, "levels", names, "level")
        if passes:
            _show_parts(found, subject, "passes", names, "pass", passes)


def as_json(found: Found) -> dict[str, Any]:
    """All measurements, in the form of the JSON file."""
    costs = [{**asdict(m), "cost": {name: value for name, value in asdict(m.cost).items() if name != "output"}} for m in found.costs]
    parts = [{"subject": s, "kind": kind, "side": side, "rounds": rounds} for (s, kind, side), rounds in found.parts.items()]
    counts = [{"subject": s, "side": side, "pass": step, "count": count} for (s, side, step), count in found.counts.items()]
    return {"unit": UNIT, "costs": costs, "parts": parts, "counts": counts}


def _show_costs(found: Found, names: Sequence[str]) -> None:
    rows = []
    for subject, what in dict.fromkeys((m.subject, m.what) for m in found.costs):
        here = [m for m in found.costs if (m.subject, m.what) == (subject, what)]
        ours = [m for m in here if m.side in (names[0], "")]

        def over(quantity: Callable[[Measurement], float], of: Sequence[Measurement]) -> str:
            return median([quantity(m) for m in of])

        row = [subject, "" if what == "command" else what, over(lambda m: m.cost.cpu / m.unit, ours)]
        row += [over(lambda m: m.cost.own / m.unit, ours), over(lambda m: m.cost.workers / m.unit, ours)]
        row += [f"{statistics.median(m.cost.cpu for m in ours):.2f}", f"{statistics.median(m.cost.wall for m in ours):.2f}"]
        for name in names[1:]:
            theirs = [m for m in here if m.side == name]
            row.append(over(lambda m: m.cost.cpu / m.unit, theirs) if theirs else "")
            row.append(median([b.cost.cpu / a.cost.cpu for a, b in zip(ours, theirs, strict=True)]) if theirs else "")
        rows.append(row)
    header = ["CPU in units", "", "all", "own process", "workers", "CPU s", "wall s"]
    for name in names[1:]:
        header += [f"all, {name}", f"{name} / ours"]
    print_table(header, rows, numbers=range(2, len(header)))
    _show_peer(found)


def _show_peer(found: Found) -> None:
    rows = [
        [subject, *(median([parts[name] for parts in rounds]) for name in ("import", "session"))]
        for (subject, kind, _), rounds in found.parts.items() if kind == "onnxruntime"
    ]  # fmt: skip
    print_table(["ONNX Runtime, units", "import", "session and one run"], rows, numbers=(1, 2))


def _show_parts(found: Found, subject: str, kind: str, names: Sequence[str], word: str, most: int | None = None) -> None:
    """The cost of the parts of a command in its own process: levels in their order, or the most expensive passes."""
    by_side = {name: found.parts.get((subject, kind, name), []) for name in names}
    ours = by_side[names[0]]
    if not ours:
        return
    parts = list(dict.fromkeys(part for rounds in by_side.values() for parts in rounds for part in parts))

    def values(side: str, part: str) -> list[float]:
        return [parts.get(part, 0.0) for parts in by_side[side]]

    total = sum(statistics.median(values(names[0], part)) for part in parts)
    if most is not None:
        parts = sorted(parts, key=lambda part: -max(statistics.median(values(name, part)) for name in names))[:most]
    rows = []
    for part in parts:
        mine = values(names[0], part)
        row = [part, median(mine, 3), f"{statistics.median(mine) / total:.0%}"]
        if kind == "passes":
            row.append(str(found.counts.get((subject, names[0], part), 0)))
        row += [median(values(name, part), 3) for name in names[1:]]
        rows.append(row)
    header = [f"{subject}, {word}", "units, own process", "share", *(["runs"] if kind == "passes" else []), *names[1:]]
    print_table(header, rows, numbers=range(1, len(header)))
