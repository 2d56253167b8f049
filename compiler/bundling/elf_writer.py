"""Writes relocatable ELF objects of 64 bits: parts, symbols, headers."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.runtime import elf

GLOBAL, HIDDEN, OBJECT = 1, 2, 1
"""The binding of a symbol, its visibility, and the type of one that is data."""
_HEADER = 64  # bytes of the header of a file, and of a section


@dataclass(frozen=True)
class Part:
    """A section with its content."""

    name: str
    type: int
    data: bytes
    flags: int = 0
    alignment: int = 1
    link: int = 0
    info: int = 0
    entry: int = 0
    """The bytes of an entry, for a table."""
    size: int | None = None
    """The bytes in memory, if these are not those of `data`."""


class SymbolTable:
    """A table of symbols with their names; the first one is empty."""

    def __init__(self) -> None:
        self.strings, self.entries = bytearray(b"\0"), bytearray(24)

    @property
    def count(self) -> int:
        """The number of symbols."""
        return len(self.entries) // 24

    def add(self, name: str, kind: int, section: int, value: int = 0, size: int = 0, *, binding: int = 0, visibility: int = 0) -> int:
        """Add a symbol; returns its number."""
        where = len(self.strings) if name else 0
        if name:
            self.strings += name.encode() + b"\0"
        self.entries += struct.pack("<IBBHQQ", where, binding << 4 | kind, visibility, section, value, size)
        return self.count - 1


def elf_object(like: elf.Object, parts: Sequence[Part]) -> bytes:
    """A relocatable object of these sections, for the machine of another object. The table of their names is added."""
    names, places = bytearray(b"\0"), []
    for name in (*(part.name for part in parts), ".shstrtab"):
        places.append(len(names))
        names += name.encode() + b"\0"
    out, headers = bytearray(_HEADER), bytearray(_HEADER)
    for place, part in zip(places, (*parts, Part(".shstrtab", elf.STRINGS, bytes(names))), strict=True):
        out += bytes(-len(out) % part.alignment)
        size = len(part.data) if part.size is None else part.size
        numbers = (place, part.type, part.flags, 0, len(out), size, part.link, part.info, part.alignment, part.entry)
        headers += struct.pack("<IIQQQQIIQQ", *numbers)
        out += part.data
    out += bytes(-len(out) % 8)
    count = len(headers) // _HEADER
    identity = like.data[:16] + struct.pack("<HHI", 1, like.machine, 1)
    out[:_HEADER] = identity + struct.pack("<QQQIHHHHHH", 0, 0, len(out), like.flags, _HEADER, 0, 0, _HEADER, count, count - 1)
    return bytes(out + headers)
