"""Objects linked in memory: laid out, relocated, made executable, without the tens of megabytes of LLVM's JIT."""

import ctypes
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from stepwell.dialects.support.errors import CodegenError
from stepwell.runtime import elf

_READ, _WRITE, _EXECUTE = 1, 2, 4  # the values of mprotect
_UNWIND = 0x70000001  # the type of .eh_frame, which is not needed: no exception passes through compiled code
_MASK = (1 << 64) - 1
# System V ABI, AMD64 supplement, table "Relocation Types": the format of the value, and whether it is relative to its own address.
_KINDS = {1: ("<Q", False), 24: ("<q", True), 2: ("<i", True), 4: ("<i", True), 10: ("<I", False), 11: ("<i", False)}

_Places: TypeAlias = "Mapping[tuple[str, int | str], int]"
"""Addresses of sections, by object and index; of common symbols, by "" and name."""


class Image:
    """The sections of x86-64 objects that are needed to run, in separate memory. `addresses` has every symbol that they define.

    `imports` has the addresses of external functions. Raises CodegenError if a relocation of an object is unknown or out of
    range, or if the system does not allow executable memory.
    """

    def __init__(self, objects: Mapping[str, elf.Object], imports: Mapping[str, int]) -> None:
        groups = [_Group(_READ | _EXECUTE), _Group(_READ), _Group(_READ | _WRITE)]
        for name, file in objects.items():
            for index, section in enumerate(file.sections):
                if section.flags & elf.ALLOCATED and section.type != _UNWIND:
                    writeable = section.flags & elf.WRITEABLE
                    group = groups[2 if writeable else 0 if section.flags & elf.EXECUTABLE else 1]
                    group.add((name, index), section.size, section.alignment)
            for symbol in file.symbols:
                if symbol.section == elf.COMMON:
                    groups[2].add(("", symbol.name), symbol.size, symbol.value)
        size = 0
        for group in groups:
            group.start, size = size, size + -(-group.size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._block = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=_READ | _WRITE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._block))
        places = {key: self._base + group.start + offset for group in groups for key, offset in group.offsets.items()}
        common = {str(key[1]): address for key, address in places.items() if not key[0]}
        self.addresses = {
            symbol.name: _address(name, symbol, places) for name, file in objects.items() for symbol in file.symbols
            if symbol.name and not symbol.is_local and symbol.section not in (elf.UNDEFINED, elf.COMMON)
        } | common  # fmt: skip
        known = {**imports, **self.addresses}
        for name, file in objects.items():
            self._fill(name, file, places)
            self._relocate(name, file, places, known)
        for group in groups:
            self._protect(group)

    def close(self) -> None:
        """Free the memory. No code in it may be running."""
        self._block.close()

    def _fill(self, name: str, file: elf.Object, places: _Places) -> None:
        for index, section in enumerate(file.sections):
            if (name, index) in places:
                content = file.content(section)
                start = places[name, index] - self._base
                self._block[start : start + len(content)] = content

    def _relocate(self, name: str, file: elf.Object, places: _Places, known: Mapping[str, int]) -> None:
        for entry in file.relocations():
            if (name, entry.section) not in places:
                continue
            if entry.kind not in _KINDS:
                raise CodegenError(f"the object of @{name} has a relocation of kind {entry.kind}; known: {', '.join(map(str, sorted(_KINDS)))}")
            symbol = entry.symbol
            target = known[symbol.name] if not symbol.is_local and symbol.section == elf.UNDEFINED else _address(name, symbol, places)
            text, is_relative = _KINDS[entry.kind]
            at = places[name, entry.section] + entry.offset
            value = target + entry.addend - (at if is_relative else 0)
            if entry.offset + struct.calcsize(text) > file.sections[entry.section].size:
                raise CodegenError(f"the object of @{name} is damaged: a relocation at byte {entry.offset} of a section that is shorter")
            try:
                struct.pack_into(text, self._block, at - self._base, value & _MASK if text == "<Q" else value)
            except struct.error:
                raise CodegenError(f"the object of @{name}: a relocation of kind {entry.kind} does not reach '{symbol.name}'") from None

    def _protect(self, group: "_Group") -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        start, size = ctypes.c_void_p(self._base + group.start), ctypes.c_size_t(group.size)
        if group.size and libc.mprotect(start, size, group.protection) != 0:
            raise CodegenError(f"the system does not give executable memory: {os.strerror(ctypes.get_errno())}")


class _Group:
    """Consecutive sections with equal protection, on separate pages."""

    def __init__(self, protection: int) -> None:
        self.protection = protection
        self.start = 0
        self.size = 0
        self.offsets: dict[tuple[str, int | str], int] = {}

    def add(self, key: tuple[str, int | str], size: int, alignment: int) -> None:
        if key not in self.offsets:
            offset = -(-self.size // max(1, alignment)) * max(1, alignment)
            self.offsets[key] = offset
            self.size = offset + size


def _address(name: str, symbol: elf.Symbol, places: _Places) -> int:
    if symbol.section == elf.ABSOLUTE:
        return symbol.value
    key = ("", symbol.name) if symbol.section == elf.COMMON else (name, symbol.section)
    if key not in places:
        raise CodegenError(f"the object of @{name}: '{symbol.name}' lies in a section that is not loaded")
    return places[key] + (0 if symbol.section == elf.COMMON else symbol.value)


def runs(objects: Sequence[elf.Object], machine: str) -> bool:
    """Whether these objects can be linked here; `machine` is a name as from Python's `platform.machine()`."""
    return machine in ("x86_64", "AMD64") and all(file.machine == elf.X86_64 for file in objects)
