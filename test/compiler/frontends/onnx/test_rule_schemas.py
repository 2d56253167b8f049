"""No input and no attribute of an operator is ignored in silence: rules against ONNX's schemas, bodies of functions against their calls."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from every import every
from importing import context, model
from onnx import AttributeProto, FunctionProto, NodeProto, defs, helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.onnx import import_model, onnx_rule, registry as registry_module
from stepwell.frontends.onnx.attributes import attribute_value
from stepwell.frontends.onnx.functions import schema_function
from stepwell.frontends.onnx.registry import Group, Rule, all_rules, find_rule
from stepwell.frontends.onnx.validation import RUNTIMES_OWN, WITHDRAWN

NEWEST = 1 << 30
REQUIRED = inspect.Parameter.empty

# Defaults of rules that are not those of the schema: (operator, attribute) and why.
OWN_DEFAULTS = {
    **{("Clip", bound): "without a bound an infinity stays one, as by ONNX's evaluator" for bound in ("min", "max")},
    ("GRU", "direction"): "version 1 says foward",
    ("RNN", "activations"): "one for each direction, of which the schema has two in any case",
}

# Where the schema has no default and its text says none, what a rule takes for "not given" other than None, 0 and nothing: (operator, attribute).
NOT_GIVEN = {
    **{(op, "n_targets"): 1 for op in ("TreeEnsemble", "TreeEnsembleRegressor")},
    **{(op, "axis"): 1 for op in ("QuantizeLinear", "DequantizeLinear")},  # which is the default of ai.onnx
    ("SequenceEmpty", "dtype"): 1,  # float, as the schema says in words
}

# What rules say "unsupported" to, being asked for: (operator, input or attribute) and why.
UNSUPPORTED = {
    ("Constant", "sparse_value"): "there are no sparse tensors",
    ("Constant", "value_string"): "there are no strings",
    ("Constant", "value_strings"): "there are no strings",
    ("GroupQueryAttention", "query_seqlens"): "chunks that are padded",
    ("Attention", "past_sequence_length"): "it comes with a cache that past and present share",
    ("MultiHeadAttention", "past_sequence_length"): "as there",
    ("MultiHeadAttention", "cache_indirection"): "beam search",
}

RULES = [rule for rule in all_rules() if rule.function.__module__.startswith("stepwell.")]
OPTIMISED = [s for s in get_all_operator_schema() if s.domain == "" and s.since_version == 1 and s.name in RUNTIMES_OWN]
RUNTIME = [*(s for s in get_all_operator_schema() if s.domain == "com.microsoft"), *OPTIMISED]
SCHEMAS = [*defs.get_all_schemas_with_history(), *RUNTIME]  # those of com.microsoft are not in the package onnx


def schemas(rule: Rule) -> list[Any]:
    """The versions of the operator's schema that the rule may be asked to import."""
    if rule.domain == WITHDRAWN:
        return [s for s in defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", rule.name) and s.deprecated]
    domains = (rule.domain, "") if rule.domain == "com.microsoft" and rule.name in RUNTIMES_OWN else (rule.domain,)
    named = [s for s in SCHEMAS if s.name == rule.name and s.domain in domains]
    versions = sorted(named, key=lambda s: s.since_version)
    end = min((r.since for r in all_rules() if (r.domain, r.name) == (rule.domain, rule.name) and r.since > rule.since), default=NEWEST)
    spans = pairwise([*(s.since_version for s in versions), NEWEST])
    return [s for s, (first, after) in zip(versions, spans, strict=True) if first < end and after > rule.since]


def named(rule: Rule) -> str:
    return "-".join([*rule.domain.split(".")[-1:], rule.name, str(rule.since)] if rule.domain else [rule.name, str(rule.since)])


def is_variadic(parameter: Any) -> bool:
    return str(parameter.option).endswith("Variadic")  # of either library's enumeration


def default_of(attribute: Any) -> Any:
    """What an attribute of a schema of either library is where it is not given; None if the schema does not say."""
    default = attribute.default_value if hasattr(attribute, "default_value") else AttributeProto.FromString(attribute._default_value)
    return attribute_value(default) if default.name else None


def shared(rule: Rule) -> bool:
    """Whether the rule is also that of an operator of ONNX's own domain, which may have more attributes."""
    return rule.domain != "" and any(r.function is rule.function and r.domain == "" for r in RULES)


@every("rule", RULES, ids=named)
def test_a_rule_takes_all_that_its_schemas_have(rule: Rule) -> None:
    assert schemas(rule)
    for schema in schemas(rule):
        missing = [name for name in schema.attributes if name not in rule.attributes and (rule.name, name) not in UNSUPPORTED]
        assert not missing, f"version {schema.since_version} has attributes {missing} that the rule does not take"
        plain = [p.name for p in schema.inputs if not is_variadic(p) and (rule.name, p.name) not in UNSUPPORTED]
        assert rule.variadic or len(plain) <= rule.positional, f"version {schema.since_version} has the inputs {plain}"
        assert rule.variadic or not any(map(is_variadic, schema.inputs)), f"version {schema.since_version} takes any number of inputs"


@every("rule", RULES, ids=named)
def test_a_rule_takes_nothing_that_no_schema_has(rule: Rule) -> None:
    known = {name for schema in schemas(rule) for name in schema.attributes}
    assert shared(rule) or set(rule.attributes) <= known
    assert rule.positional <= max(len(schema.inputs) for schema in schemas(rule))
    assert not rule.variadic or any(is_variadic(p) for schema in schemas(rule) for p in schema.inputs)


@every("rule", RULES, ids=named)
def test_a_rule_needs_nothing_that_its_schemas_leave_out(rule: Rule) -> None:
    for schema in schemas(rule):
        assert max(rule.required, default=-1) < schema.min_input, f"version {schema.since_version}"
        needed = {name for name, default in rule.attributes.items() if default is REQUIRED and name in schema.attributes}
        assert {name for name in needed if not schema.attributes[name].required} == set(), f"version {schema.since_version}"


@every("rule", RULES, ids=named)
def test_what_is_not_given_is_what_the_schema_says(rule: Rule) -> None:
    for schema in schemas(rule):
        for name, attribute in schema.attributes.items():
            ours = rule.attributes.get(name, REQUIRED)
            if ours is REQUIRED or (rule.name, name) in OWN_DEFAULTS:
                continue
            if default_of(attribute) is not None:
                assert ours == default_of(attribute), f"{name} of version {schema.since_version}"
            elif not attribute.required and ours not in (None, (), "", 0):  # of a scale, 0 stands for what it is without one
                told = re.search(r"Default value is (-?[0-9.]+)", attribute.description)
                assert ours == (float(told[1]) if told else NOT_GIVEN.get((rule.name, name))), f"{name} of version {schema.since_version}"


@every("rule", RULES, ids=named)
def test_a_rule_uses_all_that_it_takes(rule: Rule) -> None:
    """It uses each parameter, or each field of a group by itself, by the group's methods, or by passing the group on; or `ignored` names it."""
    nodes = nodes_of(inspect.unwrap(rule.function))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    parameters = list(inspect.signature(rule.function).parameters.values())[1:]
    assert [p.name for p in parameters if p.name not in used] == []
    read = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
    for parameter in parameters:
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Group):
            fields = inspect.signature(parameter.annotation).parameters
            own = {node.attr for node in nodes_of(parameter.annotation) if isinstance(node, ast.Attribute)}
            names = [node for node in nodes if isinstance(node, ast.Name) and node.id == parameter.name]
            passed = any(id(node) not in read for node in names)
            assert passed or not set(fields) - own - {read[id(node)] for node in names}, parameter


