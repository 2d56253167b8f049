"""Python functions that compiled code calls: no exception may leave them, because compiled code cannot propagate it."""

import dis
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., None])


def catching_all(function: F) -> F:
    """Decorator for a function whose body is one `try` with an `except BaseException`: it then also catches exceptions raised before the `try`.

    Python runs signal handlers when a function begins, and these may raise anything. A `try` is an entry in a table of covered instructions; this
    decorator extends the entry to the first ones.
    The `except` part must call no function, because handlers also run after calls.
    """
    table = getattr(function.__code__, "co_exceptiontable", None)
    if table is not None:
        first = next(iter(dis._parse_exception_table(function.__code__)))  # type: ignore[attr-defined]  # private in the standard library
        entry = [_number(place) for place in (0, first.start // _UNIT, first.target // _UNIT, first.depth << 1 | first.lasti)]
        entry[0][0] |= _BEGINS
        function.__code__ = function.__code__.replace(co_exceptiontable=b"".join(map(bytes, entry)) + table)
    return function


_UNIT = 2  # bytes of an instruction
_BEGINS, _GOES_ON, _BITS = 0x80, 0x40, 6  # the flags of a byte of the table, and the bits of a number in it


def _number(value: int) -> bytearray:
    """A number in the table's format: its highest bits first."""
    parts = [value & ((1 << _BITS) - 1)]
    while value := value >> _BITS:
        parts.append(value & ((1 << _BITS) - 1) | _GOES_ON)
    return bytearray(reversed(parts))
