#!/usr/bin/env python3
"""Test every rewrite pattern on graphs that it matches: types, values before and after, and proofs over the reals.

    .venv/bin/python scripts/check_patterns.py [--only NAME]... [--load FILE]... [--sample] [--record]

The graphs are those of the FileCheck tests of a pattern's pass, random modifications of these, and random graphs of the ops that the pattern names,
generated from the ops' definitions. A pattern that never matched is listed. The graphs are the same in each run. `--record` writes the results that
docs/reference/patterns.md shows. test/passes/test_pattern_net.py tests a few graphs for each pattern.
"""

import argparse
import os
import sys
from pathlib import Path

import environment

from stepwell.plugin_files import load_file

TESTS = Path(__file__).resolve().parent.parent / "test" / "support"


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and test patterns; 0 if all were correct and matched, 1 if not, 2 for wrong usage (argparse)."""
    sys.path.insert(0, str(TESTS))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    parser = argparse.ArgumentParser(description="Compare and prove what every rewrite pattern does.")
    parser.add_argument("--only", action="append", metavar="NAME", help="one pattern, such as merge_slices (default: all); may be repeated")
    parser.add_argument("--load", action="append", default=[], metavar="FILE", help="a plugin's Python file, whose patterns are there too")
    parser.add_argument("--sample", action="store_true", help="try as few graphs as the test does")
    parser.add_argument("--record", action="store_true", help="write down the results of our own patterns, for the page about them")
    parser.add_argument("--verbose", action="store_true", help="say why graphs were declined, and why what was tried is not proven")
    options = parser.parse_args(arguments)
    from pattern_net.net import SAMPLE, WHOLE, examined, is_of_memory, patterns
    from pattern_net.record import NEVER_MATCHED, entry_of, grown_before, write

    for file in options.load:
        load_file(file)
    there = {p: names for p, names in patterns().items() if not is_of_memory(p)}
    known = {p.name for p in there} | {p.label for p in there}
    if unknown := [name for name in options.only or () if name not in known]:
        parser.error(f"no pattern {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    chosen = {p: names for p, names in there.items() if not options.only or {p.name, p.label} & set(options.only)}
    outcomes, failures, never = [], 0, []
    for p, names in chosen.items():
        outcome = examined(p, names, *((SAMPLE, grown_before(p.label)) if options.sample else (WHOLE, ())))
        outcomes.append(outcome)
        print(f"{outcome.name}: {outcome.tried} graphs, {outcome.matched} matched, {outcome.compared} compared, {outcome.proven} proven", flush=True)
        for problem in outcome.problems:
            print(f"WRONG {outcome.name}: {problem}", flush=True)
        failures += len(outcome.problems)
        if not outcome.matched and outcome.name not in NEVER_MATCHED:
            never.append(outcome.name)
        if options.verbose:
            for title, reasons in (("declined", outcome.counts.declined), ("unproven", outcome.unproven)):
                for reason, count in reasons.most_common(4):
                    print(f"    {title} {count}: {reason}")
    for name in never:
        print(f"NEVER MATCHED {name}")
    matched = [outcome for outcome in outcomes if outcome.matched]
    if options.record:
        write([entry_of(outcome) for outcome in outcomes if outcome.pattern.rewrite.__module__.startswith("stepwell.")])
    compared, proven = sum(o.compared for o in outcomes), sum(o.proven > 0 for o in outcomes)
    print(f"{compared} comparisons of {len(matched)} patterns of {len(outcomes)}, {proven} proven, {len(never)} never matched, {failures} wrong")
    return int(failures > 0 or bool(never))


if __name__ == "__main__":
    environment.need(__doc__, "test", "hypothesis", "z3")
    sys.exit(main())
