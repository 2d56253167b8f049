"""A product and a copying op of a plugin (examples/plugins/product_op.py) are quantised, narrowed, fused and hoisted like the built-in ones."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantized_networks import Net

import stepwell
from stepwell.plugin_files import load_file
from stepwell.quantizer import QuantizeOptions, quantize

DOMAIN = "com.example"
F = np.float32


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    load_file(str(Path(__file__).resolve().parents[2] / "examples" / "plugins" / "product_op.py"))


def quantised_layer(operator: str, numbers: np.ndarray) -> onnx.ModelProto:
    """A quantised layer with a bias of its scale, an activation and a result in bytes: its product with stored `numbers` (N, K)."""
    net, scale = Net(3), np.random.default_rng(4).uniform(0.001, 0.01, len(numbers)).astype(F)
    x = net.quantised("x", 0.03, 121)
    turned = operator == "MatMul"
    weights = net.weight(numbers.T.copy() if turned else numbers)
    w = net.dequantised(weights, [net.weight(scale), net.weight(np.zeros(len(scale), np.int8))], axis=int(turned))
    y = net.op(operator, [x, w], domain="" if turned else DOMAIN)
    y = net.op("Relu", [net.op("Add", [y, net.bias(len(scale), (scale * F(0.03)).astype(F))])])
    return net.model(net.quantised(y, 0.05, 7), (24, numbers.shape[1]))


OPS = r'"((?:graph|packed)\.\w+)"'


def packed_kernel(model: onnx.ModelProto, **options: Any) -> str:
    """The text of the kernel of a model's product, in panels."""
    return kernel(stepwell.lower(model, "graph-opt", **{"target": "x86-64-v4-vnni", **options}).text(), "packed_matmul")


def kernel(text: str, name: str) -> str:
    """The text of the kernel that an op names."""
    return next(part for part in re.split(r"(?=func\.func)", text) if f"func.func private @{name}_" in part)


def test_a_product_is_computed_in_integers_in_one_kernel_with_its_neighbours() -> None:
    numbers = np.random.default_rng(5).integers(-127, 128, (40, 96)).astype(np.int8)
    model, x = quantised_layer("RowProduct", numbers), np.random.default_rng(6).standard_normal((24, 96)).astype(F)
    compiled = stepwell.compile(model, threads=1)
    plain = stepwell.compile(quantised_layer("MatMul", numbers), threads=1)
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], plain.run({"x": x})["y"])
    assert compiled.kernels == plain.kernels
    text, same = (packed_kernel(quantised_layer(operator, numbers)) for operator in ("RowProduct", "MatMul"))
    assert re.search(r"%arg0: tensor<24x96xui8>.*%arg1: tensor<3x24x16x4xi8>", text), "what it reads is narrow, in panels, without its zero point"
    ops = re.findall(OPS, text)
    first = ops.index("packed.matmul") - 2  # it widens in its body, and the zero point's part is taken off its result
    assert ops[first : first + 4] == ["graph.cast", "graph.cast", "packed.matmul", "graph.sub"]
    assert {"graph.add", "graph.relu"} <= set(ops), "bias and activation follow"
    assert ops == re.findall(OPS, same)
    assert "-> tensor<24x3x16xi32>" in text


def test_a_product_with_what_is_computed_stays_as_it_is() -> None:
    net = Net(3)
    model = net.model(net.op("RowProduct", [net.quantised("x", 0.03, 121), net.op("Relu", ["x"])], domain=DOMAIN), (24, 96))
    assert '"graph.row_product"(%' in stepwell.lower(model, "graph-opt", target="x86-64-v4-vnni").text()


def test_it_stays_in_floats_where_scales_change_along_the_sum() -> None:
    """As `matmul` does: a scale for each column of the stored matrix, (N, K), is no factor of a sum."""
    net = Net(7)
    numbers = net.weight(net.rng.integers(-127, 128, (40, 96)).astype(np.int8))
    w = net.dequantised(numbers, [net.weight(net.rng.uniform(0.001, 0.01, 96).astype(F)), net.weight(np.zeros(96, np.int8))], axis=1)
    model = net.model(net.op("RowProduct", [net.quantised("x", 0.03, 121), w], domain=DOMAIN), (24, 96))
    assert re.search(r'"packed.matmul".*-> tensor<24x\d+x\d+xf32>', packed_kernel(model))


def test_it_reads_bf16_if_the_options_say_so() -> None:
    w, x = (np.random.default_rng(8).standard_normal(shape).astype(F) for shape in ((40, 96), (24, 96)))
    node = helper.make_node("RowProduct", ["x", "w"], ["y"], name="product", domain=DOMAIN)
    model = wrapped([node], {"w": w}, [("x", x.shape)], [("y", (24, 40))])
    text = packed_kernel(model, target="x86-64-v4-bf16", precision="bf16")
    assert re.search(r"%arg0: tensor<24x96xbf16>.*%arg1: tensor<\d+x48x\d+x2xbf16>", text)
    np.testing.assert_allclose(stepwell.compile(model, threads=1, precision="bf16").run({"x": x})["y"], x.astype(np.float64) @ w.T, atol=0.3)


def wrapped(nodes: list[onnx.NodeProto], weights: dict[str, Any], *sides: list[tuple[str, Any]]) -> onnx.ModelProto:
    values = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side] for side in sides]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(helper.make_graph(nodes, "g", *values, stored), opset_imports=opsets, ir_version=10)


