"""Integers in text from outside: Python's `int` accepts other digits than 0 to 9, and raises ValueError beyond 4,300 of them."""

MOST_DIGITS = 19
"""The number of digits of 2^63: no size, count or index has more."""


def whole_number(text: str) -> int | None:
    """The nonnegative number in the text; None for other text, and for more digits than `MOST_DIGITS`."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