def nodes_of(code: Any) -> list[ast.AST]:
    """The syntax tree of the body of a function or class, flat."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
    assert isinstance(tree, ast.FunctionDef | ast.ClassDef)
    return [node for statement in tree.body for node in ast.walk(statement)]


def test_what_is_declared_is_there() -> None:
    """The lists above name nothing that has gone."""
    taken = {(r.name, p) for r in RULES for p in (*r.attributes, *inspect.signature(r.function).parameters)}
    known = {(s.name, name) for s in SCHEMAS for name in (*s.attributes, *(p.name for p in s.inputs))}
    assert not set(UNSUPPORTED) - known
    assert not set(UNSUPPORTED) & taken
    assert not {*OWN_DEFAULTS, *NOT_GIVEN} - taken


# --- outputs


# For each operator with a number of outputs of its own, a node that may have all of them: opset, inputs, attributes.
ROWS = np.ones((2, 3, 4), np.float32)
CHANNELS = [np.ones(3, np.float32)] * 4
STEPS = np.ones((3, 1, 4), np.float32)
ALL_OUTPUTS: dict[str, tuple[int, list[np.ndarray], dict[str, Any]]] = {
    "Attention": (24, [*[np.ones((1, 2, 3, 4), np.float32)] * 3, np.ones((3, 6), bool), *[np.ones((1, 2, 3, 4), np.float32)] * 2], {}),
    "BatchNormalization": (15, [ROWS, *CHANNELS], {"training_mode": 1}),
    "Dropout": (13, [ROWS], {}),
    "DynamicQuantizeLinear": (11, [ROWS], {}),
    "GRU": (22, [STEPS, np.ones((1, 6, 4), np.float32), np.ones((1, 6, 2), np.float32)], {"hidden_size": 2}),
    "LSTM": (22, [STEPS, np.ones((1, 8, 4), np.float32), np.ones((1, 8, 2), np.float32)], {"hidden_size": 2}),
    "RNN": (22, [STEPS, np.ones((1, 2, 4), np.float32), np.ones((1, 2, 2), np.float32)], {"hidden_size": 2}),
    "Unique": (11, [ROWS], {}),
    "LayerNormalization": (17, [ROWS, np.ones(4, np.float32)], {}),
    "MaxPool": (12, [ROWS], {"kernel_shape": [2]}),
    "TopK": (11, [ROWS, np.array([2])], {}),
}


def test_every_operator_with_more_outputs_is_asked_for_them() -> None:
    several = {r.name for r in RULES for s in schemas(r) if r.domain == "" and len(s.outputs) > 1}
    assert several == set(ALL_OUTPUTS)


@every("op", ALL_OUTPUTS)
def test_all_outputs_are_given(op: str) -> None:
    """A rule gives each output of its newest schema, or another node with it is refused (in test_unsupported.py)."""
    opset, inputs, attributes = ALL_OUTPUTS[op]
    outputs = [f"y{i}" for i in range(len(defs.get_schema(op, opset).outputs))]
    arrays = {f"x{i}": array for i, array in enumerate(inputs)}
    given, constants = dict(list(arrays.items())[:1]), dict(list(arrays.items())[1:])
    made = model([helper.make_node(op, list(arrays), outputs, **attributes)], given, {}, constants, opset=opset)
    inferred = onnx.shape_inference.infer_shapes(made).graph.value_info
    made.graph.output.extend(sorted((value for value in inferred if value.name in outputs), key=lambda value: value.name))
    assert [name for name, _ in import_model(made, context()).outputs] == outputs


def test_an_output_that_a_rule_leaves_out_is_reported() -> None:
    """Also one in the middle."""
    try:

        @onnx_rule("Parted", since=1, domain="com.acme")
        def parted(b, x):  # type: ignore[no-untyped-def]
            return x, None, x

        made = helper.make_node("Parted", ["x"], ["a", "b", "c"], domain="com.acme", name="cut")
        graph = model([made], {"x": ROWS}, {"a": ROWS, "c": ROWS}, domains={"com.acme": 1})
        assert len(import_model(graph, context()).outputs) == 2
        graph = model([made], {"x": ROWS}, {"b": ROWS}, domains={"com.acme": 1})
        with pytest.raises(UnsupportedError, match=r'Parted "cut".*output number 1 is used, which is not supported; supported: the first 1'):
            import_model(graph, context())
    finally:
        registry_module._rules.pop(("com.acme", "Parted"), None)


# --- operators that ONNX defines as functions


def references(nodes: Iterable[NodeProto]) -> tuple[set[str], set[str]]:
    """The values and the attributes of the function around them that nodes refer to."""
    values, attributes = set(), set()
    for node in nodes:
        values |= set(node.input)
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                attributes.add(attribute.ref_attr_name)
            inner = references(attribute.g.node)
            values, attributes = values | inner[0], attributes | inner[1]
    return values, attributes


def with_body() -> list[tuple[Any, int]]:
    """The operators that are imported by the function that their schema has, and the opset versions of the function."""
    return [
        (s, version)
        for s in defs.get_all_schemas_with_history()
        if s.domain == "" and s.has_function and find_rule("", s.name, s.since_version) is None
        for version in s.function_opset_versions
    ]


@every(("schema", "version"), with_body, ids=lambda v: getattr(v, "name", str(v)))
def test_a_function_reads_all_that_it_takes(schema: Any, version: int) -> None:
    function = FunctionProto.FromString(schema.get_function_with_opset_version(version))
    values, attributes = references(function.node)
    assert set(function.input) <= values
    assert set(schema.attributes) <= attributes


# Of operators whose function depends on the node: input types, then attributes and values that must change something.
F32, I64 = ("f32", "i64")
LENGTHS = TensorType(I64, (2,))
SCORES = [TensorType(F32, (3, 5)), TensorType(I64, (3,)), TensorType(F32, (5,))]
CALLS: list[tuple[str, int, Sequence[TensorType | None], dict[str, Any], int, dict[str, Any]]] = [
    # operator, opset, input types, attributes that stay, outputs, attributes each of which must change the body
    ("CenterCropPad", 18, [TensorType(F32, (5, 8)), LENGTHS], {}, 1, {"axes": [1, 0]}),
    ("NegativeLogLikelihoodLoss", 13, SCORES, {}, 1, {"reduction": "sum", "ignore_index": 2}),
    ("SoftmaxCrossEntropyLoss", 13, SCORES, {}, 2, {"reduction": "sum", "ignore_index": 2}),
    (
        "CausalConvWithState", 27, [TensorType(F32, s) for s in ((2, 4, 7), (4, 1, 3), (4,), (2, 4, 2))], {}, 2, {"activation": "silu"},
    ),
    (
        "LinearAttention", 27, [TensorType(F32, s) for s in ((2, 3, 16), (2, 3, 16), (2, 3, 12), (2, 2, 8, 6), (2, 3, 2), (2, 3, 2))],
        {"q_num_heads": 2, "kv_num_heads": 2}, 2, {"scale": 0.3, "update_rule": "gated", "q_num_heads": 4, "kv_num_heads": 1},
    ),
]  # fmt: skip


def body_of(op: str, opset: int, types: Sequence[TensorType | None], outputs: int, attributes: dict[str, Any]) -> FunctionProto:
    inputs = ["" if t is None else f"x{i}" for i, t in enumerate(types)]
    node = helper.make_node(op, inputs, [f"y{i}" for i in range(outputs)], **attributes)
    function = schema_function(node, "", opset, types)
    assert function is not None
    return function


@every("call", CALLS, ids=lambda c: f"{c[0]}-{c[1]}-{'-'.join(c[5])}")
def test_a_function_made_for_a_node_reads_all_that_it_is_given(call: Any) -> None:
    op, opset, types, attributes, outputs, varied = call
    function = body_of(op, opset, types, outputs, attributes)
    values, _ = references(function.node)
    assert [name for name, given in zip(function.input, types, strict=False) if given is not None and name not in values] == []
    for name, value in varied.items():
        other = body_of(op, opset, types, outputs, {**attributes, name: value})
        refers = name in references(other.node)[1]
        assert refers or [n.SerializeToString() for n in other.node] != [n.SerializeToString() for n in function.node], name


def test_every_function_made_for_a_node_is_asked_about() -> None:
    """The calls above name every operator of this kind that can be imported, each with all its inputs and attributes."""
    never = {"Bernoulli": "its body is random, which is refused", "SequenceMap": "there are no sequences"}
    hints = {("LinearAttention", "chunk_size"): "tells about speed, not about results"}
    kinds = {
        s.name for s in defs.get_all_schemas_with_history()
        if s.domain == "" and s.has_context_dependent_function and find_rule("", s.name, onnx.defs.onnx_opset_version()) is None
    }  # fmt: skip
    assert kinds - set(never) == {call[0] for call in CALLS}
    for name in kinds - set(never):
        mine = [call for call in CALLS if call[0] == name]
        latest = defs.get_schema(name, max(call[1] for call in mine), "")
        assert {a for call in mine for a in call[5]} == {a for a in latest.attributes if (name, a) not in hints}, name
        given = {i for call in mine for i, t in enumerate(call[2]) if t is not None}
        assert given == set(range(len(latest.inputs))), name
