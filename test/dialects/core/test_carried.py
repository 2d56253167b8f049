"""What the levels tell each other, through its typed classes: names spelled once, values that come back, one clear error where one is wrong."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from importing import context

from stepwell.dialects.core.carried import PREFIXES, carriers
from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.kernel_info import BufferInfo, KernelInfo, Slice
from stepwell.dialects.core.mlir import ir, ops_below, parse_module
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.sched.fused_loops import FusedLoop
from stepwell.dialects.sched.nest import NestKnobs
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import IRError, PassError, ScheduleError, StepwellError

ROOT = Path(__file__).resolve().parents[3]
TEXT = """
func.func private @kernel(%zero: f32, %scratch: memref<64xi8>) {
  %c0 = arith.constant 0 : index
  %t = memref.view %scratch[%c0][] : memref<64xi8> to memref<16xf32>
  linalg.fill ins(%zero : f32) outs(%t : memref<16xf32>)
  return
}
func.func @main(%x: tensor<4xf32> {llvm.noalias}, %y: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
"""


@pytest.fixture
def module() -> Iterator[ir.Module]:
    with context(), ir.Location.unknown():
        yield parse_module(TEXT, context())


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file that are no docstrings, with their lines."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def test_the_name_of_an_attribute_is_spelled_once() -> None:
    """Nowhere else in the sources; in scripts and examples only inside IR that they have as text."""
    names = {field.name for cls in carriers() for field in cls.carried().values()}
    assert len(names) > 15
    found = defaultdict(list)
    for folder in ("compiler", "passes", "dialects", "scripts", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for line, text in strings(path):
                for name in re.findall(r"(?<![\w.#])(?:stepwell|sched|target)\.\w+(?![\w.])", text):
                    if name in names and (folder in ("compiler", "passes", "dialects") or text == name):
                        found[name].append(f"{path.relative_to(ROOT)}:{line}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
    assert set(found) == names


def test_names_have_the_prefix_of_a_dialect() -> None:
    for cls in carriers():
        for name in cls.carried():
            assert name.startswith(PREFIXES), f"{cls.__name__}: {name}"


def test_values_come_back(module: ir.Module) -> None:
    kernel, main = ops_below(module.operation, "func.func")
    [view], [fill] = ops_below(module.operation, "memref.view"), ops_below(module.operation, "linalg.fill")
    info = ModuleInfo(module)
    sides = [("x", TensorType("ui8", (2, None))), ('a "y"', TensorType("f32", ()))]
    checks = [IndexCheck("n", "graph.gather", 0, (1,), (4,)), IndexCheck("m", "graph.slice", 1, (0, 1), (4, 5), exact=True)]
    info.inputs, info.outputs, info.nodes, info.checks, info.arena = sides, [], ["a", ""], checks, {"w": 0, 'v"': 64}
    info.weights_bytes, info.workspace_bytes, info.workspace_lower_bound, info.size_hints = 72, 1 << 40, 0, {"n": 8}
    own = KernelInfo(kernel)
    own.make_kernel()
    own.results, own.in_place, own.scratch_bytes = 2, [(0, 1), (1, 0)], 64
    BufferInfo(view).slice = Slice(2, 1, 4, parse("64*n"))
    nest, loops = NestKnobs((0,), 1, (4,), 0, 8, block=(16,)), (FusedLoop("rows", 0, 2, 3), FusedLoop("columns", 1, 1))
    schedule = ScheduleInfo(fill)
    schedule.nest, schedule.fused = nest, loops
    ValueInfo.set_arguments(main, [*ValueInfo.arguments(main)[:1], ValueInfo(name="y", byte_count=16)])

    again = parse_module(str(module), context())
    kernel, main = ops_below(again.operation, "func.func")
    info, own, schedule = ModuleInfo(again), KernelInfo(kernel), ScheduleInfo(ops_below(again.operation, "linalg.fill")[0])
    assert (info.inputs, info.outputs, info.nodes, info.checks) == (sides, [], ["a", ""], checks)
    assert (info.arena, info.weights_bytes, info.workspace_bytes, info.workspace_lower_bound) == ({"w": 0, 'v"': 64}, 72, 1 << 40, 0)
    assert info.size_hints == {"n": 8}
    assert (own.is_kernel, own.results, own.in_place, own.scratch_bytes) == (True, 2, [(0, 1), (1, 0)], 64)
    assert own.first_destination(5) == 2
    assert BufferInfo(ops_below(again.operation, "memref.view")[0]).slice == Slice(2, 1, 4, parse("64*n"))
    assert (schedule.nest, schedule.fused) == (nest, loops)
    first, second = ValueInfo.arguments(main)
    assert list(first.attributes) == ["llvm.noalias"]
    assert (first.name, second.name, second.byte_count) == (None, "y", 16)
    assert ValueInfo.names(ValueInfo.arguments(main), "input") == ["input0", "y"]


def test_what_is_not_said_reads_as_its_default(module: ir.Module) -> None:
    info, own = ModuleInfo(module), KernelInfo(ops_below(module.operation, "func.func")[0])
    assert (list(info.nodes), list(info.checks), dict(info.arena), info.weights_bytes, info.has_signature) == ([], [], {}, 0, False)
    assert (own.is_kernel, own.results, list(own.in_place), own.scratch_bytes) == (False, 1, [], None)
    [fill] = ops_below(module.operation, "linalg.fill")
    assert (ScheduleInfo(fill).is_scheduled, ScheduleInfo(fill).fused) == (False, ())
    own.is_kernel = True
    own.is_kernel = False
    assert "stepwell" not in str(module)
    del ScheduleInfo(fill).fused


@pytest.mark.parametrize(
    ("read", "name", "value", "error", "message"),
    [
        (lambda m: ModuleInfo(m).inputs, None, "", IRError, "'builtin.module' at .*: has no attribute 'stepwell.inputs', expected a list of"),
        (lambda m: ModuleInfo(m).nodes, "stepwell.nodes", "[1]", IRError, "'builtin.module' at .*: attribute 'stepwell.nodes' must be a list of str"),
        (lambda m: ModuleInfo(m).arena, "stepwell.arena", '{a = "b"}', IRError, "'stepwell.arena' must be a dictionary of whole numbers from 0, got"),
        (lambda m: ScheduleInfo(m).nest, None, "", ScheduleError, "'builtin.module' at .*: has no attribute 'sched.nest', expected a #sched.nest"),
        (lambda m: ScheduleInfo(m).nest, "sched.nest", "#sched.nest<{}>", ScheduleError, "'sched.nest': knob 'order' is missing"),
        (lambda m: ScheduleInfo(m).fused, "sched.fused", "1", PassError, "'sched.fused' must be a #sched.fused, got 1 : i64"),
    ],
)
def test_reading_says_whose_attribute_is_wrong(
    module: ir.Module, read: Any, name: str | None, value: str, error: type[StepwellError], message: str
) -> None:
    if name is not None:
        module.operation.attributes[name] = ir.Attribute.parse(value)
    with pytest.raises(error, match=message):
        read(module)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ([IndexCheck("n", "o", 1, (0,), (4,))], "hidden results are counted from 0"),
        ([IndexCheck("n", "o", 0, (0,), (4,)), IndexCheck("n", "o", 0, (0, 1), (4, 4))], "have one width each"),
        ([IndexCheck("n", "o", 0, (0,), (4, 5))], r"expected as many sizes as dims, at least one, got \[4, 5\] and \[0\]"),
        ([IndexCheck("n", "o", 0, (), ())], "at least one"),
    ],
)
def test_checks_that_do_not_go_together(module: ir.Module, checks: list[IndexCheck], message: str) -> None:
    ModuleInfo(module).checks = checks
    with pytest.raises(IRError, match=message):
        list(ModuleInfo(module).checks)
    with pytest.raises(IRError, match=message):
        parse_module(str(module), context())


def test_errors_have_the_line_of_the_op() -> None:
    text = TEXT.replace("memref.view %scratch[%c0][]", 'memref.view %scratch[%c0][] {stepwell.slice = "all"}').replace(
        "@main(", "@main(%w: i32 {stepwell.nam}, "
    )
    with pytest.raises(IRError) as caught:
        parse_module(text, context(), "kept.mlir")
    assert [diagnostic.line for diagnostic in caught.value.diagnostics] == [4, 8]
    assert "kept.mlir:4:8: 'memref.view': attribute 'stepwell.slice': expected a dictionary with the fields loops, run, chunks, bytes" in str(
        caught.value
    )
