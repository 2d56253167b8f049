"""What the ops mean at the edges: rounding, wrapping, division, specials, ties, empty windows; and how much arithmetic they count."""

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from every import every

from stepwell.dialects.core.types import FLOATS, TensorType, to_numpy
from stepwell.dialects.graph import op_class
from stepwell.dialects.graph.numerics import narrow
from stepwell.dialects.support.errors import StepwellError

BF16 = np.dtype(ml_dtypes.bfloat16)


def run(mnemonic: str, *operands: Any, **attributes: Any) -> Any:
    with np.errstate(all="ignore"):
        return op_class(mnemonic).reference(*operands, **attributes)


def ints(*values: int, dtype: str = "i32") -> np.ndarray:
    return np.array(values).astype(to_numpy(dtype))


def test_integer_division_truncates_toward_zero() -> None:
    np.testing.assert_array_equal(run("div", ints(7, -7, 7, -7, 0), ints(2, 2, -2, -2, -3)), [3, -3, -3, 3, 0])
    assert run("div", ints(-128, dtype="i8"), ints(-1, dtype="i8"))[0] == -128  # wraps
    np.testing.assert_array_equal(run("div", np.array([2**64 - 1], np.uint64), np.array([2], np.uint64)), np.array([2**63 - 1], np.uint64))
    np.testing.assert_array_equal(run("div", np.array([2**62 + 1, -(2**62) - 1]), np.array([3, 3])), [(2**62 + 1) // 3, -((2**62 + 1) // 3)])


def test_signs_of_remainders() -> None:
    lhs, rhs = ints(7, -7, 7, -7), ints(3, 3, -3, -3)
    np.testing.assert_array_equal(run("mod", lhs, rhs, fmod=False), [1, 2, -2, -1])
    np.testing.assert_array_equal(run("mod", lhs, rhs, fmod=True), [1, -1, 1, -1])
    np.testing.assert_allclose(run("mod", np.float32([-4.3, 4.3]), np.float32([3.1, -3.1]), fmod=True), [-1.2, 1.2], rtol=1e-6)


def test_integer_powers() -> None:
    np.testing.assert_array_equal(run("pow", ints(2, -1, -1, 1, 0, -3), ints(-1, -3, -2, -5, 0, 3)), [0, -1, 1, 1, 1, -27])
    np.testing.assert_array_equal(run("pow", ints(3, 200, dtype="ui8"), ints(6, 2, dtype="ui8")), [729 % 256, 40000 % 256])


@pytest.mark.parametrize("dtype", FLOATS)
def test_specials_pass_through(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0]).astype(to_numpy(dtype))
    one = np.ones(4).astype(to_numpy(dtype))
    bounded = {"clamp": {"min": 0.0, "max": 6.0}, "leaky_relu": {"alpha": 0.5}, "elu": {"alpha": 1.0}, "relu": {}, "sign": {}}
    for mnemonic, attributes in bounded.items():
        assert np.isnan(run(mnemonic, x, **attributes)[0]), mnemonic
    for mnemonic in ("maximum", "minimum", "add"):
        assert np.isnan(run(mnemonic, x, one)[0]), mnemonic
        assert np.isnan(run(mnemonic, one, x)[0]), mnemonic
    np.testing.assert_array_equal(run("relu", x)[1:].astype(float), [np.inf, 0, 1])
    np.testing.assert_array_equal(run("sigmoid", x)[1:3].astype(float), [1, 0])
    np.testing.assert_array_equal(run("softplus", x)[1:3].astype(float), [np.inf, 0])
    np.testing.assert_array_equal(run("is_inf", x, detect_negative=True, detect_positive=False), [False, False, True, False])
    np.testing.assert_array_equal(run("equal", x, x), [False, True, True, True])
    assert np.isnan(run("reduce_max", x, axes=(0,), keepdims=False))
    assert np.isnan(run("max_pool", x.reshape(1, 1, 4), kernel=(4,), strides=(1,), pads=(0, 0), dilations=(1,), ceil_mode=False)[0, 0, 0])


def test_rounding_goes_to_even() -> None:
    np.testing.assert_array_equal(run("round", np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 2.4])), [0, 2, 2, 0, -2, 2])


