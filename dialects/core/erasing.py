"""Safe erasure of ops. The bindings free an op even if it has users or a driver still holds it, and the process crashes later, elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["ErasingError", "guard_erase", "through_driver"]

_driver: ContextVar[tuple[Any, Callable[[Any], None]] | None] = ContextVar("driver", default=None)
"""The op that the pattern running in this thread has matched, and the driver's function that erases other ops; None outside of patterns."""


class ErasingError(ValueError):
    """An op must not be erased: one of its results has users, or a running driver still holds it."""


def guard_erase(base: Any) -> None:
    """Make `erase` of the bindings' base class of operations refuse ops whose results have users."""
    native = base.erase

    def erase(self: Any) -> None:
        """Erase an op. Raises ErasingError if one of its results has users, or if the running pattern has matched it."""
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
    """Inside, a pattern that matched `root` runs. Other ops are erased through its driver, which would otherwise visit freed ops.

    This applies to the current thread only; other threads may work in other contexts.
    """
    before = _driver.set((root, erase_op))
    try:
        yield
    finally:
        _driver.reset(before)
