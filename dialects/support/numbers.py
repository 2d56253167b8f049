"""Whole numbers in text from outside: Python's `int` takes other digits than 0 to 9, and raises ValueError beyond 4,300 of them."""

MOST_DIGITS = 19
"""As 2^63 has: no size, count or place has more."""


def whole_number(text: str) -> int | None:
    """The number from 0 that the text is; None for other text, and for more digits than `MOST_DIGITS`."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
