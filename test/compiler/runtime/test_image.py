"""Linking without LLVM: what it gives is what LLVM's linker gives, and what it does not know it says."""

import platform
import struct
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from stepwell.dialects.support.buffers import address
from stepwell.dialects.support.errors import CodegenError
from stepwell.runtime import elf, jit
from stepwell.runtime.image import Image
from stepwell.runtime.loader import LoadedCode, load

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="images are for x86-64")

MAIN = """
@table = internal constant [4 x i32] [i32 3, i32 -7, i32 11, i32 900]
@where = internal constant [2 x ptr] [ptr @table, ptr getelementptr (i8, ptr @table, i64 8)]
@count = internal global i32 40
@zeros = internal global [1000 x i32] zeroinitializer, align 64
declare i32 @twice(i32)
define internal i32 @add(i32 %a, i32 %b) noinline { %c = add i32 %a, %b  ret i32 %c }
define void @main(ptr %y) {
  %n = load i32, ptr @count
  %m = add i32 %n, 1
  store i32 %m, ptr @count
  store i32 %m, ptr %y
  %i = and i32 %m, 3
  %p = getelementptr [4 x i32], ptr @table, i32 0, i32 %i
  %t = load i32, ptr %p
  %d = call i32 @twice(i32 %t)
  %s = call i32 @add(i32 %d, i32 1)
  %y1 = getelementptr i32, ptr %y, i32 1
  store i32 %s, ptr %y1
  %j = and i32 %m, 1
  %w = getelementptr [2 x ptr], ptr @where, i32 0, i32 %j
  %q = load ptr, ptr %w
  %v = load i32, ptr %q
  %y2 = getelementptr i32, ptr %y, i32 2
  store i32 %v, ptr %y2
  %z = getelementptr [1000 x i32], ptr @zeros, i32 0, i32 %m
  %old = load i32, ptr %z
  store i32 %m, ptr %z
  %y3 = getelementptr i32, ptr %y, i32 3
  store i32 %old, ptr %y3
  ret void
}
"""
TWICE = "define i32 @twice(i32 %a) { %b = shl i32 %a, 1  ret i32 %b }"


def compiled(text: str, codemodel: str = "large", reloc: str = "static") -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, codemodel=codemodel, reloc=reloc)
    return machine.emit_object(llvm.parse_assembly(text))


def calls(code: LoadedCode, count: int) -> list[list[int]]:
    y, found = np.zeros(4, np.int32), []
    for _ in range(count):
        code.function("main", 1)(address(y))
        found.append(y.tolist())
    return found


# The counter; twice the entry of the table that it selects, and one; what one of two pointers leads to; what was in the zeros.
EXPECTED = [[41, -13, 11, 0], [42, 23, 3, 0], [43, 1801, 11, 0]]


@pytest.mark.parametrize(("codemodel", "reloc", "kinds"), [("large", "static", {1}), ("small", "pic", {1, 2, 4})])
def test_constants_variables_zeros_and_calls(codemodel: str, reloc: str, kinds: set[int]) -> None:
    objects = {"main": compiled(MAIN, codemodel, reloc), "twice": compiled(TWICE, codemodel, reloc)}
    assert {entry.kind for entry in elf.read(objects["main"]).relocations()} - {24} == kinds
    assert calls(load(objects), 3) == EXPECTED
    assert calls(load(objects), 3) == EXPECTED  # each with variables of its own


def test_as_llvm_links() -> None:
    objects = {"main": compiled(MAIN), "twice": compiled(TWICE)}
    addresses, unload = jit.link(objects, {}, ["main"])
    assert calls(LoadedCode(addresses, unload), 3) == EXPECTED


def test_nothing_is_writeable_and_executable() -> None:
    code = load({"main": compiled(MAIN), "twice": compiled(TWICE)})
    [line] = [line for line in Path("/proc/self/maps").read_text().splitlines() if _holds(line, code.address("main"))]
    assert line.split()[1] == "r-xp"


def _holds(line: str, place: int) -> bool:
    start, end = (int(part, 16) for part in line.split()[0].split("-"))
    return start <= place < end


def test_what_does_not_reach_is_refused() -> None:
    near = elf.read(compiled(TWICE + "declare i32 @far(i32)  define i32 @go(i32 %a) { %b = call i32 @far(i32 %a)  ret i32 %b }", "small", "static"))
    with pytest.raises(CodegenError, match=r"the object of @go: a relocation of kind \d+ does not reach 'far'"):
        Image({"go": near}, {"far": 1 << 20})


def _patched(data: bytes, position: str, value: int) -> bytes:
    """The object with the first relocation that is needed changed: where it is (`offset`), its kind or its symbol."""
    file = elf.read(data)
    section = next(s for s in file.sections if s.type == elf.RELOCATIONS and file.sections[s.info].flags & elf.ALLOCATED and s.size)
    text, shift = {"offset": ("<Q", 0), "kind": ("<I", 8), "symbol": ("<I", 12)}[position]
    changed = bytearray(data)
    struct.pack_into(text, changed, section.offset + shift, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        ("kind", 99, "the object of @main has a relocation of kind 99; known: 1, 2, 4, 10, 11, 24"),
        ("offset", 1 << 40, "the object of @main is damaged: a relocation at byte"),
        ("symbol", 5000, "damaged ELF object of .* a relocation of symbol 5000"),
    ],
)
def test_damaged_relocations_are_refused(position: str, value: int, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        load({"main": _patched(compiled(MAIN), position, value), "twice": compiled(TWICE)})


def test_common_symbols_are_one_for_all() -> None:
    text = "@shared = common global i32 0, align 4  define void @{}(ptr %y) {{ %v = load i32, ptr @shared  %w = add i32 %v, {}"
    text += "  store i32 %w, ptr @shared  store i32 %w, ptr %y  ret void }}"
    files = {name: elf.read(compiled(text.format(name, step))) for name, step in (("one", 1), ("ten", 10))}
    image = Image(files, {})
    code, y = LoadedCode(image.addresses, image.close), np.zeros(1, np.int32)
    for name, want in (("one", 1), ("ten", 11), ("one", 12)):
        code.function(name, 1)(address(y))
        assert y[0] == want
