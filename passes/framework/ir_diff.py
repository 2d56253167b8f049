"""The difference of two modules as text, ignoring value numbers, block labels and locations."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stepwell.dialects.core.mlir import ir

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|%[\w$.]+|\^[\w$.]+|[{}]')
_RESULTS = re.compile(r"\s*(%[\w$.]+(?::\d+)?(?:, %[\w$.]+(?::\d+)?)*) = ")
_SYMBOL = re.compile(r'@"?([\w$.-]+)|sym_name = "([^"]+)"')
_DIGEST = re.compile(r"_[0-9a-f]{8,}$")  # the digest of the text at the end of a kernel's name
_HOLE = "\0"


def text_of(module: ir.Module, *, generic: bool = False) -> str:
    """A module's text for `ir_diff`: without locations and without numbered aliases of attributes."""
    return str(module.operation.get_asm(use_local_scope=True, print_generic_op_form=generic, assume_verified=not generic))


def ir_diff(before: str, after: str, names: tuple[str, str] = ("before", "after"), context: int = 3) -> str:
    """A unified diff of two texts of modules, function by function; "" if they differ at most in numbers of values and labels.

    Functions are matched by name, or by the part before the digest in a kernel's name. In each, lines are aligned without the names of values
    (difflib's SequenceMatcher, after Ratcliff and Obershelp); values that lines of both sides define in the same place get the first side's name, so
    that only lines with different operands or different ops remain. Line numbers count from the function's first line.
    """
    out: list[str] = []
    for old, new in _matched(_chunks(before.splitlines()), _chunks(after.splitlines())):
        title = (new or old or _Chunk("", [])).symbol
        out += _hunks(_Names(old.lines if old else []), _Names(new.lines if new else []), title, context)
    return "\n".join([f"--- {names[0]}", f"+++ {names[1]}", *out, ""]) if out else ""


@dataclass
class _Chunk:
    """The lines of a function, or those outside functions."""

    symbol: str
    lines: list[str]

    @property
    def stem(self) -> str:
        return _DIGEST.sub("", self.symbol)


def _chunks(lines: Sequence[str]) -> list[_Chunk]:
    """The lines outside functions, then the functions in order."""
    outside, chunks, current = _Chunk("", []), [], None
    for line in lines:
        if current is None and line.startswith("  ") and not line.startswith("   ") and (found := _SYMBOL.search(line)):
            current = _Chunk(f"@{found.group(1) or found.group(2)}", [])
            chunks.append(current)
        (outside if current is None else current).lines.append(line)
        if current is not None and (line.startswith("  }") or (len(current.lines) == 1 and not line.rstrip().endswith("{"))):
            current = None
    return [outside, *chunks]


def _matched(old: list[_Chunk], new: list[_Chunk]) -> Iterator[tuple[_Chunk | None, _Chunk | None]]:
    """Pairs of functions: first equal names, then, in order, names that differ only in a digest, then functions of only one side."""
    by_name = {chunk.symbol: chunk for chunk in old}
    pairs = {chunk.symbol: by_name.pop(chunk.symbol) for chunk in new if chunk.symbol in by_name}
    for chunk in new:
        if chunk.symbol not in pairs:
            like = next((candidate for candidate in by_name.values() if candidate.stem == chunk.stem), None)
            if like is not None:
                pairs[chunk.symbol] = by_name.pop(like.symbol)
    for chunk in new:
        yield pairs.get(chunk.symbol), chunk
    for chunk in by_name.values():
        yield chunk, None


@dataclass
class _Names:
    """Lines with the names of values and blocks removed; each name is replaced by a number unique to the value."""

    lines: Sequence[str]
    templates: list[str] = field(default_factory=list)
    used: list[list[int]] = field(default_factory=list)
    """For each line, the values in its holes."""
    names: list[str] = field(default_factory=list)
    """The name of each value."""

    def __post_init__(self) -> None:
        scopes: list[dict[str, int]] = [{}]
        for line in self.lines:
            results = _RESULTS.match(line)
            defined = re.findall(r"%[\w$.]+", results.group(1)) if results else []
            # An isolated region has its own numbering: its definitions hide outer values of the same name.
            for name in defined:
                scopes[-1][name] = self._new(name)
            if line.lstrip().startswith("^"):
                for name in re.findall(r"(%[\w$.]+):", line):
                    scopes[-1][name] = self._new(name)
            held: list[int] = []
            self.templates.append(_TOKEN.sub(lambda found, held=held: self._taken(found.group(), scopes, held), line))  # type: ignore[misc]  # mypy does not infer a lambda with a default
            self.used.append(held)

    def _new(self, name: str) -> int:
        self.names.append(name)
        return len(self.names) - 1

    def _taken(self, token: str, scopes: list[dict[str, int]], held: list[int]) -> str:
        if token == "{":
            scopes.append({})
        elif token == "}":
            if len(scopes) > 1:
                scopes.pop()
        elif token[0] in "%^":
            known = next((scope[token] for scope in reversed(scopes) if token in scope), None)
            if known is None:
                known = scopes[-1][token] = self._new(token)
            held.append(known)
            return _HOLE
        return token

    def rendered(self, names: Sequence[str]) -> list[str]:
        """The lines with these names for the values."""
        out = []
        for template, held in zip(self.templates, self.used, strict=True):
            parts = template.split(_HOLE)
            out.append(parts[0] + "".join(names[value] + part for value, part in zip(held, parts[1:], strict=True)))
        return out


def _hunks(old: _Names, new: _Names, title: str, context: int) -> Iterator[str]:
    """The hunks of the difference of one function."""
    if old.templates == new.templates and old.used == new.used:
        return
    named = new.rendered(_renamed(old, new))
    for line in list(difflib.unified_diff(old.rendered(old.names), named, n=context, lineterm=""))[2:]:
        yield f"{line} {title}".rstrip() if line.startswith("@@ ") else line


def _renamed(old: _Names, new: _Names) -> list[str]:
    """Names for the values of `new`: those of the corresponding values of `old`; others keep theirs, or get a variant if it is taken."""
    same: dict[int, int] = {}
    taken: set[int] = set()
    for a, b, size in _aligned(old.templates, new.templates):
        for i in range(size):
            for mine, theirs in zip(old.used[a + i], new.used[b + i], strict=True):
                if theirs not in same and mine not in taken:
                    same[theirs] = mine
                    taken.add(mine)
    in_use = set(old.names)
    names = []
    for value, name in enumerate(new.names):
        if value in same:
            names.append(old.names[same[value]])
            continue
        while name in in_use:
            name += ".new"
        in_use.add(name)
        names.append(name)
    return names


def _aligned(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal lines: their beginnings on both sides, and their lengths."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    yield 0, 0, first
    inside = old[first : len(old) - last], new[first : len(new) - last]
    for a, b, size in difflib.SequenceMatcher(None, *inside, autojunk=False).get_matching_blocks():
        yield first + a, first + b, size
    yield len(old) - last, len(new) - last, last
