"""The fixed sample: its faults are tried and recorded, and planted again in code and tests that have changed."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from . import fixed
from .edits import Edit
from .reach import traverse
from .selection import FilesToRun, folders, select, sources
from .trial import Copy, FailsUnchangedError, Outcome

__all__ = ["replay", "try_sample"]


def try_sample(
    root: Path, copy: Copy, count: int, seed: int, kinds: Sequence[str], file: Path, end: float, harmless: set[tuple[str, str, str]], *, wide: bool
) -> int:  # fmt: skip
    """Try the faults of a fixed sample of some kinds that `file` has no outcome of, and record them there; 0 if all are tried, 1 if time was up."""
    paths = sources(root, folders())
    every = {f: e for path in paths for f, e in fixed.faults(path, (root / path).read_text()) if (f.path, f.source, f.what) not in harmless}
    there = {fault: edit for fault, edit in every.items() if edit.kind in kinds}
    sample = {fault: fixed.Recorded(fault) for fault in fixed.choose({f: e.kind for f, e in there.items()}, count, seed)}
    if file.is_file():
        sample |= {recorded.fault: recorded for recorded in fixed.read(file)[1] if recorded.fault in sample}
    order = list(sample)

    def done(number: int, outcome: Outcome) -> None:
        fault = order[number]
        sample[fault] = sample[fault].became(outcome.state, outcome.by)
        fixed.write(file, seed, list(sample.values()))
        print(f"{fault}: {outcome.state} ({outcome.seconds} s) {outcome.by}", flush=True)

    todo = [number for number, fault in enumerate(order) if sample[fault].state == "untried"]
    _try(root, copy, {number: there[fault] for number, fault in enumerate(order)}, todo, end, done, wide=wide)
    print(_counts(sample.values()))
    return int(any(recorded.state == "untried" for recorded in sample.values()))


def replay(root: Path, copy: Copy, record: Path, file: Path | None, end: float, *, wide: bool) -> int:
    """Plant the faults of a record again that a test saw; 0 if a test sees each that can be planted, 1 if one is not seen or was not tried.

    The test that saw a fault before is asked first. `file`, if it is given, gets the outcomes, and those that it has are not tried again.
    """
    seed, before = fixed.read(record)
    known = {recorded.fault: recorded for recorded in fixed.read(file)[1]} if file is not None and file.is_file() else {}
    now = [known.get(old.fault, old.became("untried", "")) for old in before]

    def became(number: int, state: str, by: str) -> None:
        now[number] = now[number].became(state, by)
        if file is not None:
            fixed.write(file, seed, now)
        if state not in fixed.SEEN:
            print(f"{before[number].fault}: {state}; before: {before[number].by}", flush=True)

    again: dict[int, Edit] = {}
    for number, old in enumerate(before):
        if old.state not in fixed.SEEN or now[number].state != "untried" or time.monotonic() > end:
            continue
        edit = fixed.find(root, folders(), old.fault)
        if edit is None:
            became(number, "gone", "")
            continue
        saw = copy.seeing(old.by)
        outcome = None if saw is None else _attempt(copy, edit, [saw])
        if outcome is not None and outcome.state in fixed.SEEN:
            became(number, outcome.state, outcome.by)
        else:
            again[number] = edit
    _try(root, copy, again, list(again), end, lambda number, outcome: became(number, outcome.state, outcome.by), wide=wide)
    seen = [new for old, new in zip(before, now, strict=True) if old.state in fixed.SEEN]
    print(f"of {len(seen)} faults that a test saw before: {_counts(seen)}")
    return int(any(recorded.state in ("survived", "untried") for recorded in seen))


def _counts(sample: Iterable[fixed.Recorded]) -> str:
    states = Counter("seen" if recorded.state in fixed.SEEN else recorded.state for recorded in sample)
    return ", ".join(f"{number} {state}" for state, number in states.items())


def _try(
    root: Path, copy: Copy, faults: Mapping[int, Edit], todo: Sequence[int], end: float, done: Callable[[int, Outcome], None], *, wide: bool
) -> None:  # fmt: skip
    """Ask, about those faults in `todo`, the tests that reach each: those near it, then, where these see nothing, those of other folders."""
    survived = []
    for number, outcome in _wave(copy, faults, todo, end, lambda path: select(root, path, wide=False, far=False)):
        if outcome.state == "survived":
            survived.append(number)
        else:
            done(number, outcome)

    def others(path: str) -> list[FilesToRun]:
        asked = select(root, path, wide=False, far=False)
        return [tests for tests in select(root, path, wide=wide) if tests not in asked]

    for number, outcome in _wave(copy, faults, survived, end, others):
        done(number, outcome)


def _wave(
    copy: Copy, faults: Mapping[int, Edit], todo: Sequence[int], end: float, usual: Callable[[str], list[FilesToRun]]
) -> Iterator[tuple[int, Outcome]]:
    """Ask, about each fault in `todo`, those of the `usual` tests for its file that reach it."""
    asked = {number: usual(faults[number].path) for number in todo}
    files = {number: {name for tests in stages for name in (*tests.lit, *tests.pytest)} for number, stages in asked.items()}
    record, state = copy.folder.with_name(f"{copy.folder.name}-reach"), copy.digest(("compiler", "dialects", "passes", "test"))
    every = FilesToRun.from_names(sorted(set().union(*files.values())))
    reach = traverse(copy.folder, copy.package, copy.environment, faults, every, record, state)
    for number in todo:
        if time.monotonic() > end:
            return
        stages = asked[number]
        if number in reach.by_fault:
            stages = reach.stages(number, files[number], stages[0].lit if stages else ())
            copy.seconds.update({str(tests): reach.time_of(tests) for tests in stages})
        yield number, _attempt(copy, faults[number], stages)


def _attempt(copy: Copy, edit: Edit, stages: Sequence[FilesToRun]) -> Outcome:
    """Plant a fault as `Copy.attempt` does; a test that fails without it, by chance or on a busy machine, is left out."""
    while True:
        try:
            return copy.attempt(edit, stages)
        except FailsUnchangedError as error:
            left = [rest for tests in stages if (rest := tests.without(error.tests)).lit or rest.pytest]
            if left == stages:
                raise
            stages = left
