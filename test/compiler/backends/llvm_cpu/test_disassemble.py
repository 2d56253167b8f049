"""The disassembly: functions, jumps, symbols, and the ONNX node of each stretch."""

import re

import llvmlite.binding as llvm
import pytest
from handmade import NODES, lower

from stepwell.backends.llvm_cpu.disassemble import disassemble
from stepwell.backends.llvm_cpu.objects import split_module, whole_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.support.errors import CodegenError


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    return compile_units(split_module(lower()), jobs=0)


def function(text: str, name: str) -> str:
    """The lines of one function."""
    match = re.search(rf"(?ms)^{re.escape(name)}:\n(.*?)(?=^\S*[^\s.]\S*:$|\Z)", text.replace("\n.L", "\n  .L"))
    assert match, f"{name} is not in:\n{text}"
    return match[1]


def test_functions_and_calls(objects: dict[str, bytes]) -> None:
    text = disassemble(objects, NODES)
    main = function(text, "main")
    assert main.index("-> erf_ab12") < main.index("-> add_cd34")
    assert "-> erff" in function(text, "erf_ab12..omp_par")
    assert "-> __kmpc_fork_call" in function(text, "erf_ab12")
    assert "-> erf_ab12..omp_par" in function(text, "erf_ab12")
    assert "ret" in function(text, "add_cd34")
    assert "_mlir_" not in text


def test_each_stretch_names_its_node(objects: dict[str, bytes]) -> None:
    text = disassemble(objects, NODES)
    parallel = function(text, "erf_ab12..omp_par")
    loop = re.split(r"\n  [#/]+ ", parallel)
    assert any(part.startswith("node 0: first/erf") and "call" in part for part in loop)
    assert any(part.startswith('node 1: second "mul"') and "vmulss" in part for part in loop)
    assert not any(part.startswith('node 1: second "mul"') and "call " in part for part in loop)
    assert "first/erf" not in function(text, "add_cd34")
    assert 'node 1: second "mul"' in function(text, "add_cd34")


def test_instructions_of_no_node_are_not_given_to_one(objects: dict[str, bytes]) -> None:
    # Line 0 in the source: saving registers and the like.
    first = function(disassemble(objects, NODES), "main").splitlines()[0]
    assert "node" not in first
    assert "push" in first or "sub" in first


def test_jumps_go_to_labels(objects: dict[str, bytes]) -> None:
    text = disassemble(objects, NODES)
    labels = set(re.findall(r"^(\.L\w+):", text, re.M))
    jumps = set(re.findall(r"^ +j\w+ +([0-9.]\S+)", text, re.M))
    assert jumps
    assert jumps <= labels


def test_several_functions_in_one_object() -> None:
    text = disassemble(compile_units([whole_module(lower())], jobs=0), NODES)
    assert "first/erf" in function(text, "erf_ab12..omp_par")
    assert "first/erf" not in function(text, "add_cd34")
    assert 'second "mul"' in function(text, "add_cd34")


def test_unknown_nodes_are_left_out(objects: dict[str, bytes]) -> None:
    text = disassemble(objects, NODES[:1])
    assert "first/erf" in text
    assert "second" not in text


AARCH64 = """
define void @scale(ptr %x, i64 %n) !dbg !4 {
entry:
  br label %loop, !dbg !5
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ], !dbg !5
  %p = getelementptr float, ptr %x, i64 %i, !dbg !5
  %v = load float, ptr %p, !dbg !5
  %e = call float @erff(float %v), !dbg !6
  store float %e, ptr %p, !dbg !6
  %next = add i64 %i, 1, !dbg !5
  %more = icmp slt i64 %next, %n, !dbg !5
  br i1 %more, label %loop, label %end, !dbg !5
end:
  ret void, !dbg !7
}
declare float @erff(float)
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "model.onnx", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 VERSION}
!4 = distinct !DISubprogram(name: "scale", scope: !1, file: !1, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DILocation(line: 1, scope: !4)
!6 = !DILocation(line: 2, scope: !4)
!7 = !DILocation(line: 0, scope: !4)
"""


@pytest.mark.parametrize("version", ["4", "5"])
def test_aarch64(version: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(opt=2)
    module = llvm.parse_assembly(AARCH64.replace("VERSION", version))
    module.triple = "aarch64-unknown-linux-gnu"
    text = disassemble({"scale": machine.emit_object(module)}, NODES)
    code = function(text, "scale")
    assert "-> erff" in code
    assert re.search(r"// node 0: first/erf\n +ldr +s0", code)
    assert re.search(r'// node 1: second "mul"\n +bl ', code)
    label = re.search(r"^(?: +b\.\w+|.*cbn?z .*,) +(\.L\w+)", code, re.M)
    assert label, code
    assert f"{label[1]}:" in code


@pytest.mark.parametrize("length", [0, 3, 60, 64, 400, 900])
def test_truncated_object_is_an_error(objects: dict[str, bytes], length: int) -> None:
    with pytest.raises(CodegenError, match="@main"):
        disassemble({"main": objects["main"][:length]}, NODES)
