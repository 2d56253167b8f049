"""Small nets whose layers meet in blocked data or in matrix products, against ONNX Runtime at one and two threads."""

import re
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from covering import by_day
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.target.description import Caches
from stepwell.dialects.target.registry import resolve

RANDOM = np.random.default_rng(17)


def weights(**shapes: tuple[int, ...]) -> list[onnx.TensorProto]:
    """Random arrays such that each filter keeps the scale of its input."""
    arrays = {k: RANDOM.standard_normal(s) / np.sqrt(np.prod(s[1:])) for k, s in shapes.items()}
    return [numpy_helper.from_array(a.astype(np.float32), k) for k, a in arrays.items()]


def normalised(channels: int, size: int) -> onnx.GraphProto:
    """AlexNet's beginning: a normalisation over neighbouring channels between convolutions, one behind a pooling."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"]),
        helper.make_node("LRN", ["c0"], ["l0"], size=size, alpha=2.0, beta=0.75, bias=1.0),
        helper.make_node("MaxPool", ["l0"], ["p0"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Conv", ["p0", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("LRN", ["r1"], ["l1"], size=size, alpha=0.5, beta=0.6, bias=1.0),
        helper.make_node("Conv", ["l1", "w2"], ["y"]),
    ]
    filters = weights(w0=(channels, 3, 3, 3), w1=(channels + 5, channels, 3, 3), w2=(8, channels + 5, 1, 1))
    return graph(nodes, [1, 3, 17, 15], [1, 8, 7, 6], filters)


def classifier(images: int) -> onnx.GraphProto:
    """Fully connected layers written as convolutions, the first with filters as large as its image."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"]),
        helper.make_node("Conv", ["c0", "w1", "b1"], ["c1"]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["y"]),
    ]
    filters = weights(w0=(24, 3, 3, 3), w1=(50, 24, 4, 3), b1=(50,), w2=(37, 50, 1, 1), b2=(37,))
    return graph(nodes, [images, 3, 6, 5], [images, 37, 1, 1], filters)


