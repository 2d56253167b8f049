"""Records as rows of the tables, and back."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from stepwell.database.records import Candidate, Decision, Phase, Provenance, Run, RunRecord, Samples, State, Workload, WorkloadInfo
from stepwell.database.storage import DamagedRecord
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.names import printable, printable_lines

Row: TypeAlias = tuple[str | int | float | None, ...]
"""Values to store."""
WORKLOAD = "kind, content, above, target, threads"
INFO = "name, network, nodes, features"
CANDIDATE = "text, strategy, state, message, predicted, features, code, build_seconds"
SAMPLES = "text, against, phase, log_ratios, seconds, clock, discarded"
DECISION = "text, baseline, ratio, low, high, p"
ABOUT_RUN = "id, machine, began, changed"
RUN = "network, content, target, threads, seed, budget, spent, status, ratio, low, high, plan"
"""The columns of each record, in the order of its fields."""
_MOST = 2**63 - 1
"""The largest integer that SQLite stores."""
_MOST_LOG = 700.0
"""The largest logarithm of a ratio: the exponential of 710 is no finite number."""


def columns(names: str, table: str) -> str:
    """The columns of a record with the name of their table: `r.network, r.content, …`."""
    return ", ".join(f"{table}.{name}" for name in names.split(", "))


def width(names: str) -> int:
    """The number of columns."""
    return names.count(",") + 1


# --- records to rows


def workload_row(workload: Workload) -> Row:
    """The values of `WORKLOAD`. Raises InputError."""
    names = (_name(name, getattr(workload, name)) for name in ("kind", "content", "above", "target"))
    return (*names, _whole("threads", workload.threads, 1))


def info_row(info: WorkloadInfo) -> Row:
    """The values of `INFO`; names are printable from here on."""
    nodes = [printable(node) for node in info.nodes]
    return printable(info.name), printable(info.network), json.dumps(nodes), _numbers("features", info.features)


def candidate_row(candidate: Candidate) -> Row:
    """The values of `CANDIDATE`. Raises InputError."""
    return (
        _name("candidate", candidate.text), printable(candidate.strategy), State(candidate.state).value, printable_lines(candidate.message),
        None if candidate.predicted is None else _number("predicted", candidate.predicted), _numbers("features", candidate.features),
        printable(candidate.code), _number("build_seconds", candidate.build_seconds),
    )  # fmt: skip


def samples_row(samples: Samples) -> Row:
    """The values of `SAMPLES`. Raises InputError."""
    ratios = json.dumps([_number("log_ratios", ratio, _MOST_LOG) for ratio in samples.log_ratios])
    return (
        _name("text", samples.text), _name("against", samples.against), Phase(samples.phase).value, ratios, _number("seconds", samples.seconds),
        _one_of("clock", samples.clock, ("cpu", "wall")), _whole("discarded", samples.discarded),
    )  # fmt: skip


def decision_row(decision: Decision) -> Row:
    """The values of `DECISION`. Raises InputError."""
    numbers = (_number(name, getattr(decision, name)) for name in ("ratio", "low", "high", "p"))
    return _name("text", decision.text), _name("default", decision.default), *numbers


def run_row(run: Run) -> Row:
    """The values of `RUN`. Raises InputError."""
    ratio, low, high = (None if value is None else _number("ratio", value) for value in (run.ratio, run.low, run.high))
    return (
        printable(run.network), _name("content", run.content), _name("target", run.target), _whole("threads", run.threads, 1),
        _whole("seed", run.seed, -_MOST), _number("budget", run.budget), _number("spent", run.spent),
        _one_of("status", run.status, ("running", "finished", "interrupted", "failed")), ratio, low, high, run.plan,
    )  # fmt: skip


def provenance_text(provenance: Provenance) -> str:
    """A provenance as JSON, the same for equal ones."""
    return json.dumps({**vars(provenance), "versions": dict(provenance.versions)}, sort_keys=True)


def _number(name: str, value: float, most: float = sys.float_info.max) -> float:
    number = float(value)
    if not abs(number) <= most:
        raise InputError(f"{name}: expected a finite number{f' up to {most}' if most < sys.float_info.max else ''}, got {shown(value)}")
    return number


def _whole(name: str, value: int, least: int = 0) -> int:
    """An integer of Python: SQLite would store one of numpy as bytes."""
    number = int(value)
    if not least <= number <= _MOST:
        raise InputError(f"{name}: expected an integer from {least} to {_MOST}, got {shown(value)}")
    return number


def _one_of(name: str, text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise InputError(f"{name}: expected one of {', '.join(known)}, got {shown(text)}")
    return text


def _numbers(name: str, values: Mapping[str, float]) -> str:
    return json.dumps({printable(key): _number(f"{name}: {key}", value) for key, value in values.items()})


def _name(name: str, text: str) -> str:
    if not text.isprintable():
        raise InputError(f"{name}: expected printable text on one line, got {shown(text)}")
    return text


# --- rows to records


def workload_of(row: tuple[str, str, str, str, int]) -> Workload:
    """The workload of the columns `WORKLOAD`."""
    return Workload(*row)


def info_of(row: tuple[str, str, str, str]) -> WorkloadInfo:
    """The description of a workload in the columns `INFO`. Raises DamagedRecord."""
    name, network, nodes, features = row
    return WorkloadInfo(name, network, tuple(_texts(nodes)), _features(features))


def candidate_of(row: tuple[str, str, str, str, float | None, str, str, float]) -> Candidate:
    """The candidate of the columns `CANDIDATE`. Raises DamagedRecord."""
    text, strategy, state, message, predicted, features, code, build_seconds = row
    try:
        return Candidate(text, strategy, State(state), message, predicted, _features(features), code, build_seconds)
    except ValueError as error:
        raise DamagedRecord(str(error)) from None


def samples_of(row: tuple[str, str, str, str, float, str, int]) -> Samples:
    """The samples of the columns `SAMPLES`. Raises DamagedRecord."""
    text, against, phase, log_ratios, seconds, clock, discarded = row
    ratios = _loaded(log_ratios)
    if not isinstance(ratios, list) or not all(isinstance(ratio, float) for ratio in ratios):
        raise DamagedRecord(f"expected numbers, got {shown(log_ratios)}")
    try:
        return Samples(text, against, Phase(phase), tuple(ratios), seconds, clock, discarded)
    except ValueError as error:
        raise DamagedRecord(str(error)) from None


def decision_of(row: tuple[str, str, float, float, float, float]) -> Decision:
    """The decision of the columns `DECISION`."""
    return Decision(*row)


def run_record_of(
    about: tuple[int, str, float, float],
    run: tuple[str, str, str, int, int, float, float, str, float | None, float | None, float | None, str],
    provenance: str,
) -> RunRecord:
    """The run of the columns `ABOUT_RUN`, `RUN` and the text of its provenance. Raises DamagedRecord."""
    return RunRecord(*about, Run(*run), _provenance(provenance))


def _provenance(text: str) -> Provenance:
    found = _loaded(text)
    try:
        given = found if isinstance(found, dict) else {}
        return Provenance(**{**given, "features": tuple(given["features"]), "caches": tuple(given["caches"])})
    except (TypeError, KeyError) as error:
        raise DamagedRecord(f"expected a provenance: {error}") from None


def _features(text: str) -> dict[str, float]:
    found = _loaded(text)
    if not isinstance(found, dict) or not all(isinstance(value, float) for value in found.values()):
        raise DamagedRecord(f"expected numbers by name, got {shown(text)}")
    return found


def _texts(text: str) -> Sequence[str]:
    found = _loaded(text)
    if not isinstance(found, list) or not all(isinstance(value, str) for value in found):
        raise DamagedRecord(f"expected texts, got {shown(text)}")
    return found


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedRecord(f"expected JSON: {error}") from None
