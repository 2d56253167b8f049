"""What cannot be imported is reported all at once: which node, why, and what would be accepted."""

import numpy as np
import pytest
from importing import context, floats, model, node, without_rules
from onnx import NodeProto, TensorProto, helper

from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError
from stepwell.frontends.onnx import find_rule, import_model, onnx_rule, registry as registry_module
from stepwell.frontends.onnx.registry import missing_rule

X = floats(2, 3)


@pytest.fixture(autouse=True)
def no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    without_rules(monkeypatch, "RandomNormalLike", "RandomUniform", "Det")


def message(nodes: list[NodeProto], kind: type[StepwellError] = UnsupportedError, **options: object) -> str:
    data = options.pop("data", X)
    proto = model(nodes, {"x": data}, {"y": options.pop("result", data)}, **options)  # type: ignore[arg-type]
    with pytest.raises(kind) as error:
        import_model(proto, context())
    return str(error.value)


def test_all_nodes_are_listed_with_what_comes_after_them() -> None:
    nodes = [
        node("RandomNormalLike", ["x"], ["a"], name="noise"),
        node("Relu", ["a"], ["b"], name="fine"),
        node("Gelu", ["b"], ["c"], name="gelu", approximate="cubic"),
        node("Det", ["m"], ["d"], name="det"),
        node("Mul", ["c", "d"], name="product"),
    ]
    text = message(nodes, weights={"m": floats(3, 3)})
    assert text.splitlines() == [
        "SW002 3 parts of the model are not supported:",
        '  RandomNormalLike "noise" (opset 21): there is no rule for it',
        "  Gelu \"gelu\" (opset 21): approximate='cubic' is not supported; supported: 'none', 'tanh'",
        '  Det "det" (opset 21): there is no rule for it',
    ]


def test_what_would_be_constant_but_for_a_problem_is_no_problem_of_its_own() -> None:
    nodes = [
        node("RandomUniform", [], ["r"], shape=[1], name="noise"),
        node("Cast", ["r"], ["n"], to=7),
        node("Tile", ["v", "n"], ["t"]),
        node("Add", ["x", "t"]),
    ]
    assert message(nodes, weights={"v": floats(3)}) == 'SW002 RandomUniform "noise" (opset 21): there is no rule for it'


def test_one_problem_is_one_line() -> None:
    text = message([node("RandomNormalLike", ["x"], name="noise")])
    assert text == 'SW002 RandomNormalLike "noise" (opset 21): there is no rule for it'


def test_a_long_list_is_cut() -> None:
    nodes = [node("RandomNormalLike", ["x"], [f"r{i}"], name=f"noise{i}") for i in range(99)]
    lines = message([*nodes, node("Relu", ["x"])]).splitlines()
    assert lines[0] == "SW002 99 parts of the model are not supported:"
    assert lines[-1] == "  … and 59 more"
    assert len(lines) == 42


def test_operators_that_onnx_does_not_know() -> None:
    nodes = [
        node("Fancy", ["x"], ["a"], domain="com.acme", name="theirs"),
        node("Rleu", ["a"], ["b"], name="misspelt"),
        node("Gelu", ["b"], ["c"], name="newer"),
        node("RandomNormalLike", ["c"], name="noise"),
    ]
    assert message(nodes, opset=13, domains={"com.acme": 2}).splitlines() == [
        "SW002 4 parts of the model are not supported:",
        "  com.acme.Fancy \"theirs\" (opset 2): there is no such operator in the domain 'com.acme', and no rule for it",
        "  Rleu \"misspelt\" (opset 13): there is no such operator in the domain 'ai.onnx', and no rule for it",
        '  Gelu "newer" (opset 13): the operator exists only from opset 20 on',
        '  RandomNormalLike "noise" (opset 13): there is no rule for it',
    ]
    assert "the model imports no opset of the domain 'com.acme'" in message(nodes[:1] + [node("Relu", ["a"])], domains={})


@pytest.mark.parametrize("version", [0, -3, 129, 1 << 40])
def test_opsets_that_nobody_knows(version: int) -> None:
    assert f"opset {version} of ai.onnx is not supported; supported: 1 to 28" in message([node("Relu", ["x"])], opset=version)


def test_outputs_that_are_not_made() -> None:
    """They matter only where they are used."""
    weights = {name: np.abs(floats(3, seed=i)) for i, name in enumerate(("s", "b", "m", "v"))}
    nodes = [node("BatchNormalization", ["x", *weights], ["y", "mean", "var", "saved_mean", "saved_var"], name="norm")]
    import_model(model(nodes, {"x": X}, {"y": X}, weights, opset=9), context())
    nodes.append(node("Add", ["mean", "var"], ["z"], name="sum"))
    proto = model(nodes, {"x": X}, {"y": X, "z": floats(3)}, weights, opset=9)
    with pytest.raises(UnsupportedError) as error:
        import_model(proto, context())
    assert str(error.value) == 'SW002 BatchNormalization "norm" (opset 9): output number 1 is used, which is not supported; supported: the first 1'


