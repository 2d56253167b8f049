"""Functions in Python that compiled code calls: no exception may leave them, since compiled code cannot pass it on."""

import dis
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., None])


def catching_all(function: F) -> F:
    """Decorator of a function whose body is one `try` with an `except BaseException`: it also catches what is raised before the `try`.

    Python runs handlers of signals when a function begins, and they may raise anything. Up to Python 3.10 it does not where the first
    instruction enters a `try`. Since then that is no instruction but an entry of a table, of the instructions that it covers; here it is given
    the first ones too.
    The `except` part must call no function, since handlers run behind calls too.
    """
    table = getattr(function.__code__, "co_exceptiontable", None)
    if table is not None:
        first = next(iter(dis._parse_exception_table(function.__code__)))  # type: ignore[attr-defined]  # of the standard library, private
        entry = [_number(place) for place in (0, first.start // _UNIT, first.target // _UNIT, first.depth << 1 | first.lasti)]
        entry[0][0] |= _BEGINS
        function.__code__ = function.__code__.replace(co_exceptiontable=b"".join(map(bytes, entry)) + table)
    return function


_UNIT = 2  # bytes of an instruction
_BEGINS, _GOES_ON, _BITS = 0x80, 0x40, 6  # the flags of a byte of the table, and how many bits of a number it has


def _number(value: int) -> bytearray:
    """A number as the table has it: its highest bits first."""
    parts = [value & ((1 << _BITS) - 1)]
    while value := value >> _BITS:
        parts.append(value & ((1 << _BITS) - 1) | _GOES_ON)
    return bytearray(reversed(parts))
