"""Optionals that hold a tensor, or nothing, as the graph says; the official suite has cases of single operators."""

import numpy as np
import onnx
import pytest
from importing import check_native, floats, model, node
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.support.errors import UnsupportedError

X = floats(2, 3)


@pytest.mark.parametrize("held", [True, False])
def test_what_is_held_is_known_where_the_graph_is_imported(held: bool) -> None:
    """So a branch on it is taken at compile time, as exporters write a default."""
    then = helper.make_graph([node("OptionalGetElement", ["o"], ["t"])], "then", [], [helper.make_tensor_value_info("t", 1, [2, 3])])
    otherwise = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [helper.make_tensor_value_info("e", 1, [2, 3])])
    nodes = [
        node("Optional", ["x"], ["o"]), node("OptionalHasElement", ["o"] if held else [""], ["h"]),
        node("If", ["h"], ["y"], then_branch=then, else_branch=otherwise),
    ]  # fmt: skip
    want = X if held else -X
    got = stepwell.compile(model(nodes, {"x": X}, {"y": X, "h": np.array(held)}, opset=18)).run({"x": X})
    np.testing.assert_array_equal(got["y"], want)
    assert got["h"] == held
    assert got["h"].dtype == bool


def test_a_tensor_is_its_own_element() -> None:
    check_native(node("OptionalGetElement", ["x"]), {"x": X}, expected=[X], opset=18)
    check_native(node("OptionalHasElement", ["x"]), {"x": X}, expected=[np.array(True)], opset=18)


def test_an_optional_of_a_type_alone_is_refused() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3]))
    nodes = [helper.make_node("Optional", [], ["o"], name="nothing", type=kind.optional_type.elem_type), node("OptionalHasElement", ["o"], ["y"])]
    with pytest.raises(UnsupportedError, match='Optional "nothing"'):
        stepwell.compile(model(nodes, {}, {"y": np.array(True)}, opset=18))


def test_an_optional_input_of_a_model_is_refused() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3]))
    graph = helper.make_graph(
        [node("OptionalHasElement", ["o"], ["y"])], "g", [onnx.ValueInfoProto(name="o", type=kind)],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, [])],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(UnsupportedError, match="'o'"):
        stepwell.compile(proto)
