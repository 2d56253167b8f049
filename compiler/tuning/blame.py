"""Finds which arms make the process of a measurement fail, by halving the set of suspects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from stepwell.tuning.blocks import Entry, measurement_of
from stepwell.tuning.device import Device, Fault

__all__ = ["Blame", "find_faults", "halving"]

T = TypeVar("T")


@dataclass
class Blame:
    """The reasons why a measurement failed."""

    arms: dict[tuple[str, int], Fault] = field(default_factory=dict)
    """By the contest's name and the index of the arm."""
    contests: dict[str, Fault] = field(default_factory=dict)
    """Contests whose incumbent (or its twin) fails."""

    def __bool__(self) -> bool:
        return bool(self.arms or self.contests)


def halving(suspects: Sequence[T], fault_of: Callable[[Sequence[T]], Fault | None], stop: Callable[[], bool]) -> dict[T, Fault]:
    """The suspects that fail alone, by binary splitting (Sobel and Groll 1959): about 2 log2(n) tests for one among n.

    `fault_of` tests some of them together. Suspects that fail only together, or only at times, may not be found. If `stop` returns True the search
    ends with what it has found.
    """
    found: dict[T, Fault] = {}
    groups = [tuple(suspects)] if len(suspects) == 1 else _halves(suspects)
    while groups and not stop():
        group = groups.pop(0)
        fault = fault_of(group)
        if fault is not None and len(group) == 1:
            found[group[0]] = fault
        elif fault is not None:
            groups = _halves(group) + groups
    return found


def _halves(group: Sequence[T]) -> list[tuple[T, ...]]:
    middle = len(group) // 2
    return [part for part in (tuple(group[:middle]), tuple(group[middle:])) if part]


def find_faults(device: Device, entries: Sequence[Entry], random: Random, threads: int, timeout: float, stop: Callable[[], bool]) -> Blame:
    """Find the reason why a measurement of these contests failed: arms, or contests whose incumbent fails. Nothing if it does not fail again.

    Incumbents and their twins are measured first: without them no other measurement can succeed. Arms of different contests are independent suspects.
    """
    blame = Blame()
    incumbents = {entry.contest.name: Entry(entry.contest, entry.arms[:2]) for entry in entries}

    def fault_of_incumbents(names: Sequence[str]) -> Fault | None:
        return _fault_of(device, [incumbents[name] for name in names], random, threads, timeout)

    if entries and not stop() and fault_of_incumbents(tuple(incumbents)) is not None:
        blame.contests = halving(tuple(incumbents), fault_of_incumbents, stop)
    sound = [entry for entry in entries if entry.contest.name not in blame.contests]
    suspects = [(entry.contest.name, arm) for entry in sound if not entry.idle for arm in entry.arms[2:]]

    def fault_of_arms(group: Sequence[tuple[str, int]]) -> Fault | None:
        arms: Mapping[str, list[int]] = {entry.contest.name: [arm for name, arm in group if name == entry.contest.name] for entry in sound}
        return _fault_of(device, [Entry(entry.contest, (*entry.arms[:2], *arms[entry.contest.name])) for entry in sound], random, threads, timeout)

    if suspects and not blame.contests:
        blame.arms = halving(suspects, fault_of_arms, stop)
    return blame


def _fault_of(device: Device, entries: Sequence[Entry], random: Random, threads: int, timeout: float) -> Fault | None:
    """The fault of a short measurement, in which each arm runs at least once; None if it succeeds."""
    longest = max(len(entry.arms) for entry in entries)
    result = device.measure(measurement_of(entries, longest, random, threads, timeout))
    return result if isinstance(result, Fault) else None
