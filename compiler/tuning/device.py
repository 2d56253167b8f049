"""The interface to what builds and runs candidates: this machine, a pool of machines, or a simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from stepwell.database.records import State

WHOLE = "@main"
"""The name of the contest of the whole network: untuned, its twin, and tuned. It is the only one in its measurements."""


T_co = TypeVar("T_co", covariant=True)


class Request(Protocol[T_co]):
    """A task for another process as plain data: an object of a class at the top of a module, which `pickle` can send.

    Large data belong into a `Blob`.
    """

    def answer(self) -> T_co:
        """The answer, which `pickle` can send. A StepwellError that it raises is a result; any other exception ends the process."""


@dataclass(frozen=True)
class Fault:
    """The reason why something could not be built or run."""

    state: State
    """`FAILED`, `CRASHED`, `TIMED_OUT` or `DIFFERS`."""
    message: str


@dataclass(frozen=True)
class Built:
    """A candidate as code."""

    digest: str
    """The digest of the code: candidates with equal digests need not be compared."""
    code: object
    """The code that the device runs; it can be pickled."""
    seconds: float = 0.0
    """How long the build took."""


@dataclass(frozen=True)
class Arm:
    """Code that competes in a contest."""

    text: str
    """The candidate. The A/A arm has the text of the incumbent."""
    built: Built


@dataclass(frozen=True)
class Contest:
    """A part of the network (one kernel, with all of its launches) for which several candidates compete.

    The first arm is the incumbent, the second one its twin: the same code once more, loaded to another place (the A/A arm).
    """

    name: str
    """Unique in a measurement."""
    arms: tuple[Arm, ...]


Turn = Mapping[str, int]
"""For one run of the network, the index of the arm that runs in each contest, by the contest's name."""


@dataclass(frozen=True)
class Sample:
    """The time of a contest in one run of the network: of all launches of its kernel."""

    cpu: float | None
    """Seconds of CPU time of the thread; None if several threads ran, or if the clock stepped back."""
    wall: float | None
    """Seconds by the clock; None if the clock stepped back."""


@dataclass(frozen=True)
class Turns:
    """The times of some runs of the network in one process."""

    samples: Sequence[Mapping[str, Sample]]
    """For each run, the times by contest."""
    disturbed: Sequence[bool]
    """For each run, whether other processes took cores away from it."""
    seconds: float = 0.0
    """Seconds by the clock that the runs took together, without loading and warm-up; 0 if unknown."""


@dataclass(frozen=True)
class Measurement:
    """A request to run the network several times in a fresh process, with other arms in each run."""

    contests: tuple[Contest, ...]
    turns: tuple[Turn, ...]
    threads: int = 1
    warm_up: int = 1
    """Runs before the first turn, with the arms of the first turn, which are not reported."""
    timeout: float = 60.0
    """Seconds after which the process is stopped, from its start."""


class Device(Protocol):
    """Builds and runs candidates. A request is plain data, so that it can go to another process or machine; a failure is a result."""

    def build(self, requests: Sequence[Request[Built]], timeout: float) -> list[Built | Fault]:
        """The code of each request, in order. `timeout` bounds each build in seconds, from its start."""

    def check(self, contests: Sequence[Contest], timeout: float) -> dict[str, list[Fault | None]]:
        """For each contest by name and each of its arms, None if all its results have the bits of the first arm's, else the fault.

        Every arm runs once, on real data, apart from the others: a crash or a hang of one is its own fault.
        """

    def measure(self, measurement: Measurement) -> Turns | Fault:
        """Run the network in a fresh process. A fault if the process crashes or is stopped."""
