"""Functions of the model, and ONNX's own definitions of operators without a rule."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from importing import assert_close, check, context, floats, model, node, run, without_rules
from onnx import AttributeProto, FunctionProto, NodeProto, helper

import stepwell
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.errors import LimitError, ModelError, UnsupportedError
from stepwell.frontends.onnx import find_rule, import_model
from stepwell.frontends.onnx.functions import schema_function, schema_of

X = floats(2, 3)
HERE = "test.functions"


def refer(made: NodeProto, attribute: str, to: str, kind: int) -> NodeProto:
    """A node one of whose attributes is an attribute of the function around it."""
    made.attribute.append(AttributeProto(name=attribute, ref_attr_name=to, type=kind))
    return made


def leaky(opset: int = 21) -> FunctionProto:
    """LeakyRelu of the negated input, its slope an attribute with the default 0.25."""
    body = [node("Neg", ["a"], ["n"], name="negate"), refer(node("LeakyRelu", ["n"], ["b"], name=""), "alpha", "slope", AttributeProto.FLOAT)]
    function = helper.make_function(HERE, "NegLeaky", ["a"], ["b"], body, [helper.make_opsetid("", opset)])
    function.attribute_proto.append(helper.make_attribute("slope", 0.25))
    return function


def calling(nodes: list[NodeProto], *functions: FunctionProto, inputs: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    return model(nodes, inputs or {"x": X}, {"y": X}, domains={HERE: 1}, functions=list(functions))


def negated_leaky(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(-x < 0, np.float32(slope) * -x, -x)


def test_calls_give_attributes_and_names() -> None:
    nodes = [node("NegLeaky", ["x"], ["t"], domain=HERE, slope=0.5, name="one"), node("NegLeaky", ["t"], domain=HERE, name="two")]
    proto = calling(nodes, leaky())
    imported = import_model(proto, context())
    assert imported.nodes == ["one", "two", "one/negate", "one/LeakyRelu_1", "two/negate", "two/LeakyRelu_1"]
    body = imported.module.body.operations[0].regions[0].blocks[0]
    assert [node_names(op.location) for op in body.operations][:-1] == [[name] for name in imported.nodes[2:]]
    assert_close(run(proto, {"x": X})["y"], negated_leaky(negated_leaky(X, 0.5), 0.25))


def test_functions_call_functions_with_attributes_handed_on() -> None:
    inner = leaky()
    body = [
        refer(node("NegLeaky", ["p"], ["q"], domain=HERE, name="call"), "slope", "factor", AttributeProto.FLOAT),
        node("Relu", ["q"], ["r"], name="relu"),
    ]
    outer = helper.make_function(
        HERE, "Outer", ["p"], ["r"], body, [helper.make_opsetid("", 21), helper.make_opsetid(HERE, 1)], attributes=["factor"]
    )
    proto = calling([node("Outer", ["x"], domain=HERE, factor=-0.5, name="out")], inner, outer)
    assert import_model(proto, context()).nodes == ["out", "out/call", "out/call/negate", "out/call/LeakyRelu_1", "out/relu"]
    assert_close(run(proto, {"x": X})["y"], np.maximum(negated_leaky(X, -0.5), 0))


@pytest.mark.parametrize("opset", [16, 20, 21])
def test_a_function_has_its_own_opset(opset: int) -> None:
    proto = calling([node("NegLeaky", ["x"], domain=HERE)], leaky(opset))
    assert_close(run(proto, {"x": X})["y"], negated_leaky(X, 0.25))


def test_an_opset_of_a_function_in_which_its_operators_mean_something_else() -> None:
    function = helper.make_function(HERE, "Old", ["a"], ["b"], [node("Softmax", ["a"], ["b"])], [helper.make_opsetid("", 11)])
    with pytest.raises(ModelError, match="imports version 11 whereas model imports version 21"):
        import_model(calling([node("Old", ["x"], domain=HERE)], function), context())


def test_inputs_and_outputs_may_be_left_out() -> None:
    body = [node("Clip", ["a", "low", "high"], ["b"]), node("Neg", ["a"], ["c"])]
    function = helper.make_function(HERE, "Bounded", ["a", "low", "high"], ["c", "b"], body, [helper.make_opsetid("", 21)])
    proto = calling([node("Bounded", ["x", "", "high"], ["", "y"], domain=HERE)], function, inputs={"x": X, "high": np.array(0.5, np.float32)})
    assert_close(run(proto, {"x": X, "high": np.array(0.5, np.float32)})["y"], np.minimum(X, np.float32(0.5)))


def test_a_function_may_take_an_operators_place() -> None:
    body = [node("Neg", ["a"], ["b"])]
    function = helper.make_function("", "Relu", ["a"], ["b"], body, [helper.make_opsetid("", 21)])
    proto = model([node("Relu", ["x"])], {"x": X}, {"y": X}, functions=[function])
    assert_close(run(proto, {"x": X})["y"], -X)


def test_what_a_function_uses_is_reported_under_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    without_rules(monkeypatch, "Det")
    body = [node("Det", ["a"], ["d"], name="determinant"), node("NoSuch", ["d"], ["b"], domain="elsewhere")]
    function = helper.make_function(HERE, "Odd", ["a"], ["b"], body, [helper.make_opsetid("", 21), helper.make_opsetid("elsewhere", 3)])
    proto = model(
        [node("Odd", ["x"], domain=HERE, name="odd")],
        {"x": floats(3, 3)},
        {"y": np.float32(0)},
        domains={HERE: 1, "elsewhere": 3},
        functions=[function],
    )
    with pytest.raises(UnsupportedError) as error:
        import_model(proto, context())
    assert 'Det "determinant" (opset 21): there is no rule for it' in str(error.value)
    assert 'elsewhere.NoSuch "the_nosuch" (opset 3): there is no such operator' in str(error.value)


def test_functions_that_call_themselves() -> None:
    functions = []
    for name, other in (("A", "B"), ("B", "A")):
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(HERE, 1)]
        functions.append(helper.make_function(HERE, name, ["a"], ["b"], [node(other, ["a"], ["b"], domain=HERE)], imports))
    with pytest.raises(ModelError, match=r"the model's function '[AB]' .* calls itself"):
        import_model(calling([node("A", ["x"], domain=HERE)], *functions), context())


def test_functions_that_grow_beyond_bounds() -> None:
    """Each function calls the one before twice: 2^40 nodes in all, found without expanding them."""
    functions = [leaky()]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(HERE, 1)]
    before = "NegLeaky"
    for i in range(40):
        body = [node(before, ["a"], ["t"], domain=HERE), node(before, ["t"], ["b"], domain=HERE)]
        functions.append(helper.make_function(HERE, f"F{i}", ["a"], ["b"], body, imports))
        before = f"F{i}"
    with pytest.raises(LimitError, match="nodes, with its functions expanded, would take 2199023255552, more than 262144"):
        import_model(calling([node(before, ["x"], domain=HERE)], *functions), context())


def test_an_attribute_that_the_function_does_not_take() -> None:
    """ONNX's checker lets it pass, and the function's body cannot know of it."""
    with pytest.raises(ModelError, match=r"NegLeaky.*the function takes no attribute 'beta'; it takes"):
        import_model(calling([node("NegLeaky", ["x"], domain=HERE, beta=2.0)], leaky()), context())


def test_a_function_in_the_model_twice() -> None:
    with pytest.raises(ModelError, match="two functions of the model have the name 'NegLeaky'"):
        import_model(calling([node("NegLeaky", ["x"], domain=HERE)], leaky(), leaky()), context())


@pytest.mark.parametrize(("op", "opset"), [("SoftmaxCrossEntropyLoss", 12), ("SoftmaxCrossEntropyLoss", 13), ("CenterCropPad", 18)])
def test_operators_that_onnx_defines(op: str, opset: int) -> None:
    """They have no rule; all that their definition makes belongs to the node."""
    assert find_rule("", op, opset) is None
    assert schema_of("", op, opset) is not None
    if op == "CenterCropPad":
        imported = check(node(op, ["x", "size"]), {"x": floats(5, 8)}, {"size": np.array([7, 3])}, opset=opset)
    else:
        imported = check(node(op, ["x", "t"], reduction="mean"), {"x": floats(4, 5), "t": np.array([3, 0, 4, 1])}, opset=opset)
    assert imported.nodes == [f"the_{op.lower()}"]
    body = imported.module.body.operations[0].regions[0].blocks[0]
    assert {tuple(node_names(op.location)) for op in list(body.operations)[:-1]} == {(imported.nodes[0],)}


def test_a_definition_that_needs_something_unsupported_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without_rules(monkeypatch, "Bernoulli", "RandomUniformLike")
    proto = model([node("Bernoulli", ["x"], name="coin")], {"x": X}, {"y": X})
    with pytest.raises(
        UnsupportedError, match=r'Bernoulli "coin" \(opset 21\): ONNX defines it by RandomUniformLike \(opset \d+\): there is no rule'
    ):
        import_model(proto, context())


@pytest.mark.parametrize(("opset", "version"), [(17, 17), (18, 18), (20, 18), (28, 18)])
def test_the_body_that_fits_the_opset_is_taken(opset: int, version: int) -> None:
    """ONNX has two of LayerNormalization, as ReduceMean changed in between."""
    types = [TensorType("f32", (2, 3)), TensorType("f32", (3,))]
    function = schema_function(node("LayerNormalization", ["x", "s"]), "", opset, types)
    assert function is not None
    assert [entry.version for entry in function.opset_import] == [version]
    assert schema_function(node("Add", ["x", "s"]), "", opset, types) is None
    assert schema_function(node("LayerNormalization", ["x", "s"]), "", 16, types) is None


def test_attribute_references_in_graphs_inside_functions(tmp_path: Path) -> None:
    """A function in a function hands an attribute on to a node of a branch (ONNX's evaluator has no such functions); native code, from a file."""

    def leaky_relu(x: np.ndarray, slope: float) -> np.ndarray:
        return np.where(x < 0, np.float32(slope) * x, x)

    def elu(x: np.ndarray, alpha: float) -> np.ndarray:
        return np.where(x < 0, np.float32(alpha) * np.expm1(x), x)

    value = helper.make_tensor_value_info
    then = helper.make_graph([refer(node("LeakyRelu", ["a"], ["t"]), "alpha", "slope", AttributeProto.FLOAT)], "then", [], [value("t", 1, None)])
    other = helper.make_graph([refer(node("Elu", ["a"], ["e"]), "alpha", "slope", AttributeProto.FLOAT)], "else", [], [value("e", 1, None)])
    inner = helper.make_function(
        HERE, "Choose", ["a", "c"], ["b"], [node("If", ["c"], ["b"], then_branch=then, else_branch=other)], [helper.make_opsetid("", 21)], ["slope"]
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(HERE, 1)]
    calls = [
        refer(node("Choose", ["p", "yes"], ["q"], domain=HERE), "slope", "factor", AttributeProto.FLOAT),
        node("Not", ["yes"], ["no"]),
        node("Choose", ["q", "no"], ["r"], domain=HERE, slope=0.75),
    ]
    outer = helper.make_function(HERE, "Both", ["p", "yes"], ["r"], calls, opsets, ["factor"])
    call = node("Both", ["x", "c"], domain=HERE, factor=-0.5)
    for choice in (True, False):
        proto = model([call], {"x": X}, {"y": X}, {"c": np.array(choice)}, domains={HERE: 1}, functions=[inner, outer])
        path = tmp_path / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        want = elu(leaky_relu(X, -0.5), 0.75) if choice else leaky_relu(elu(X, -0.5), 0.75)
        assert_close(stepwell.compile(path, cache=False).run({"x": X})["y"], want)
