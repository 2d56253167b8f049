"""Read the symbols of an ELF object: which it defines, which it needs."""

import struct
from dataclasses import dataclass

from stepwell.dialects.errors import CodegenError

_SYMTAB = 2
_UNDEFINED = 0
_LOCAL = 0


@dataclass(frozen=True)
class Symbols:
    """Names of the global symbols of an object."""

    defined: frozenset[str]
    undefined: frozenset[str]


def is_elf(data: bytes) -> bool:
    """Whether `data` begins as an ELF file does (macOS objects do not)."""
    return data[:4] == b"\x7fELF"


def symbols(data: bytes) -> Symbols:
    """The global symbols of a 64-bit little-endian ELF object. Raises CodegenError if it is damaged or another format."""
    if not is_elf(data) or data[4:6] != b"\x02\x01":
        raise CodegenError("expected a 64-bit little-endian ELF object, got something else")
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise CodegenError(f"damaged ELF object of {len(data)} bytes: {error}") from None


def _read(data: bytes) -> Symbols:
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    # Of each section header: type, file offset, size, and the index of the string table that it links to.
    headers = [struct.unpack_from("<4xI16xQQI", data, offset + i * size) for i in range(count)]
    defined: set[str] = set()
    undefined: set[str] = set()
    for kind, at, length, link in headers:
        if kind != _SYMTAB:
            continue
        strings = headers[link][1]
        for entry in range(at, at + length, 24):
            name, info, section = struct.unpack_from("<IBxH", data, entry)
            if name == 0 or info >> 4 == _LOCAL:
                continue
            start = strings + name
            text = data[start : data.index(b"\0", start)].decode()
            (undefined if section == _UNDEFINED else defined).add(text)
    return Symbols(frozenset(defined), frozenset(undefined))
