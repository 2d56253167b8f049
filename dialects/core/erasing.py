"""Erasing ops: the bindings free an op whatever uses it, and whatever driver still holds it, and the process dies later, somewhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["ErasingError", "guard_erase", "through_driver"]

_driver: ContextVar[tuple[Any, Callable[[Any], None]] | None] = ContextVar("driver", default=None)
"""Of the pattern that runs in this thread, if one does: the op that it matched, and what erases another op and tells the driver."""


class ErasingError(ValueError):
    """An op must not be erased: something uses a result of it, or a driver that runs still holds it."""


def guard_erase(base: Any) -> None:
    """Have `erase` of the bindings' base class of operations refuse ops whose results are used."""
    native = base.erase

    def erase(self: Any) -> None:
        """Erase an op. Raises ErasingError where a result of it is used, or where the pattern that runs matched it."""
        op = self.operation
        for index, result in enumerate(op.results):
            use = next(iter(result.uses), None)
            if use is not None:
                user = use.owner.operation
                told = f"its result {index} is used by '{user.name}' at {user.location}"
                raise ErasingError(f"'{op.name}' at {op.location} cannot be erased: {told}; replace or erase its uses first")
        driver = _driver.get()
        if driver is None:
            native(self)
            return
        root, erase_op = driver
        if op == root:
            raise ErasingError(f"'{op.name}' at {op.location} is what the pattern matched: return what replaces it, and the driver erases it")
        erase_op(op)

    base.erase = erase


@contextmanager
def through_driver(root: Any, erase_op: Callable[[Any], None]) -> Iterator[None]:
    """Inside, a pattern that matched `root` runs: other ops are erased by its driver, which would otherwise come to them when they are gone.

    That holds for the thread that runs the pattern; others, with drivers of their own or none, may be at work in other contexts.
    """
    before = _driver.set((root, erase_op))
    try:
        yield
    finally:
        _driver.reset(before)
