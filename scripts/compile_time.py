#!/usr/bin/env python3
"""Measure the CPU seconds of compilation and start-up: `stepwell run`, cold and warm, and commands that compile nothing.

    .venv/bin/python scripts/compile_time.py [MODEL ...] [--rounds N] [--against DIR] [--passes [N]] [--json FILE]

A MODEL is `relu` (one node), a network of the zoo, an ONNX file, GRAPH:NODES with a graph of scripts/scaling.py, or `commands`: `--help` of every
command, `--version` and `pipeline`. By default: relu, squeezenet, resnet50v2, densenet121, chain:1000 and commands. Figures are CPU seconds, user and
system, of all processes of a command, relative to the cost of importing the bindings and onnx, which is measured before and after each model in each
round. Linux only. docs/benchmarks.md describes the protocol. The status is 1 if a command fails.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from compile_cost.commands import CommandError, adopt_orphans
from compile_cost.measure import Found, measure, sides
from compile_cost.report import as_json, show
from compile_cost.subjects import COMMANDS, USUAL, find

from benchmark.jobs import Failure
from benchmark.options import count
from benchmark.system import describe_machine
from stepwell.analysis.load import busy_seconds, foreign_load
from stepwell.dialects.support.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
BUSY = 0.2  # number of cores kept busy by other work above which a warning is printed
PASSES = 15


def main() -> int:
    """Run the requested measurements; returns 0, or 1 if a command fails, or 2 for wrong usage (argparse)."""
    options = make_parser().parse_args()
    checkouts = {"ours": ROOT} | ({"theirs": options.against} if options.against is not None else {})
    machine = describe_machine()
    load = foreign_load()
    print(f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}; {_busy(load)}")
    begin, before, own = time.perf_counter(), busy_seconds(), sum(os.times()[:4])
    found = Found()
    try:
        with tempfile.TemporaryDirectory(prefix="stepwell-compile-time-") as name:
            folder = Path(name)
            subjects = find(options.models, options.zoo, folder)
            adopt_orphans()
            for found in measure(
                subjects, sides(checkouts, folder), options.rounds, folder, with_commands=COMMANDS in options.models, peer=not options.no_peer,
                levels=not options.no_levels, passes=options.passes > 0,
            ):  # fmt: skip
                print(f"round {max((m.round for m in found.costs), default=0) + 1} of {options.rounds}", file=sys.stderr, flush=True)
    except (Failure, CommandError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    after = busy_seconds()
    if before is not None and after is not None:
        load = max(0.0, after - before - (sum(os.times()[:4]) - own)) / (time.perf_counter() - begin)
    print(f"meanwhile {_busy(load)}\n")
    show(found, list(checkouts), options.passes)
    if options.json is not None:
        everything = {"machine": machine, "foreign load": load, "checkouts": {name: str(path) for name, path in checkouts.items()}, **as_json(found)}
        write_atomically(options.json, json.dumps(everything, indent=1) + "\n")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=USUAL, metavar="MODEL", help=f"what to measure (default: {' '.join(USUAL)})")
    parser.add_argument("--rounds", type=count, default=5, metavar="N", help="how often each is measured (default: 5)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout of stepwell, which takes turns with this one")
    parser.add_argument("--no-peer", action="store_true", help="leave ONNX Runtime out")
    parser.add_argument("--no-levels", action="store_true", help="leave out what each level costs")
    parser.add_argument("--passes", type=count, nargs="?", const=PASSES, default=0, metavar="N", help=f"show the N hottest passes (N: {PASSES})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--zoo", type=Path, default=ROOT / "build" / "zoo", metavar="DIR", help="where the networks are kept (default: build/zoo)")
    return parser


def _busy(load: float | None) -> str:
    if load is None:
        return "how busy the machine is cannot be told here"
    return f"other processes keep {load:.2f} cores busy" + (": CPU seconds vary more than on an idle machine" if load > BUSY else "")


if __name__ == "__main__":
    sys.exit(main())
