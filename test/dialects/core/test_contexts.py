"""Contexts are given out again when no IR is left in them, and only then."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from importing import floats, model
from onnx import helper

import stepwell
from stepwell.dialects.core import mlir
from stepwell.dialects.core.mlir import Dialect, Operation, ir, make_context, register_dialect
from stepwell.dialects.sched.dialect import Sched

TEXT = "func.func @f(%a: i32) -> i32 { return %a : i32 }"


@pytest.fixture(autouse=True)
def _own_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "_shared", [])


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The dialects of each context that is made while the test runs."""
    seen: list[Any] = []
    build = mlir._build_context
    monkeypatch.setattr(mlir, "_build_context", lambda dialects: (seen.append(dialects), build(dialects))[1])
    return seen


@pytest.mark.parametrize("kept", ["module", "operation", "attribute", "value"])
def test_ir_keeps_its_context(built: list[Any], kept: str) -> None:
    module = ir.Module.parse(TEXT, make_context(Sched))
    function = module.body.operations[0]
    held: Any = {
        "module": module, "operation": function.operation, "attribute": function.attributes["sym_name"], "value": function.arguments[0],
    }[kept]  # fmt: skip
    del module, function
    gc.collect()
    assert held.context is not make_context(Sched)
    assert len(built) == 2
    del held
    gc.collect()
    made = [make_context(Sched), make_context(Sched)]
    assert made[0] is not made[1]
    assert len(built) == 2


def test_dialects_and_their_operations_are_those_of_now(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "_dialects", list(mlir.registered_dialects()))

    @register_dialect
    class Late(Dialect, name="late"):
        pass

    make_context(Late)
    assert not make_context(Late).is_registered_operation("late.added")

    class Added(Operation, dialect=Late, name="added"):
        pass

    assert make_context(Late).is_registered_operation("late.added")
    assert len(built) == 2


def test_a_context_is_renewed_after_many_uses(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "MAX_USES", 3)
    for _ in range(7):
        make_context(Sched)
    assert len(built) == 3


def test_nobody_inherits_settings() -> None:
    make_context(Sched).allow_unregistered_dialects = True
    assert not make_context(Sched).allow_unregistered_dialects


def test_compiling_leaves_no_ir(built: list[Any]) -> None:
    """A cycle of Python objects that holds IR would keep a context until the collector finds it."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Softmax", ["r"], ["y"])]
    net = model(nodes, {"x": floats(1, 3, 8, 8)}, {"y": floats(1, 4, 6, 6)}, {"w": floats(4, 3, 3, 3)})
    gc.disable()
    try:
        for _ in range(3):
            stepwell.compile(net, cache=False)
            stepwell.lower(net, "affine")
    finally:
        gc.enable()
    assert len(built) == 2  # one for the model, one for its machine code
