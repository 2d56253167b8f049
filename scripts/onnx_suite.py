#!/usr/bin/env python3
"""Run ONNX's backend suite natively, with whatever options and with its inputs as constants, and count by operator.

    .venv/bin/python scripts/onnx_suite.py [--filter REGEX] [--every N] [--variant NAME]... [--form NAME]... [--json OUT] [-v]

A variant is a way to compile: `default`, `plain` (all switches off), `one` and `two` threads, or the name of a target that
runs here. A form is what is known when compiling: `given`, `constants` or `folded` (test/support/backend_suite/forms.py). All of both unless some
are named. Anything but a right result or an UnsupportedError is printed, and makes the exit status 1.
test/end_to_end/test_onnx_suite.py runs the default variant and holds the unsupported cases against a list.
"""

import argparse
import collections
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.dialects.target.host import runs_here
from stepwell.dialects.target.registry import resolve, target_names
from stepwell.driver.pipeline import Pipeline

if TYPE_CHECKING:
    from backend_suite.verdicts import Verdict

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "test" / "support"))


def variants() -> dict[str, dict[str, Any]]:
    """Options of `stepwell.compile` by the name of the variant."""
    named = {name for name in target_names() if name != "host" and runs_here(resolve(name))}
    return {
        "default": {},
        "plain": {"disable": tuple(Pipeline.default().switches())},
        "one": {"threads": 1},
        "two": {"threads": 2},
        **{name: {"target": name} for name in sorted(named)},
    }


def main() -> int:
    """Run what was asked for; 1 if anything was wrong."""
    from backend_suite.cases import cases
    from backend_suite.forms import FORMS, forms_of
    from backend_suite.verdicts import judge
    from watchdog import Watchdog

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", metavar="REGEX", default="", help="only cases whose name matches")
    parser.add_argument("--every", metavar="N", type=int, default=1, help="only every Nth of them")
    parser.add_argument("--variant", action="append", choices=list(variants()), help="how to compile")
    parser.add_argument("--form", action="append", choices=FORMS, help="what is known when compiling")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write all verdicts there")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each verdict")
    args = parser.parse_args()

    chosen = [case for case in cases() if re.search(args.filter, case.name)][:: args.every]
    found: dict[str, list[Verdict]] = {}
    dog = Watchdog()
    try:
        for name in args.variant or variants():
            found[name] = []
            for case in chosen:
                for form in (form for form in forms_of(case) if form in (args.form or FORMS)):
                    verdict = judge(dog, case, form, variants()[name])
                    found[name].append(verdict)
                    if args.verbose or verdict.status not in ("passed", "unsupported"):
                        print(f"{name}: {verdict}", flush=True)
    finally:
        dog.end()
        if args.json is not None:
            args.json.write_text(json.dumps({name: [asdict(verdict) for verdict in verdicts] for name, verdicts in found.items()}, indent=1))
    for name, verdicts in found.items():
        print(f"== {name}")
        print(table(verdicts))
    return int(any(verdict.status not in ("passed", "unsupported") for verdicts in found.values() for verdict in verdicts))


def table(verdicts: "list[Verdict]") -> str:
    """Counts of each operator that does not always pass, then of each form."""
    lines = [f"{'':28} {'passed':>8} {'unsupported':>12} {'wrong':>8}"]
    for key in ("op", "form"):
        counts: dict[str, collections.Counter[str]] = {}
        for verdict in verdicts:
            counts.setdefault(getattr(verdict, key), collections.Counter())[verdict.status] += 1
        for name, count in counts.items():
            if key == "form" or count["passed"] < count.total():
                wrong = count.total() - count["passed"] - count["unsupported"]
                lines.append(f"{name:28} {count['passed']:8} {count['unsupported']:12} {wrong:8}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
