"""Optionals that hold a tensor, or nothing, as the graph says; the official suite has cases of single operators."""

import numpy as np
import onnx
import pytest
from every import every
from importing import check_native, floats, model, node
from native_checks import natively_together
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.support.errors import ModelError

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


def optional_of(kind: onnx.TypeProto) -> onnx.NodeProto:
    return helper.make_node("Optional", [], ["o"], name="nothing", type=kind)


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3])


@natively_together
@every("kind", [TENSOR, helper.make_sequence_type_proto(TENSOR)])
def test_an_optional_of_a_type_alone_holds_nothing(kind: onnx.TypeProto) -> None:
    check_native([optional_of(kind), node("OptionalHasElement", ["o"])], {"x": X}, expected=[np.array(False)], opset=18)


def test_what_an_optional_of_nothing_holds() -> None:
    proto = model([optional_of(TENSOR), node("OptionalGetElement", ["o"])], {}, {"y": X}, opset=18)
    with pytest.raises(ModelError, match=r'OptionalGetElement "the_optionalgetelement" .*its optional holds nothing'):
        stepwell.compile(proto)


def test_an_optional_of_an_optional_is_refused() -> None:
    with pytest.raises(ModelError, match="nothing"):
        stepwell.compile(model([optional_of(helper.make_optional_type_proto(TENSOR)), node("OptionalHasElement", ["o"])], {}, {"y": X}, opset=18))


def test_a_tensor_is_asked_for_where_nothing_may_be() -> None:
    """ONNX's checker lets it pass where types are not inferred."""
    proto = model([optional_of(TENSOR), node("Identity", ["o"], ["p"]), node("Neg", ["p"])], {}, {"y": X}, opset=18)
    with pytest.raises(ModelError):
        stepwell.compile(proto)
