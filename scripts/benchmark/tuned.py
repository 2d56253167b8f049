"""Networks with plans: `stepwell tune` is run for each network and number of threads, as a user would."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmark.jobs import Failure
from benchmark.models import Network

__all__ = ["make_plans", "plan_file"]

RECORDS = "tuning.sqlite"
"""The file of the records, in the folder of the plans."""


def plan_file(folder: Path, model: Path, threads: int) -> Path:
    """The file of the plan for a model on so many threads."""
    return folder / f"{model.stem}.{threads}.plan.json"


def make_plans(
    networks: Sequence[Network], threads: Sequence[int], budget: str, folder: Path, target: str, say: Callable[[str], None], *, seed: int = 0
) -> dict[str, str]:  # fmt: skip
    """Tune each network on each number of threads, where `folder` has no plan for it yet; returns the last line that each run printed.

    A network for which nothing faster is found has no plan. All runs share the records in `folder`, as those of a user do. Raises Failure.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = {}
    for network in networks:
        for count in threads:
            file = plan_file(folder, network.path, count)
            if file.exists():
                continue
            say(f"{network.name}: tuning for {count} threads, {budget}")
            shapes = [part for name, shape in network.shapes.items() for part in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
            command = [
                str(Path(sys.executable).parent / "stepwell"), "tune", str(network.path), "--budget", budget, "--threads", str(count),
                "-o", str(file), "--target", target, "--seed", str(seed), "--again", "--quiet", *shapes,
            ]  # fmt: skip
            environment = {**os.environ, "STEPWELL_TUNING": str(folder / RECORDS)}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            if done.returncode != 0:
                raise Failure(f"stepwell tune of {network.name}: {done.stderr.strip() or done.returncode}")
            told[f"{network.name}, {count}"] = done.stdout.strip().splitlines()[-1]
    return told
