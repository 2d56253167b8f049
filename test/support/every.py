"""One test of many small cases: all of them run, and the message names each that fails."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

SHOWN = 12  # lines of what a failing case said
running: list[str] = []
"""The names of the case that runs, the outer first."""
_ENDS = (Exception, pytest.fail.Exception)  # what a case that fails raises


def every(
    names: str | Sequence[str], cases: Iterable[Any] | Callable[[], Iterable[Any]], *, ids: Sequence[str] | Callable[[Any], Any] | None = None
) -> Callable[..., Any]:  # fmt: skip
    """Run a test with each of the `cases`, as `pytest.mark.parametrize` does, but as one test: for cases that take microseconds or milliseconds.

    `cases` may be a function, which is called when the test runs. Each case has a monkeypatch, a tmp_path and a capsys of its own; other
    fixtures are those of the whole test. If no case fails, those that skip themselves make the test a skip with their names and reasons.
    """
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    single = isinstance(names, str) and len(parameters) == 1

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            made = list(cases() if callable(cases) else cases)
            rows = [values(case, single) for case in made]
            told = [case_name(case, row, i, ids) for i, (case, row) in enumerate(zip(made, rows, strict=True))]

            def check(numbered: tuple[int, Sequence[Any]]) -> None:
                number, row = numbered
                with pytest.MonkeyPatch.context() as patch:
                    test(**of_its_own(fixtures, number, patch), **dict(zip(parameters, row, strict=True)))

            check_each(zip(told, enumerate(rows), strict=True), check)

        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return decorate


def check_each(cases: Iterable[tuple[str, Any]], check: Callable[[Any], None]) -> None:
    """Call `check` with the value of each named case; fail with the names of all that failed and what each said."""
    failed: list[tuple[str, BaseException]] = []
    skipped: list[tuple[str, BaseException]] = []
    count = 0
    for name, case in cases:
        count += 1
        running.append(name)
        try:
            check(case)
        except pytest.skip.Exception as reason:
            skipped.append((name, reason))
        except _ENDS as error:
            failed.append((name, error))
        finally:
            running.pop()
    assert count, "there are no cases"
    if failed:
        raise AssertionError(message(failed, count)) from failed[0][1]
    if skipped:
        pytest.skip(f"{len(skipped)} of {count} cases: " + "; ".join(f"{name}: {reason}" for name, reason in skipped))


def message(failed: Sequence[tuple[str, BaseException]], count: int) -> str:
    """The names of the failed cases, and what each said."""
    lines = [f"{len(failed)} of {count} cases failed: {', '.join(name for name, _ in failed)}"]
    for name, error in failed:
        first, *more = str(error).splitlines() or [""]
        lines += [f"{name}: {type(error).__name__}: {first}", *(f"    {line}" for line in more[:SHOWN])]
    return "\n".join(lines)


def of_its_own(fixtures: dict[str, Any], number: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fixtures for a case: as if it were a test of its own."""
    own = dict(fixtures)
    if "monkeypatch" in own:
        own["monkeypatch"] = patch
    if "tmp_path" in own:
        own["tmp_path"] = Path(own["tmp_path"]) / str(number)
        own["tmp_path"].mkdir()
    if "capsys" in own:
        own["capsys"].readouterr()
    return own


def values(case: Any, single: bool) -> Sequence[Any]:
    """The values of a case's parameters."""
    if hasattr(case, "marks"):  # of pytest.param
        assert not case.marks, "a mark is for a whole test"
        return tuple(case.values)
    return (case,) if single else case


def case_name(case: Any, row: Sequence[Any], number: int, ids: Sequence[str] | Callable[[Any], Any] | None) -> str:
    """What a case is called in messages."""
    if getattr(case, "id", None) is not None and hasattr(case, "marks"):
        return str(case.id)
    if ids is not None and not callable(ids):
        return str(ids[number])
    return "-".join(short(value) if ids is None or (given := ids(value)) is None else str(given) for value in row)


def short(value: Any) -> str:
    """A value in few words, on one line."""
    line = " ".join(str(getattr(value, "__name__", value)).split())
    return line if len(line) <= 100 else f"{line[:97]}..."
