#!/usr/bin/env python3
"""Compile every graph op in all cases generated from its definition, and compare the results of the code with the op's reference.

    .venv/bin/python scripts/check_ops.py [--op NAME]... [--target NAME]... [--way NAME]... [--row N] [--seconds N] [--seed N] [--load FILE]
    .venv/bin/python scripts/check_ops.py --machine aarch64-neon [--row N] [--op NAME]... [...]

The cases cover every pair of element type, rank, sizes, special values, constant operands, target and way through the compiler. Without --seconds,
each is run once; with it, they are run again with other values until the time is up. The same seed gives the same cases.

With --machine, each case is part of a bundle for that target, which qemu runs, and its bits are compared with those of code for this machine by the
same schedules.
test/end_to_end/test_native_ops.py runs a few of them.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import environment

from stepwell.plugin_files import load_file

if TYPE_CHECKING:
    from native_ops import Instance

TESTS = Path(__file__).resolve().parent.parent / "test" / "support"
TOGETHER = 48  # number of cases in one model


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and run cases; 0 if all were correct, 1 if not, 2 for wrong usage (argparse)."""
    sys.path.insert(0, str(TESTS))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # avoids spinning when two threads share a core
    parser = argparse.ArgumentParser(description="Compare every graph op, compiled, with its reference.")
    parser.add_argument("--op", action="append", help="one op, such as relu or signal.mu_law (default: all); may be repeated")
    parser.add_argument("--target", action="append", metavar="NAME", help="one target (default: all that this machine runs)")
    parser.add_argument("--way", action="append", metavar="NAME", help="one way through the compiler: full, unfolded, plain (default: all)")
    parser.add_argument("--row", type=int, help="only the case of this number")
    parser.add_argument("--seconds", type=float, help="go on with other values for so long (default: each case once)")
    parser.add_argument("--seed", type=int, default=0, help="of the values of the first time; each later one adds 1 (default: 0)")
    parser.add_argument("--load", action="append", default=[], metavar="FILE", help="a plugin's Python file, whose ops are there too")
    parser.add_argument("--machine", metavar="NAME", help="another machine, on which qemu runs the cases, whatever their targets")
    options = parser.parse_args(arguments)
    from crossing import EMULATED
    from guarded import NAMED
    from native_ops import NOT_NATIVE, WAYS, batches, problems
    from op_cases import with_cases

    machines = [name for name, emulated in EMULATED.items() if emulated.has]
    asked_machine = [] if options.machine is None else [options.machine]
    for given, known_ones, what in ((options.target, NAMED, "target"), (options.way, list(WAYS), "way"), (asked_machine, machines, "machine")):
        if wrong := [name for name in given or () if name not in known_ones]:
            parser.error(f"no {what} {', '.join(wrong)}; there are {', '.join(known_ones)}")
    for file in options.load:
        load_file(file)
    known = [m for m in with_cases() if m not in NOT_NATIVE]
    asked = [name.removeprefix("graph.") for name in options.op or ()]
    unknown = [name for name in asked if name not in known]
    if unknown:
        parser.error(f"no op {', '.join(unknown)} that is compiled; there are {', '.join(known)}")
    ops, end = asked or known, time.monotonic() + (options.seconds or 0)
    count = failures = 0
    for seed in itertools.count(options.seed):
        cases = chosen(ops, options, seed)
        if options.machine is not None:
            cases = (replace(single, target=options.machine) for single in cases)
        for batch in batches(cases, TOGETHER):
            if options.seconds is not None and count and time.monotonic() > end:
                break
            found = problems(batch) if options.machine is None else problems_on(options.machine, batch)
            for name, what in found.items():
                failures += 1
                print(f"seed {seed}: {name}: {what}", flush=True)
            count += len(batch)
            print(f"{batch[0].target}, {batch[0].way}: {count} cases, {failures} wrong", flush=True)
        if options.seconds is None or time.monotonic() > end:
            break
    print(f"{count} cases of {len(ops)} ops, {failures} wrong")
    return int(failures > 0)


def problems_on(machine: str, batch: "list[Instance]") -> dict[str, str]:
    """What is wrong with cases on another machine."""
    import crossed_ops

    quickly = {"CFLAGS": os.environ.get("CFLAGS", "-O0")}  # compiling the run time in C takes most of the time otherwise
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, quickly):
        return crossed_ops.problems(batch, machine, Path(folder))


def chosen(ops: list[str], options: argparse.Namespace, seed: int) -> Iterator["Instance"]:
    """The cases that the options select, alternating between ops, so that a short run covers some cases of each."""
    from guarded import NAMED
    from native_ops import instances

    for group in itertools.zip_longest(*(instances(mnemonic, NAMED, seed) for mnemonic in ops)):
        for single in group:
            if single is None or options.row not in (None, single.number):
                continue
            if single.target in (options.target or NAMED) and single.way in (options.way or [single.way]):
                yield single


if __name__ == "__main__":
    environment.need(__doc__, "test", "hypothesis", "pytest")
    try:
        sys.exit(main())
    except LookupError as error:  # an op without known valid operands
        sys.exit(f"error: {error.args[0]}")
