"""Where networks are quantised: what reads integers, what stays in floats between, and what shares a scale."""

from itertools import pairwise
from typing import Any

import onnx
import pytest
from float_networks import FloatNet

from stepwell.quantizer.options import QuantizeOptions
from stepwell.quantizer.plan import Plan, candidates, planned
from stepwell.quantizer.prepare import prepared


def plan_of(model: onnx.ModelProto, **options: Any) -> Plan:
    return planned(prepared(model), QuantizeOptions(**options))


def test_activations_stay_with_their_product():
    """Bias, batch norm, relu and the like lie between a product and the quantisation of what the next one reads."""
    net = FloatNet(0)
    h = net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1)))
    h = net.op("Sigmoid", net.op("Conv", h, net.weight(4, 4, 1, 1), net.weight(4)))
    model = net.model(net.op("Conv", h, net.weight(5, 4, 1, 1)), 1, 3, 4, 4)
    plan = plan_of(model)
    assert plan.edges == {("conv0", 0): "x", ("conv2", 0): "relu1.y", ("conv4", 0): "sigmoid3.y"}
    assert [layer.node for layer in plan.layers] == ["conv0", "conv2", "conv4"]
    assert plan.layers[1].weights == "w1"
    assert plan.layers[1].inputs == ("relu1.y",)


def test_results_are_quantised_where_that_is_asked_for():
    net = FloatNet(0)
    h = net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1)))
    h = net.op("Softmax", net.op("Conv", h, net.weight(4, 4, 1, 1)))
    model = net.model(net.op("Conv", h, net.weight(5, 4, 1, 1)), 1, 3, 4, 4)
    assert plan_of(model).everywhere == set()
    assert plan_of(model, quantize_results=True).everywhere == {"relu1.y", "conv2.y"}, "the last is an output"


@pytest.mark.parametrize("fused", [False, True])
def test_residual_additions(fused: bool):
    net = FloatNet(0)
    first = net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1)))
    added = net.op("Add", first, net.op("Conv", first, net.weight(4, 4, 1, 1)))
    model = net.model(net.op("Conv", net.op("Relu", added), net.weight(5, 4, 1, 1)), 1, 3, 4, 4)
    plan = plan_of(model, fuse_additions=fused)
    expected = {("conv0", 0): "x", ("conv2", 0): "relu1.y", ("add3", 0): "relu1.y", ("conv5", 0): "relu4.y"}
    assert plan.edges == {**expected, **({} if fused else {("add3", 1): "conv2.y"})}


def test_additions_in_front_of_a_normalisation_stay_in_floats():
    net = FloatNet(0)
    added = net.op("Add", "x", net.op("MatMul", "x", net.weight(6, 6)))
    h = net.op("LayerNormalization", added, net.weight(6), net.weight(6))
    plan = plan_of(net.model(net.op("MatMul", h, net.weight(6, 4)), 3, 6))
    assert plan.edges == {("matmul0", 0): "x", ("matmul3", 0): "layernormalization2.y"}


def test_a_normalisation_that_is_spelled_out_stays_in_floats():
    """(x - mean) * (1 / deviation * gain): neither side of the multiplication is rounded to 8 bits, only what the product behind it reads."""
    net = FloatNet(0)
    h = net.op("MatMul", "x", net.weight(6, 6))
    centred = net.op("Sub", h, net.op("ReduceMean", h, axes=[-1]))
    variance = net.op("ReduceMean", net.op("Mul", centred, centred), axes=[-1])
    factor = net.op("Mul", net.op("Reciprocal", net.op("Sqrt", variance)), net.weight(6))
    normed = net.op("Mul", centred, factor)
    plan = plan_of(net.model(net.op("MatMul", normed, net.weight(6, 4)), 3, 6))
    assert set(plan.edges) == {("matmul0", 0), ("matmul9", 0)}
    assert plan.edges["matmul9", 0] == normed


