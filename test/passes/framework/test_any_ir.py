"""Each registered pass on IR that is not for it: empty modules, declarations, every level. It may be refused, with an error that names the pass."""

import re
from functools import cache
from itertools import chain

import onnx
import pytest
from commands import DIGITS
from onnx import TensorProto, helper

import stepwell
import stepwell.passes
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.framework.registry import PassState, passes
from stepwell.passes.framework.runner import PassRunner
from stepwell.pipelines.routes import CPU_PATH

TARGET = "x86-64-v3"
SMALL = {
    "empty": "module {}",
    "declarations": "module { func.func private @f(tensor<4xf32>) -> tensor<4xf32>\n func.func private @g() }",
    "@main declared": "module { func.func private @main(tensor<4xf32>) -> tensor<4xf32> }",
    "tensors of another function": "module { func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> } }",
    "buffers of another function": "module { func.func @f(%a: memref<4xf32>) { return } }",
}
EXCEPTION = re.compile(r"\b\w*(Error|Exception|Interrupt)\b: ")
"""What Python's own exceptions look like in a message."""


def value(name: str, kind: int, shape: list[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def flow() -> bytes:
    """A model with a conditional, a loop and a size that only a run knows."""
    real, whole, truth = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    branches = {
        f"{side}_branch": helper.make_graph([helper.make_node(kind, ["x"], [kind])], side, [], [value(kind, real, None)])
        for side, kind in (("then", "Relu"), ("else", "Neg"))
    }
    nodes = [helper.make_node("Mul", ["c", "c"], ["m"]), helper.make_node("Identity", ["go"], ["on"])]
    body = helper.make_graph(
        nodes, "body", [value("i", whole, []), value("go", truth, []), value("c", real, [4])], [value("on", truth, []), value("m", real, [4])]
    )
    nodes = [
        helper.make_node("If", ["p"], ["k"], name="if", **branches), helper.make_node("Loop", ["n", "", "k"], ["l"], name="loop", body=body),
        helper.make_node("NonZero", ["l"], ["y"], name="found"),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "flow", [value("x", real, [4]), value("p", truth, []), value("n", whole, [])], [value("y", whole, None)])
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    return made


@cache
def levels_of(which: str) -> dict[str, tuple[str, WeightTable]]:
    """A model's IR at each level, with its weights."""
    source, shapes = (flow(), None) if which == "flow" else (str(DIGITS), {"image": (1, 1, 8, 8)})
    lowered = stepwell.lower(source, CPU_PATH.last, shapes=shapes, target=TARGET)
    modules = {**lowered.snapshots, lowered.level: lowered.module.operation}
    return {level: (modules[level].get_asm(enable_debug_info=True), lowered.weights) for level in CPU_PATH}


def complaint(name: str, text: str, weights: WeightTable) -> str:
    """What is wrong with how a pass takes a module: an exception of Python's in the place of an error; "" if nothing is."""
    module = parse_module(text, make_context())
    state = PassState(weights=WeightTable({entry: weights[entry] for entry in weights}), target=resolve(TARGET))
    try:
        PassRunner(state).run(module, name)
    except StepwellError as error:
        said = str(error)
        return said if EXCEPTION.search(said) or f"pass '{name}'" not in said else ""
    return ""


def none_complains(texts: dict[str, tuple[str, WeightTable]]) -> None:
    names = [name for name, cls in passes().items() if cls.__module__.startswith("stepwell.")]  # not those of plugins that other tests have loaded
    wrong = [f"{name} on {what}: {said}" for name in names for what, given in texts.items() if (said := complaint(name, *given))]
    assert wrong == []
    assert len(names) > 50


def test_small_modules_are_refused_with_an_error_or_left_alone() -> None:
    none_complains({what: (text, WeightTable()) for what, text in SMALL.items()})


def test_ir_of_a_wrong_level_is_refused_with_an_error() -> None:
    none_complains({"scheduled": levels_of("flow")["scheduled"]})


@pytest.mark.nightly
def test_all_levels_of_two_models_also_where_main_has_another_name_are_refused_with_an_error() -> None:
    none_complains(levels_of("flow"))
    both = chain(levels_of("flow").items(), levels_of("digits").items())
    none_complains({f"renamed {level} {len(text)}": (text.replace("@main", "@other"), weights) for level, (text, weights) in both})
    none_complains(levels_of("digits"))
