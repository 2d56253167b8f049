"""Single operators in native code, where their meaning is easy to get wrong: extreme numbers, unusual parameters, NaN and infinities."""

from typing import Any

import guarded
import numpy as np
import pytest
from covering import every_by_day, pairs
from every import every
from importing import check_native, expected_outputs, floats, model, node
from native_checks import natively_together
from onnx import helper

import stepwell

NAN, INF = np.nan, np.inf
SPECIAL = np.array([-3, -1, -0.5, -1e-6, 0.0, 1e-6, 0.5, 2, 60, NAN, INF, -INF], np.float32)
HUGE = (1 << 62) + 1  # no f64 holds it

# --- integers stay integers


@natively_together
@every(
    "value",
    [np.array(HUGE), np.array(-HUGE), np.array((1 << 64) - 1, np.uint64), np.array((1 << 63) + 1, np.uint64), np.array(-7, np.int8), np.array(True)],
)
def test_pad_with_any_number(value: np.ndarray) -> None:
    x = np.array([1, 0, 5]).astype(value.dtype)
    check_native(node("Pad", ["x", "pads", "value"]), {"x": x}, {"pads": np.array([2, 1]), "value": value})
    check_native(node("Pad", ["x", "pads", "value"]), {"x": x, "value": value}, {"pads": np.array([2, 1])})


@natively_together
@every("value", [NAN, INF, -0.0, 1e-40])
def test_pad_with_special_floats(value: float) -> None:
    weights = {"pads": np.array([2, 1]), "value": np.array(value, np.float32)}
    check_native(node("Pad", ["x", "pads", "value"]), {"x": SPECIAL}, weights)


@natively_together
@every(("low", "high"), [(5, HUGE), (HUGE, HUGE + 7), (HUGE + 2, HUGE), (-HUGE - 1, -HUGE)])
def test_clip_by_large_integers(low: int, high: int) -> None:
    x = np.array([HUGE - 2, HUGE, HUGE + 3, 7, -HUGE, -HUGE - 5])
    check_native(node("Clip", ["x", "low", "high"]), {"x": x, "low": np.array(low), "high": np.array(high)})


@natively_together
@every("dtype", [np.int32, np.int64])
def test_power_of_an_integer_by_a_float(dtype: Any) -> None:
    x, exponents = np.array([16777217, 3, -2, 5, 2], dtype), np.array([1, 2, 3, 0, -1], np.float32)
    check_native(node("Pow", ["x", "p"]), {"x": x, "p": exponents})


def test_power_of_an_integer_by_a_wider_one() -> None:
    x, exponents = np.array([2, -2, 3, -1, 7], np.int32), np.array([1 << 32, 3, -(1 << 32), (1 << 33) + 1, 2])
    check_native(node("Pow", ["x", "p"]), {"x": x, "p": exponents}, expected=[np.array([0, -8, 0, -1, 49], np.int32)])


@natively_together
@every("dtype", [np.int32, np.int64])
def test_power_of_a_float_by_an_integer_that_no_float_holds(dtype: Any) -> None:
    check_native(node("Pow", ["x", "p"]), {"x": np.array([-1, -1, 2, 0.5], np.float32), "p": np.array([16777217, 3, 2, -3], dtype)})


def test_power_of_a_float_by_a_wider_one() -> None:
    check_native(node("Pow", ["x", "p"]), {"x": np.array([9e37, 3e-30, 2], np.float32), "p": np.array([0.1, -0.3, NAN])}, terms=4)


@natively_together
@every(("alpha", "beta"), [(0.5, 1.0), (2.0, 1.5), (0.25, 0.75), (-2.0, 3.0)])
def test_gemm_of_integers_scaled(alpha: float, beta: float) -> None:
    arrays = {"a": np.array([[1, -3, 7], [4, 2, 9]], np.int32), "b": np.array([[1], [3], [-5]], np.int32), "c": np.array([3], np.int32)}
    want = (arrays["a"] @ arrays["b"] * alpha + arrays["c"] * beta).astype(np.int32)
    check_native(node("Gemm", ["a", "b", "c"], alpha=alpha, beta=beta), arrays, expected=[want])


@natively_together
@every("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float32])
@every(("lambd", "bias"), [(1.5, 0.5), (0.5, 0.0), (-0.7, 0.3)])
def test_shrink(dtype: Any, lambd: float, bias: float) -> None:
    x = np.array([0, 1, 2, 3, 4, 100]).astype(dtype)
    x = x if np.dtype(dtype).kind == "u" else np.concatenate([x, -x])
    want = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)).astype(dtype)
    check_native(node("Shrink", ["x"], lambd=lambd, bias=bias), {"x": x}, expected=[want])


@natively_together
@every("dtype", [np.int64, np.uint64, np.uint8, np.float32])
def test_one_hot_of_indices_beyond_the_depth(dtype: Any) -> None:
    x = np.array([0, 2, 3, (1 << 64) - 1 if dtype == np.uint64 else 127], dtype)
    values = np.array([HUGE, HUGE + 2])
    want = np.where(np.arange(3) == x[:, np.newaxis].astype(np.float64), HUGE + 2, HUGE)
    check_native(node("OneHot", ["x", "depth", "values"]), {"x": x, "values": values}, {"depth": np.array(3)}, expected=[want])


