"""Objects for machines of other families, by LLVM IR as text; the same way for this machine, whose object is run."""

import io
import struct

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from onnx import ModelProto, numpy_helper, parser

import stepwell
from stepwell.backends.llvm_cpu.disassemble import disassemble
from stepwell.backends.llvm_cpu.emitters import emitter_for, engine_object, text_object
from stepwell.backends.llvm_cpu.ir_text import portable
from stepwell.backends.registry import find_backend
from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.target.description import Target, describe
from stepwell.dialects.target.host import host
from stepwell.dialects.target.registry import resolve
from stepwell.driver import build
from stepwell.driver.artifact import assemble
from stepwell.pipelines.lowered import Lowered

RANDOM = np.random.default_rng(9)
FLOATS = """
<ir_version: 9, opset_import: ["" : 17]>
floats (float[5, 24] x, float16[5, 24] h) => (float[5, 40] y, float16[5, 24] z, float[5, 24] r) {
  p = MatMul (x, w)
  t = Tanh (p)
  y = Softmax (t)
  z = Erf (h)
  s = Constant <value = float {0.1}> ()
  m = Mul (x, s)
  r = Round (m)
}"""
BYTES = """
<ir_version: 9, opset_import: ["" : 17]>
bytes (int8[16, 64] x) => (int32[16, 24] y) { y = MatMulInteger (x, w) }"""


def model(text: str, weights: np.ndarray) -> ModelProto:
    made: ModelProto = parser.parse_model(text)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return made


def floats() -> ModelProto:
    return model(FLOATS, RANDOM.standard_normal((24, 40), np.float32))


def integers() -> ModelProto:
    return model(BYTES, RANDOM.integers(-128, 128, (64, 24), np.int8))


def lowered(source: ModelProto, target: str | Target) -> Lowered:
    return stepwell.lower(source, "llvm", target=target)


def emitted(source: ModelProto, target: str | Target) -> bytes:
    made: bytes = find_backend("llvm").files()["obj"](lowered(source, target))
    return made


def defined(data: bytes) -> set[str]:
    table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    return {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_FUNC"}


@pytest.mark.parametrize(("target", "machine"), [("aarch64-neon", "EM_AARCH64"), ("aarch64-dotprod", "EM_AARCH64")])
def test_objects_of_another_family(target: str, machine: str) -> None:
    for source in (floats(), integers()):
        data = emitted(source, target)
        file = ELFFile(io.BytesIO(data))
        assert (file["e_machine"], file["e_type"], file.elfclass, file.little_endian) == (machine, "ET_REL", 64, True)
        functions = defined(data)
        assert "stepwell_main" in functions
        assert len(functions) > 1  # and kernels
    assert ("sdot" in disassemble({"model": data}, [""])) == (target == "aarch64-dotprod")


def test_an_architecture_that_no_family_has() -> None:
    board = describe("board", "riscv64-unknown-linux-gnu", "generic-rv64", frozenset({"m", "a", "f", "d"}))
    assert ELFFile(io.BytesIO(emitted(floats(), board)))["e_machine"] == "EM_RISCV"


def test_what_llvm_does_not_know_is_an_error() -> None:
    nowhere = describe("nowhere", "abacus-unknown-none", "beads", frozenset())
    with pytest.raises(CodegenError, match=r"SW007 no object for target nowhere \(abacus-unknown-none\): .*abacus"):
        emitted(floats(), nowhere)


def test_who_makes_what() -> None:
    assert emitter_for(host()) is engine_object
    assert emitter_for(resolve("aarch64-neon" if host().family != "aarch64" else "x86-64-v3")) is text_object


def test_an_object_made_of_text_computes_what_the_engines_does() -> None:
    source = floats()
    inputs = {"x": RANDOM.standard_normal((5, 24), np.float32), "h": RANDOM.standard_normal((5, 24)).astype(np.float16)}
    inputs["x"][0, :4] = [np.inf, -np.inf, np.nan, 0.5]
    expected = stepwell.compile(source, cache=False, threads=1).run(inputs)
    low = lowered(source, "host")
    data = text_object(low.module, host(), "main")
    artifact = build.make_artifact(low, None, None)
    artifact.objects = {"model": data}
    for name, array in assemble(artifact, threads=1, snapshots={}, timings={"llvm": 0.0}).run(inputs).items():
        np.testing.assert_array_equal(array, expected[name])


def test_instructions_of_another_family_do_not_run_here() -> None:
    if host().family == "aarch64":
        pytest.skip("this machine is of that family")
    with pytest.raises(CodegenError, match=r"SW007 @packed_matmul_\w+ has instructions of aarch64-unknown-linux-gnu, and this machine, x86_64"):
        stepwell.compile(integers(), target="aarch64-dotprod", cache=False)


def bits(kind: str, number: str) -> str:
    line = portable(f'  store {kind} {number}, ptr %p, align 4, !dbg !3 ; "float 0.1"')
    assert line.endswith(', ptr %p, align 4, !dbg !3 ; "float 0.1"')
    return line.removeprefix(f"  store {kind} ").partition(",")[0]


def test_floats_are_spelled_as_every_version_reads_them() -> None:
    for word in [*RANDOM.integers(0, 1 << 32, 200).tolist(), 0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 1]:
        value = struct.unpack("<f", struct.pack("<I", word))[0]
        found = bits("float", f"f0x{word:08X}")
        if value == value:  # a NaN's payload is moved up by hand
            assert found == f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        assert int(found, 16) >> 63 == word >> 31
        assert int(found, 16) >> 29 & 0x7FFFFF == word & 0x7FFFFF or value == value
    assert bits("double", "f0x3FB999999999999A") == "0x3FB999999999999A"
    assert bits("float", "1.000000e-01") == f"0x{struct.unpack('<Q', struct.pack('<d', np.float32(0.1)))[0]:016X}"
    assert (bits("half", "f0x3C01"), bits("bfloat", "f0x3F81"), bits("half", "-5.000000e-01")) == ("0xH3C01", "0xR3F81", "0xHB800")
    assert bits("float", "+inf") == "0x7FF0000000000000"
    assert bits("float", "-inf") == "0xFFF0000000000000"
    assert (bits("float", "+qnan"), bits("double", "-qnan")) == ("0x7FF8000000000000", "0xFFF8000000000000")
    assert (bits("float", "-nan(0x1)"), bits("float", "+snan(0x1)")) == ("0xFFF8000020000000", "0x7FF0000020000000")
    assert (bits("half", "+qnan"), bits("bfloat", "+nan(0x2)")) == ("0xH7E00", "0xR7FC2")


def test_a_number_is_of_the_type_named_before_it() -> None:
    line = "  %5 = fadd <2 x float> %4, <float 1.000000e-01, float f0x3DCCCCCD>"
    assert portable(line) == "  %5 = fadd <2 x float> %4, <float 0x3FB99999A0000000, float 0x3FB99999A0000000>"
    assert portable("  %5 = fcmp olt half %4, 1.000000e-01") == "  %5 = fcmp olt half %4, 0xH2E66"
    kept = ('!4 = !DILocation(line: 2, file: "float 1.5e+00")', "define void @f.1.5(i64 %0) {", 'source_filename = "a 1.5"', "  %1.5 = add i64 1, 2")
    for same in kept:
        assert portable(same) == same
