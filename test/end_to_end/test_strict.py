"""Strict code: infinities and NaN come out where the direct computation has them, and nowhere else."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from covering import by_day
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.cli.main import main
from stepwell.dialects.core.mlir import make_context
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.dialects.support.errors import PipelineError
from stepwell.frontends.onnx import import_model
from stepwell.options import CompileOptions
from stepwell.passes.framework.registry import Pass, register_pass
from stepwell.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.optimised

SPECIALS = (np.inf, -np.inf, np.nan)
TARGETS = ("host", "x86-64-v2", "x86-64-v3", "x86-64-v4")


class Net:
    """Builds an ONNX model of one input and one output with random weights."""

    def __init__(self, *shape: int) -> None:
        self.random = np.random.default_rng(7)
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def array(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape, np.float32)

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def conv(self, x: str, channels: int, filters: int, size: int = 3, group: int = 1, **attributes: Any) -> str:
        weights = self.weight(self.array(filters, channels // group, size, size) / size)
        return self.add("Conv", x, weights, group=group, **{"pads": [size // 2] * 4, **attributes})

    def clip(self, x: str) -> str:
        """Makes finite numbers of infinities, and leaves NaN."""
        return self.add("Clip", x, self.weight(np.array(-1)), self.weight(np.array(1.5)))

    def model(self, result: str) -> onnx.ModelProto:
        sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in (("x", self.shape), (result, None))]
        graph = helper.make_graph(self.nodes, "net", *sides, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)


def winograd() -> onnx.ModelProto:
    net = Net(1, 32, 16, 16)
    return net.model(net.conv("x", 32, 32))


def filled_blocks(first: int, second: int) -> onnx.ModelProto:
    """Where blocks have lanes without a channel, of which each convolution reads all that it reads of a real one."""
    net = Net(1, 8, 9, 10)
    y = net.clip(net.conv("x", 8, first))
    y = net.clip(net.conv(y, first, second, size=1))
    return net.model(net.conv(y, second, 3))


def depthwise() -> onnx.ModelProto:
    net = Net(2, 12, 9, 9)
    y = net.clip(net.conv("x", 12, 20, size=1))
    y = net.clip(net.conv(y, 20, 20, group=20, strides=[2, 2]))
    return net.model(net.conv(y, 20, 10, size=1))


def groups() -> onnx.ModelProto:
    """Two grouped convolutions with a shuffle of channels between."""
    net = Net(1, 12, 8, 7)
    y = net.clip(net.conv("x", 12, 30, size=1, group=3))
    apart = net.add("Reshape", y, "apart")
    y = net.add("Reshape", net.add("Transpose", apart, perm=[0, 2, 1, 3, 4]), "together")
    net.weights += [numpy_helper.from_array(np.array(s), n) for s, n in (((1, 3, 10, 8, 7), "apart"), ((1, 30, 8, 7), "together"))]
    y = net.clip(net.conv(y, 30, 15, group=3))
    return net.model(net.conv(y, 15, 6, size=1))


def joined() -> onnx.ModelProto:
    """Normalisation, a residual sum, a concatenation of odd sizes, and one number for all channels."""
    net = Net(1, 8, 7, 9)
    y = net.conv("x", 8, 18)
    y = net.add("BatchNormalization", y, *(net.weight(np.abs(net.array(18)) + 0.5) for _ in range(4)))
    z = net.clip(net.add("Add", y, net.conv("x", 8, 18, size=1)))
    w = net.clip(net.conv("x", 8, 6, size=1))
    y = net.add("Concat", z, w, axis=1)
    y = net.clip(net.conv(y, 24, 11))
    one = net.add("ReduceMax", y, axes=[1], keepdims=1)  # a NaN or a number for each position
    y = net.clip(net.add("Mul", y, net.add("Exp", net.add("Mul", one, net.weight(np.array(100))))))
    return net.model(net.conv(y, 11, 5, size=1))


def pooling() -> onnx.ModelProto:
    net = Net(1, 8, 11, 12)
    y = net.clip(net.conv("x", 8, 20))
    y = net.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.clip(net.conv(y, 20, 10, size=1))
    y = net.add("AveragePool", y, kernel_shape=[3, 2], pads=[1, 0, 1, 1])
    return net.model(net.add("LRN", net.conv(y, 10, 10, size=1), size=3, alpha=0.1))


def products() -> onnx.ModelProto:
    """Matrices whose columns do not fill their panels, and whose depth is no multiple of a vector."""
    net = Net(5, 37)
    y = net.clip(net.add("Gemm", "x", net.weight(net.array(37, 50)), net.weight(net.array(50))))
    y = net.clip(net.add("MatMul", y, net.weight(net.array(50, 19))))
    return net.model(net.add("MatMul", y, net.weight(net.array(19, 3))))


def one_row() -> onnx.ModelProto:
    net = Net(1, 70)
    y = net.clip(net.add("MatMul", "x", net.weight(net.array(70, 133))))
    return net.model(net.add("Softmax", net.add("MatMul", y, net.weight(net.array(133, 7)))))


NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "winograd": winograd, "filled-6-20": functools.partial(filled_blocks, 6, 20), "filled-12-33": functools.partial(filled_blocks, 12, 33),
    "depthwise": depthwise, "groups": groups, "joined": joined, "pooling": pooling, "products": products, "one-row": one_row,
}  # fmt: skip


def feeds(net: Callable[[], onnx.ModelProto]) -> Sequence[np.ndarray]:
    """Inputs with a single special value, and one with one of each kind."""
    random = np.random.default_rng(5)
    shape = [d.dim_value for d in net().graph.input[0].type.tensor_type.shape.dim]
    found = []
    for specials in (*([s] for s in SPECIALS), SPECIALS):
        x = random.standard_normal(shape, np.float32)
        x.flat[random.choice(x.size, len(specials), replace=False)] = specials
        found.append(x)
    return found


@functools.cache
def expected(name: str) -> list[np.ndarray]:
    """By the ops' reference meanings: for convolutions and products, the sum of all products."""
    imported = import_model(NETS[name](), make_context())
    return [next(iter(evaluate(imported.module, imported.weights, {"x": x}).values())) for x in feeds(NETS[name])]