# --- activations with unusual parameters


ACTIVATIONS: list[tuple[str, dict[str, Any]]] = [
    *(("Celu", {"alpha": alpha}) for alpha in (-0.5, -2.0, 0.0, 1.0, 1.7, 1e-30)),
    *(("Elu", {"alpha": alpha}) for alpha in (-1.5, 0.0, 2.0, INF)),
    *(("LeakyRelu", {"alpha": alpha}) for alpha in (-1.5, 0.0, 2.0)),
    *(("ThresholdedRelu", {"alpha": alpha}) for alpha in (-0.7, 0.0, 1.0)),
    ("Selu", {"alpha": -2.0, "gamma": -1.5}), ("Selu", {}), ("HardSigmoid", {"alpha": -1.0, "beta": 0.3}), ("HardSigmoid", {}),
    ("Shrink", {"lambd": -0.7, "bias": 0.3}), ("Softplus", {}), ("Softsign", {}), ("HardSwish", {}), ("Mish", {}), ("Relu", {}), ("Sigmoid", {}),
    ("Tanh", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Sign", {}),
]  # fmt: skip


@natively_together
@every(("op", "parameters"), ACTIVATIONS, ids=str)
def test_activation_of_special_values(op: str, parameters: dict[str, Any]) -> None:
    check_native(node(op, ["x"], **parameters), {"x": SPECIAL}, terms=64)


@natively_together
@every("alpha", [-0.5, 1.7])
def test_celu_keeps_small_and_large_numbers(alpha: float) -> None:
    x = np.array([1e-7, -1e-7, 3.3333333, 1e30, -1e-12], np.float32)
    want = np.where(x < 0, alpha * np.expm1(np.minimum(x, 0).astype(np.float64) / np.float32(alpha)), x).astype(np.float32)
    check_native(node("Celu", ["x"], alpha=alpha), {"x": x[:3]}, terms=4, expected=[want[:3]])
    check_native(node("Celu", ["x"], alpha=alpha), {"x": x[3:4]}, terms=1, expected=[want[3:4]])
    check_native(node("Celu", ["x"], alpha=alpha), {"x": x[4:]}, terms=4, expected=[want[4:]])


def test_sign_of_a_negative_zero_is_zero() -> None:
    zeros = np.array([-0.0, 0.0] * 9, np.float32)
    check_native([node("Sign", ["x"], ["s"]), node("Reciprocal", ["s"])], {"x": zeros}, expected=[np.full(18, INF, np.float32)])


@natively_together
@every(("low", "high"), [(7, 4), (-INF, 1), (INF, INF), (-INF, -INF), (0, INF)])
def test_clip_of_special_values(low: float, high: float) -> None:
    check_native(node("Clip", ["x", "low", "high"]), {"x": SPECIAL, "low": np.array(low, np.float32), "high": np.array(high, np.float32)})


# --- the places of maxima

WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "pads": [1, 1, 2, 0], "storage_order": 1},
    {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "dilations": [2, 3], "strides": [2, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "strides": [3, 2], "ceil_mode": 1, "storage_order": 1},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
]


TYPES = (np.int8, np.uint8, np.float16, np.float32, np.float64)
OF_TYPES = [(window, dtype) for dtype in TYPES for window in WINDOWS]
DAY = [(window, dtype) for i, window in enumerate(WINDOWS) for dtype in dict.fromkeys((np.float32, TYPES[i]))]


@natively_together
@every_by_day(("window", "dtype"), OF_TYPES, DAY, ids=str)
def test_places_of_least_values(dtype: Any, window: dict[str, Any]) -> None:
    least = -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min
    some = np.random.default_rng(1).random((2, 3, 5, 7)) < 0.3
    x = np.concatenate([np.full(some.shape, least, dtype), np.where(some, least + 1 if least != -np.inf else -1e4, least).astype(dtype)])
    check_native(node("MaxPool", ["x"], ["y", "places"], **window), {"x": x}, outputs=("y", "places"))


def test_places_of_nan() -> None:
    x = np.array([1, NAN, 3, NAN, -INF, 2], np.float32).reshape(1, 1, 6)
    want = [np.array([[[NAN, NAN, NAN, NAN, NAN, 2]]], np.float32), np.array([[[1, 1, 1, 3, 3, 5]]])]
    check_native(node("MaxPool", ["x"], ["y", "places"], kernel_shape=[3], pads=[1, 1]), {"x": x}, outputs=("y", "places"), expected=want)


# --- infinities stay where they are


