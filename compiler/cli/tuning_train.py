"""stepwell tuning train: fits the costs of a target to records, and writes a plugin with them."""

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from stepwell.cli.common import OK, Parser, UsageError, check_target
from stepwell.cli.compile_options import load_plugins
from stepwell.cli.display import plural, print_table, say

if TYPE_CHECKING:
    from stepwell.tuning.outcomes import Record
    from stepwell.tuning.training import Quality, Training

FindRecords: TypeAlias = "Callable[[], Iterable[Record]]"
"""Reads the records of the database. Raises InputError."""


def add_options(parser: Parser) -> None:
    """The options of `stepwell tuning train`."""
    parser.add_argument("--target", metavar="NAME", help="the machine whose costs are fitted, to records for it (default: this one)")
    parser.add_argument("-o", "--output", metavar="FILE.py", help="write a plugin with the fitted costs, for --load FILE.py --target NAME-tuned")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="run a plugin first; may be repeated")


def execute(options: argparse.Namespace, find: FindRecords) -> int:
    """Run the action on the records that `find` reads; returns the exit status. Raises UsageError, InputError or OSError."""
    from stepwell.dialects.target.registry import resolve
    from stepwell.tuning.training import train

    if options.output is not None and (Path(options.output).suffix != ".py" or not Path(options.output).parent.is_dir()):
        raise UsageError(f"-o {options.output}: expected the name of a Python file (.py) in a folder that exists")
    load_plugins(options)
    check_target(options.target)
    training = train(find(), resolve(options.target or "host"))
    written = None if options.output is None else _write(training, options.output)
    if options.json:
        say(json.dumps(_as_json(training, options.output, written), indent=2))
    else:
        _show(training, options.output, written)
    return OK


def _write(training: "Training", path: str) -> str:
    """Write the plugin; returns the name of its target."""
    from datetime import datetime

    from stepwell.dialects.support.files import write_atomically
    from stepwell.tuning.target_file import target_file, tuned_target

    write_atomically(path, target_file(training, datetime.now()))
    return tuned_target(training).name


def _as_json(training: "Training", path: str | None, written: str | None) -> dict[str, object]:
    found = {name: value for name, value in asdict(training).items() if name not in ("target", "costs")}
    return {"target": training.target.name, **found, "is_better": training.is_better, "file": path, "tuned": written}


def _show(training: "Training", path: str | None, written: str | None) -> None:
    from stepwell.tuning.ranking_quality import BEST

    rows = [(one.network, str(one.workloads), str(one.candidates), *_cells(one.before, one.after)) for one in training.held_out]
    rows.append(("all", str(training.workloads), str(training.candidates), *_cells(training.before, training.after)))
    header = ("network left out", "ops", "schedules", "rank correlation", "fitted", f"regret of the best {BEST}", "fitted")
    print_table(header, rows, title="predictions by the present costs, and by those fitted to the other networks", numbers=range(1, 7))
    constants = [(one.name, f"{one.before:g}", f"{one.after:g}", one.note) for one in training.constants]
    print_table(("constant", "present", "fitted", ""), constants, title=f"costs of {training.target.name}, fitted to all networks", numbers=(1, 2))
    if training.unusable:
        say(f"{plural(training.unusable, 'schedule')} left out, whose records lack the quantities")
    if not training.is_better:
        say("the fitted costs order the schedules of networks that were left out no better: keep the present ones")
    if written is not None:
        say(f"wrote {path}: use --load {path} --target {written}")


def _cells(before: "Quality", after: "Quality") -> tuple[str, str, str, str]:
    numbers = (before.correlation, after.correlation, before.regret, after.regret)
    first, second, third, fourth = ("" if number is None else f"{number:.3f}" for number in numbers)
    return first, second, third, fourth
