#!/usr/bin/env python3
"""Measure the time from an edit of a pass, a plugin or IR to a result: the commands of docs/edits.md, each in a separate process.

    .venv/bin/python scripts/edit_to_answer.py [NETWORK | FILE.onnx] [--rounds N] [--only pass plugin ir]

Each round edits a copy of the package, a plugin or an IR file so that some kernels change to a version that no earlier round had. Two commands
follow, each timed as a whole: the IR difference, and a run of the model whose outputs are compared with those before the edit. The script prints
medians, and the number of kernels compiled per round. Nothing else should run on the machine. The status is 1 if a median exceeds its bound.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import environment

ROOT = Path(__file__).resolve().parent.parent
DIFFERENCE, RUN = 2.0, 5.0
"""Bounds in seconds, for resnet50v2."""
CHANNELS = (256, 512, 64, 128)
"""Each round changes the convolutions with these numbers of channels."""
PASS = Path("passes", "graph", "simplification", "fold_batch_norm.py")
PLACE = "    match = scale_of(op, rw)\n"
CONDITION = '    if type_of(op.result).shape[1] == {channels}:\n        return NoMatch("not for so many channels")\n'
PLUGIN = '''
"""The activation of some kernels, written in another way."""

from dataclasses import dataclass

import numpy as np

from stepwell.plugin import NoMatch, PatternPass, graph, pattern, register_pass, type_of


@pattern(graph.ReluOp)
def by_slope(op, rw):
    """rewrite: relu(x) -> leaky_relu(x) with the slope 0"""
    if type_of(op.result).shape[1] != {channels}:
        return NoMatch("not for so many channels")
    return rw.leaky_relu(op.x, alpha=0.0)


@register_pass("relu-by-slope", level="graph", after="fold-batch-norm")
@dataclass
class ReluBySlope(PatternPass):
    """Write some activations in another way."""

    patterns = (by_slope,)
'''


@dataclass
class Times:
    """The times of the rounds of one kind of edit, in seconds, and the numbers of compiled kernels."""

    difference: list[float] = field(default_factory=list)
    run: list[float] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


class Failed(Exception):
    """A command failed or gave an unexpected result."""


def main() -> int:
    """Run the requested measurements; returns 0, or 1 if a bound is exceeded or a command fails, or 2 for wrong usage (argparse)."""
    from benchmark.jobs import Failure
    from benchmark.models import find

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "network", nargs="?", default="resnet50v2", metavar="NETWORK", help="an ONNX file or a network of the zoo (default: resnet50v2)"
    )
    parser.add_argument("--rounds", type=int, choices=range(1, len(CHANNELS) + 1), default=len(CHANNELS), metavar="N", help="1 to 4 (default: 4)")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of edits (default: all)")
    parser.add_argument("--zoo", type=Path, default=ROOT / "build" / "zoo", metavar="DIR", help="where the networks are kept (default: build/zoo)")
    options = parser.parse_args()
    try:
        (network,) = find([options.network], options.zoo)
        with tempfile.TemporaryDirectory() as name:
            times = {kind: KINDS[kind](Workplace(Path(name) / kind, network.path.absolute()), options.rounds) for kind in options.only}
    except (Failure, Failed) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return int(show(network.name, times))


class Workplace:
    """A folder with a copy of the package, a cache and a model that was compiled before."""

    def __init__(self, folder: Path, model: Path) -> None:
        from checkouts import linked

        self.folder, self.model, self.checkout = folder, model, folder / "checkout"
        for name in ("compiler", "dialects", "passes"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        self.environment = {**os.environ, "STEPWELL_CACHE": "1", "STEPWELL_CACHE_DIR": str(folder / "cache")}
        self.environment["PYTHONPATH"] = str(linked(self.checkout, folder))
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as for users: only edited modules are read from source

    def stepwell(self, *arguments: str | Path, out: Path | None = None, fine: Sequence[int] = (0,)) -> float:
        """Run a command with its standard output in a file; returns its duration in seconds.

        Raises Failed for a status other than the `fine` ones.
        """
        return self._timed([self._command(*arguments)], out, fine)

    def difference(self, before: Path, out: Path, *options: str | Path) -> float:
        """Run `stepwell compile MODEL --emit graph-opt | stepwell diff BEFORE -`; returns its duration in seconds."""
        first = self._command("compile", self.model, *options, "--emit", "graph-opt")
        return self._timed([first, self._command("diff", before, "-", *options)], out, (1,))

    def objects(self) -> int:
        """The number of kernels in the cache."""
        from stepwell.cache.disk import Cache

        return sum(entry.kind == "objects" for entry in Cache(self.folder / "cache").entries())

    def _command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "stepwell.cli.main", *map(str, arguments)]

    def _timed(self, commands: list[list[str]], out: Path | None, fine: Sequence[int]) -> float:
        """Run commands as a pipe; returns their duration in seconds."""
        with open(out or os.devnull, "wb") as sink, (self.folder / "log").open("w+") as log:
            begin = time.perf_counter()
            processes: list[subprocess.Popen[bytes]] = []
            for command in commands:
                source = processes[-1].stdout if processes else subprocess.DEVNULL
                target = sink if command is commands[-1] else subprocess.PIPE
                processes.append(subprocess.Popen(command, stdin=source, stdout=target, stderr=log, env=self.environment, cwd=self.folder))
                if len(processes) > 1 and processes[-2].stdout is not None:
                    processes[-2].stdout.close()  # the next process owns it
            statuses = [process.wait() for process in processes]
            seconds = time.perf_counter() - begin
            log.seek(0)
            if any(statuses[:-1]) or statuses[-1] not in fine:
                raise Failed(f"{' | '.join(' '.join(command[1:]) for command in commands)}: status {statuses}\n{log.read()}")
        return seconds


def measured(place: Workplace, edits: Iterator[Callable[[], None]], *options: str | Path) -> Times:
    """Measure the rounds of edits that affect the compilation of the ONNX model; each command gets `options`."""
    before, outputs, times = place.folder / "before.mlir", place.folder / "before.npz", Times()
    next(edits)()  # the initial state
    place.stepwell("compile", place.model, *options, "--emit", "graph-opt", out=before)
    place.stepwell("run", place.model, *options, "--save", outputs)
    for edit in edits:
        edit()
        shown, known = place.folder / "difference", place.objects()
        times.difference.append(place.difference(before, shown, *options))
        times.run.append(place.stepwell("run", place.model, *options, "--check", outputs))
        times.kernels.append(place.objects() - known)
        times.lines.append(len(re.findall(r"(?m)^[+-](?![+-])", shown.read_text())))
    return times


def edited_pass(place: Workplace, rounds: int) -> Times:
    """Edit a pattern of one of our graph passes: add a condition."""
    file = place.checkout / PASS
    original = file.read_text()
    if PLACE not in original:
        raise Failed(f"{PASS} has no line that says {PLACE.strip()}: adapt this script")

    def edits() -> Iterator[Callable[[], None]]:
        yield lambda: None
        for channels in CHANNELS[:rounds]:
            yield lambda c=channels: write(file, original.replace(PLACE, CONDITION.format(channels=c) + PLACE))  # type: ignore[misc]

    return measured(place, edits())


def edited_plugin(place: Workplace, rounds: int) -> Times:
    """Edit a pattern of a plugin: change a number."""
    file = place.folder / "plugin.py"

    def edits() -> Iterator[Callable[[], None]]:
        for channels in (-1, *CHANNELS[:rounds]):
            yield lambda c=channels: write(file, PLUGIN.format(channels=c))  # type: ignore[misc]

    return measured(place, edits(), "--load", file)


def edited_ir(place: Workplace, rounds: int) -> Times:
    """Edit IR at the level scheduled: the activation of a kernel; the difference is between the files."""
    file, before, outputs, times = place.folder / "net.mlir", place.folder / "before.mlir", place.folder / "before.npz", Times()
    place.stepwell("compile", place.model, "--emit", "scheduled", "-o", file)
    place.stepwell("run", file, "--from", "scheduled", "--save", outputs)
    shutil.copy(file, before)
    lines = file.read_text().splitlines()
    found = [i for i, line in enumerate(lines) if "arith.maximumf" in line]
    for number in found[:rounds]:
        lines[number] = lines[number].replace("maximumf", "maxnumf")  # different code with the same results, except for NaN
        write(file, "\n".join(lines) + "\n")
        known, shown = place.objects(), place.folder / "difference"
        times.difference.append(place.stepwell("diff", before, file, out=shown, fine=(1,)))
        times.run.append(place.stepwell("run", file, "--from", "scheduled", "--check", outputs))
        times.kernels.append(place.objects() - known)
        times.lines.append(len(re.findall(r"(?m)^[+-](?![+-])", shown.read_text())))
    if not times.run:
        raise Failed("no kernel has an activation to edit")
    return times


KINDS: dict[str, Callable[[Workplace, int], Times]] = {"pass": edited_pass, "plugin": edited_plugin, "ir": edited_ir}


def write(file: Path, text: str) -> None:
    """Overwrite a file, as an editor does."""
    file.write_text(text)


def show(network: str, times: dict[str, Times]) -> bool:
    """Print the medians; returns whether one exceeds its bound."""
    print(f"{network}: seconds, median (least to most) of {max(len(t.run) for t in times.values())} rounds; lines and kernels in each")
    late = False
    for kind, found in times.items():
        for what, values, bound in (("difference of IR", found.difference, DIFFERENCE), ("verified result", found.run, RUN)):
            median = statistics.median(values)
            late |= median > bound
            counts = found.lines if values is found.difference else found.kernels
            unit = "lines" if values is found.difference else "kernels"
            verdict = "ok" if median <= bound else "TOO LONG"
            spread = f"({min(values):.2f} to {max(values):.2f})"
            print(f"  {kind:8} {what:18} {median:6.2f} {spread:16} bound {bound:.0f}  {verdict:8}  {', '.join(map(str, counts))} {unit}")
    return late


if __name__ == "__main__":
    environment.need(__doc__, "demo")
    sys.exit(main())
