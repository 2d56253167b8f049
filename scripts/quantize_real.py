#!/usr/bin/env python3
"""Measure the accuracy loss of quantisation on real data, with Stepwell's quantiser and with ONNX Runtime's.

    scripts/quantize_real.py [--tasks digits,mnist,ocr,magika] [--folds 5] [--json FILE]

Creates .venv on the first call. See "On real data" in docs/quantizer.md.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import environment

if TYPE_CHECKING:
    from real_data.trial import Say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested tasks; returns 0 if every task succeeds, 1 if one does not, 2 for wrong usage (argparse)."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    from dataclasses import asdict
    from fnmatch import fnmatchcase

    from rich.console import Console

    from real_data.compare import summaries
    from real_data.session import QUANTIZERS, results
    from real_data.tables import show_summaries, show_verdicts
    from real_data.verdicts import verdicts
    from stepwell.dialects.support.errors import StepwellError
    from stepwell.dialects.support.files import write_atomically

    settings = {}
    for name, quantizer in QUANTIZERS.items():
        chosen = [setting for setting in quantizer.settings if any(fnmatchcase(setting, pattern) for pattern in options.settings)]
        if not chosen:
            parser.error(f"--settings leaves none of {name}'s: {'; '.join(quantizer.settings)}")
        settings[name] = chosen
    try:
        with progress() as say:
            found = [result for task in options.tasks for result in results(task, options.folds, settings, say)]
    except StepwellError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    summed = summaries(found)
    judged = verdicts(summed)
    out = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    show_summaries(out, summed)
    show_verdicts(out, judged)
    if options.json:
        told = {"summaries": [asdict(s) for s in summed], "results": [asdict(r) for r in found], "problems": {v.task: v.problems for v in judged}}
        write_atomically(options.json, json.dumps(told, indent=1) + "\n")
    return int(any(verdict.problems for verdict in judged))


WIDTH = 160  # columns, if no terminal determines the width


def make_parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    from real_data import TASKS

    parser = argparse.ArgumentParser(description="Measure what quantisation costs on real data.")
    add = parser.add_argument
    add("--tasks", type=_tasks, default=list(TASKS), metavar="A,B", help=f"some of {', '.join(TASKS)} (default: all)")
    add("--folds", type=int, choices=range(1, 6), default=5, help="how many of five folds are run, where a task trains its network (default: 5)")
    add("--settings", type=_parts, default=["*"], metavar="A;B", help="only these settings of the quantisers, or patterns: 'mse, *' (default: all)")
    add("--json", type=Path, metavar="FILE", help="write every score and the summaries")
    return parser


def _tasks(text: str) -> list[str]:
    from real_data import TASKS

    chosen = list(dict.fromkeys(_parts(text.replace(",", ";"))))
    for name in chosen:
        if name not in TASKS:
            raise argparse.ArgumentTypeError(f"there is no task '{name}'; there are {', '.join(TASKS)}")
    return chosen


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


@contextmanager
def progress() -> "Iterator[Say]":
    """Shows the progress on standard error if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("starting") as status:
        yield status.update


if __name__ == "__main__":
    environment.need(__doc__, "real-data", "onnxruntime", "mlxtend", "rapidocr_onnxruntime", "magika", "matplotlib")
    sys.exit(main())
