"""stepwell tuning show: tables of decisions, candidates and runs."""

import argparse
import json
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from stepwell.cli.common import OK, Parser, check_target
from stepwell.cli.display import plural, print_table, say, seconds

if TYPE_CHECKING:
    from stepwell.database.database import Database
    from stepwell.database.overview import Decided, Tried
    from stepwell.database.records import RunRecord


_DECISIONS = ("kind", "name", "network", "target", "threads", "time", "interval", "tried", "machine", "decided")
_RUNS = ("run", "network", "threads", "spent", "budget", "status", "time", "interval", "machine")
_CANDIDATES = ("candidate", "proposed by", "state", "predicted", "measured", "time", "against", "phase", "machine")


def add_options(parser: Parser) -> None:
    """The options of `stepwell tuning show`."""
    text = "show the candidates of the workloads of this name, or of those that a pattern such as conv_* names"
    parser.add_argument("name", nargs="?", metavar="NAME", help=text)
    parser.add_argument("--target", metavar="NAME", help="show only records for this target")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Run the action; returns the exit status. Raises UsageError or InputError."""
    target = _digest(options.target)
    from stepwell.database.database import chosen_database  # imported here, because a wrong command line does not need it

    database = chosen_database()
    if database is None:
        say("the records of tuning are switched off by STEPWELL_TUNING=0")
        return OK
    with database:
        if options.name is None:
            _show(database, target, is_json=options.json)
        else:
            _show_candidates(database, options.name, target, is_json=options.json)
    return OK


def _digest(name: str | None) -> str | None:
    """The digest of the target with that name. Raises UsageError."""
    if name is None:
        return None
    from stepwell.dialects.target.registry import resolve

    check_target(name)
    return resolve(name).digest


def _show(database: "Database", target: str | None, *, is_json: bool) -> None:
    from stepwell.database.overview import decided
    from stepwell.records import to_json

    decisions = decided(database, target)
    runs = [record for record in database.runs() if target in (None, record.run.target)]
    if is_json:
        found = {"file": str(database.storage.path), "decisions": [to_json(entry) for entry in decisions], "runs": [to_json(run) for run in runs]}
        say(json.dumps(found, indent=2))
        return
    say(database.storage.path)
    if database.storage.problem is not None:
        say(f"not used: {database.storage.problem}")
    print_table(_DECISIONS, [_decision_cells(entry) for entry in decisions], numbers=(4, 5, 7))
    print_table(_RUNS, [_run_cells(record, record.machine == database.machine) for record in runs], numbers=(2, 3, 4, 6))
    say(f"{plural(len(decisions), 'decision')}, {plural(len(runs), 'run')}; times are relative to the default's")


def _show_candidates(database: "Database", name: str, target: str | None, *, is_json: bool) -> None:
    from stepwell.database.overview import tried
    from stepwell.dialects.support.errors import InputError, shown
    from stepwell.records import to_json

    candidates = tried(database, lambda other: other == name or fnmatchcase(other, name), target)
    if not candidates:
        raise InputError(f"NAME: expected the name of a workload in {database.storage.path}, got {shown(name)} (`stepwell tuning show` lists them)")
    if is_json:
        say(json.dumps([to_json(entry) for entry in candidates], indent=2))
        return
    for workload in dict.fromkeys(entry.workload for entry in candidates):
        mine = [entry for entry in candidates if entry.workload == workload]
        info = mine[0].info
        title = f"{workload.kind} {info.name} ({info.network}), {plural(workload.threads, 'thread')}"
        print_table(_CANDIDATES, [row for entry in mine for row in _candidate_rows(entry)], title=title, numbers=(3, 4, 5))


def _decision_cells(entry: "Decided") -> Sequence[str]:
    decision = entry.decision
    return (
        entry.workload.kind, entry.info.name, entry.info.network, entry.target, str(entry.workload.threads), f"{decision.ratio:.3f}",
        _interval(decision.low, decision.high), str(entry.candidates), "this one" if entry.is_here else entry.cpu, _moment(entry.changed),
    )  # fmt: skip


def _run_cells(record: "RunRecord", is_here: bool) -> Sequence[str]:
    run = record.run
    return (
        _moment(record.began), run.network, str(run.threads), seconds(run.spent), seconds(run.budget), run.status,
        "" if run.ratio is None else f"{run.ratio:.3f}", _interval(run.low, run.high), "this one" if is_here else record.provenance.cpu,
    )  # fmt: skip


def _candidate_rows(entry: "Tried") -> list[Sequence[str]]:
    """A row for each series of samples, or one for a candidate without any."""
    from stepwell.database.overview import mean_ratio

    candidate = entry.candidate
    predicted = "" if candidate.predicted is None else seconds(candidate.predicted)
    about = (candidate.text, candidate.strategy, f"{candidate.state}{': ' if candidate.message else ''}{candidate.message}", predicted)
    machine = "this one" if entry.is_here else entry.machine
    rows: list[Sequence[str]] = []
    for samples in entry.samples:
        ratio = mean_ratio(samples)
        time_cell = "" if ratio is None else f"{ratio:.3f}"
        rows.append((*about, seconds(samples.seconds), time_cell, samples.against, str(samples.phase), machine))
    return rows or [(*about, "", "", "", "", machine)]


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _moment(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
