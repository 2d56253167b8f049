#!/usr/bin/env python3
"""Run ONNX's backend suite natively in several ways, and count results by operator and by way.

    .venv/bin/python scripts/onnx_suite.py [--way NAME]... [--filter REGEX] [--every N] [--jobs N] [--json OUT] [-v]

The ways are: `given`, each case unchanged; `constants`, with inputs made constants, in two forms (test/support/backend_suite/forms.py); `plain`, with
all optional passes off; and `one` and `two` threads. The following run only if they are named: `free`, one program for all sizes of the inputs;
`auto`, the same, but with specialised code if there is no such program; `bundle`, each case as a bundle through its interface in C; and the name of
each target that runs here. Cases run in `--jobs` separate processes: a crash or a hang ends one case. Any result other than a correct one or an
UnsupportedError is printed, and makes the exit status 1.
test/end_to_end/test_onnx_suite.py checks a part of the cases against the list of unsupported ones.
"""

import argparse
import collections
import concurrent.futures
import json
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.dialects.target.host import runs_here
from stepwell.dialects.target.registry import resolve, target_names
from stepwell.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from backend_suite.cases import Case
    from backend_suite.verdicts import Verdict

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "test" / "support"))


@dataclass(frozen=True)
class Way:
    """A way to run cases: options of `stepwell.compile`, and the forms of each case."""

    options: dict[str, Any] = field(default_factory=dict)
    forms: tuple[str, ...] = ("given",)


DEFAULT = ("given", "constants", "plain", "one", "two")


def ways() -> dict[str, Way]:
    """All ways by name."""
    targets = sorted(name for name in target_names() if name != "host" and runs_here(resolve(name)))
    return {
        "given": Way(),
        "constants": Way(forms=("constants", "folded")),
        "plain": Way({"disable": tuple(Pipeline.default().switches())}),
        "one": Way({"threads": 1}),
        "two": Way({"threads": 2}),
        "free": Way({"specialise": "never"}, forms=("free",)),
        "auto": Way(forms=("free",)),
        "bundle": Way({"bundle": True}),
        **{name: Way({"target": name}) for name in targets},
    }


def main() -> int:
    """Run the requested cases; returns 1 if any result was wrong."""
    from backend_suite.cases import cases

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", action="append", choices=list(ways()), help=f"how to run them (default: {', '.join(DEFAULT)})")
    parser.add_argument("--filter", metavar="REGEX", default="", help="only cases whose name matches")
    parser.add_argument("--every", metavar="N", type=int, default=1, help="only every Nth of them")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="processes that run cases side by side (default: 1)")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write all verdicts there")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each verdict")
    args = parser.parse_args()

    chosen = [case for case in cases() if re.search(args.filter, case.name)][:: args.every]
    found: dict[str, list[Verdict]] = {}
    try:
        for name in args.way or DEFAULT:
            found[name] = []
            run(chosen, name, args.jobs, found[name], args.verbose)
    finally:
        if args.json is not None:
            args.json.write_text(json.dumps({name: [asdict(verdict) for verdict in verdicts] for name, verdicts in found.items()}, indent=1))
    print("\n".join(summary(found)))
    return int(any(is_wrong(verdict) for verdicts in found.values() for verdict in verdicts))


def run(chosen: "Sequence[Case]", name: str, jobs: int, found: "list[Verdict]", verbose: bool) -> None:
    """Run cases in one way, in a process for each job, and append their verdicts to `found` in order."""
    from backend_suite.forms import forms_of
    from backend_suite.verdicts import judge
    from watchdog import Watchdog

    way, mine, dogs = ways()[name], threading.local(), []

    def judged(case: "Case", form: str) -> "Verdict":
        if not hasattr(mine, "dog"):
            mine.dog = Watchdog(first="objects_once:share_objects")  # the forms of a case share many kernels
            dogs.append(mine.dog)
        return judge(mine.dog, case, form, way.options)

    pool = concurrent.futures.ThreadPoolExecutor(max(jobs, 1))
    try:
        tasks = [(case, form) for case in chosen for form in (*forms_of(case), "free") if form in way.forms]
        for verdict in pool.map(lambda task: judged(*task), tasks):
            found.append(verdict)
            if verbose or is_wrong(verdict):
                print(f"{name}: {verdict}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
        for dog in dogs:
            dog.end()


def is_wrong(verdict: "Verdict") -> bool:
    """Whether a case neither passed nor was reported as unsupported."""
    return verdict.status not in ("passed", "unsupported")


def summary(found: "dict[str, list[Verdict]]") -> list[str]:
    """The operators that do not always pass, for each way, then the totals of all ways: cases passed, unsupported and wrong."""
    lines, totals = [], []
    for name, verdicts in found.items():
        lines += ["", f"== {name}", row("")]
        counts: dict[str, collections.Counter[str]] = {}
        for verdict in verdicts:
            counts.setdefault(verdict.op, collections.Counter())[verdict.status] += 1
        lines += [row(op, count) for op, count in counts.items() if count["passed"] < count.total()]
        totals.append(row(name, collections.Counter(verdict.status for verdict in verdicts)))
    return [*lines, "", row(""), *totals]


def row(title: str, count: "collections.Counter[str] | None" = None) -> str:
    """A line of the table, or without counts its header."""
    if count is None:
        return f"{title:28} {'passed':>8} {'unsupported':>12} {'wrong':>8}"
    wrong = count.total() - count["passed"] - count["unsupported"]
    return f"{title:28} {count['passed']:8} {count['unsupported']:12} {wrong:8}"


if __name__ == "__main__":
    sys.exit(main())