ON = [(name, target) for name in NETS for target in TARGETS]
MORE = [("filled-6-20", "host"), ("depthwise", "x86-64-v4")]
DAY = [*((name, TARGETS[1 + i % 3]) for i, name in enumerate(NETS)), *MORE]


@pytest.mark.usefixtures("_runs_here")
@pytest.mark.parametrize(("name", "target"), by_day(ON, DAY))
def test_infinities_and_nan_stay_where_they_are(name: str, target: str) -> None:
    one, two = (stepwell.compile(NETS[name](), strict=True, target=target, threads=threads) for threads in (1, 2))
    for x, want in zip(feeds(NETS[name]), expected(name), strict=True):
        for got in (*one(x), *two(x)):
            np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
            finite = np.isfinite(want)
            scale = np.abs(want[finite]).max(initial=1)
            np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=2e-5 * scale)
        np.testing.assert_array_equal(one(x), two(x))


def direct(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A 3x3 convolution padded by 1, as it is defined."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    with np.errstate(invalid="ignore"):
        total: np.ndarray = sum(windows[:, :, :, :, i, j][:, None] * w[None, :, :, i, j, None, None] for i in range(3) for j in range(3)).sum(2)
    return total


@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("double", np.float64), ("float16", np.float16)])
@pytest.mark.parametrize("body", ["s = MatMul(x, w) y = Mul(s, k)", "s = MatMul(w, x) y = Mul(s, k)", "s = Mul(x, k) y = MatMul(s, w)"])
def test_weights_that_are_scaled_do_not_vanish(body: str, kind: str, dtype: type[np.floating[Any]]) -> None:
    """An infinity times a small weight, times a small factor, is infinite; times the product of the two, rounded to 0, it would be NaN."""
    least = np.finfo(dtype).smallest_subnormal
    w = np.array([[least, -least, 0], [1, least, -0.0], [-1, 3, -least]], dtype)
    x = np.array([[np.inf, 2, -3], [-1, 0.5, np.inf], [2, 1, 0.25]], dtype)
    k = np.array(-0.25, dtype)
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> scaled ({kind}[3, 3] x) => ({kind}[3, 3] y) {{ {body} }}')
    model.graph.initializer.extend([numpy_helper.from_array(w, "w"), numpy_helper.from_array(k, "k")])
    with np.errstate(all="ignore"):
        left, right = (array.astype(np.float64) for array in ((w, x) if "(w, x)" in body else (x, w)))
        want = (left @ right) * float(k)
    (got,) = stepwell.compile(model, strict=True, threads=1)(x)
    assert np.isinf(want).any()
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got[np.isinf(want)], want[np.isinf(want)])


@pytest.mark.usefixtures("_runs_here")
@pytest.mark.parametrize("target", by_day(TARGETS, ["host", "x86-64-v2"]))
def test_winograd_spreads_and_is_off_in_strict_code(target: str) -> None:
    source = winograd()
    w = numpy_helper.to_array(source.graph.initializer[0]).astype(np.float64)
    x = np.random.default_rng(2).standard_normal((1, 32, 16, 16), np.float32)
    x[0, 3, 5, 6] = np.inf
    right = ~np.isfinite(direct(x, w))
    assert right.sum() == 9 * 32
    fast, strict = (stepwell.compile(source, target=target, threads=1, strict=strict)(x)[0] for strict in (False, True))
    np.testing.assert_array_equal(~np.isfinite(strict), right)
    assert np.all(~np.isfinite(fast) >= right)
    assert (~np.isfinite(fast)).sum() > right.sum()  # else docs/numerics.md is out of date


