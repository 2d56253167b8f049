"""Splits text into tokens: ONNX Runtime's Tokenizer."""

from collections.abc import Callable, Sequence

import numpy as np

from stepwell.border.operators.text import padded
from stepwell.border.patterns import Pattern, translated
from stepwell.border.registry import Kind, Prepared, border_operator
from stepwell.dialects.support.errors import InputError, ModelError
from stepwell.signature import STRING, UNRANKED

MARKS = ("\x02", "\x03")  # before the first token of a text, and behind its last


@border_operator("Tokenizer", since=1, domain="com.microsoft", of_strings=True)
def tokenizer(*, mark: int, mincharnum: int, pad_value: str, separators: Sequence[str] = (), tokenexp: str | None = None) -> Prepared:
    """The tokens of each element, padded with `pad_value` to the same number: the text between separators, or the matches of `tokenexp`.

    Both are patterns whose longest match counts. The only separator "" splits text into characters.
    """
    if bool(separators) == bool(tokenexp):
        raise ModelError("it must have either separators or a tokenexp")
    if mincharnum < 1:
        raise ModelError(f"mincharnum must be 1 or more, got {mincharnum}")
    split: Callable[[str], list[str]]
    if tokenexp:
        token = translated(tokenexp, longest=True)
        split = lambda text: matches(text, token, mincharnum)  # noqa: E731
    elif tuple(separators) == ("",):
        if mincharnum > 1:
            raise ModelError(f"mincharnum must be 1 where text is split into characters, got {mincharnum}")
        split = list
    else:
        if "" in separators:
            raise ModelError("an empty separator must be the only one")
        between = [translated(separator, longest=True) for separator in separators]
        split = lambda text: parts(text, between, mincharnum)  # noqa: E731

    def run(x: np.ndarray) -> np.ndarray:
        if x.ndim not in (1, 2):
            raise InputError(f"expected shape [C] or [N, C], got {list(x.shape)}")
        rows = [split(text) for text in x.reshape(-1).tolist()]
        if mark and any(rows):  # without any token there are no marks
            rows = [[MARKS[0], *row, MARKS[1]] for row in rows]
        found = padded(rows, pad_value)
        return found.reshape(*x.shape, found.shape[1])

    def infer(x: Kind) -> Kind:
        if x.rank not in (None, 1, 2):
            raise ModelError(f"its input must have the shape [C] or [N, C], got {list(x.shape)}")
        return Kind(STRING, UNRANKED if x.rank is None else (*x.shape, None))

    return Prepared(run, infer)


def matches(text: str, token: Pattern, least: int) -> list[str]:
    """The consecutive matches of a pattern with at least `least` characters; after a shorter one the search continues at its second character."""
    found, place = [], 0
    while place < len(text) and (span := token.longest(text, place)) is not None:
        begin, end = span
        if end - begin >= least:
            found.append(text[begin:end])
            place = end
        else:
            place = begin + 1
    return found


def parts(text: str, separators: Sequence[Pattern], least: int) -> list[str]:
    """The text between the matches of the separators, applied one after the other; parts have at least `least` characters."""
    pieces = [text]
    for separator in separators:
        pieces = [part for piece in pieces for part in _between(piece, separator) if len(part) >= least]
    return pieces


def _between(text: str, separator: Pattern) -> list[str]:
    found, place = [], 0
    while (span := separator.longest(text, place)) is not None:
        begin, end = span
        found.append(text[place:begin])
        if end == begin and begin == len(text):
            return found
        place = end if end > begin else begin + 1
    return [*found, text[place:]]
