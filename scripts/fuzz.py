#!/usr/bin/env python3
"""Run random graphs through the whole compiler and compare the results with their references and with ONNX Runtime, for any length of time.

    .venv/bin/python scripts/fuzz.py DIR [--seconds N | --rounds N] [--seed N] [--only operators|convolutions|matmuls|OPERATOR]

`operators` are graphs of all operators and types, compared with their references, with ONNX Runtime, and level by level; `convolutions` and `matmuls`
are networks with error bounds, compared with ONNX Runtime. Each graph runs in a separate, watched process, so crashes are detected like other
failures. A failing graph is reduced as far as possible and saved in DIR with its inputs and the command that runs it. The same seed gives the same
graphs. At the end, the script prints the coverage. test/end_to_end/test_random_models.py and test/end_to_end/test_random_graphs.py run a few of the
graphs.
"""

import argparse
import itertools
import math
import os
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import environment
import numpy as np

from stepwell.dialects.support.files import write_atomically

if TYPE_CHECKING:
    from random_models.comparison import Example
    from watchdog import Watchdog

TESTS = Path(__file__).resolve().parent.parent / "test" / "support"
ROUND = 50  # number of graphs of one kind before the next kind
SECONDS = 120.0  # time limit for one network
EXAMINE = "random_models.comparison:examine"


class Fuzzer:
    """Runs networks of one kind until the time is up, and records failures."""

    def __init__(self, folder: Path, end: float, dog: "Watchdog") -> None:
        self.folder = folder
        self.end = end
        self.count = 0
        self.worst = 0.0
        """The largest error that was allowed, as a share of what is."""
        self._dog = dog
        self._failed: tuple[Example, Exception] | None = None

    def round(self, kind: str, seed: int) -> bool:
        """Run up to `ROUND` networks; returns whether all are correct. The first wrong one is reduced, printed and saved."""
        import hypothesis  # imported here, because help works without it
        from random_models.comparison import examples

        self._failed = None
        quiet = hypothesis.settings(
            max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck), report_multiple_bugs=False
        )
        try:
            hypothesis.seed(seed)(quiet(hypothesis.given(examples(kind))(self.attempt)))()
        except Exception:
            if self._failed is None:
                raise
            example, error = self._failed
            path = self.folder / f"{kind}-{seed}.onnx"
            save(example, path)
            print(f"{type(error).__name__}: {error}\n  {example}\n{reproduction(example, path)}", flush=True)
            return False
        return True

    def attempt(self, example: "Example") -> None:
        """Check one network, if time is left or a failing one is being reduced."""
        if self._failed is None and time.monotonic() > self.end:
            return
        save(example, self.folder / "running.onnx")
        outcome = self._dog.call(EXAMINE, example, seconds=SECONDS)
        if outcome.kind != "returned":  # any kind of failure counts
            self._failed = example, AssertionError(str(outcome))
            raise self._failed[1]
        import hypothesis

        if outcome.value is None:
            hypothesis.reject()
        self.count += 1
        self.worst = max(self.worst, outcome.value)


def save(example: "Example", path: Path) -> None:
    """Write the model, and its inputs next to it."""
    buffer = BytesIO()
    arrays: dict[str, np.ndarray] = dict(example.inputs)
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, example.model.SerializeToString())
    write_atomically(path.with_suffix(".npz"), buffer.getvalue())


def reproduction(example: "Example", path: Path) -> str:
    """The command that runs a saved example."""
    disabled = "".join(f" --disable {name}" for name in example.disable)
    return f"stepwell run {path} --input {path.with_suffix('.npz')} --target {example.target}{disabled} --check onnxruntime --no-cache"


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments and run graphs; 0 if all were correct, 1 if not, 2 for wrong usage (argparse)."""
    sys.path.insert(0, str(TESTS))
    parser = argparse.ArgumentParser(description="Run random graphs through the whole compiler and compare them with what they mean.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="where graphs that fail are saved; made if it is not there")
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default: 60)")
    how_long.add_argument("--rounds", type=int, metavar="N", help=f"go on for so many rounds instead, each of {ROUND} graphs of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; each later one adds 1 (default: 0)")
    kinds = ("operators", "convolutions", "matmuls")
    parser.add_argument("--only", metavar="KIND|OPERATOR", help=f"{', '.join(kinds)}, or an operator that graphs have (default: all kinds in turn)")
    options = parser.parse_args(arguments)
    from random_graphs import families  # noqa: F401  (fills the table of operators)
    from random_graphs.campaign import Campaign
    from random_graphs.operators import OPERATORS
    from random_models.comparison import NETS
    from watchdog import Watchdog

    assert kinds[1:] == tuple(NETS)
    if options.only not in (None, *kinds, *OPERATORS):
        parser.error(f"--only {options.only}: expected {', '.join(kinds)} or the name of an operator")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # avoids spinning when two threads share a core
    options.folder.mkdir(parents=True, exist_ok=True)
    failures = 0
    with Watchdog() as dog:
        dog.call("random_graphs.examination:ready", seconds=SECONDS)  # so that its imports are not measured
        end = time.monotonic() + options.seconds if options.rounds is None else math.inf
        fuzzer = Fuzzer(options.folder, end, dog)
        campaign = Campaign(options.folder, dog, options.only if options.only in OPERATORS else None)
        for seed in itertools.count(options.seed) if options.rounds is None else range(options.seed, options.seed + options.rounds):
            for kind in kinds:
                if options.only not in (None, kind) and not (kind == "operators" and campaign.only is not None):
                    continue
                if kind == "operators":
                    for number in range(ROUND):
                        if time.monotonic() < end:
                            failures += not campaign.attempt(seed * ROUND + number)
                    said = f"{campaign.count} graphs"
                else:
                    failures += not fuzzer.round(kind, seed)
                    said = f"{fuzzer.count} nets, the largest error {fuzzer.worst:.2g} of the bound"
                print(f"{kind} {seed}: {said} so far, {failures} wrong", flush=True)
            if time.monotonic() > end:
                break
    if campaign.count:
        print(campaign.report(), flush=True)
    print(f"ran {campaign.count} graphs and {fuzzer.count} nets, {failures} wrong", flush=True)
    for suffix in (".onnx", ".npz"):
        (options.folder / "running").with_suffix(suffix).unlink(missing_ok=True)
    return int(failures > 0)


if __name__ == "__main__":
    environment.need(__doc__, "test", "hypothesis", "pytest", "onnxruntime")
    sys.exit(main())
