"""What networks are made into before they are quantised: the same function, in a late opset, with batch norms folded and constants stored."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from float_networks import FloatNet, run_plainly
from onnx import TensorProto, helper, numpy_helper

from stepwell import ModelError, UnsupportedError
from stepwell.quantizer.prepare import prepared


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def check_same(model: onnx.ModelProto, changed: onnx.ModelProto, *shape: int) -> None:
    """The two compute the same, up to the rounding of sums of well below 1000 terms."""
    onnx.checker.check_model(changed, full_check=True)
    x = np.random.default_rng(7).normal(0.2, 1, shape).astype(np.float32)
    [want], [got] = (run_plainly(m, {"x": x}).values() for m in (model, changed))
    assert np.abs(got - want).max() <= 1000 * np.finfo(np.float32).eps * np.abs(want).max()
    assert np.abs(want).max() > 0.1


def batch_norm(net: FloatNet, x: str, channels: int, **attributes: Any) -> str:
    names = [net.weight(channels) for _ in range(4)]
    net.weights[names[3]] = net.rng.uniform(0.3, 3, channels).astype(np.float32)
    return net.op("BatchNormalization", x, *names, **attributes)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["Conv", "grouped Conv", "ConvTranspose", "grouped ConvTranspose"])
def test_batch_norms_go_into_convolutions(kind: str, bias: bool):
    net = FloatNet(1)
    group = 2 if "grouped" in kind else 1
    shape = (6, 4 // group, 3, 3) if kind.endswith("Conv") else (4, 6 // group, 3, 3)
    x = net.op(kind.split()[-1], "x", net.weight(*shape), *([net.weight(6)] if bias else []), group=group, pads=[1] * 4)
    model = net.model(net.op("Relu", batch_norm(net, x, 6, epsilon=0.01)), 2, 4, 7, 7)
    changed = prepared(model)
    check_same(model, changed, 2, 4, 7, 7)
    assert kinds(changed) == {kind.split()[-1]: 1, "Relu": 1}


@pytest.mark.parametrize("transposed", [0, 1])
def test_batch_norms_go_into_products(transposed: int):
    net = FloatNet(2)
    x = net.op("Gemm", "x", net.weight(*((5, 8) if transposed else (8, 5))), net.weight(5), transB=transposed, alpha=0.5, beta=2.0)
    model = net.model(batch_norm(net, x, 5), 3, 8)
    changed = prepared(model)
    check_same(model, changed, 3, 8)
    [gemm] = changed.graph.node
    assert all(a.f == 1 for a in gemm.attribute if a.name in ("alpha", "beta")), "factors are in the weights, too"


def test_factors_and_terms_by_channel_are_folded():
    net = FloatNet(3)
    x = net.op("Conv", "x", net.weight(6, 3, 1, 1))
    x = net.op("Add", net.op("Mul", x, net.weight(6, 1, 1)), net.weight(1, 6, 1, 1))
    x = net.op("Sub", net.op("Div", x, net.weight(1)), net.weight(6, 1, 1))
    model = net.model(x, 2, 3, 5, 5)
    changed = prepared(model)
    check_same(model, changed, 2, 3, 5, 5)
    assert kinds(changed) == {"Conv": 1}


def test_what_is_not_affine_by_channel_is_left():
    net = FloatNet(4)
    first = net.op("Conv", "x", net.weight(6, 3, 1, 1))
    spread = net.op("Mul", first, net.weight(5, 5))  # along the image
    second = net.op("Conv", spread, net.weight(6, 6, 1, 1))
    twice = net.op("Add", batch_norm(net, second, 6), second)  # a second reader
    third = net.op("Sub", net.weight(1), net.op("Conv", twice, net.weight(6, 6, 1, 1)))  # the other way round
    model = net.model(third, 2, 3, 5, 5)
    changed = prepared(model)
    check_same(model, changed, 2, 3, 5, 5)
    assert kinds(changed) == kinds(model)


def test_an_old_opset_becomes_a_late_one():
    net = FloatNet(5)
    x = batch_norm(net, net.op("Conv", "x", net.weight(4, 3, 3, 3), pads=[1] * 4), 4)
    net.op("Dropout", net.op("Relu", x))
    model = net.model(net.op("Flatten", net.op("Identity", net.nodes[-1].output[0])), 1, 3, 4, 4)
    old = helper.make_model(model.graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    changed = prepared(old)
    assert [(entry.domain, entry.version) for entry in changed.opset_import] == [("", 13)]
    check_same(old, changed, 1, 3, 4, 4)
    assert kinds(changed) == {"Conv": 1, "Relu": 1, "Flatten": 1}


def test_constants_and_what_follows_from_them_are_stored():
    net = FloatNet(6)
    matrix = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    w = net.op("Transpose", net.op("Constant", value=numpy_helper.from_array(matrix)), perm=[1, 0])
    h = net.op("Sum", net.op("MatMul", "x", w), net.op("Reshape", net.weight(5), net.op("Constant", value_ints=[1, 5])))
    model = net.model(net.op("Relu", h), 3, 8)
    changed = prepared(model)
    check_same(model, changed, 3, 8)
    assert kinds(changed) == {"MatMul": 1, "Add": 1, "Relu": 1}
    assert any(np.array_equal(numpy_helper.to_array(tensor), matrix.T) for tensor in changed.graph.initializer)


def test_every_node_has_a_name_and_weights_are_no_inputs():
    net = FloatNet(7)
    model = net.model(net.op("Relu", net.op("Relu", net.op("MatMul", "x", net.weight(8, 8)))), 2, 8)
    for node, name in zip(model.graph.node, ("", "same", "same"), strict=True):
        node.name = name
    model.graph.input.append(helper.make_tensor_value_info("w0", TensorProto.FLOAT, [8, 8]))
    changed = prepared(model)
    names = [node.name for node in changed.graph.node]
    assert names[1] == "same"
    assert len(set(names)) == 3
    assert all(names)
    assert [value.name for value in changed.graph.input] == ["x"]
    assert model.graph.node[0].name == "", "the caller's model is as it was"


def test_what_cannot_be_prepared_is_named():
    net = FloatNet(8)
    broken = net.model(net.op("Conv", "x"), 1, 3, 4, 4)
    with pytest.raises(ModelError, match="the model is not valid ONNX"):
        prepared(broken)
    q = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], name="the_q")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([q], "g", [value("x", 1, [2])], [value("y", TensorProto.UINT8, [2])], [numpy_helper.from_array(np.float32(1), "s")])
    with pytest.raises(UnsupportedError, match=r"'the_q' \(QuantizeLinear\): the model is quantised already"):
        prepared(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