def test_what_strict_code_does_without() -> None:
    assert Pipeline.default().relaxed() == ("unmasked-lanes", "use-winograd", "slice-floats")
    off = Pipeline.default().without(("fill-borders", "use-winograd", "unmasked-lanes", "slice-floats"))
    assert CompileOptions(disable=("fill-borders", "use-winograd"), strict=True).passes() == off
    fast, strict = (stepwell.lower(winograd(), "graph-opt", strict=strict).text() for strict in (False, True))
    assert "packed.winograd_conv" in fast
    assert "packed.winograd_conv" not in strict
    filled, masked = (stepwell.lower(NETS["filled-12-33"](), "graph-opt", target="x86-64-v3", strict=strict).text() for strict in (False, True))
    assert "packed.masked" not in filled
    assert masked.count("packed.masked") == 2
    assert masked.count(" call @") == filled.count(" call @")  # the masks cost no kernels


@pytest.mark.parametrize("level", ["graph", "graph-opt"])
def test_strict_from_ir(level: str) -> None:
    lowered = stepwell.lower(winograd(), level, strict=True)
    (x, want), *_ = zip(feeds(winograd), expected("winograd"), strict=True)
    (got,) = stepwell.compile_ir(lowered.text(), level, lowered.weights, strict=True, threads=1)(x)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


@pytest.mark.usefixtures("cache_folder")
def test_the_cache_keeps_both() -> None:
    found: list[str] = []
    texts = []
    for strict in (False, True, False, True):
        model = stepwell.compile(winograd(), strict=strict, threads=1, on_level=lambda level, seconds: found.append(level))
        texts.append("winograd_conv" in model.ir("graph-opt"))
    assert found.count("cache") == 2
    assert texts == [True, False, True, False]


def test_free_dimensions_stay_strict() -> None:
    source = winograd()
    for value in (*source.graph.input, *source.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    model = stepwell.compile(source, strict=True, threads=1)
    (x, want), *_ = zip(feeds(winograd), expected("winograd"), strict=True)
    np.testing.assert_array_equal(np.isfinite(model(x)[0]), np.isfinite(want))


def test_a_pass_can_be_relaxed_in_its_own_switches_only() -> None:
    @dataclasses.dataclass
    class Loose(Pass):
        pass

    with pytest.raises(PipelineError, match=r"relaxed \['other'\] must be switches of it: loose"):
        register_pass("loose", level="graph", optional=True, relaxed=("other",))(Loose)


def test_commands(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(winograd(), tmp_path / "net.onnx")
    for options, expected_there in (([], True), (["--strict"], False)):
        assert main(["compile", str(tmp_path / "net.onnx"), "--emit", "graph-opt", "-o", str(tmp_path / "net.mlir"), *options]) == 0
        assert ("packed.winograd_conv" in (tmp_path / "net.mlir").read_text()) == expected_there
    x = feeds(winograd)[0]
    np.savez(tmp_path / "x.npz", x=x)
    for source in ([str(tmp_path / "net.onnx")], [str(tmp_path / "net.mlir"), "--from", "graph-opt"]):
        assert main(["run", *source, "--strict", "--input", str(tmp_path / "x.npz"), "--save", str(tmp_path / "y.npz")]) == 0
        (got,) = np.load(tmp_path / "y.npz").values()
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected("winograd")[0]))
    capsys.readouterr()


def test_an_infinite_variance_leaves_nothing_of_a_channel() -> None:
    """Its factor is 0 by what it means, and not by rounding; that of a small scale is not."""
    body = "bn (float[1, 2, 3] x) => (float[1, 2, 3] y) { y = BatchNormalization <epsilon = 0.0> (x, s, z, z, v) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {body}')
    weights = {"s": [1, 1e-45], "z": [0, 0], "v": [np.inf, 4]}
    model.graph.initializer.extend(numpy_helper.from_array(np.array(values, np.float32), name) for name, values in weights.items())
    x = np.array([[[1, -2, np.inf], [1, -np.inf, np.inf]]], np.float32)
    (got,) = stepwell.compile(model, strict=True, threads=1)(x)
    assert np.array_equal(got[0, 0], [0, 0, np.nan], equal_nan=True)
    assert np.array_equal(got[0, 1, 1:], [-np.inf, np.inf])