TRANSPOSED: list[dict[str, Any]] = [
    {"strides": [2, 3]},
    {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2},
    {"strides": [3, 2], "output_padding": [2, 1]},
    {"strides": [2, 2], "output_shape": [12, 7]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
]


PLACES = [(attributes, where) for where in ("filters", "data", "nowhere") for attributes in TRANSPOSED]


@natively_together
@every_by_day(("attributes", "where"), PLACES, [*PLACES[:5], *PLACES[6:9], PLACES[13]], ids=str)
def test_infinities_in_a_transposed_convolution(where: str, attributes: dict[str, Any]) -> None:
    x, w, bias = floats(2, 4, 5, 4), floats(4, 3, 3, 2, seed=1), floats(3 * attributes.get("group", 1), seed=2)
    if where != "nowhere":
        (w if where == "filters" else x)[1, 2, 1, 1] = INF
    made = node("ConvTranspose", ["x", "w", "b"], **attributes)
    check_native(made, {"x": x, "w": w, "b": bias}, terms=16)


def test_infinities_in_windows_added_up() -> None:
    x = floats(2, 3 * 6, 9)
    x[1, 7, 5], x[0, 3, 8], x[0, 0, 0] = INF, NAN, -INF
    window = {"strides": [1, 2], "pads": [1, 0, 0, 1], "dilations": [2, 1]}
    check_native(node("Col2Im", ["x", "image", "block"], **window), {"x": x}, {"image": np.array([4, 6]), "block": np.array([2, 3])})


@natively_together
@every("mode", ["linear", "nearest"])
def test_infinities_beside_the_zeros_around_an_image(mode: str) -> None:
    x = np.array([[[[INF, 1, 2], [3, 4, 5], [6, 7, -INF]]]], np.float32)
    grid = np.array([[[[-2, -2], [-1.9, 0.1], [0.1, 0.2], [2.5, 2.5], [1.3, -1.3]]]], np.float32)
    check_native(node("GridSample", ["x", "grid"], mode=mode, padding_mode="zeros"), {"x": x, "grid": grid}, opset=20)


# --- what is computed in loops lies in the result's own memory

IN_LOOPS = [
    (node("CumSum", ["x", "n"], exclusive=1), {"n": np.array(1)}),
    (node("CumSum", ["x", "n"], reverse=1), {"n": np.array(0)}),
    (node("ScatterElements", ["x", "at", "u"], axis=1), {"at": np.array([[3, 0], [1, 6]]), "u": floats(2, 2, seed=3)}),
    (node("ScatterElements", ["x", "at", "u"], axis=0, reduction="add"), {"at": np.array([[3, 0], [3, 1]]), "u": floats(2, 2, seed=3)}),
    (node("ScatterND", ["x", "at", "u"], reduction="max"), {"at": np.array([[3, 0], [2, 6], [3, 0]]), "u": floats(3, seed=3)}),
    (node("ArgMax", ["x"], axis=1, keepdims=0), {}),
    (node("ArgMin", ["x"], axis=0, select_last_index=1), {}),
]


@pytest.mark.parametrize(("made", "weights"), IN_LOOPS, ids=lambda v: getattr(v, "op_type", ""))
def test_in_the_caller_s_memory(made: Any, weights: dict[str, np.ndarray]) -> None:
    x = floats(4, 7)
    (want,) = expected_outputs([made], {"x": x}, ["y"], weights, 21)
    compiled = stepwell.compile(model([made], {"x": x}, {"y": want}, weights))
    np.testing.assert_allclose(guarded.run(compiled, {"x": x}, 1)["y"], want, rtol=1e-5)
    twice = [made, node(made.op_type, ["y", *made.input[1:]], ["z"], **{a.name: helper.get_attribute_value(a) for a in made.attribute})]
    if want.shape == x.shape and want.dtype == x.dtype:
        wanted = expected_outputs(twice, {"x": x}, ["z"], weights, 21)
        got = guarded.run(stepwell.compile(model(twice, {"x": x}, {"z": wanted[0]}, weights)), {"x": x}, 0)
        np.testing.assert_allclose(got["z"], wanted[0], rtol=1e-5)


# --- a last window that would begin in the padding is none, whatever ONNX infers before opset 22


SPANS = [(3, 2, 2, (1, 1)), (4, 2, 3, (1, 1)), (6, 3, 2, (0, 0)), (7, 3, 3, (0, 2)), (2, 3, 2, (0, 0))]


@natively_together
@pairs({
    "opset": [18, 21, 22],
    ("op", "attributes"): [("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}), ("LpPool", {})],
    ("size", "kernel", "stride", "pads"): SPANS,
})
def test_the_last_window(op: str, attributes: dict[str, Any], size: int, kernel: int, stride: int, pads: tuple[int, int], opset: int) -> None:
    window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pads[0]] * 2 + [pads[1]] * 2, "ceil_mode": 1, **attributes}
    x = floats(1, 2, size, size)
    grid = [i * stride - pads[0] for i in range(size) if i * stride - pads[0] < size and (i == 0 or (i - 1) * stride + kernel < size + sum(pads))]
    nodes = [node("Relu", ["x"], ["a"]), node(op, ["a"], ["p"], **window), node("Add", ["p", "p"])]
    (want,) = expected_outputs(nodes, {"x": x}, ["y"], {}, opset)
    assert want.shape[2] == len(grid)
    check_native(nodes, {"x": x}, opset=opset, expected=[want])
