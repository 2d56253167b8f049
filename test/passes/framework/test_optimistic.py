"""The runner that verifies once at the end, and finds out who it was when something is wrong."""

from collections.abc import Iterator

import pytest

from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.support.errors import IRError, PassError
from stepwell.passes.framework import registry
from stepwell.passes.framework.registry import Pass, PassState, find_pass, register_pass
from stepwell.passes.framework.runner import PassRunner

RUNS: list[str] = []


class Noting(Pass):
    def run(self, op: ir.Operation, state: PassState) -> None:
        RUNS.append(self.name)


class Breaking(Pass):
    """Leave a function whose type does not fit its body."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        RUNS.append(self.name)
        op.regions[0].blocks[0].operations[0].operation.attributes["function_type"] = ir.TypeAttr.parse("(i64) -> ()")


class Refusing(Pass):
    def run(self, op: ir.Operation, state: PassState) -> None:
        RUNS.append(self.name)
        raise IRError("this model will not do", code="SW123", details=("one",))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ir.Module]:
    RUNS.clear()
    monkeypatch.setattr(registry, "_PASSES", registry.passes())
    # As if they were built in, which is what a runner trusts.
    for name, base in {"o-note": Noting, "o-break": Breaking, "o-refuse": Refusing}.items():
        register_pass(name, level="graph")(type(name, (base,), {"__module__": "stepwell.passes.graph.imagined"}))
    register_pass("o-foreign-break", level="graph")(type("ForeignBreak", (Breaking,), {"__module__": "plugin"}))
    with make_context() as context, ir.Location.unknown():
        yield parse_module("func.func @f(%x: i32) -> i32 { %y = arith.addi %x, %x : i32\nreturn %y : i32 }", context)


def run(module: ir.Module, pipeline: str) -> None:
    PassRunner(PassState(), optimistic=True).run(module, pipeline, level="graph")


def test_passes_run_once_if_all_is_well(module: ir.Module) -> None:
    run(module, "o-note,cse,o-note")
    assert RUNS == ["o-note", "o-note"]


def test_the_pass_that_left_wrong_ir_is_named(module: ir.Module) -> None:
    with pytest.raises(PassError, match=r"^SW\d+ level graph, pass 'o-break': left IR that does not verify: .*must match the type"):
        run(module, "o-note,o-break,o-note")
    assert RUNS == ["o-note", "o-break", "o-note", "o-note", "o-break"], "once to the end, then again as far as the culprit"


def test_what_a_pass_raises_comes_out_as_ever(module: ir.Module) -> None:
    with pytest.raises(IRError, match="level graph, pass 'o-refuse': this model will not do") as caught:
        run(module, "o-note,o-refuse")
    assert (caught.value.code, caught.value.details) == ("SW123", ("one",))


def test_passes_of_others_are_not_trusted(module: ir.Module) -> None:
    with pytest.raises(PassError, match="pass 'o-foreign-break': left IR that does not verify"):
        run(module, "o-foreign-break,o-note")
    assert "o-note" not in RUNS


def test_upstream_passes_are_found_without_ours() -> None:
    assert find_pass("canonicalize") is None
    found = find_pass("fold-constants")
    assert found is not None
    assert found.name == "fold-constants"
