"""Networks in Q/DQ format, natively: as ONNX defines them but for one step here and there, and the same bits on every target."""

import re
from typing import Any

import numpy as np
import onnx
import pytest
from covering import each
from native_checks import Arrays, check_model, natively_together
from onnx.reference import ReferenceEvaluator
from quantized_networks import HALF_TILES, PRETENDED, F, Net, pretending

import stepwell

SHAPE = (1, 3, 13, 14)


def residual(net: Net) -> tuple[str, tuple[int, ...]]:
    """Convolutions of every kind, a shortcut, activations, poolings and a product; zero points of every kind."""
    low = -128 if net.activations is np.int8 else 0
    x = net.quantised("x", 0.02, low + 100)
    x = net.quantised(net.op("Relu", [net.conv(x, 0.02, 20, 3, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1])]), 0.03, low)
    inner = net.quantised(net.op("Clip", [net.conv(x, 0.03, 40, 20, 1, 1), net.weight(F(0)), net.weight(F(6))]), 0.0235, low)
    inner = net.quantised(net.conv(inner, 0.0235, 40, 1, 3, 3, group=40, pads=[1, 1, 1, 1]), 0.05, low + 131)
    inner = net.quantised(net.conv(inner, 0.05, 20, 40, 1, 1), 0.04, low + 120)
    x = net.quantised(net.op("Relu", [net.op("Add", [inner, x])]), 0.06, low)
    other = net.quantised(net.conv(x, 0.06, 24, 20, 3, 3, pads=[1, 1, 1, 1]), 0.05, low + 90)
    x = net.quantised(net.op("Concat", [x, other], axis=1), 0.055, low + 60)
    x = net.quantised(net.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 0.055, low + 60)
    x = net.quantised(net.op("GlobalAveragePool", [x]), 0.03, low + 77)
    x = net.op("Flatten", [x])
    w, scale = net.filters(10, 44)
    return net.op("Gemm", [x, w, net.bias(10, (scale * F(0.03)).astype(F))], transB=1), SHAPE


def attention(net: Net) -> tuple[str, tuple[int, ...]]:
    """Products with weights, and of data with data, behind reshapes and transpositions."""
    low = -128 if net.activations is np.int8 else 0
    x = net.quantised("x", 0.02, low + 100)
    sides = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        w, scale = net.filters(32, 32, axis=1)
        made = net.op("Add", [net.op("MatMul", [x, w]), net.bias(32, (scale * F(0.02)).astype(F))])
        apart = net.op("Reshape", [net.quantised(made, 0.04, low + 128), net.weight(np.array([1, 12, 4, 8]))])
        sides.append(net.op("Transpose", [apart], perm=perm))
    scores = net.op("Mul", [net.quantised(net.op("MatMul", sides[:2]), 0.3, low + 128), net.weight(F(0.35))])
    weights = net.quantised(net.op("Softmax", [scores], axis=-1), 1 / 255, low)
    y = net.quantised(net.op("MatMul", [weights, sides[2]]), 0.03, low + 128)
    joined = net.op("Reshape", [net.op("Transpose", [y], perm=[0, 2, 1, 3]), net.weight(np.array([1, 12, 32]))])
    w, _ = net.filters(32, 16, axis=1)
    return net.quantised(net.op("MatMul", [joined, w]), 0.05, low + 128), (1, 12, 32)


NETWORKS = {"residual": residual, "attention": attention}


PLAIN = ("x86-64-v3", "x86-64-v2")
BY_NIGHT = {
    "residual": ("bf16", HALF_TILES, "vnni in 512 bits", *PLAIN), "attention": ("bf16", HALF_TILES, "x86-64-v3", "vnni in 256 bits", "sdot"),
}  # fmt: skip
"""Targets without anything for integers that the others lack, and those whose instruction the other network has by day."""


@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("name", "activations"), [("residual", np.uint8), ("attention", np.int8)])
def test_bits_are_the_same_on_every_target(name: str, activations: Any, others: bool) -> None:
    net = Net(7, activations)
    made = net.model(*NETWORKS[name](net))
    shape = tuple(d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim)
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    host = stepwell.compile(made, threads=1).run({"x": x})["y"]
    with pretending() as targets:
        for target, description in {**{plain: plain for plain in PLAIN}, **targets}.items():
            if (target in BY_NIGHT[name]) == others:
                model = stepwell.compile(made, target=description, threads=2, cache=False)
                np.testing.assert_array_equal(model.run({"x": x})["y"], host, err_msg=target)


@pytest.mark.parametrize("pretended", PRETENDED)
def test_convolutions_are_of_bytes(pretended: str) -> None:
    """All of them, with the instruction that a machine has; but for that by channel, whose sums are floats."""
    net = Net(7)
    made = net.model(*residual(net))
    with pretending() as targets:
        text = stepwell.lower(made, "scheduled", target=targets[pretended]).text()
    contractions = [part.partition("linalg.yield")[0] for part in text.split("linalg.generic")[1:]]
    products = [part for part in contractions if "arith.muli" in part]
    used = [part for part in products if PRETENDED[pretended][0] in part]
    assert len(used) == len(products) == 5  # and the product at the end


