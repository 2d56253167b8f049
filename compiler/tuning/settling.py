"""Confirms what a search found: winners in fresh processes, then the whole tuned network against the untuned one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from stepwell.tuning.compete import Pace
from stepwell.tuning.confirm import ALPHA, Confirmation, confirm, confirm_whole
from stepwell.tuning.device import WHOLE, Arm, Built, Contest, Device, Fault
from stepwell.tuning.state import PartState
from stepwell.tuning.subject import Subject, Taken

INCUMBENT = "tuned"
"""The text of the arm that is confirmed: the best candidates of a part together."""


@dataclass(frozen=True)
class Conditions:
    """How to confirm."""

    random: Random
    threads: int
    deadline: float
    """A time of the clock, in seconds."""
    processes: int
    alpha: float = ALPHA
    """The probability of accepting anything that is not faster, in this confirmation."""
    pace: Pace = Pace(seconds=1.0)  # noqa: RUF009 - it is frozen
    clock: Callable[[], float] = lambda: 0.0
    timeout: float = 600.0
    """Seconds for a build of the whole network, and for a comparison of its outputs."""


@dataclass(frozen=True)
class Verdict:
    """The whole network with some candidates."""

    taken: Taken
    built: Built | None
    confirmation: Confirmation | None
    """None if it could not be built, or gives other results."""
    fault: Fault | None = None

    @property
    def holds(self) -> bool:
        """Whether it is faster than the untuned network."""
        return self.confirmation is not None and self.confirmation.accepted


def confirm_parts(device: Device, parts: Sequence[PartState], conditions: Conditions) -> dict[str, Confirmation]:
    """Confirm the incumbents of some parts against their defaults, by the name of the part. Others go back to what was confirmed."""
    contests = []
    for part in parts:
        arms = Arm("", part.default), Arm("", part.default), Arm(INCUMBENT, part.best)
        contests.append(Contest(part.part.name, arms))
    if not contests:
        return {}
    found = confirm(
        device, contests, processes=conditions.processes, deadline=conditions.deadline, random=conditions.random, threads=conditions.threads,
        alpha=conditions.alpha, pace=conditions.pace, clock=conditions.clock,
    )  # fmt: skip
    for part in parts:
        confirmation = found[part.part.name]
        if confirmation.accepted:
            part.confirm(confirmation)
        else:
            part.reset(part.confirmed)
    return found


def confirm_network(
    device: Device, subject: Subject, untuned: Built, parts: Mapping[str, PartState], conditions: Conditions
) -> Verdict:  # fmt: skip
    """The whole network with the confirmed candidates of some parts: compare its results with those of the untuned one bit by bit, and confirm that
    it is faster.

    If it is not, the half of the parts that save less is rolled back, and the rest is tried, until a network holds or nothing is left.
    """
    verdict = _tested(device, subject, untuned, parts, conditions)
    while not verdict.holds and len(parts) > 1 and conditions.clock() < conditions.deadline:
        kept = sorted(parts, key=lambda name: parts[name].share * parts[name].log_ratio)[: len(parts) // 2]
        parts = {name: parts[name] for name in kept}
        # Each test has its share, so that all of them together accept by chance as seldom as one.
        conditions = replace(conditions, alpha=conditions.alpha / 2)
        verdict = _tested(device, subject, untuned, parts, conditions)
    return verdict


def _tested(device: Device, subject: Subject, untuned: Built, parts: Mapping[str, PartState], conditions: Conditions) -> Verdict:
    taken: Taken = {name: part.texts for name, part in parts.items()}
    built: Built | Fault | None = subject.exchanged({name: part.best for name, part in parts.items()})
    if built is None:
        [built] = device.build([subject.request_whole(taken)], conditions.timeout)
    if isinstance(built, Fault):
        return Verdict(taken, None, None, built)
    contest = Contest(WHOLE, (Arm("", untuned), Arm("", untuned), Arm(INCUMBENT, built)))
    fault = device.check([contest], conditions.timeout)[WHOLE][2]
    if fault is not None:
        return Verdict(taken, built, None, fault)
    found = confirm_whole(
        device, contest, processes=conditions.processes, deadline=conditions.deadline, random=conditions.random, threads=conditions.threads,
        alpha=conditions.alpha, pace=conditions.pace, clock=conditions.clock,
    )  # fmt: skip
    return Verdict(taken, built, found)