def test_inputs_of_foreign_types() -> None:
    proto = model([node("Relu", ["x"])], {"x": X}, {"y": X})
    proto.graph.input.append(helper.make_tensor_value_info("complex", TensorProto.COMPLEX64, [2]))
    proto.graph.input.append(helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, [2]))
    with pytest.raises(UnsupportedError) as error:
        import_model(proto, context())
    assert "input 'complex': element type complex64 is not supported; supported: tensors of bool, 2- to 64-bit integers" in str(error.value)
    assert "input 'list': sequence type is not supported" in str(error.value)


SPARSE = helper.make_sparse_tensor(helper.make_tensor("v", TensorProto.FLOAT, [1], [2.0]), helper.make_tensor("i", TensorProto.INT64, [1], [1]), [5])


@pytest.mark.parametrize(
    ("made", "data", "reason"),
    [
        (node("LpNormalization", ["x"], p=2, axis=7), X, "axis must be from -2 to 1 for a tensor of rank 2, got 7"),
        (node("LpNormalization", ["x"], p=3), X, "p=3 is not supported; supported: 1, 2"),
        (node("LpPool", ["x"], kernel_shape=[2], p=0), floats(1, 2, 3), "p must be 1 or more, got 0"),
        (node("Constant", [], sparse_value=SPARSE), X[0], "attribute sparse_value of kind SPARSE_TENSOR is not supported"),
    ],
)
def test_attributes(made: NodeProto, data: np.ndarray, reason: str) -> None:
    assert f'{made.op_type} "the_{made.op_type.lower()}" (opset 21): {reason}' in message([made], StepwellError, data=data)


def test_strings() -> None:
    """Inside a model; test/compiler/border is about those at its border."""
    nodes = [node("Constant", [], ["s"], value_string="text"), node("Relu", ["s"], ["t"]), node("Relu", ["x"])]
    assert "its input 's' is of strings or maps, which is not supported here; strings and maps are supported at the border" in message(nodes)


def test_rules_of_plugins() -> None:
    """A rule for an operator of another domain; its signature says what its nodes may have."""
    try:

        @onnx_rule("Scaled", since=2, domain="com.acme")
        def scaled(b, x, *rest, factor, offset=0.0):  # type: ignore[no-untyped-def]
            return b.add(b.mul(x, b.scalar(factor, like=x)), b.scalar(offset, like=x))

        with pytest.raises(StepwellError, match=r"already an importer rule for Scaled since opset 2 of com.acme; pass replace=True"):
            onnx_rule("Scaled", since=2, domain="com.acme")(scaled)
        onnx_rule("Scaled", since=2, domain="com.acme", replace=True)(scaled)
        assert find_rule("com.acme", "Scaled", 1) is None

        def fails(made: NodeProto, version: int = 2) -> str:
            return message([made], domains={"com.acme": version})

        import_model(model([node("Scaled", ["x"], domain="com.acme", factor=2.0)], {"x": X}, {"y": X}, domains={"com.acme": 5}), context())
        assert "without the attribute factor it is not supported" in fails(node("Scaled", ["x"], domain="com.acme"))
        assert "attribute colour='red' is not supported; supported attributes: factor, offset" in fails(
            node("Scaled", ["x"], domain="com.acme", factor=1.0, colour="red")
        )
        assert "without its input number 0 it is not supported" in fails(node("Scaled", [], domain="com.acme", factor=1.0))
        assert "without its input number 1 it is not supported" in fails(node("Scaled", ["x", "", "x"], domain="com.acme", factor=1.0))
        assert "no rule for it" in fails(node("Scaled", ["x"], domain="com.acme", factor=1.0), version=1)
        assert missing_rule("com.acme", "Scaled") == "there is no rule for it before opset 2"
    finally:
        registry_module._rules.pop(("com.acme", "Scaled"), None)


def test_a_mistake_in_a_rule_names_the_node() -> None:
    try:

        @onnx_rule("Broken", since=1, domain="com.acme")
        def broken(b, x):  # type: ignore[no-untyped-def]
            return b.add(x, nothing)  # type: ignore[name-defined] # noqa: F821

        text = message([node("Broken", ["x"], domain="com.acme", name="bad")], StepwellError, domains={"com.acme": 1})
        assert text.startswith('SW000 internal error while importing com.acme.Broken "bad" (opset 1): NameError')
    finally:
        registry_module._rules.pop(("com.acme", "Broken"), None)


def test_malformed_nodes_come_before_unsupported_ones() -> None:
    nodes = [node("RandomNormalLike", ["x"], ["r"]), node("LpNormalization", ["x"], p=2, axis=7, name="norm")]
    assert message(nodes, ModelError) == 'SW001 LpNormalization "norm" (opset 21): axis must be from -2 to 1 for a tensor of rank 2, got 7'
