"""Names that come from files: escaped where they enter, so that no terminal, table or listing gets a control character from one."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

V = TypeVar("V")


def printable(text: str) -> str:
    """Text on one line, in which what is not printable is escaped: `\\x1b`, `\\n`, `\\u2028`, `\\udc80`.

    That is all that a terminal would obey or that would begin a line: controls, separators other than the space, marks of direction, halves of
    characters.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """As `printable`, line by line: for messages of several lines, whose names were made printable before."""
    return "\n".join(map(printable, text.split("\n")))


def printable_keys(named: Mapping[str, V]) -> Mapping[str, V]:
    """What a caller gives by a model's own names, by those that it has here; the same object if these are the same."""
    odd = [name for name in named if isinstance(name, str) and not name.isprintable()]
    return {printable(name) if name in odd else name: value for name, value in named.items()} if odd else named


class ByName(dict[str, V]):
    """What has names here, in which a name as the model's file has it is found too."""

    def __missing__(self, name: object) -> V:
        if isinstance(name, str) and not name.isprintable():
            return self[printable(name)]
        raise KeyError(name)


def plain_names(given: set[str]) -> dict[str, str]:
    """For each of the names that is not printable one that is, and that no other of them has: `a\\x00b`, `a\\x00b.1` if that is taken."""
    taken = {name for name in given if name.isprintable()}
    plain = {}
    for name in sorted(given - taken):
        free, count = printable(name), 0
        while free in taken:
            count += 1
            free = f"{printable(name)}.{count}"
        taken.add(free)
        plain[name] = free
    return plain


LONGEST_FILE_NAME = 200  # bytes; file systems take 255, with an ending and what makes it unique


def file_names(names: Iterable[str], *, folders: bool = False) -> dict[str, str]:
    """For each name one that a file, or with `folders` a member of an archive, can have: inside its folder, and no other's.

    A name that can be one stays as it is. Others have their slashes replaced, `../x` by `.._x`, and a number where that is taken.
    """
    given = list(dict.fromkeys(names))
    found = {name: name for name in given if _file_name(name, folders) == name}
    taken = set(found)
    for name in given:
        if name not in found:
            free, count = _file_name(name, folders), 0
            while free in taken:
                count += 1
                free = f"{_file_name(name, folders)}.{count}"
            taken.add(free)
            found[name] = free
    return {name: found[name] for name in given}


def _file_name(name: str, folders: bool) -> str:
    text = printable(name).replace("\\", "_").encode(errors="replace")[:LONGEST_FILE_NAME].decode(errors="ignore")
    if not folders or any(part in ("", ".", "..") for part in text.split("/")):
        text = text.replace("/", "_")
    if text.endswith(".npy"):  # numpy takes the ending off, of this name and of the file's
        text = text.removesuffix(".npy") + "_npy"
    return text if text.strip(".") else f"unnamed{text}"