def pooled(
    kind: str, kernel: int, *, stride: int = 1, window: int = 2, size: int = 64, images: int = 1, groups: int = 1, deep: bool = False
) -> onnx.GraphProto:
    """A convolution of activated data (or of what a depthwise one makes of that), its own activation, and a pooling in windows that lie apart."""
    positions, filters = (size - kernel) // stride + 1, 80 if groups > 1 else 70  # whole blocks in each group
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"]),
        helper.make_node("Concat", ["c0", "c0"], ["d0"], axis=1),  # whatever makes the activation no part of the convolution before
        helper.make_node("Sigmoid", ["d0"], ["a0"]),
        *([helper.make_node("Conv", ["a0", "w3"], ["d1"], pads=[1, 1, 1, 1], group=32)] if deep else []),
        helper.make_node("Conv", ["d1" if deep else "a0", "w1", "b1"], ["c1"], strides=[stride] * 2, group=groups),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node(kind, ["r1"], ["p1"], kernel_shape=[window] * 2, strides=[window] * 2),
        helper.make_node("Conv", ["p1", "w2"], ["y"]),
    ]
    constants = weights(w0=(16, 3, 1, 1), w1=(filters, 32 // groups, kernel, kernel), b1=(filters,), w2=(8, filters, 1, 1), w3=(32, 1, 3, 3))
    constants = constants if deep else constants[:-1]
    return graph(nodes, [images, 3, size, size], [images, 8, positions // window, positions // window], constants)


def graph(nodes: list[onnx.NodeProto], given: list[int], result: list[int], constants: list[onnx.TensorProto]) -> onnx.GraphProto:
    value = helper.make_tensor_value_info
    return helper.make_graph(nodes, "chain", [value("x", TensorProto.FLOAT, given)], [value("y", TensorProto.FLOAT, result)], constants)


SHARED = "sched.fused = #sched.fused<"
NETS = {
    **{f"{c} channels, windows of {n}": (normalised(c, n), "graph-opt", '"packed.lrn"', 2) for c, n in [(32, 5), (27, 3), (16, 7), (43, 5)]},
    **{f"classifier of {n}": (classifier(n), "graph-opt", '"packed.matmul"', 2) for n in (1, 3)},
    "5x5 and its pooling": (pooled("MaxPool", 5, size=68), "linalg", SHARED, 2),
    "two images": (pooled("AveragePool", 5, size=36, images=2), "linalg", SHARED, 2),
    "stride 2, windows of 3": (pooled("MaxPool", 3, stride=2, window=3, size=121), "linalg", SHARED, 2),
    "an op before a pointwise one, and a pooling": (pooled("AveragePool", 1), "linalg", SHARED, 3),
    "depthwise, pointwise, and a pooling": (pooled("MaxPool", 1, deep=True), "linalg", SHARED, 3),
    "groups and pooling": (pooled("MaxPool", 5, size=68, groups=2), "linalg", SHARED, 2),
    "Winograd and pooling": (pooled("MaxPool", 3, size=66), "linalg", SHARED, 6),
    "Winograd on images, and average": (pooled("AveragePool", 3, size=34, images=2), "linalg", SHARED, 6),
    "windows that do not fit tiles, but every third": (pooled("MaxPool", 3, window=3, size=62), "linalg", SHARED, 6),
    "rows that no window reads": (pooled("MaxPool", 5, size=69), "linalg", SHARED, 0),
}
AT_NIGHT = ("16 channels, windows of 7", "43 channels, windows of 5", "stride 2, windows of 3", "windows that do not fit tiles, but every third")


@pytest.mark.parametrize("name", by_day(NETS, lambda name: name not in AT_NIGHT))
def test_agrees_with_onnxruntime(name: str) -> None:
    net, level, text, count = NETS[name]
    proto = helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = RANDOM.standard_normal([d.dim_value for d in net.input[0].type.tensor_type.shape.dim]).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    assert stepwell.lower(proto, level, target="x86-64-v3").text().count(text) == count
    model, results = stepwell.compile(proto), []
    for threads in (1, 2):
        model.threads = threads
        results.append(model(x)[0])
    # Some hundred terms of products in each layer, and Winograd's stated error of 2e-5 of the scale.
    np.testing.assert_allclose(results[0], want, rtol=0, atol=4e-5 * np.abs(want).max())
    np.testing.assert_array_equal(*results, err_msg="results depend on the number of threads")


@pytest.mark.parametrize("rows", [3, 23, None])
def test_rows_that_would_meet_in_few_sets_of_a_cache(rows: int | None) -> None:
    """Products read them from where they are padded; others see them as they are."""
    count = "n" if rows is None else rows
    header = f"g (float[2, {count}, 20] x, float[1024] s) => (float[2, {count}, 256] y, float[2, {count}, 1024] a, float[2, {count}, 300] z)"
    body = "{ p = MatMul(x, u) a = Relu(p) y = MatMul(a, v) c = Softmax(a) d = Mul(c, s) z = MatMul(d, w) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {header} {body}')
    model.graph.initializer.extend(weights(u=(20, 1024), v=(1024, 256), w=(1024, 300)))
    caches = Caches(l1d=8 << 10, l2=1 << 20, l3=1 << 24, l1d_ways=2)  # two rows have room in a set
    specialise = "never" if rows is None else "auto"
    # With AVX2 a product reads other rows.
    text = stepwell.lower(model, "graph-opt", target=replace(resolve("x86-64-v4"), caches=caches), specialise=specialise).text()
    assert len(re.findall(r'"graph.pad".* -> tensor<2x[0-9?]+x33x32xf32|"graph.pad".* -> tensor<2x[0-9?]+x1040xf32', text)) == 2
    random = np.random.default_rng(rows)
    given = {"x": random.standard_normal((2, rows or 5, 20), np.float32), "s": random.standard_normal(1024, np.float32)}
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
    for threads in (1, 2):
        compiled = stepwell.compile(model, threads=threads, target=replace(resolve("host"), caches=caches), specialise=specialise)
        for got, expected in zip(compiled(*given.values()), want, strict=True):
            # A thousand terms of random signs, behind twenty.
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("size", [64, 67])
@pytest.mark.parametrize("operator", ["Mul", "Sub"])
def test_sums_over_rows_with_an_operand_for_each_column(size: int, operator: str) -> None:
    """What follows the sums has one dimension, along which the sums lie in lanes: each lane has an element of its own."""
    header = f"g (float[37, {size}] x, float[{size}] b) => (float[{size}] y) <int64[1] axes = {{0}}>"
    body = f"{{ s = ReduceSum <keepdims = 0> (x, axes) y = {operator}(s, b) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {header} {body}')
    random = np.random.default_rng(size)
    x, b = (random.standard_normal(shape, np.float32) for shape in ((37, size), size))
    sums = x.astype(np.float64).sum(axis=0)
    want = sums * b if operator == "Mul" else sums - b
    bound = 40 * np.finfo(np.float32).eps * (np.abs(x).sum(axis=0) * (np.abs(b) if operator == "Mul" else 1) + np.abs(b))
    (got,) = stepwell.compile(model, threads=1)(x, b)
    assert (np.abs(got - want) <= bound).all()


@pytest.mark.parametrize("length", [2, 4])
def test_short_rows_of_a_part_of_an_image(length: int) -> None:
    """A part of a buffer whose strides are those of a whole one has a layout all the same."""
    constants = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}"
    header = f"g (float[2, 8, 38, 9] x, float[8, 8, 1, {11 - 2 * length}] w) => (float[1, 1, 38, {length}] y) <{constants}>"
    body = "{ c = Conv <strides = [1, 2]> (x, w) s = Slice(c, one, two, one) m = Mul(s, s) y = Slice(m, zero, one, zero) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {header} {body}')
    random = np.random.default_rng(length)
    x, w = (random.standard_normal(shape, np.float32) for shape in ((2, 8, 38, 9), (8, 8, 1, 11 - 2 * length)))
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x, "w": w})
    (got,) = stepwell.compile(model, threads=1)(x, w)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("columns", by_day([15, 31, 47, 63], [15, 47]))
def test_a_product_over_what_is_added_to_it(columns: int) -> None:
    """Where the result goes over an operand, no element is computed twice: the second time the operand would be gone."""
    header = f"g (float[9, 20] a, float[20, {columns}] b, float[9, {columns}] c) => (float[9, {columns}] y)"
    body = "{ e = Softmax(c) p = MatMul(a, b) s = Add(p, e) y = Softmax(s) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {header} {body}')
    random = np.random.default_rng(columns)
    a, b, c = (random.standard_normal(shape, np.float32) for shape in ((9, 20), (20, columns), (9, columns)))
    compiled = stepwell.compile(model, threads=1)
    assert "stepwell.in_place = array<i64: 2, 0>" in compiled.ir("affine")

    def softmax(x: np.ndarray) -> np.ndarray:
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    want = softmax(a.astype(np.float64) @ b + softmax(c.astype(np.float64)))
    bound = np.finfo(np.float32).eps * 24 * (np.abs(a) @ np.abs(b) + 1).max()  # a softmax changes by at most as much as its operand
    np.testing.assert_allclose(compiled(a, b, c)[0], want, rtol=0, atol=bound)
