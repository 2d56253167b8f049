"""Objects merged into one relocatable ELF object, without a linker: its functions are local, and its names do not meet those of other models.

The compiler's objects are made to be linked in memory. On x86-64 they hold addresses of 64 bits in instructions (`movabs`), which a shared library
cannot have without changing its code when it is loaded: here they become addresses relative to the instruction (`lea`), of the same length.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from stepwell.bundling.elf_writer import GLOBAL, HIDDEN, OBJECT, Part, SymbolTable, elf_object
from stepwell.dialects.support.errors import CodegenError
from stepwell.runtime import elf

_TEXT, _CONSTANTS, _RELOCATED, _DATA, _ZEROS = ".text", ".rodata", ".data.rel.ro", ".data", ".bss"
_FLAGS = {
    _TEXT: elf.ALLOCATED | elf.EXECUTABLE, _CONSTANTS: elf.ALLOCATED, _RELOCATED: elf.ALLOCATED | elf.WRITEABLE, _DATA: elf.ALLOCATED | elf.WRITEABLE,
    _ZEROS: elf.ALLOCATED | elf.WRITEABLE,
}  # fmt: skip
_LINK_INFO = 0x40  # the flag of sections whose `info` is the index of a section
_UNWIND = (0x70000001, 0x70000003)  # types of sections with unwind tables and attributes of the machine, which code does not need to run
_ABS64, _PC32, _PLT32 = 1, 2, 4  # relocations of x86-64 (System V ABI, AMD64 supplement)
_NOP3 = b"\x0f\x1f\x00"


@dataclass
class _Merged:
    """A section of the result, of sections with equal flags."""

    name: str
    content: bytearray = field(default_factory=bytearray)
    size: int = 0
    alignment: int = 1
    relocations: "list[tuple[int, int, _Key, int]]" = field(default_factory=list)
    """Offset, kind, symbol and addend."""

    def add(self, data: "bytes | memoryview", size: int, alignment: int) -> int:
        """Append a section; returns its offset."""
        offset = -(-self.size // max(1, alignment)) * max(1, alignment)
        self.alignment = max(self.alignment, alignment)
        if self.name != _ZEROS:
            self.content += bytes(offset - len(self.content))
            self.content += data
            self.content += bytes(size - len(data))
        self.size = offset + size
        return offset


_Key = tuple[str, int | str]
"""A symbol of the result: an object and the number of its symbol; "" and a global name; "section" and a name."""


def merged(
    objects: Mapping[str, bytes], names: Mapping[str, str], constants: "Mapping[str, tuple[memoryview, int]]" = MappingProxyType({})
) -> bytes:  # fmt: skip
    """One relocatable object of ELF objects for one machine, by name.

    `names` maps each global symbol that stays one to its new name, with hidden visibility; what the objects define otherwise becomes local. Undefined
    symbols keep their names, except those in `names`. `constants` are more data under hidden names, with their alignment. Raises CodegenError for
    objects that cannot be merged, naming the function.
    """
    files = {name: elf.read(data) for name, data in objects.items()}
    if len({(file.machine, file.flags) for file in files.values()}) != 1:
        raise CodegenError("expected objects for one machine, got others or none")
    first = next(iter(files.values()))
    sections = {name: _Merged(name) for name in _FLAGS}
    places: dict[tuple[str, int], tuple[str, int]] = {}
    for name, file in files.items():
        changed = {entry.section for entry in file.relocations()}
        for index, section in enumerate(file.sections):
            if section.flags & elf.ALLOCATED and section.type not in _UNWIND and section.size:
                kind = _kind(section, is_changed=index in changed)
                places[name, index] = kind, sections[kind].add(file.content(section), section.size, section.alignment)
    symbols = _Symbols(places, names)
    for name, file in files.items():
        symbols.define(name, file, sections[_ZEROS])
    for name, (data, alignment) in constants.items():
        symbols.add_constant(name, _CONSTANTS, sections[_CONSTANTS].add(data, data.nbytes, alignment), data.nbytes)
    for name, file in files.items():
        for entry in file.relocations():
            if (name, entry.section) in places:
                _relocate(name, file, entry, places, sections, symbols)
    return _written(first, [section for section in sections.values() if section.size], symbols)


def _kind(section: elf.Section, *, is_changed: bool) -> str:
    """The section of the result that a section goes to; constants that hold addresses are changed when a library is loaded."""
    if section.flags & elf.EXECUTABLE:
        return _TEXT
    if section.flags & elf.WRITEABLE:
        return _ZEROS if section.type == elf.NO_BITS else _DATA
    return _RELOCATED if is_changed else _CONSTANTS


class _Symbol(NamedTuple):
    """A symbol of the result; without a section it is undefined."""

    name: str
    type: int = 0
    section: str = ""
    offset: int = 0
    size: int = 0


class _Symbols:
    """The symbols of the result."""

    def __init__(self, places: Mapping[tuple[str, int], tuple[str, int]], names: Mapping[str, str]) -> None:
        self._places, self._names = places, names
        self.table: dict[_Key, _Symbol] = {}

    def define(self, name: str, file: elf.Object, zeros: _Merged) -> None:
        """Add what an object defines for others, and its functions."""
        for number, symbol in enumerate(file.symbols):
            if symbol.section == elf.COMMON:
                self._add(("", symbol.name), symbol, _ZEROS, zeros.add(b"", symbol.size, symbol.value))
            elif (name, symbol.section) in self._places and symbol.name and (not symbol.is_local or symbol.type == elf.FUNCTION):
                section, start = self._places[name, symbol.section]
                key: _Key = (name, number) if symbol.is_local else ("", symbol.name)
                self._add(key, symbol, section, start + symbol.value)

    def _add(self, key: _Key, symbol: elf.Symbol, section: str, offset: int) -> None:
        if key in self.table:
            raise CodegenError(f"@{symbol.name} is defined by two objects")
        name = self._names.get(symbol.name, symbol.name) if key[0] == "" else symbol.name
        self.table[key] = _Symbol(name, symbol.type, section, offset, symbol.size)

    def add_constant(self, name: str, section: str, offset: int, size: int) -> None:
        """Add data under a hidden name."""
        self.table["constant", name] = _Symbol(name, OBJECT, section, offset, size)

    def is_renamed(self, key: _Key) -> bool:
        """Whether it is one of the global symbols that have got other names, or a constant."""
        return key[0] == "constant" or (key[0] == "" and key[1] in self._names)

    def key(self, name: str, file: elf.Object, symbol: elf.Symbol) -> tuple[_Key, int]:
        """The symbol of the result for one that a relocation names, and what to add to the addend."""
        if symbol.type == elf.SECTION or (symbol.is_local and not symbol.name):
            place = self._places.get((name, symbol.section))
            if place is None:
                raise CodegenError(f"the object of @{name} refers to a section that is not loaded")
            return ("section", place[0]), place[1] + symbol.value
        if symbol.is_local:
            key: _Key = (name, file.symbols.index(symbol))
            if key not in self.table:
                if (name, symbol.section) not in self._places:
                    raise CodegenError(f"the object of @{name}: '{symbol.name}' lies in a section that is not loaded")
                section, start = self._places[name, symbol.section]
                self._add(key, symbol, section, start + symbol.value)
            return key, 0
        if ("", symbol.name) not in self.table:
            self.table["", symbol.name] = _Symbol(self._names.get(symbol.name, symbol.name))
        return ("", symbol.name), 0


def _relocate(
    name: str, file: elf.Object, entry: elf.Relocation, places: Mapping[tuple[str, int], tuple[str, int]], sections: Mapping[str, _Merged],
    symbols: _Symbols,
) -> None:  # fmt: skip
    """Add a relocation to its section of the result."""
    kind, start = places[name, entry.section]
    section, offset, number, addend = sections[kind], start + entry.offset, entry.kind, entry.addend
    key, more = symbols.key(name, file, entry.symbol)
    if file.machine == elf.X86_64 and kind == _TEXT and number == _ABS64:
        offset, addend = _relative(name, section.content, offset), addend - 4
        number = _PC32 if key[0] == "section" or symbols.table[key].section else _PLT32
    section.relocations.append((offset, number, key, addend + more))


def _relative(name: str, code: bytearray, offset: int) -> int:
    """Replace the `movabs` whose number lies at an offset of x86-64 code; returns the offset of the new number.

    rewrite: movabs $address, %r  ->  lea address(%rip), %r; nop
    """
    start = offset - 2
    prefix, operation = code[start], code[start + 1]
    if prefix & 0xFE != 0x48 or operation & 0xF8 != 0xB8:
        raise CodegenError(f"the object of @{name} has an address of 64 bits in an unknown instruction, {code[start : offset + 8].hex(' ')}")
    register, high = operation & 7, prefix & 1
    code[start : offset + 8] = bytes([0x48 | high << 2, 0x8D, 0x05 | register << 3]) + bytes(4) + _NOP3
    return start + 3


def _written(first: elf.Object, sections: Sequence[_Merged], symbols: _Symbols) -> bytes:
    """The file: sections, relocations, symbols and their names. Symbols of sections come first, then local ones, as the format demands."""
    indices = {section.name: number for number, section in enumerate(sections, 1)}
    table = SymbolTable()
    numbers: dict[_Key, int] = {("section", section.name): table.add("", elf.SECTION, indices[section.name]) for section in sections}
    shared = {key for key, symbol in symbols.table.items() if not symbol.section or symbols.is_renamed(key)}
    for key in (key for key in symbols.table if key not in shared):
        symbol = symbols.table[key]
        numbers[key] = table.add(symbol.name, symbol.type, indices[symbol.section], symbol.offset, symbol.size)
    first_global = table.count
    for key in (key for key in symbols.table if key in shared):
        symbol, visibility = symbols.table[key], HIDDEN if symbols.is_renamed(key) else 0
        where = indices.get(symbol.section, elf.UNDEFINED)
        numbers[key] = table.add(symbol.name, symbol.type, where, symbol.offset, symbol.size, binding=GLOBAL, visibility=visibility)
    parts = [
        Part(section.name, elf.NO_BITS if section.name == _ZEROS else elf.PROGRAM, bytes(section.content), _FLAGS[section.name],
             alignment=section.alignment, size=section.size) for section in sections
    ]  # fmt: skip
    changed = [section for section in sections if section.relocations]
    symbol_table = len(parts) + len(changed) + 1
    for section in changed:
        data = b"".join(struct.pack("<QQq", offset, numbers[key] << 32 | kind, addend) for offset, kind, key, addend in section.relocations)
        links = {"link": symbol_table, "info": indices[section.name]}
        parts.append(Part(f".rela{section.name}", elf.RELOCATIONS, data, _LINK_INFO, alignment=8, entry=24, **links))
    parts.append(Part(".symtab", elf.SYMBOLS, bytes(table.entries), alignment=8, entry=24, link=symbol_table + 1, info=first_global))
    parts.append(Part(".strtab", elf.STRINGS, bytes(table.strings)))
    parts.append(Part(".note.GNU-stack", elf.PROGRAM, b""))  # the stack need not be executable
    return elf_object(first, parts)
