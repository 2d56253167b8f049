"""Operators of strings element by element: StringNormalizer, StringConcat, StringSplit, RegexFullMatch."""

from collections.abc import Sequence

import numpy as np

from stepwell.border.operators.labels import strings
from stepwell.border.patterns import translated
from stepwell.border.registry import Kind, Prepared, border_operator
from stepwell.border.shapes import broadcast
from stepwell.dialects.support.errors import InputError, ModelError, UnsupportedError
from stepwell.signature import STRING, UNRANKED

OWN_CASES = ("tr", "az", "lt")
"""Languages whose letters have other cases than in the rest of the world."""


def lower(text: str) -> str:
    """The text in lower case, character by character, like C's `towlower`."""
    return text.lower() if text.isascii() else "".join(c.lower()[0] for c in text)  # one has a second part, a dot


def upper(text: str) -> str:
    """The text in upper case, character by character: characters that would become several are kept, like with C's `towupper`."""
    return text.upper() if text.isascii() else "".join(up if len(up := c.upper()) == 1 else c for c in text)


CASES = {"NONE": lambda text: text, "LOWER": lower, "UPPER": upper}


@border_operator("StringNormalizer", since=10, of_strings=True)
def string_normalizer(*, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "", stopwords: Sequence[str] = ()) -> Prepared:
    """The array without the stopwords, in lower or upper case; if no element is left, one empty string."""
    if case_change_action not in CASES:
        raise UnsupportedError(f"case_change_action={case_change_action!r} is not supported; supported: {', '.join(CASES)}")
    if locale[:2].lower() in OWN_CASES and not locale[2:3].isalpha():
        raise UnsupportedError(f"locale={locale!r} is not supported; supported: languages with the usual cases of letters")
    change = CASES[case_change_action]
    compared = CASES["NONE"] if is_case_sensitive else lower if case_change_action == "NONE" else change
    stops = {compared(word) for word in stopwords}

    def run(x: np.ndarray) -> np.ndarray:
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise InputError(f"expected shape [C] or [1, C], got {list(x.shape)}")
        kept = [change(text) for text in x.reshape(-1).tolist() if not stops or compared(text) not in stops]
        kept = kept or ([""] if stops or not x.size else [])
        return strings(kept).reshape((1, -1) if x.ndim == 2 else (-1,))

    def infer(x: Kind) -> Kind:
        if x.rank not in (None, 1, 2) or (x.rank == 2 and x.shape[0] != 1 and isinstance(x.shape[0], int)):
            raise ModelError(f"its input must have the shape [C] or [1, C], got {list(x.shape)}")
        if not stops or x.rank is None:
            return Kind(STRING, x.shape)
        return Kind(STRING, (1, None) if x.rank == 2 else (None,))

    return Prepared(run, infer)


@border_operator("StringConcat", since=20, of_strings=True)
def string_concat() -> Prepared:
    """Each element of one concatenated with that of the other; the operands broadcast."""

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(x + y, STRING)

    return Prepared(run, lambda x, y: Kind(STRING, broadcast(x.shape, y.shape)))


@border_operator("StringSplit", since=20, of_strings=True)
def string_split(*, delimiter: str = "", maxsplit: int | None = None) -> Prepared:
    """The parts of each element, padded with empty strings to the same number, and their counts; by default split at whitespace."""

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [text.split(delimiter or None, -1 if maxsplit is None else maxsplit) for text in x.reshape(-1).tolist()]
        counts = np.array([len(row) for row in parts], np.int64)
        return padded(parts, "").reshape(*x.shape, -1 if x.size else 0), counts.reshape(x.shape)

    def infer(x: Kind) -> tuple[Kind, Kind]:
        return Kind(STRING, UNRANKED if x.rank is None else (*x.shape, None)), Kind(np.dtype(np.int64), x.shape)

    return Prepared(run, infer)


def padded(rows: Sequence[Sequence[str]], filler: str) -> np.ndarray:
    """Rows of texts as a matrix, padded on the right."""
    out = np.full((len(rows), max(map(len, rows), default=0)), filler, STRING)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


@border_operator("RegexFullMatch", since=20, of_strings=True)
def regex_full_match(*, pattern: str) -> Prepared:
    """Whether all of each element matches."""
    compiled = translated(pattern).compiled

    def run(x: np.ndarray) -> np.ndarray:
        found = [compiled.fullmatch(text) is not None for text in x.reshape(-1).tolist()]
        return np.array(found, np.bool_).reshape(x.shape)

    return Prepared(run, lambda x: Kind(np.dtype(np.bool_), x.shape))
