"""Read an ELF object: its sections, its symbols, its relocations."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from stepwell.dialects.support.errors import CodegenError

X86_64 = 62  # the machine
PROGRAM, SYMBOLS, STRINGS, RELOCATIONS, NO_BITS = 1, 2, 3, 4, 8  # types of sections
FUNCTION, SECTION = 2, 3  # types of symbols
WRITEABLE, ALLOCATED, EXECUTABLE = 1, 2, 4  # flags of sections
UNDEFINED, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2  # special section indices of symbols
_RELOCATABLE = 1
_LOCAL = 0


class Section(NamedTuple):
    """A section header. `link` is the index of another section, `info` the one that relocations apply to."""

    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class Symbol(NamedTuple):
    """A symbol: its value is an offset in its section, or an alignment if it is COMMON."""

    name: str
    is_local: bool
    section: int
    value: int
    size: int
    type: int = 0


class Relocation(NamedTuple):
    """A value to write at an offset of a section; the machine defines `kind`."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True)
class Object:
    """An object file: sections by index, all symbols in the order of the file."""

    data: bytes
    machine: int
    flags: int
    """The flags of the machine, such as its calling convention."""
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]

    @property
    def defined(self) -> frozenset[str]:
        """The names of the global symbols that the object defines."""
        return frozenset(s.name for s in self.symbols if s.name and not s.is_local and s.section != UNDEFINED)

    @property
    def undefined(self) -> frozenset[str]:
        """The names of the symbols that the object needs."""
        return frozenset(s.name for s in self.symbols if s.name and not s.is_local and s.section == UNDEFINED)

    def content(self, section: Section) -> bytes:
        """The bytes of a section; empty for one of zeros only."""
        return b"" if section.type == NO_BITS else self.data[section.offset : section.offset + section.size]

    def relocations(self) -> Iterator[Relocation]:
        """The relocations of sections that are needed to run. Raises CodegenError if the object is damaged."""
        for section in self.sections:
            if section.type != RELOCATIONS or not self.sections[section.info].flags & ALLOCATED:
                continue
            for offset, info, addend in struct.iter_unpack("<QQq", self.content(section)):
                if info >> 32 >= len(self.symbols):
                    raise CodegenError(f"damaged ELF object of {len(self.data)} bytes: a relocation of symbol {info >> 32}")
                yield Relocation(section.info, offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend)


def is_elf(data: bytes) -> bool:
    """Whether `data` begins like an ELF file (macOS objects do not)."""
    return data[:4] == b"\x7fELF"


def read(data: bytes) -> Object:
    """A 64-bit little-endian ELF object. Raises CodegenError if it is damaged or in another format."""
    if not is_elf(data) or data[4:6] != b"\x02\x01":
        raise CodegenError("expected a 64-bit little-endian ELF object, got something else")
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise CodegenError(f"damaged ELF object of {len(data)} bytes: {error}") from None


def _read(data: bytes) -> Object:
    kind, machine = struct.unpack_from("<HH", data, 0x10)
    (flags,) = struct.unpack_from("<I", data, 0x30)
    if kind != _RELOCATABLE:
        raise ValueError(f"a file of type {kind}, not an object")
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    if offset + count * size > len(data):
        raise ValueError(f"headers of sections that end at byte {offset + count * size}")
    sections = tuple(Section(*struct.unpack_from("<4xIQ8xQQIIQ", data, offset + i * size)) for i in range(count))
    for section in sections:
        if section.type != NO_BITS and section.offset + section.size > len(data):
            raise ValueError(f"a section that ends at byte {section.offset + section.size}")
        if section.type == RELOCATIONS and section.info >= count:
            raise ValueError(f"relocations of section {section.info} of {count}")
    symbols: list[Symbol] = []
    for section in sections:
        if section.type == SYMBOLS:
            strings = sections[section.link].offset
            for name, info, where, value, length in struct.iter_unpack("<IBxHQQ", data[section.offset : section.offset + section.size]):
                start = strings + name
                text = data[start : data.index(b"\0", start)].decode() if name else ""
                if where >= count and where not in (ABSOLUTE, COMMON):
                    raise ValueError(f"symbol '{text}' in section {where} of {count}")
                symbols.append(Symbol(text, info >> 4 == _LOCAL, where, value, length, info & 0xF))
    return Object(data, machine, flags, sections, tuple(symbols))
