"""The nesting depth of IR text. MLIR's parser is recursive, and a stack overflow would end the process."""

import re
from collections.abc import Iterator, Mapping

import numpy as np

DEEPEST = 512
"""The most nested brackets, including those of aliases. A graph inside an op takes two; 512 need an eighth of a stack of 8 MB."""
_NOT_NESTED = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\n]*|->|[<>=]=', re.DOTALL)
_ALIAS = re.compile(r"([#!][\w.$]+)\s*=")
_NAME = re.compile(r"[#!][\w.$]+")
_SIGNS = re.compile(rf"-(?:\s*-){{{DEEPEST},}}")
_PAIRS = (b"()", b"[]", b"{}", b"<>")


def is_too_deep(text: str) -> bool:
    """Whether some part of the text is nested more than `DEEPEST` deep. For text that is no IR, the answer may be wrong."""
    bare = _NOT_NESTED.sub(" ", text)
    if _SIGNS.search(bare) is not None:
        return True
    head, *rest = _ALIAS.split(bare)
    bodies = dict(zip(rest[::2], rest[1::2], strict=True))
    return _depth(head) > DEEPEST or _longest_chain(bodies) > DEEPEST


def _depth(text: str) -> int:
    """The most brackets that are open at once; unmatched closing brackets are ignored."""
    data = np.frombuffer(text.encode(errors="replace"), np.uint8)
    places = np.flatnonzero(np.isin(data, np.frombuffer(b"".join(_PAIRS), np.uint8)))
    if len(places) <= 8:  # as in most aliases
        return sum(map(text.count, "([{<"))
    found, total = data[places], np.zeros(len(places), np.int64)
    for opening, closing in _PAIRS:
        sums = np.cumsum((found == opening).astype(np.int64) - (found == closing))
        total += sums - np.minimum(np.minimum.accumulate(sums), 0)
    return int(total.max(initial=0))


def _longest_chain(bodies: Mapping[str, str]) -> int:
    """The depth of the deepest alias, including the aliases that it uses."""
    depths: dict[str, int] = {}
    for first in bodies:
        waiting: list[tuple[str, Iterator[str]]] = [(first, iter(_NAME.findall(bodies[first])))] if first not in depths else []
        depths.setdefault(first, 0)
        while waiting:
            name, named = waiting[-1]
            inner = next((other for other in named if other in bodies and other not in depths), None)
            if inner is not None:
                depths[inner] = 0
                waiting.append((inner, iter(_NAME.findall(bodies[inner]))))
                continue
            waiting.pop()
            depths[name] = 1 + _depth(bodies[name]) + max((depths.get(other, 0) for other in _NAME.findall(bodies[name])), default=0)
    return max(depths.values(), default=0)
