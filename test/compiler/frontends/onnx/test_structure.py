"""The imported module: names, locations, arguments and results, old conventions of models."""

import re

import numpy as np
import onnx
import pytest
from importing import check, context, floats, model, node, ops, run
from onnx import helper, numpy_helper

from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.support.errors import ModelError, ModelWarning
from stepwell.frontends.base import ImportedModel
from stepwell.frontends.onnx import import_model

X = floats(2, 3)


def locations(imported: ImportedModel) -> list[tuple[str, list[str], int | None]]:
    """(mnemonic, node names, node index) of every graph op, those in regions included."""
    ops = [op for op in ops_below(imported.module) if op.name.startswith("graph.")]
    lines = [re.search(r'"model\.onnx":(\d+)', str(op.location)) for op in ops]
    return [(op.name.removeprefix("graph."), node_names(op.location), line and int(line[1]) - 1) for op, line in zip(ops, lines, strict=True)]


def test_ops_carry_the_name_and_index_of_their_node() -> None:
    weights = {"w": floats(3, 3, seed=1)}
    imported = check([node("Relu", ["x"], ["t"], name="first"), node("Gemm", ["t", "w"], transB=1, alpha=0.5, name="second")], {"x": X}, weights)
    assert imported.nodes == ["first", "second"]
    assert [(name, index) for _, (name,), index in locations(imported)] == [("first", 0)] + [("second", 1)] * 5
    text = imported.module.operation.get_asm(enable_debug_info=True)
    assert "unknown" not in text
    assert 'stepwell.nodes = ["first", "second"]' in text
    assert '%arg0: tensor<2x3xf32> {stepwell.name = "x"}' in text
    assert '-> (tensor<2x3xf32> {stepwell.name = "y"})' in text


def test_weights_stay_out_of_the_text() -> None:
    imported = check(node("Add", ["x", "w"]), {"x": X}, {"w": floats(3, seed=2)})
    assert ops(imported) == ["parameter", "add"]
    assert "dense<" not in str(imported.module)
    assert list(imported.weights) == ["w"]


def test_nodes_without_a_name_or_with_the_same_one_get_their_own() -> None:
    nodes = [
        node("Relu", [a], [b], name=name) for a, b, name in [("x", "a", ""), ("a", "b", "r"), ("b", "c", "r"), ("c", "d", ""), ("d", "y", "r.1")]
    ]
    with pytest.warns(ModelWarning, match="several nodes have the name 'r'"):
        assert check(nodes, {"x": X}).nodes == ["Relu_0", "r", "r.1", "Relu_3", "r.1.1"]


def test_names_of_any_spelling() -> None:
    """What is not printable is escaped, the rest is as it was."""
    for name, shown in (('päth/to "node"\\1', 'päth/to "node"\\1'), ('päth/to "node"\n\\1', 'päth/to "node"\\n\\1')):
        imported = check(node("Relu", ["x"], name=name), {"x": X})
        assert locations(imported) == [("relu", [shown], 0)]
        again = ir.Module.parse(imported.module.operation.get_asm(enable_debug_info=True), context())
        assert node_names(again.body.operations[0].regions[0].blocks[0].operations[0].location) == [shown]


def test_an_output_may_be_an_input_a_weight_or_another_output() -> None:
    data = {"x": X, "z": floats(2, 3, seed=3)}
    proto = model([node("Neg", ["x"])], data, {"y": X, "x": X, "w": floats(4)}, {"w": floats(4, seed=4)})
    proto.graph.output.append(proto.graph.output[0])
    imported = import_model(proto, context())
    assert [name for name, _ in imported.outputs] == ["y", "x", "w", "y"]
    got = run(proto, data)
    np.testing.assert_array_equal(got["y"], -X)
    np.testing.assert_array_equal(got["x"], X)
    np.testing.assert_array_equal(got["w"], floats(4, seed=4))


def test_no_nodes_at_all() -> None:
    np.testing.assert_array_equal(run(model([], {"x": X}, {"x": X}), {"x": X})["x"], X)


