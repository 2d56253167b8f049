"""Splitting a module into units, and compiling a unit."""

import pytest
from handmade import llvm_module, lower

from stepwell.backends.llvm_cpu.objects import Unit, compile_unit, make_engine_context, split_module, whole_module
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import CodegenError
from stepwell.runtime import elf
from stepwell.runtime.openmp import openmp

LIBRARIES = tuple(runtime.path for runtime in (openmp(),) if runtime is not None)


def parse(unit: Unit) -> ir.Module:
    return ir.Module.parse(unit.bytecode, make_engine_context())


def names(module: ir.Module) -> list[str]:
    return [ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations]


def declared(module: ir.Module) -> set[str]:
    """The functions that are declared only."""
    ops = [op.operation for op in module.body.operations if op.operation.name == "llvm.func"]
    return {ir.StringAttr(op.attributes["sym_name"]).value for op in ops if not len(op.regions[0].blocks)}


def test_one_unit_for_each_function_with_what_it_needs() -> None:
    units = {unit.name: unit for unit in split_module(lower())}
    assert list(units) == ["erf_ab12", "add_cd34", "main"]
    assert {name: set(names(parse(unit))) for name, unit in units.items()} == {
        "erf_ab12": {"erff", "table", "erf_ab12"},
        "add_cd34": {"add_cd34"},
        "main": {"erf_ab12", "add_cd34", "main"},
    }
    assert {name: declared(parse(unit)) for name, unit in units.items()} == {
        "erf_ab12": {"erff"},
        "add_cd34": set(),
        "main": {"erf_ab12", "add_cd34"},
    }


def test_locations_survive_in_units() -> None:
    units = {unit.name: parse(unit).operation.get_asm(enable_debug_info=True) for unit in split_module(lower())}
    assert '"first/erf"' in units["erf_ab12"]
    assert '"first/erf"' not in units["add_cd34"]
    assert '"second \\22mul\\22"' in units["add_cd34"]


def test_units_are_reproducible() -> None:
    first, second = split_module(lower()), split_module(lower())
    assert first == second
    assert compile_unit(first[0], make_engine_context(), LIBRARIES) == compile_unit(second[0], make_engine_context(), LIBRARIES)


def test_object_defines_the_function_and_leaves_the_others() -> None:
    for unit in split_module(lower()):
        found = elf.read(compile_unit(unit, make_engine_context(), LIBRARIES))
        assert found.defined == {unit.name, f"_mlir_{unit.name}"}
        assert declared(parse(unit)) <= found.undefined


def test_without_proc_objects_go_through_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container need not have it."""
    unit = split_module(lower())[0]
    monkeypatch.setattr("stepwell.backends.llvm_cpu.objects._OPEN_FILES", "/nowhere/fd")
    assert unit.name in elf.read(compile_unit(unit, make_engine_context(), LIBRARIES)).defined


def test_engine_wrapper_calls_the_function_instead_of_repeating_it() -> None:
    for unit in split_module(lower()):
        module = parse(unit)
        function = next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == unit.name)
        assert "no_inline" in function.attributes


def test_whole_module_is_one_object() -> None:
    unit = whole_module(lower())
    assert declared(parse(unit)) == {"erff"}
    assert {"erf_ab12", "add_cd34", "main"} <= elf.read(compile_unit(unit, make_engine_context(), LIBRARIES)).defined


def test_private_helpers_and_constants_go_along_through_each_other() -> None:
    module = llvm_module("""
      llvm.mlir.global external constant @"a table"(5 : i32) : i32
      llvm.func internal @helper() -> i32 {
        %p = llvm.mlir.addressof @"a table" : !llvm.ptr
        %v = llvm.load %p : !llvm.ptr -> i32
        llvm.return %v : i32
      }
      llvm.func linkonce_odr @outer() -> i32 { %v = llvm.call @helper() : () -> i32  llvm.return %v : i32 }
      llvm.func @f() -> i32 { %v = llvm.call @outer() : () -> i32  llvm.return %v : i32 }
      llvm.func @g() -> i32 { %v = llvm.call @helper() : () -> i32  llvm.return %v : i32 }
      llvm.func @h() { llvm.return }""")
    units = split_module(module)
    assert [names(parse(unit)) for unit in units] == [["a table", "helper", "outer", "f"], ["a table", "helper", "g"], ["h"]]
    assert not any(declared(parse(unit)) for unit in units)
    for unit in units:  # what went along is not defined twice for the linker
        assert elf.read(compile_unit(unit, make_engine_context())).defined == {unit.name, f"_mlir_{unit.name}"}


def test_recursive_function_is_not_declared_beside_its_definition() -> None:
    (unit,) = split_module(llvm_module("llvm.func @f() { llvm.call @f() : () -> ()  llvm.return }"))
    assert names(parse(unit)) == ["f"]


def test_unused_symbols_stay_behind() -> None:
    module = llvm_module("llvm.func @unused()\nllvm.mlir.global internal constant @c(1 : i32) : i32\nllvm.func @f() { llvm.return }")
    (unit,) = split_module(module)
    assert names(parse(unit)) == ["f"]


def test_module_attributes_of_llvm_are_kept() -> None:
    module = llvm_module('module attributes {llvm.data_layout = "e-m:e", stepwell.workspace_bytes = 1} { llvm.func @f() { llvm.return } }')
    (unit,) = split_module(module)
    assert [str(parse(unit).operation.attributes["llvm.data_layout"])] == ['"e-m:e"']
    assert "stepwell.workspace_bytes" not in parse(unit).operation.attributes


def test_splitting_leaves_the_module_alone() -> None:
    module = lower()
    before = module.operation.get_asm(enable_debug_info=True)
    split_module(module)
    assert module.operation.get_asm(enable_debug_info=True) == before


def test_variable_of_two_functions_is_refused() -> None:
    use = "llvm.func @{}() {{ %p = llvm.mlir.addressof @v : !llvm.ptr  %v = llvm.load %p : !llvm.ptr -> i32  llvm.return }}"
    module = llvm_module("llvm.mlir.global internal @v(1 : i32) : i32\n" + use.format("f") + use.format("g"))
    with pytest.raises(CodegenError, match=r"@v is used by @f and by @g"):
        split_module(module)
    alone = llvm_module("llvm.mlir.global internal @v(1 : i32) : i32\n" + use.format("f"))
    assert [unit.name for unit in split_module(alone)] == ["f"]


def test_other_operations_are_refused() -> None:
    with pytest.raises(CodegenError, match=r"'func.func' at .*expected only llvm.func"):
        split_module(llvm_module("func.func @f() { return }"))


def test_untranslatable_function_is_named_with_the_reason() -> None:
    (unit,) = split_module(llvm_module('llvm.func @f() { llvm.call_intrinsic "llvm.nonexistent"() : () -> ()  llvm.return }'))
    with pytest.raises(CodegenError, match=r"@f cannot be translated to LLVM: .*could not find LLVM intrinsic"):
        compile_unit(unit, make_engine_context())


@pytest.mark.parametrize("data", [b"", b"nonsense {", b"ML\xefR garbage"])
def test_damaged_bytecode_is_an_error(data: bytes) -> None:
    with pytest.raises(CodegenError, match="@f cannot be translated"):
        compile_unit(Unit("f", data), make_engine_context())


def test_unit_that_does_not_define_its_function() -> None:
    (unit,) = split_module(llvm_module("llvm.func @f() { llvm.return }"))
    with pytest.raises(CodegenError, match="@g"):
        compile_unit(Unit("g", unit.bytecode), make_engine_context())