def test_a_gate_by_itself_is_an_activation_and_another_is_quantised():
    """x * sigmoid(x) stays in floats, x * sigmoid(f(x)) reads two quantised values."""
    net = FloatNet(0)
    x = net.op("Conv", "x", net.weight(4, 3, 1, 1))
    swish = net.op("Mul", x, net.op("Sigmoid", x))
    pooled = net.op("GlobalAveragePool", swish)
    gate = net.op("Sigmoid", net.op("Conv", pooled, net.weight(4, 4, 1, 1)))
    model = net.model(net.op("Conv", net.op("Mul", swish, gate), net.weight(5, 4, 1, 1)), 1, 3, 4, 4)
    assert plan_of(model).edges == {
        ("conv0", 0): "x", ("globalaveragepool3", 0): "mul2.y", ("conv4", 0): "globalaveragepool3.y",
        ("mul6", 0): "mul2.y", ("mul6", 1): "sigmoid5.y", ("conv7", 0): "mul6.y",
    }  # fmt: skip


def test_what_moves_numbers_has_one_scale_on_both_sides():
    net = FloatNet(0)
    h = net.op("MaxPool", net.op("Conv", "x", net.weight(4, 3, 1, 1)), kernel_shape=[2, 2])
    h = net.op("Flatten", net.op("Transpose", h, perm=[0, 2, 3, 1]))
    plan = plan_of(net.model(net.op("Gemm", h, net.weight(36, 3)), 1, 3, 4, 4))
    chain = ["conv0.y", "maxpool1.y", "transpose2.y", "flatten3.y"]
    assert plan.values == {"x", *chain}
    assert set(plan.alike) == set(pairwise(chain))
    assert plan.moving == {("maxpool1", 0), ("transpose2", 0), ("flatten3", 0)}


def test_products_of_two_computed_operands():
    net = FloatNet(0)
    h = net.op("MatMul", net.op("MatMul", "x", net.weight(6, 6)), net.op("Transpose", "x", perm=[1, 0]))
    plan = plan_of(net.model(h, 5, 6))
    assert plan.edges == {("matmul0", 0): "x", ("matmul2", 0): "matmul0.y", ("matmul2", 1): "transpose1.y", ("transpose1", 0): "x"}
    assert [layer.weights for layer in plan.layers] == ["w0", None]


def test_concatenations_in_front_of_products():
    net = FloatNet(0)
    parts = [net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1))) for _ in range(2)]
    joined = net.op("Concat", *parts, axis=1)
    plan = plan_of(net.model(net.op("Conv", joined, net.weight(2, 8, 1, 1)), 1, 3, 4, 4))
    assert plan.concats == [(joined, tuple(parts))]
    assert plan.edges["concat4", 1] == "relu3.y"
    other = FloatNet(0)
    ends = [other.op("Conv", "x", other.weight(4, 3, 1, 1)) for _ in range(2)]
    assert plan_of(other.model(other.op("Concat", *ends, axis=1), 1, 3, 4, 4)).concats == [], "nothing reads it as integers"


def test_nodes_and_operators_that_are_kept_in_float():
    net = FloatNet(0)
    h = net.op("Relu", net.op("Conv", "x", net.weight(4, 3, 1, 1)))
    model = net.model(net.op("Gemm", net.op("Flatten", net.op("Conv", h, net.weight(4, 4, 1, 1))), net.weight(64, 3)), 1, 3, 4, 4)
    assert set(plan_of(model, keep_float={"conv2"}).edges) == {("conv0", 0), ("gemm4", 0), ("flatten3", 0)}
    assert set(plan_of(model, keep_float={"conv*"}).edges) == {("gemm4", 0), ("flatten3", 0)}
    assert set(plan_of(model, op_types={"Conv"}).edges) == {("conv0", 0), ("conv2", 0)}
    assert [layer.node for layer in candidates(prepared(model), QuantizeOptions(keep_float={"*"}))] == ["conv0", "conv2", "gemm4"]
