"""Records of tuning for tests."""

from dataclasses import replace
from pathlib import Path

from stepwell.database.database import Database
from stepwell.database.records import Candidate, Decision, Phase, Provenance, Run, Samples, State, Workload, WorkloadInfo

PROVENANCE = Provenance("x86-64-v3", "A processor", ("avx2", "fma"), (32768, 1 << 20, 8 << 20), 4, "0x12", "Linux 6", {"stepwell": "0.1.0"})
OTHER = "0123456789abcdef"
"""The digest of another machine."""
INFO = WorkloadInfo("conv_1:contraction", "digits", ("conv1", "relu1"), {"m": 64.0, "macs": 1e6})


def workload(number: int = 0, *, kind: str = "schedule", above: str = "", target: str = "t0", threads: int = 1) -> Workload:
    return Workload(kind, f"kernel{number}:0", above, target, threads)


def run(network: str = "digits", content: str = "c0", *, target: str = "t0", threads: int = 1) -> Run:
    return Run(network, content, target, threads, seed=7, budget=30.0)


def candidate(text: str = "unroll.2=3", **fields: object) -> Candidate:
    usual = Candidate(text, "annealing", State.BUILT, predicted=2.5e-6, features={"lanes": 8.0}, code="d1", build_seconds=0.25)
    return replace(usual, **fields)  # type: ignore[arg-type]


def samples(text: str = "unroll.2=3", ratio: float = -0.1, *, phase: Phase = Phase.SEARCH) -> Samples:
    return Samples(text, "default", phase, (ratio, ratio / 2), 1.5e-5, "cpu", discarded=1)


def decision(text: str = "unroll.2=3", ratio: float = 0.9) -> Decision:
    return Decision(text, "default", ratio, ratio - 0.02, ratio + 0.02, 0.001)


def filled(path: Path, *, machine: str | None = None, count: int = 2) -> Database:
    """A database with a finished run of several workloads, each with two candidates, samples and a decision."""
    database = Database.opened(path, machine=machine)
    number = database.begin(run(), PROVENANCE)
    for i in range(count):
        database.add_candidates(workload(i), INFO, [candidate("default", strategy="default"), candidate()], number)
        database.add_samples(workload(i), [samples("default", 0.0), samples()], number)
        database.decide(workload(i), decision(), number)
    database.update_run(number, status="finished", spent=12.5, ratio=0.95, low=0.94, high=0.96, plan='{"version": 2}')
    return database
