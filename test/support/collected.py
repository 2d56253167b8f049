"""Checks that a test collects and that are made together at its end: of those that fail together the one that does is found, and named."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar

from every import message


class Named(Protocol):
    """What all checks have."""

    @property
    def name(self) -> str:
        """What it is called in messages."""


T = TypeVar("T", bound=Named)
R = TypeVar("R")


class Collected(Generic[T, R]):
    """One kind of check, and those of the test that runs, if it collects them."""

    def __init__(
        self, what: str, batches: Callable[[Sequence[T]], Iterable[Sequence[T]]], results: Callable[[Sequence[T]], Sequence[R]],
        judge: Callable[[T, R], None],
    ) -> None:  # fmt: skip
        """`what` is the word for what is checked, `batches` says which checks can be made together, `results` makes them, and `judge` raises what is
        wrong with the result of one."""
        self._what, self._batches, self._results, self._judge = what, batches, results, judge
        self.waiting: list[T] | None = None

    def check(self, one: T) -> None:
        """Make a check: now, or at the end of a test of `at_the_end`."""
        if self.waiting is not None:
            self.waiting.append(one)
        else:
            (result,) = self._results([one])
            self._judge(one, result)

    def at_the_end(self, test: Callable[..., None]) -> Callable[..., None]:
        """Have a test of many cases (see `every`) make its checks together, once all are drawn up; those that fail are named."""

        @wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            waiting: list[T] = []
            self.waiting = waiting
            try:
                test(*arguments, **fixtures)
            finally:
                self.waiting = None
            assert waiting, f"the test checks no {self._what}"
            failed = [failure for batch in self._batches(waiting) for failure in self._failures(batch)]
            if failed:
                raise AssertionError(message(failed, len(waiting))) from failed[0][1]

        return run

    def _failures(self, checks: Sequence[T]) -> list[tuple[str, Exception]]:
        """What is wrong, by the names of the checks. Of those that give no results together each half is tried by itself, down to a single one."""
        try:
            results = self._results(checks)
        except Exception as error:  # whatever it is, it is the failure of one of them
            middle = len(checks) // 2
            return [(checks[0].name, error)] if not middle else [*self._failures(checks[:middle]), *self._failures(checks[middle:])]
        failed: list[tuple[str, Exception]] = []
        for one, result in zip(checks, results, strict=True):
            try:
                self._judge(one, result)
            except Exception as error:  # an assertion, mostly
                failed.append((one.name, error))
        return failed
