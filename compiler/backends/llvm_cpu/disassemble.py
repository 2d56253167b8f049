"""Disassemble objects, with comments that name the ONNX node of each run of instructions."""

import bisect
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import capstone
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from stepwell.dialects.core.locations import MODEL_FILE
from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.support.names import printable
from stepwell.runtime import elf

_EXECUTABLE = 0x4  # SHF_EXECINSTR
_ENGINE_WRAPPER = "_mlir_"


@dataclass(frozen=True)
class _Machine:
    """The differences between the instruction sets."""

    arch: int
    mode: int
    comment: str
    address: int
    """Type of the relocation that holds a whole address (8 bytes)."""
    offset: int
    """Type of the relocation that holds an offset into a section of debug information (4 bytes)."""
    jumps: tuple[str, ...]
    """Prefixes of the mnemonics whose last operand is an address in the code."""


_MACHINES = {
    "EM_X86_64": _Machine(capstone.CS_ARCH_X86, capstone.CS_MODE_64, "#", 1, 10, ("j", "call", "loop")),
    "EM_AARCH64": _Machine(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM, "//", 257, 258, ("b", "cb", "tb")),
}


def disassemble(objects: Mapping[str, bytes], nodes: Sequence[str], lines: Mapping[str, Sequence[int]] | None = None) -> str:
    """The assembly text of all functions of `objects` (name of the unit to object).

    `nodes` are the ONNX node names of the model, in order. Line `i + 1` of an object's line table is node `lines[name][i]`, or node `i` if `lines`
    has no entry for the object. Calls and data accesses through relocations show the symbol. The wrappers that MLIR's engine adds (`_mlir_…`) are
    left out: nothing calls them.

    Raises CodegenError for a damaged object, and for one that is not ELF on x86-64 or aarch64.
    """
    return "\n".join(_disassemble(name, data, nodes, (lines or {}).get(name, range(len(nodes)))) for name, data in objects.items())


def _disassemble(name: str, data: bytes, nodes: Sequence[str], lines: Sequence[int]) -> str:
    if not elf.is_elf(data):
        raise CodegenError(f"the object of @{name} is not an ELF object: its disassembly is not supported")
    try:
        return "\n".join(_Object(data, nodes, lines).text()) + "\n"
    except (ELFError, LookupError, ValueError, OverflowError) as error:
        raise CodegenError(f"the object of @{name} is damaged or of an unknown kind: {error!r}") from None