def test_f64_becomes_bf16_in_one_rounding() -> None:
    """Through f32 a value just above a tie would first become the tie, and then go to even."""
    tie = 1 + 2.0**-8
    values = np.array([tie, tie + 2.0**-40, tie - 2.0**-40, -tie - 2.0**-40, tie + 2.0**-7, 3.5e38, np.inf, -0.0, 2.0**-140, 1e-300])
    expected = [1, 1 + 2.0**-7, 1, -1 - 2.0**-7, 1 + 2.0**-6, np.inf, np.inf, -0.0, 0, 0]
    got = narrow(values, BF16).astype(np.float64)
    np.testing.assert_allclose(got, expected, atol=1e-40, rtol=0)
    np.testing.assert_array_equal(got[:5], expected[:5])
    assert np.isnan(narrow(np.array(np.nan), BF16))
    for value, want in zip(values, got, strict=True):
        assert narrow(np.array(value), BF16).astype(np.float64) == want


def test_narrow_types_are_computed_in_f32() -> None:
    x = np.array([[[65504.0, 60000.0]]]).astype(np.float16)
    window = {"kernel": (2,), "strides": (1,), "pads": (0, 0), "dilations": (1,), "ceil_mode": False}
    np.testing.assert_array_equal(run("avg_pool", x, **window, count_include_pad=False), [[[62752]]])
    ones = np.ones(4096).astype(BF16)
    assert run("reduce_sum", ones, axes=(0,), keepdims=False) == 4096  # one by one it would stop at 256
    assert run("matmul", ones.reshape(1, -1), ones.reshape(-1, 1))[0, 0] == 4096


@every("to", ["i8", "ui8", "i32", "i64", "ui64"])
@every("source", ["f32", "f64", "bf16"])
def test_saturating_casts(source: str, to: str) -> None:
    low, high = np.iinfo(to_numpy(to)).min, np.iinfo(to_numpy(to)).max
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3.75, 100.0]).astype(to_numpy(source))
    got = run("cast", x, to=to, saturate=True)
    assert got.dtype == to_numpy(to)
    assert [int(v) for v in got] == [0, high, low, high, low, 3, 100]


def test_other_casts() -> None:
    np.testing.assert_array_equal(run("cast", ints(300, -1), to="ui8", saturate=True), [44, 255])  # integers wrap
    np.testing.assert_array_equal(run("cast", np.float32([0.5, 0, -0.0, np.nan]), to="i1", saturate=False), [True, False, False, True])
    np.testing.assert_array_equal(run("cast", np.array([True, False]), to="bf16", saturate=False).astype(float), [1, 0])
    np.testing.assert_array_equal(run("cast", np.float32([1.9, -1.9]), to="i32", saturate=False), [1, -1])


def test_clamps_of_integers_reach_the_ends_of_the_type() -> None:
    x = np.array([-(2**63), 0, 2**63 - 1])
    np.testing.assert_array_equal(run("clamp", x, min=-np.inf, max=np.inf), x)
    np.testing.assert_array_equal(run("clamp", x, min=-5.0, max=np.inf), [-5, 0, 2**63 - 1])
    np.testing.assert_array_equal(run("clamp", ints(0, 9, 255, dtype="ui8"), min=-3.0, max=300.0), [0, 9, 255])
    np.testing.assert_array_equal(run("clamp", np.float32([-9, 0, 9]), min=5.0, max=1.0), [1, 1, 1])  # the upper bound wins


def test_softmax_of_large_and_equal_values() -> None:
    np.testing.assert_allclose(run("softmax", np.float32([[1000, 1000], [-1000, 1000]]), axis=1), [[0.5, 0.5], [0, 1]])


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("filters", [1, 3])
def test_weights_of_zero_pass_nan_and_infinities_on(channels: int, filters: int) -> None:
    """What a weight of 0 multiplies is not left out, however few elements there are (BLAS leaves it out of a vector's multiple)."""
    x, w = np.ones((2, channels, 5), np.float32), np.zeros((filters, channels, 1), np.float32)
    x[1, 0, 2], x[0, channels - 1, 3] = np.nan, np.inf
    spread = np.broadcast_to(~np.isfinite(x).all(axis=1, keepdims=True), (2, filters, 5))
    window = {"strides": [1], "pads": [0, 0], "dilations": [1], "group": 1}
    by_channel = np.moveaxis(x, 1, -1)
    results = {
        "conv": run("conv", x, w, **window),
        "conv_transpose": run("conv_transpose", x, np.swapaxes(w, 0, 1), **window, output_padding=[0]),
        "packed.conv": run("packed.conv", x, w[..., np.newaxis], strides=[1], dilations=[1], group=1)[..., 0],
        "packed.matmul": np.moveaxis(run("packed.matmul", by_channel, w)[..., 0], -1, 1),
        "matmul": np.moveaxis(run("matmul", by_channel, w[:, :, 0].T), -1, 1),
    }
    for name, result in results.items():
        np.testing.assert_array_equal(np.isnan(result), spread, name)
        np.testing.assert_array_equal(result[~spread], 0, name)


