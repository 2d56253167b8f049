"""Regular expressions of RE2, which ONNX requires, by Python's `re`: translated if both can express them, refused if they differ."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.dialects.support.errors import ModelError, UnsupportedError, shown

_WORD, _DIGIT, _SPACE = "0-9A-Za-z_", "0-9", r"\t\n\f\r "
_CLASSES = {"w": _WORD, "d": _DIGIT, "s": _SPACE}  # ASCII only in RE2
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f", "digit": _DIGIT, "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": _WORD, "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_QUANTIFIER = re.compile(r"[*+?]|\{(\d+)(,?)(\d*)\}")
_GROUP = re.compile(r"\(\?(:|i:|s:|is:|P<\w+>)")
_FLAGS = re.compile(r"\(\?([is]+)\)")
_CODE = re.compile(r"\\x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")


@dataclass(frozen=True)
class Pattern:
    """A pattern and how to find its longest match, which RE2 returns on request."""

    compiled: re.Pattern[str]
    greedy_is_longest: bool

    def longest(self, text: str, begin: int) -> tuple[int, int] | None:
        """The longest of the leftmost matches from `begin` on, as begin and end; None if there is none."""
        found = self.compiled.search(text, begin)
        if found is None:
            return None
        start, end = found.span()
        if not self.greedy_is_longest:
            end = next((e for e in range(len(text), end, -1) if self.compiled.fullmatch(text, start, e)), end)
        return start, end


def translated(pattern: str, *, longest: bool = False) -> Pattern:
    """A pattern of RE2. Raises ModelError for a malformed one, UnsupportedError for one that Python's `re` interprets differently.

    If `longest` matches are requested, patterns with anchors for which Python may find a shorter match are refused, too.
    """
    walk = _Walk(pattern)
    text = "".join(walk.parts())
    try:
        compiled = re.compile(text, 0 if walk.folds else re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ModelError(f"the pattern {shown(pattern)} is malformed: {error}") from None
    if longest and walk.anchors and not walk.is_simple:
        raise UnsupportedError(f"the pattern {shown(pattern)}, with an anchor and several ways to match, is not supported; supported: either alone")
    if walk.folds and walk.boundaries:
        raise walk.refusal("\\b with (?i)")
    return Pattern(compiled, walk.is_simple)


class _Walk:
    """Goes through a pattern once."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.folds = False
        """Whether letters match whatever their case."""
        self.anchors = self.boundaries = False
        self._choices = self._quantifiers = 0
        self._varies = [False]
        """For each open group, whether its content may match in several ways."""

    @property
    def is_simple(self) -> bool:
        """Whether at most one number of repetitions is open: then greedy matching finds the longest match."""
        return not self._choices and self._quantifiers < 2

    def refusal(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{what} in the pattern {shown(self.pattern)} is not supported; supported: what RE2 and Python's re have in common")

    def parts(self) -> Iterator[str]:
        """The pattern in Python's spelling. Raises UnsupportedError."""
        text, i = self.pattern, 0
        if flags := _FLAGS.match(text):
            self.folds = "i" in flags.group(1)
            yield flags.group()
            i = flags.end()
        group_before: bool | None = None  # whether the group that just ended varies
        while i < len(text):
            c, ended, group_before = text[i], group_before, None
            if text.startswith("\\Q", i):
                end = text.find("\\E", i)
                end = len(text) if end < 0 else end
                yield re.escape(text[i + 2 : end])
                i = end + 2
            elif c == "\\":
                part, i = self._escape(i, inside=False)
                yield part
            elif c == "[":
                part, i = self._set(i)
                yield part
            elif quantifier := _QUANTIFIER.match(text, i):
                i = quantifier.end()
                is_open = quantifier.group(1) is None or (quantifier.group(2) and quantifier.group(1) != quantifier.group(3))
                if text[i : i + 1] == "+" or (text[i : i + 1] in ("*", "{") and _QUANTIFIER.match(text, i)):
                    raise self.refusal("a quantifier behind another one")
                if text[i : i + 1] == "?":
                    self._choices += 1
                    i += 1
                if ended and quantifier.group() != "?":  # Python tries all ways, of which there may be exponentially many
                    raise self.refusal("a group that is repeated, with repetitions or alternatives in it,")
                self._quantifiers += bool(is_open)
                self._choices += ended is not None
                self._varies[-1] |= bool(is_open)
                yield text[quantifier.start() : i]
            elif c == "{":
                yield "\\{"
                i += 1
            elif c == "(":
                group = _GROUP.match(text, i)
                if group is None and text[i + 1 : i + 2] == "?":
                    raise self.refusal(text[i : i + 4])
                self.folds = self.folds or (group is not None and "i" in group.group(1)[:2] and "P" not in group.group(1))
                self._varies.append(False)
                yield group.group() if group is not None else "(?:"
                i = group.end() if group is not None else i + 1
            elif c == "$":
                self.anchors = True
                yield "\\Z"
                i += 1
            else:
                self.anchors = self.anchors or c == "^"
                self._choices += c == "|"
                self._varies[-1] |= c == "|"
                if c == ")" and len(self._varies) > 1:
                    group_before = self._varies.pop()
                    self._varies[-1] |= group_before
                yield c
                i += 1

    def _escape(self, i: int, *, inside: bool) -> tuple[str, int]:
        """The escape at `i`, and the position after it."""
        text = self.pattern
        c = text[i + 1 : i + 2]
        if code := _CODE.match(text, i):
            number = int(code.group(1) or code.group(2), 16)
            if number > 0x10FFFF:
                raise self.refusal(code.group())
            return re.escape(chr(number)), code.end()
        if c in _CLASSES and c:
            return (_CLASSES[c] if inside else f"[{_CLASSES[c]}]"), i + 2
        if c.lower() in _CLASSES and c and not inside:
            return f"[^{_CLASSES[c.lower()]}]", i + 2
        if c and c in "bBAz" and not inside:
            self.anchors, self.boundaries = True, self.boundaries or c in "bB"
            return ("\\Z" if c == "z" else f"\\{c}"), i + 2
        if (c and c in "afnrtv") or (c.isascii() and not c.isalnum() and c):
            return f"\\{c}", i + 2
        raise self.refusal(f"\\{c}")

    def _set(self, i: int) -> tuple[str, int]:
        """The set of characters in brackets at `i`, and the position after it."""
        text, out = self.pattern, "["
        i += 1
        if text[i : i + 1] == "^":
            out, i = out + "^", i + 1
        first = True
        while first or text[i : i + 1] != "]":
            c = text[i : i + 1]
            if not c:
                raise ModelError(f"the pattern {shown(text)} is malformed: a bracket is not closed")
            if text.startswith("[:", i) and (end := text.find(":]", i)) > 0:
                name = text[i + 2 : end]
                if name not in _POSIX:
                    raise self.refusal(f"[:{name}:]")
                out, i = out + _POSIX[name], end + 2
            elif c == "\\":
                part, i = self._escape(i, inside=True)
                out += part
            else:
                out, i = out + (f"\\{c}" if c in "[]&|~" else c), i + 1
            first = False
        return f"{out}]", i + 1