@pytest.mark.parametrize(("places", "kept"), [((7, 9), "i8"), ((7, 10), "f32")])
def test_filters_by_channel_are_bytes_where_places_are_few(places: tuple[int, int], kept: str) -> None:
    """They are widened in the kernel, where each is read less often than that costs; the sums are the same."""
    net = Net(5)
    inner = net.quantised(net.conv(net.quantised("x", 0.02, 100), 0.02, 32, 8, 1, 1), 0.04, 90)
    made = net.model(net.quantised(net.conv(inner, 0.04, 32, 1, 3, 3, group=32, pads=[1, 1, 1, 1]), 0.06, 120), (1, 8, *places))
    kernels = stepwell.lower(made, "graph-opt", target="x86-64-v3").text().split("func.func private")
    [kernel] = [kernel for kernel in kernels if '"packed.depthwise_conv"' in kernel]
    assert re.findall(r"tensor<4x3x3x8x(\w+)>", kernel.splitlines()[0]) == [kept]
    x = np.random.default_rng(3).normal(size=(1, 8, *places)).astype(np.float32)
    [want] = ReferenceEvaluator(made).run(None, {"x": x})
    got = stepwell.compile(made, target="x86-64-v3", threads=1).run({"x": x})["y"]
    assert np.mean(got == want) >= 0.999
    np.testing.assert_allclose(got, want, rtol=0, atol=0.06 * 1.001)


# --- one op between quantisations


def layer(net: Net, name: str, low: int) -> tuple[str, tuple[int, ...]]:
    x, other = net.quantised("x", 0.02, low + 100), low + 90
    if name == "convolution":
        return net.conv(x, 0.02, 40, 24, 3, 3, pads=[1, 1, 0, 1], strides=[1, 2]), (1, 24, 23, 46)
    if name == "pointwise":
        return net.op("Relu", [net.conv(x, 0.02, 40, 24, 1, 1)]), (1, 24, 23, 22)
    if name == "first":
        return net.conv(x, 0.02, 32, 3, 7, 7, pads=[3, 3, 3, 3], strides=[2, 2]), (1, 3, 50, 51)
    if name == "by channel":
        inner = net.quantised(net.conv(x, 0.02, 32, 8, 1, 1), 0.04, other)
        return net.conv(inner, 0.04, 32, 1, 3, 3, group=32, pads=[1, 1, 1, 1]), (1, 8, 27, 26)
    if name == "in groups":
        return net.conv(x, 0.02, 32, 8, 3, 3, group=4, pads=[1, 1, 1, 1]), (1, 32, 27, 26)
    if name == "sum":
        return net.op("Add", [x, net.quantised(net.conv(x, 0.02, 24, 24, 1, 1), 0.04, other)]), (1, 24, 31, 30)
    if name == "product":
        w, scale = net.filters(96, 70, axis=1)
        return net.op("Add", [net.op("MatMul", [x, w]), net.bias(70, (scale * F(0.02)).astype(F))]), (3, 100, 96)
    w, _ = net.filters(70, 96)
    return net.op("Gemm", [x, w], transB=1), (300, 96)


LAYERS = ("convolution", "pointwise", "first", "by channel", "in groups", "sum", "product", "transposed product")


@natively_together
@each({("per_channel", "activations"): [(True, np.uint8), (False, np.int8), (True, np.int8), (False, np.uint8)], "name": LAYERS})
def test_layers_are_as_onnx_defines_them(name: str, activations: Any, per_channel: bool) -> None:
    """Within one step, and for 99.9 % of the elements the same."""
    net, low = Net(11, activations, per_channel), np.iinfo(activations).min
    result, shape = layer(net, name, int(low))
    scale = {"by channel": 0.06, "sum": 0.043, "pointwise": 0.04}.get(name, 0.13)
    made = net.model(net.quantised(result, scale, int(low) + 120), shape)
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    [want] = ReferenceEvaluator(made).run(None, {"x": x})
    assert len(np.unique(want)) > 50  # most steps occur, and not the ends alone

    def judge(got: Arrays) -> None:
        steps = np.abs(got["y"] - want) / scale
        assert float(steps.max()) < 1.5
        assert float((steps < 0.5).mean()) >= 0.999

    for target in ("host", "x86-64-v2"):
        check_model(made, {"x": x}, judge, threads=[2], target=target)


def explained(made: onnx.ModelProto, **options: Any) -> str:
    return stepwell.lower(made, "graph-opt", target="x86-64-v3", **options).text()


def test_nothing_is_kept_in_floats_between_integer_ops() -> None:
    """Kernels hand bytes on, or 16 bits where the target multiplies these; without the pass floats."""
    net = Net(7)
    made = net.model(*residual(net))
    kernels = explained(made).split("func.func private @")[1:]
    handed_on = [kernel.partition(" attributes")[0].rpartition("->")[2] for kernel in kernels]
    large = [result for result in handed_on if "xf32" in result and np.prod([int(n) for n in re.findall(r"(\d+)x", result)]) > 100]
    assert not large  # but for the mean at the end
    plain = explained(made, disable=["use-integers"]).split("func.func private @")[1:]
    assert sum("xf32" in kernel.partition(" attributes")[0].rpartition("->")[2] for kernel in plain) > 5
