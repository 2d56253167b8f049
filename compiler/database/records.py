"""The records of the tuning database as plain data: workloads, candidates, samples, decisions, runs and their provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """The fate of a candidate."""

    BUILT = "built"
    """It was compiled, and its results have the bits of the default's."""
    SAME_CODE = "same code"
    """Its code is that of another candidate."""
    REFUSED = "refused"
    """Found before a build: it is not legal."""
    FAILED = "failed"
    """It could not be compiled."""
    CRASHED = "crashed"
    """The process that built or ran it ended."""
    TIMED_OUT = "timed out"
    """The process that built or ran it was stopped."""
    DIFFERS = "differs"
    """Its results have other bits than the default's: a fault of the compiler, unless rounding was allowed."""

    @property
    def is_sound(self) -> bool:
        """Whether the candidate could be built and run, and gives the default's results."""
        return self in (State.BUILT, State.SAME_CODE)


class Phase(StrEnum):
    """The part of a run in which samples were taken."""

    SEARCH = "search"
    CONFIRM = "confirm"
    """The best candidates are measured afresh, in new processes."""
    WHOLE = "whole"
    """The whole network is measured."""


@dataclass(frozen=True)
class Workload:
    """The key of records, by content: equal workloads share their records, in whichever network they occur."""

    kind: str
    """The kind of choice: `schedule`, `panels`, `fusion`, …"""
    content: str
    """The digest of the kernel (for a schedule, followed by `:` and the index of the op), or of the network, followed by `:` and the site."""
    above: str
    """The digest of the choices above it that the content does not show, such as loops fused around the op; empty for none."""
    target: str
    """The digest of the target (`Target.digest`)."""
    threads: int


@dataclass(frozen=True)
class WorkloadInfo:
    """About a workload, for people and for models that learn."""

    name: str
    """The kernel's name and the role of its op, or the site."""
    network: str
    """The name of the model in which it was met first."""
    nodes: tuple[str, ...] = ()
    features: Mapping[str, float] = field(default_factory=dict)
    """Numbers that describe it, such as sizes and the number of operations: near ones are similar workloads."""


@dataclass(frozen=True)
class Candidate:
    """A candidate of a workload."""

    text: str
    """Its name: all knobs that have an effect, or the name of a choice. Unique in its workload."""
    strategy: str
    """The strategy that proposed it, or `default`, `start` for a warm start, `random`."""
    state: State
    message: str = ""
    """Why it was refused, or how it failed."""
    predicted: float | None = None
    """Seconds by the analytic model; None without a prediction."""
    features: Mapping[str, float] = field(default_factory=dict)
    code: str = ""
    """The digest of its code; empty if there is none."""
    build_seconds: float = 0.0


@dataclass(frozen=True)
class Samples:
    """Times of a candidate relative to another one, measured in turns."""

    text: str
    """The candidate."""
    against: str
    """The other candidate: the best one when the measurement began. Equal to `text` for an A/A arm."""
    phase: Phase
    log_ratios: tuple[float, ...]
    """For each block, the natural logarithm of the candidate's time divided by the other's: below 0 is faster."""
    seconds: float
    """The median of the candidate's times: all launches of its kernel in one run of the network."""
    clock: str
    """`cpu` for the thread's CPU time, or `wall`."""
    discarded: int = 0
    """The number of blocks whose log ratio was thrown away because other processes took cores during one of its two runs."""


@dataclass(frozen=True)
class Decision:
    """The outcome for a workload: the candidate to take."""

    text: str
    default: str
    """The default's text, against which it was confirmed."""
    ratio: float
    """Its time relative to the default's."""
    low: float
    high: float
    """The confidence interval of the ratio, at 95 %."""
    p: float
    """The p-value of the test that it is not faster, before the correction for several sites."""


@dataclass(frozen=True)
class Provenance:
    """Where and with what records were made."""

    target_name: str
    cpu: str
    features: tuple[str, ...]
    caches: tuple[int, ...]
    """Bytes of the caches, the first one first."""
    cores: int
    microcode: str
    system: str
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of stepwell, the bindings and OpenMP, and the digest of our code generation."""


@dataclass(frozen=True)
class Run:
    """One call of `stepwell tune`."""

    network: str
    """The name of the model."""
    content: str
    """The digest of the model and of the options that it was compiled with, without plan and tuning."""
    target: str
    threads: int
    seed: int
    budget: float
    """The seconds that it might take."""
    spent: float = 0.0
    status: str = "running"
    """`running`, `finished`, `interrupted` or `failed`."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Time of the whole tuned network relative to the untuned one, with the confidence interval at 95 %."""
    plan: str = ""
    """The text of the plan that it confirmed; empty for none."""


@dataclass(frozen=True)
class RunRecord:
    """A run as the database stores it."""

    id: int
    """Unique in all databases: a random number."""
    machine: str
    """The digest of the machine that measured (`provenance.this_machine`): its records alone decide there."""
    began: float
    """Seconds since 1970."""
    changed: float
    """The time of the last change, likewise."""
    run: Run
    provenance: Provenance
