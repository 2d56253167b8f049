#!/usr/bin/env python3
"""Run random nets through the whole compiler and compare them with ONNX Runtime, for as long as you like.

    .venv/bin/python scripts/fuzz.py DIR [--seconds N] [--seed N] [--only convolutions|matmuls]

A net that fails is made as small as it gets and saved in DIR with its inputs. The one that is being run lies there too, as running.onnx:
should the process crash, that is the one. The same seed gives the same nets. test/test_random_models.py runs a few of them.
"""

import argparse
import itertools
import os
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np

from stepwell.dialects.files import write_atomically

if TYPE_CHECKING:
    from random_models.comparison import Example

TESTS = Path(__file__).resolve().parent.parent / "test"
ROUND = 50  # nets from one seed of hypothesis


class Fuzzer:
    """Nets of one kind until the time is up, and what was found."""

    def __init__(self, folder: Path, end: float) -> None:
        self.folder = folder
        self.end = end
        self.count = 0
        self.worst = 0.0
        """The largest error that was allowed, as a share of what is."""
        self._failed: tuple[Example, Exception] | None = None

    def round(self, kind: str, seed: int) -> bool:
        """Run up to `ROUND` nets; whether all are right. The first that is wrong is made small, printed and saved."""
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
        """Check one net, if there is time left or one that failed is being made smaller."""
        from random_models.comparison import check

        if self._failed is None and time.monotonic() > self.end:
            return
        save(example, self.folder / "running.onnx")
        try:
            check(example)
        except hypothesis.errors.UnsatisfiedAssumption:
            raise
        except Exception as error:  # whatever it is, it is what is looked for
            self._failed = example, error
            raise
        self.count += 1
        self.worst = max(self.worst, example.worst)


def save(example: "Example", path: Path) -> None:
    """Write the model, and its inputs beside it."""
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
    """Parse the arguments and run nets; 0 if all were right, 1 if not, 2 for wrong usage (argparse)."""
    sys.path.insert(0, str(TESTS))
    from random_models.comparison import NETS

    parser = argparse.ArgumentParser(description="Run random nets through the whole compiler and compare them with ONNX Runtime.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="where nets that fail are saved; made if it is not there")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; each later one adds 1 (default: 0)")
    parser.add_argument("--only", choices=NETS, help="one kind of nets (default: all in turn)")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # two threads may have to share a core
    options.folder.mkdir(parents=True, exist_ok=True)
    fuzzer, failures = Fuzzer(options.folder, time.monotonic() + options.seconds), 0
    for seed in itertools.count(options.seed):
        for kind in [options.only] if options.only else NETS:
            failures += not fuzzer.round(kind, seed)
            print(f"{kind} {seed}: {fuzzer.count} nets right so far, {failures} wrong; largest error {fuzzer.worst:.2g} of the bound", flush=True)
        if time.monotonic() > fuzzer.end:
            break
    for suffix in (".onnx", ".npz"):
        (options.folder / "running").with_suffix(suffix).unlink(missing_ok=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
