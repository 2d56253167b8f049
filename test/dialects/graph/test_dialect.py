"""The dialect as a whole: small, documented, complete; its ops are what their classes say."""

import ast
import inspect
from pathlib import Path
from types import FunctionType

import pytest
from every import every

import stepwell.dialects
from stepwell.dialects import graph, packed
from stepwell.dialects.core.mlir import ir, make_context, operand_fields, result_fields
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder, op_class, op_classes
from stepwell.dialects.graph.base import attribute_names
from stepwell.dialects.support.errors import StepwellError
from stepwell.frontends.onnx import all_rules

OURS = {name: cls for name, cls in op_classes("graph", "packed").items() if cls.__module__.startswith("stepwell.dialects.")}
NO_REFERENCE = {
    "parameter": "its value is in the weight table",
    "fused": "evaluated with its region",
    "if": "evaluated with its regions",
    "loop": "evaluated with its region",
    "yield": "hands over the values of a region",
    "bind_sizes": "tells the evaluator what symbols stand for",
    "keep": "gives nothing",
    "require": "ends the run, or gives nothing",
}


def test_the_set_is_small() -> None:
    """Far fewer ops than there are operators to be decomposed into them."""
    operators = {(rule.domain, rule.name) for rule in all_rules()}
    assert len([cls for cls in OURS.values() if ".graph." in cls.__module__]) < 0.6 * len(operators)


@every("mnemonic", sorted(OURS))
def test_every_op_says_what_it_means(mnemonic: str) -> None:
    cls = OURS[mnemonic]
    assert cls.__doc__ not in (None, cls.__mro__[1].__doc__), "it has no docstring of its own"
    assert (cls.reference is None) == (mnemonic in NO_REFERENCE)
    assert (cls.infer is None) == (mnemonic in NO_REFERENCE and mnemonic not in ("bind_sizes", "keep", "require"))
    assert getattr(packed if mnemonic.startswith("packed.") else graph, cls.__name__) is cls, "it is not exported"


@every("mnemonic", sorted(set(OURS) - set(NO_REFERENCE)))
def test_inference_reference_and_flops_take_the_fields(mnemonic: str) -> None:
    cls = OURS[mnemonic]
    operands, attributes = [name for name, _ in operand_fields(cls)], attribute_names(cls)
    for function, extra in ((cls.infer, set()), (cls.reference, {"result_types"}), (cls.flops, {"result"})):
        if not isinstance(function, FunctionType):
            continue  # a function of numpy
        parameters = inspect.signature(function).parameters.values()
        anything = {p.kind for p in parameters} & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
        if not anything:
            named = [p.name for p in parameters if p.name not in extra]
            assert named == [*operands, *attributes], f"{function} takes {named}"
        keywords = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY} - extra
        assert keywords <= set(attributes)


def test_operands_and_results_are_no_attributes() -> None:
    # With `from __future__ import annotations` the bindings take every field for an attribute.
    for cls in OURS.values():
        assert not {"x", "lhs", "rhs", "result", "inputs"} & set(attribute_names(cls))
        assert result_fields(cls) or cls.mnemonic() in ("yield", "bind_sizes", "keep", "require")
    for path in Path(stepwell.dialects.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "__future__"), path


def test_builder_names_what_does_not_fit() -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            b = GraphBuilder(WeightTable())
            x = b.literal([1.0, 2.0], "float32")
            with pytest.raises(StepwellError, match=r"there is no op graph\.frobnicate"):
                b.frobnicate(x)
            with pytest.raises(StepwellError, match=r"graph.softmax takes the attributes \(axis\), got \(\)"):
                b.create(op_class("softmax"), [x], {}, [TensorType("f32", (2,))])
            with pytest.raises(StepwellError, match=r"graph\.add takes 2 operands, got 1"):
                b.create(op_class("add"), [x], {}, [TensorType("f32", (2,))])
            with pytest.raises(StepwellError, match="must have one element type"):
                b.add(x, b.literal([1, 2], "int64"))
            assert b.not_(b.literal([True])).owner.name == "graph.not"


def test_pure_ops_are_folded_away_by_upstream() -> None:
    from stepwell.dialects.core.mlir import parse_module, passmanager

    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "graph.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = "graph.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %2 = "graph.log"(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %3 = "graph.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %3 : tensor<2xf32>
    }"""
    context = make_context()
    module = parse_module(text, context)
    with context:
        passmanager.PassManager.parse("builtin.module(cse,canonicalize)").run(module.operation)
    assert str(module).count("graph.exp") == 1
    assert "graph.log" not in str(module)