def test_reductions_of_nothing() -> None:
    empty = np.zeros((2, 0), np.float32)
    for mnemonic, value in (("reduce_sum", 0), ("reduce_prod", 1), ("reduce_max", -np.inf), ("reduce_min", np.inf)):
        np.testing.assert_array_equal(run(mnemonic, empty, axes=(1,), keepdims=False), [value, value])
    assert run("reduce_max", np.zeros((0,), np.int8), axes=(0,), keepdims=False) == -128
    assert run("reduce_max", np.array([False, True]), axes=(0,), keepdims=False).dtype == bool


def test_sums_of_integers_wrap_in_their_type() -> None:
    total = run("reduce_sum", ints(200, 100, dtype="ui8"), axes=(0,), keepdims=False)
    assert (total.dtype, int(total)) == (np.uint8, 44)
    np.testing.assert_array_equal(run("cumsum", ints(100, 100, dtype="i8"), axis=0, exclusive=False, reverse=False), ints(100, -56, dtype="i8"))


def test_ties_in_order() -> None:
    x = np.float32([3, 1, 3, 2, 1])
    values, places = run("top_k", x, np.array(4), axis=0, largest=True)
    np.testing.assert_array_equal(values, [3, 3, 2, 1])
    np.testing.assert_array_equal(places, [0, 2, 3, 1])
    np.testing.assert_array_equal(run("top_k", x, np.array(3), axis=0, largest=False)[1], [1, 4, 3])
    assert run("arg_max", x, axis=0, keepdims=False, select_last=False) == 0
    assert run("arg_max", x, axis=0, keepdims=False, select_last=True) == 2
    assert run("arg_min", x, axis=0, keepdims=True, select_last=True) == [4]


def test_windows_of_padding_only() -> None:
    x = np.float32([[[5.0]]])
    window = {"kernel": (2,), "strides": (1,), "pads": (2, 0), "dilations": (1,), "ceil_mode": False}
    np.testing.assert_array_equal(run("max_pool", x, **window), [[[-np.inf, 5]]])
    np.testing.assert_array_equal(run("avg_pool", x, **window, count_include_pad=True), [[[0, 2.5]]])
    np.testing.assert_array_equal(run("avg_pool", x, **window, count_include_pad=False), [[[np.nan, 5]]])


def test_indices_that_do_not_exist() -> None:
    x = np.float32([[1, 2], [3, 4]])
    with pytest.raises(StepwellError, match="index 2 is out of range for a dimension of size 2"):
        run("gather", x, np.array([0, 2]), axis=0)
    with pytest.raises(StepwellError, match="index -3 is out of range"):
        run("scatter_nd", x, np.array([[-3]]), x[:1], reduction="none")
    with pytest.raises(StepwellError, match="its delta is 0"):
        run("range", np.array(0), np.array(3), np.array(0))
    with pytest.raises(StepwellError, match="a step of a slice is 0"):
        run("dynamic_slice", x, *(np.array([v]) for v in (0, 1, 0, 0)))


def test_scatter_adds_every_duplicate() -> None:
    x = np.zeros(3).astype(BF16)
    got = run("scatter_nd", x, np.zeros((300, 1), np.int64), np.ones(300).astype(BF16), reduction="add")
    np.testing.assert_array_equal(got.astype(float), [300, 0, 0])
    assert x[0] == 0


def test_ranges() -> None:
    np.testing.assert_array_equal(run("range", ints(5)[0], ints(-6)[0], ints(-4)[0]), [5, 1, -3])
    assert run("range", ints(5)[0], ints(9)[0], ints(-4)[0]).shape == (0,)
    assert run("range", np.array(0.0), np.array(1.0), np.array(0.1)).shape == (10,)


def flops(mnemonic: str, *types: TensorType, **attributes: Any) -> int:
    cls = op_class(mnemonic)
    result = cls.infer(*types, **attributes)
    return int(cls.flops(*types, result=result[0] if isinstance(result, tuple) else result, **attributes))