class _Object:
    """One object while it is printed."""

    def __init__(self, data: bytes, nodes: Sequence[str], lines: Sequence[int]) -> None:
        self.file = cast(Any, ELFFile(io.BytesIO(data)))
        self.nodes, self.lines = nodes, lines
        if self.file["e_machine"] not in _MACHINES:
            raise CodegenError(f"the disassembly of {self.file['e_machine']} is not supported; supported: {', '.join(_MACHINES)}")
        self.machine = _MACHINES[self.file["e_machine"]]
        table = self.file.get_section_by_name(".symtab")
        if table is None:
            raise ELFError("it has no symbols")
        self.symbols = list(table.iter_symbols())
        self.engine = capstone.Cs(self.machine.arch, self.machine.mode)
        self.engine.skipdata = True
        self.rows = self._line_rows()

    def text(self) -> list[str]:
        """The text of all functions."""
        lines: list[str] = []
        for index, section in enumerate(self.file.iter_sections()):
            if section["sh_flags"] & _EXECUTABLE and section["sh_size"]:
                code = section.data()
                targets = self._relocations(index)
                for start, end, symbol in self._functions(index, len(code)):
                    if not symbol.startswith(_ENGINE_WRAPPER):
                        lines += ["", f"{printable(symbol)}:", *self._function(code[start:end], start, self.rows.get(index, []), targets)]
        return lines[1:]

    def _functions(self, section: int, size: int) -> list[tuple[int, int, str]]:
        """Start, end and name of each function of a section."""
        found = []
        for symbol in self.symbols:
            if symbol["st_shndx"] == section and symbol["st_info"]["type"] == "STT_FUNC":
                found.append((symbol["st_value"], symbol["st_value"] + symbol["st_size"] or size, symbol.name))
        return sorted(found)

    def _relocations(self, index: int) -> dict[int, str]:
        """The text that linking inserts at each offset of a section: `symbol` or `symbol + 8`."""
        targets: dict[int, str] = {}
        for table in self.file.iter_sections():
            if table["sh_type"] == "SHT_RELA" and table["sh_info"] == index:
                for entry in table.iter_relocations():
                    targets[entry["r_offset"]] = self._target(self.symbols[entry["r_info_sym"]], entry["r_addend"])
        return targets

    def _target(self, symbol: Any, addend: int) -> str:
        if symbol["st_info"]["type"] == "STT_SECTION":
            functions = self._functions(symbol["st_shndx"], 0)
            name = next((name for start, _, name in functions if start == addend), None)
            if name is not None:
                return name
            base = str(self.file.get_section(symbol["st_shndx"]).name)
        else:
            base = str(symbol.name)
        return f"{base} {'-' if addend < 0 else '+'} {abs(addend)}" if addend else base

    def _line_rows(self) -> dict[int, list[tuple[int, int | None]]]:
        """By section: the beginning of each run of instructions, and the index of its node (None: it belongs to no node)."""
        rows: dict[int, list[tuple[int, int | None]]] = {}
        if not self.file.has_dwarf_info():
            return rows
        starts = self._relocate_debug_information()
        dwarf = self.file.get_dwarf_info(relocate_dwarf_sections=False)
        sequence = 0
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            files = program.header.file_entry
            first = 0 if program.header.version >= 5 else 1
            for state in (entry.state for entry in program.get_entries() if entry.state is not None):
                of_model = files[state.file - first].name.decode() == MODEL_FILE
                node = self.lines[state.line - 1] if of_model and 0 < state.line <= len(self.lines) and not state.end_sequence else None
                rows.setdefault(starts[sequence], []).append((state.address, node))
                sequence += state.end_sequence
        return {section: sorted(found, key=lambda row: row[0]) for section, found in rows.items()}

    def _relocate_debug_information(self) -> list[int]:
        """Apply the relocations of the line table to our copy; returns the section of each sequence of the line program.

        pyelftools relocates too, but does not report the section, and fails on the relocations that unwind tables have with large code.
        """
        starts = []
        for table in self.file.iter_sections():
            if table.name not in (".rela.debug_line", ".rela.debug_info"):
                continue
            start = self.file.get_section(table["sh_info"])["sh_offset"]
            for entry in table.iter_relocations():
                size = {self.machine.address: 8, self.machine.offset: 4}[entry["r_info_type"]]
                symbol = self.symbols[entry["r_info_sym"]]
                self.file.stream.seek(start + entry["r_offset"])
                self.file.stream.write((symbol["st_value"] + entry["r_addend"]).to_bytes(size, "little"))
                # The only addresses in a line program are those at which its sequences start.
                if size == 8 and table.name == ".rela.debug_line":
                    starts.append(symbol["st_shndx"])
        return starts

    def _function(self, code: bytes, start: int, rows: list[tuple[int, int | None]], targets: dict[int, str]) -> list[str]:
        instructions = list(self.engine.disasm_lite(code, start))
        starts = {address for address, *_ in instructions}
        labels = {goal for _, _, mnemonic, operands in instructions if (goal := self._goal(mnemonic, operands)) in starts}
        places = [address for address, _ in rows]
        offsets = sorted(targets)
        lines: list[str] = []
        current: int | None = None
        for address, size, mnemonic, operands in instructions:
            row = bisect.bisect_right(places, address) - 1
            node = rows[row][1] if row >= 0 else None
            if address in labels:
                lines.append(f".L{address:x}:")
            if node != current:
                name = "no node" if node is None else f"node {node}: {printable(self.nodes[node])}"
                lines.append(f"  {self.machine.comment} {name}")
                current = node
            goal = self._goal(mnemonic, operands)
            if goal in labels:
                operands = operands[: operands.rindex("0x" if "0x" in operands else str(goal))].rstrip("#") + f".L{goal:x}"
            relocated = bisect.bisect_left(offsets, address)
            note = ""
            if relocated < len(offsets) and offsets[relocated] < address + size:
                note = f"  {self.machine.comment} -> {printable(targets[offsets[relocated]])}"
            lines.append(f"    {mnemonic:<12} {operands}".rstrip() + note)
        return lines

    def _goal(self, mnemonic: str, operands: str) -> int | None:
        """The target address of a jump or call, if it is in the instruction itself."""
        if not mnemonic.startswith(self.machine.jumps):
            return None
        last = operands.rpartition(",")[2].strip().removeprefix("#")
        try:
            return int(last, 0)
        except ValueError:
            return None  # in a register or in memory
