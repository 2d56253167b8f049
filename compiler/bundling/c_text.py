"""Pieces of C: names, strings, arrays, formulas of sizes."""

import re
from collections.abc import Collection, Iterable, Mapping

from stepwell.dialects.core.sizes import Size
from stepwell.dialects.support.errors import InputError, shown
from stepwell.dialects.support.names import unused_name

_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr const_cast continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq
"""
_KEYWORDS = frozenset(_WORDS.split())
"""The words of C and C++ that are no names."""
_OPERATIONS = {"+": "({} + {})", "*": "({} * {})", "//": "floor_div({}, {})", "max": "larger({}, {})", "min": "smaller({}, {})"}


def check_name(name: str) -> str:
    """`name` itself, the prefix of a bundle's symbols. Raises InputError if it is no name in C."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name) or name in _KEYWORDS or name.startswith("stepwell"):
        raise InputError(f"prefix: expected a name in C of at most 64 letters, digits and _, other than stepwell…, got {shown(name)}")
    return name


def identifier(text: str, taken: Collection[str] = ()) -> str:
    """A name in C for a name of a model, other than those `taken`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text) or "_"
    name = f"_{name}" if name[0].isdigit() or name in _KEYWORDS else name
    return unused_name(name, taken).replace(".", "_")


def string(text: str | None) -> str:
    """A string constant of UTF-8, which no file can end early; NULL for None."""
    if text is None:
        return "NULL"
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode(errors="surrogateescape"))
    return f'"{plain}"'


def comment(text: str) -> str:
    """Text that is safe in a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def formula(size: "int | Size", names: Mapping[str, str]) -> str:
    """An expression of type int64_t; `names` has one for each symbol."""
    if isinstance(size, int):
        return f"INT64_C({size})"
    combine = {name: (lambda a, b, text=text: text.format(a, b)) for name, text in _OPERATIONS.items()}
    return size.fold(lambda part: names[str(part)] if part.is_symbol else None, lambda number: f"INT64_C({number})", combine)


class Arrays:
    """Static arrays of a file, each under the name that it was given with."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, kind: str, name: str, items: Iterable[str], suffix: str = "") -> str:
        """Define an array, if it has elements; returns its name, or NULL."""
        content = list(items)
        if not content:
            return "NULL"
        self.lines.append(f"static const {kind} {name}[]{suffix} = {{{', '.join(content)}}};")
        return name