def test_unpickled_dtypes_are_those_of_numpy() -> None:
    third = np.array([1 / 3])
    for dtype in (pickle.loads(pickle.dumps(third)).dtype, np.dtype(np.float64).newbyteorder("=")):
        assert narrow(third, dtype) == third


def test_arithmetic_is_counted() -> None:
    x, y = TensorType("f32", (2, 6, 9, 8)), TensorType("f32", (4, 3, 3, 2))
    window = {"strides": (2, 1), "pads": (1, 0, 1, 0), "dilations": (1, 2)}
    assert flops("add", x, x) == 2 * 6 * 9 * 8
    assert flops("conv", x, y, **window, group=2) == 2 * (2 * 4 * 5 * 6) * (3 * 3 * 2)
    assert flops("matmul", TensorType("f32", (5, 2, 3)), TensorType("f32", (3, 7))) == 2 * 5 * 2 * 3 * 7
    assert flops("max_pool", x, kernel=(3, 2), **window, ceil_mode=False) == (2 * 6 * 5 * 6) * 6
    assert flops("reduce_sum", x, axes=(2, 3), keepdims=False) == 2 * 6 * 9 * 8
    assert flops("batch_norm", x, *[TensorType("f32", (6,))] * 4, epsilon=0.0) == 2 * 2 * 6 * 9 * 8
    whole = {"strides": (2, 1), "dilations": (1, 2), "group": 1}  # the same on blocked images
    wide, filters = TensorType("f32", (2, 3, 9, 8, 2)), TensorType("f32", (3, 3, 3, 2, 2, 4))
    assert flops("packed.conv", wide, filters, **whole) == 2 * (2 * 12 * 4 * 6) * (3 * 2 * 6)
    assert flops("packed.depthwise_conv", wide, TensorType("f32", (3, 3, 2, 2)), strides=(2, 1), dilations=(1, 2)) == 2 * (2 * 6 * 4 * 6) * (3 * 2)
    bytes_, plain = TensorType("i8", (1, 2, 6, 6, 4)), TensorType("i8", (3, 2, 3, 3, 2, 2, 2))
    assert flops("packed.integer_winograd_conv", bytes_, plain, tile=2, group=1, transformed=False) == 2 * (3 * 2 * 4 * 4) * (9 * 2 * 4)
    transformed = TensorType("i16", (4, 4, 3, 2, 2, 2, 2))
    assert flops("packed.integer_winograd_conv", bytes_, transformed, tile=2, group=1, transformed=True) == 2 * (3 * 2 * 4 * 4) * (9 * 2 * 4)
    moves: list[tuple[str, dict[str, Any]]] = [("reshape", {"shape": (-1,)}), ("transpose", {"perm": (3, 2, 1, 0)}), ("shape_of", {})]
    for mnemonic, attributes in moves:
        assert flops(mnemonic, x, **attributes) == 0
    transposed = {**window, "group": 2, "output_padding": (0, 0)}
    assert flops("conv_transpose", TensorType("f32", (1, 4, 5, 5)), TensorType("f32", (4, 3, 3, 2)), **transposed) == 2 * 100 * (3 * 3 * 2)


def test_arithmetic_of_a_layer_is_the_same_however_its_weights_lie() -> None:
    functions = {"activations": ["sigmoid", "tanh", "tanh"], "alphas": [0.0] * 3, "betas": [0.0] * 3}
    layer = {**functions, "direction": "forward", "clip": 1e9, "input_forget": False}
    projected, scales, sums = TensorType("f32", (5, 2, 4 * 6)), TensorType("f32", (1, 4, 6)), TensorType("i32", (1, 4, 6))
    for weights in ((1, 4, 1, 6, 6, 1), (1, 4, 2, 2, 4, 4)):  # one panel of 6 columns, two of 4 in groups of 4
        given = (projected, TensorType("i8", weights), scales, sums, None, None, None, None)
        assert flops("quantized_lstm", *given, **layer) == 2 * (5 * 2) * (4 * 6 * 6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [(-9, -8, -1, [0]), (-9, -4, -1, []), (9, -9, -2, [4, 2, 0]), (-2, 9, 1, [3, 4]), (9, 0, 1, []), (3, 0, -1, [3, 2, 1])],
)
def test_slices_are_moved_into_range(start: int, end: int, step: int, expected: list[int]) -> None:
    """Backwards from before the first element begins at the first: there ONNX differs from numpy."""
    got = run("dynamic_slice", np.arange(5), *(np.array([v]) for v in (start, end, 0, step)))
    np.testing.assert_array_equal(got, expected)
