"""Names that come from files: escaped on input, so that no terminal, table or listing gets a control character from one."""

from collections.abc import Container, Iterable, Mapping
from itertools import chain, count
from typing import TypeVar

V = TypeVar("V")


def printable(text: str) -> str:
    """Text on one line, with unprintable characters escaped: `\x1b`, `\n`, `\u2028`, `\udc80`.

    These are all characters that control a terminal or begin a line: control characters, separators other than the space, direction marks, halves of
    characters.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """Like `printable`, line by line: for messages of several lines, whose names are already printable."""
    return "\n".join(map(printable, text.split("\n")))


def printable_keys(named: Mapping[str, V]) -> Mapping[str, V]:
    """A caller's values by a model's own names, converted to the names used here; the same object if these are the same."""
    odd = [name for name in named if isinstance(name, str) and not name.isprintable()]
    return {printable(name) if name in odd else name: value for name, value in named.items()} if odd else named


class ByName(dict[str, V]):
    """Values by the names used here, in which a name from the model's file is found too."""

    def __missing__(self, name: object) -> V:
        if isinstance(name, str) and not name.isprintable():
            return self[printable(name)]
        raise KeyError(name)


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, or the first of `name.1`, `name.2`, … that is not taken."""
    numbered = (f"{name}.{number}" for number in count(1))
    return next(free for free in chain([name], numbered) if free not in taken)


def plain_names(given: set[str]) -> dict[str, str]:
    """Maps each unprintable name to a printable one that no other has: `a\x00b`, or `a\x00b.1` if that is taken."""
    taken = {name for name in given if name.isprintable()}
    plain = {}
    for name in sorted(given - taken):
        plain[name] = unused_name(printable(name), taken)
        taken.add(plain[name])
    return plain


LONGEST_FILE_NAME = 200  # bytes; file systems allow 255, including an ending and a number


def file_names(names: Iterable[str], *, folders: bool = False) -> dict[str, str]:
    """Maps each name to one that a file, or with `folders` a member of an archive, can have: unique, and inside its folder.

    A valid name stays unchanged. In others, slashes are replaced, `../x` becomes `.._x`, and a number is added if the name is taken.
    """
    given = list(dict.fromkeys(names))
    found = {name: name for name in given if _file_name(name, folders) == name}
    taken = set(found)
    for name in given:
        if name not in found:
            found[name] = unused_name(_file_name(name, folders), taken)
            taken.add(found[name])
    return {name: found[name] for name in given}


def _file_name(name: str, folders: bool) -> str:
    text = printable(name).replace("\\", "_").encode(errors="replace")[:LONGEST_FILE_NAME].decode(errors="ignore")
    if not folders or any(part in ("", ".", "..") for part in text.split("/")):
        text = text.replace("/", "_")
    if text.endswith(".npy"):  # numpy strips the ending, from this name and from the file's
        text = text.removesuffix(".npy") + "_npy"
    return text if text.strip(".") else f"unnamed{text}"
