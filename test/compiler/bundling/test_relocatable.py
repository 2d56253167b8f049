"""Objects merged without a linker: what ends up where, and what is refused."""

import io
import struct

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from handmade import SOURCE, lower

from stepwell.backends.llvm_cpu.objects import make_engine_context, split_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.bundling.relocatable import merged
from stepwell.dialects.support.errors import CodegenError
from stepwell.runtime import elf

NAMES = {"main": "it_main", "__kmpc_fork_call": "it_fork_call"}


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """Those of two kernels, one with constants and threads, and of what calls them."""
    make_engine_context()
    return compile_units(split_module(lower(SOURCE)), jobs=0)


def symbols(data: bytes) -> dict[str, tuple[str, str, str]]:
    """The binding, the visibility and the section ("" if undefined) of each named symbol."""
    file = ELFFile(io.BytesIO(data))
    [table] = [section for section in file.iter_sections() if isinstance(section, SymbolTableSection)]
    found = {}
    for symbol in table.iter_symbols():
        if symbol.name:
            where = "" if symbol["st_shndx"] == "SHN_UNDEF" else file.get_section(symbol["st_shndx"]).name
            found[symbol.name] = (symbol["st_info"]["bind"], symbol["st_other"]["visibility"], where)
    return found


def test_only_named_functions_are_global(objects: dict[str, bytes]) -> None:
    found = symbols(merged(objects, NAMES))
    assert found["it_main"] == ("STB_GLOBAL", "STV_HIDDEN", ".text")
    assert found["it_fork_call"] == ("STB_GLOBAL", "STV_HIDDEN", "")
    assert found["erf_ab12"] == ("STB_LOCAL", "STV_DEFAULT", ".text")
    assert "main" not in found
    assert {name for name, (binding, _, section) in found.items() if binding == "STB_GLOBAL" and section} == {"it_main"}
    assert all(not section for name, (_, _, section) in found.items() if name.startswith("__kmpc"))


def test_code_has_no_absolute_addresses_and_the_same_length(objects: dict[str, bytes]) -> None:
    file = ELFFile(io.BytesIO(merged(objects, NAMES)))
    kinds = {section.name: {entry["r_info_type"] for entry in section.iter_relocations()} for section in file.iter_sections()
             if isinstance(section, RelocationSection)}  # fmt: skip
    assert kinds[".rela.text"] <= {2, 4, 24}  # PC32, PLT32, PC64
    assert any(1 in {entry.kind for entry in elf.read(data).relocations()} for data in objects.values())
    code = sum(section.size for data in objects.values() for section in elf.read(data).sections if section.flags & elf.EXECUTABLE)
    assert code <= file.get_section_by_name(".text")["sh_size"] < code + 64 * len(objects)


def test_constants_are_added_under_hidden_names(objects: dict[str, bytes]) -> None:
    data = merged(objects, NAMES, {"it_weights": (memoryview(b"weights!"), 4096)})
    assert symbols(data)["it_weights"] == ("STB_GLOBAL", "STV_HIDDEN", ".rodata")
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".rodata")
    assert section["sh_addralign"] == 4096
    assert section.data().endswith(b"weights!")


def test_what_cannot_be_merged_is_refused(objects: dict[str, bytes]) -> None:
    main = objects["main"]
    with pytest.raises(CodegenError, match="objects for one machine"):
        merged({"main": main, "other": main[:18] + struct.pack("<H", 183) + main[20:]}, NAMES)
    with pytest.raises(CodegenError, match=r"@_mlir_main is defined by two objects|@main is defined by two objects"):
        merged({"main": main, "again": main}, NAMES)
    with pytest.raises(CodegenError, match="ELF"):
        merged({"main": b"nothing"}, NAMES)
    at = next(entry for entry in elf.read(main).relocations() if entry.kind == 1)
    place = elf.read(main).sections[at.section].offset + at.offset - 1
    with pytest.raises(CodegenError, match="@main has an address of 64 bits in an unknown instruction"):
        merged({"main": main[:place] + b"\x90" + main[place + 1 :]}, NAMES)
