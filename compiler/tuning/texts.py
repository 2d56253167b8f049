"""Short texts for tables and pictures of tuning runs."""

import math

from stepwell.dialects.support.names import printable

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (0.0, "ns"))
"""For times from so many seconds on, the unit."""


def shortened(text: str, length: int) -> str:
    """Text from a model, printable and at most `length` characters long. A longer one loses its middle: beginning and end tell names apart."""
    shown = printable(text)
    if len(shown) <= length:
        return shown
    end = (length - 1) // 2
    return f"{shown[: length - 1 - end]}…{shown[len(shown) - end :]}"


def unit_of(seconds: float) -> tuple[float, str]:
    """The unit, in seconds, and its name, in which a time is written with 1 to 3 digits before the point."""
    size, name = next((size, name) for size, name in UNITS if abs(seconds) >= size)
    return size or 1e-9, name


def time_text(seconds: float) -> str:
    """`1.24 s`, `3.42 ms`, `18.1 µs`, with three significant digits."""
    if seconds == 0 or not math.isfinite(seconds):
        return f"{seconds:.0f} s"
    size, name = unit_of(seconds)
    amount = seconds / size
    return f"{f'{amount:#.3g}'.rstrip('.') if abs(amount) < 999.5 else f'{amount:.0f}'} {name}"


def duration(seconds: float) -> str:
    """`8 s`, `2 min 30 s`, `1 h 05 min`: whole seconds for people."""
    whole = max(0, round(seconds)) if math.isfinite(seconds) else 0
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02} min"


def percent(part: float | None) -> str:
    """`4.2 %`, `0.03 %`, or an empty text for None."""
    return "" if part is None else f"{100 * part:.{1 if abs(part) >= 0.01 else 2}f} %"


def count_of(number: int, noun: str) -> str:
    """`1 site`, `2 sites`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