def test_a_copy_has_its_parts_computed_in_place_in_f64_too() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Mul", ["x", "x"], ["b"]), helper.make_node("Exp", ["x"], ["c"]),
        helper.make_node("Interleave", ["a", "b", "c"], ["d"], domain=DOMAIN), helper.make_node("Neg", ["d"], ["y"]),
    ]  # fmt: skip
    model, x = wrapped(nodes, {}, [("x", (5, 33))], [("y", (15, 33))]), np.random.default_rng(9).standard_normal((5, 33)).astype(F)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    wide = x.astype(np.float64)
    compiled = stepwell.compile(model, threads=1)
    want = -np.stack([np.maximum(wide, 0), wide * wide, np.exp(wide)], axis=1).reshape(15, 33)
    np.testing.assert_allclose(compiled.run({"x": wide})["y"], want, rtol=1e-14)
    assert compiled.kernels == 2, "the last op reads what the others wrote"
    assert kernel(stepwell.lower(model, "graph-opt").text(), "interleave").count('"graph.') == 4


def test_integers_go_through_a_copy() -> None:
    """What is dequantised by one scale is copied as bytes, and the product behind it reads these."""
    numbers = np.random.default_rng(10).integers(-127, 128, (8, 24)).astype(np.int8)
    net = Net(11, per_channel=False)
    x = net.quantised("x", 0.5, 3)
    both = net.op("Interleave", [x, net.op("Transpose", [x], perm=[1, 0])], domain=DOMAIN)
    w = net.dequantised(net.weight(numbers), [net.weight(np.array(0.25, F)), net.weight(np.array(0, np.int8))])
    model = net.model(net.op("RowProduct", [both, w], domain=DOMAIN), (24, 24))
    x = np.random.default_rng(12).integers(-40, 40, (24, 24)).astype(F)
    rounded = np.clip(np.rint(x / 0.5) + 3, 0, 255) - 3
    want = 0.125 * (np.stack([rounded, rounded.T], axis=1).reshape(48, 24) @ numbers.T.astype(np.float64))
    np.testing.assert_array_equal(stepwell.compile(model, threads=1).run({"x": x})["y"], want)
    text = stepwell.lower(model, "graph-opt", target="x86-64-v4-vnni").text()
    assert re.search(r'"graph.interleave".*tensor<48x24xu?i8>', text)
    assert re.search(r'"packed.matmul".*-> tensor<48x1x\d+xi32>', kernel(text, "packed_matmul"))


def test_a_product_leaves_its_loop() -> None:
    """All rounds of a loop multiply rows that are there before it: one product computes them all."""
    body = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "i"], ["row"], axis=0), helper.make_node("RowProduct", ["row", "w"], ["p"], domain=DOMAIN),
            helper.make_node("Add", ["p", "h"], ["s"]), helper.make_node("Tanh", ["s"], ["h_"]), helper.make_node("Identity", ["go"], ["go_"]),
        ],
        "body",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in (("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("h", 1, [3, 8]))],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in (("go_", TensorProto.BOOL, []), ("h_", 1, [3, 8]))],
    )  # fmt: skip
    random = np.random.default_rng(13)
    w, x = random.standard_normal((8, 16)).astype(F) / 4, random.standard_normal((300, 3, 16)).astype(F)
    loop = helper.make_node("Loop", ["rounds", "", "start"], ["y"], body=body)
    weights = {"w": w, "rounds": np.array(300), "start": np.zeros((3, 8), F)}
    model = wrapped([loop], weights, [("x", x.shape)], [("y", (3, 8))])
    h = np.zeros((3, 8))
    for row in x.astype(np.float64):
        h = np.tanh(row @ w.T + h)
    np.testing.assert_allclose(stepwell.compile(model, threads=1).run({"x": x})["y"], h, rtol=1e-5, atol=1e-6)
    assert re.search(r'"packed.matmul".*-> tensor<900x\d+x\d+xf32>', stepwell.lower(model, "graph-opt").text())


def test_the_quantiser_takes_a_product_and_a_copy_for_what_they_are() -> None:
    random = np.random.default_rng(14)
    first, second = (random.standard_normal(shape).astype(F) / 8 for shape in ((40, 96), (24, 40)))
    nodes = [
        helper.make_node("RowProduct", ["x", "first"], ["p"], name="first", domain=DOMAIN), helper.make_node("Relu", ["p"], ["a"], name="relu"),
        helper.make_node("Interleave", ["a", "a"], ["both"], name="copy", domain=DOMAIN),
        helper.make_node("RowProduct", ["both", "second"], ["q"], name="second", domain=DOMAIN), helper.make_node("Neg", ["q"], ["y"], name="neg"),
    ]  # fmt: skip
    model = wrapped(nodes, {"first": first, "second": second}, [("x", ("n", 96))], [("y", ("m", 24))])
    samples = {"x": random.standard_normal((64, 96)).astype(F)}
    made = quantize(model, samples, batch=16)
    assert [(layer.node, layer.weight_axis) for layer in made.layers] == [("first", 0), ("second", 0)]
    assert set(made.parameters) == {"x", "a", "both"}, "what products read, and the copy between them"
    assert made.parameters["a"] == made.parameters["both"], "a copy has one scale in front of it and behind it"
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.model.graph.initializer}
    assert [scales[f"{name}_scale"].shape for name in ("first", "second")] == [(40,), (24,)], "a row of weights has a scale of its own"
    want = -(np.repeat(np.maximum(samples["x"].astype(np.float64) @ first.T, 0), 2, axis=0) @ second.T)
    got = stepwell.compile(made.model, shapes={"x": (64, 96)}, threads=1).run(samples)["y"]
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()
    text = stepwell.lower(made.model, "graph-opt", shapes={"x": (64, 96)}, target="x86-64-v4-vnni").text()
    assert len(re.findall(r'"packed.matmul".*xi32>$', re.sub(r" loc\(.*", "", text), re.MULTILINE)) == 2
    assert quantize(model, samples, QuantizeOptions(keep_float={"first"}), batch=16).layers == made.layers[1:]