@pytest.mark.parametrize("ir_version", [3, 10])
@pytest.mark.parametrize("size", [3, 3000])
def test_weights_that_are_listed_as_inputs(ir_version: int, size: int) -> None:
    """The old convention; the weight is not an input of ours, whatever its size."""
    data, weight = floats(size), floats(size, seed=5)
    proto = model([node("Add", ["x", "w"])], {"x": data, "w": weight}, {"y": data}, {"w": weight}, ir_version=ir_version, opset=9)
    imported = import_model(proto, context())
    assert [name for name, _ in imported.inputs] == ["x"]
    np.testing.assert_array_equal(run(proto, {"x": data})["y"], data + weight)


def test_unused_inputs_and_weights() -> None:
    """Inputs nobody uses stay inputs; weights nobody uses (OC2_DUMMY_0 and the like) are not loaded."""
    proto = model([node("Relu", ["x"])], {"x": X, "unused": floats(4), "OC2_DUMMY_0": np.zeros(2)}, {"y": X}, {"OC2_DUMMY_0": np.zeros(2)})
    imported = import_model(proto, context())
    assert [name for name, _ in imported.inputs] == ["x", "unused"]
    assert list(imported.weights) == []


def test_empty_names_are_inputs_left_out() -> None:
    check(node("Clip", ["x", "", "high"]), {"x": X}, {"high": np.array(0.4, np.float32)})
    check(node("Resize", ["x", "", "", "sizes"], mode="linear"), {"x": floats(1, 1, 3, 4)}, {"sizes": np.array([1, 1, 5, 7])})


def test_what_the_file_says_of_itself() -> None:
    proto = model([node("Relu", ["x"])], {"x": X}, {"y": X}, opset=13, ir_version=8, producer_name="a maker", producer_version="3")
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    imported = import_model(proto, context())
    assert (imported.opsets, imported.ir_version, imported.producer, imported.name) == ({"": 13, "ai.onnx.ml": 3}, 8, "a maker 3", "test")


@pytest.mark.parametrize(
    ("attributes", "want"),
    [
        ({"value": numpy_helper.from_array(np.array([[1.5, -2]], np.float64))}, np.array([[1.5, -2]], np.float64)),
        ({"value": numpy_helper.from_array(floats(100))}, floats(100)),
        ({"value_float": 2.5}, np.array(2.5, np.float32)),
        ({"value_floats": [2.5, -1.0]}, np.array([2.5, -1], np.float32)),
        ({"value_int": -7}, np.array(-7)),
        ({"value_ints": [3, 1 << 40]}, np.array([3, 1 << 40])),
    ],
)
def test_forms_of_constants(attributes: dict[str, object], want: np.ndarray) -> None:
    imported = check(node("Constant", [], **attributes), {}, expected=[want])
    assert ops(imported) == (["constant"] if want.size <= 64 else ["parameter"])
    assert list(imported.weights) == ([] if want.size <= 64 else ["y"])


@pytest.mark.parametrize("spelling", ["", "ai.onnx"])
def test_both_spellings_of_the_domain(spelling: str) -> None:
    proto = model([node("Relu", ["x"], domain=spelling)], {"x": X}, {"y": X})
    proto.opset_import[0].domain = spelling
    assert import_model(proto, context()).opsets == {"": 21}


def test_two_versions_of_a_domain() -> None:
    proto = model([node("Relu", ["x"])], {"x": X}, {"y": X})
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 17))
    with pytest.raises(ModelError, match=r"two versions of the domain 'ai.onnx': 21 and 17"):
        import_model(proto, context())


def test_the_declared_element_type_must_be_that_of_the_result() -> None:
    proto = model([node("Relu", ["x"])], {"x": X}, {"y": X})
    proto.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(7, [2, 3]))
    with pytest.raises(ModelError, match=r"the types in the model do not fit together.*the_relu"):
        import_model(proto, context())
