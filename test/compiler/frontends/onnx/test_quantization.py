"""Quantisation natively: ONNX's operators against their texts in numpy and against ONNX Runtime, those of com.microsoft against ONNX Runtime."""

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from covering import each
from every import every
from importing import check_native, expected_outputs, floats, model, node, rng
from native_checks import check_model, natively_together
from onnx import TensorProto, helper
from other_domains import MICROSOFT

import stepwell
from stepwell.dialects.support.errors import StepwellError

BF16 = ml_dtypes.bfloat16
F = np.float32
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16]
Shape = tuple[int, ...]


def integers(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    """All values of the type, its ends among them."""
    info = np.iinfo(dtype)
    values = rng(seed + sum(shape)).integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    values.flat[:: max(1, values.size // 5)] = info.max
    values.flat[1 :: max(2, values.size // 3)] = info.min
    return values


def factors(*shape: int) -> np.ndarray:
    """Signed factors from -64 to 63: two products with unsigned bytes fit 16 bits, where ONNX Runtime saturates on machines without VNNI."""
    return integers(np.int8, *shape) // np.int8(2)


def scales(*shape: int, dtype: Any = F, seed: int = 1) -> np.ndarray:
    return rng(seed + sum(shape)).uniform(0.01, 0.2, shape).astype(dtype)


def onnx_type(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


# --- one number, one for each index of an axis, one for each block: the shape of scales and zero points, and as what they broadcast

GRANULARITIES: dict[str, tuple[Shape, dict[str, int]]] = {
    "tensor": ((), {}),
    "vector of one": ((1,), {"axis": 7}),  # no axis of the data, and not read
    "axis": ((5,), {}),
    "last axis": ((12,), {"axis": -1}),
    "blocks": ((3, 5, 3), {"axis": 2, "block_size": 4}),
    "blocks of a middle axis": ((3, 1, 12), {"axis": -2, "block_size": 5}),
    "a part of a block": ((3, 2, 12), {"axis": 1, "block_size": 3}),
}
DATA = (3, 5, 12)


def spread(parameter: np.ndarray, shape: Shape, axis: int = 1, block_size: int = 0) -> np.ndarray:
    """A scale or zero point for each element of data of that shape."""
    if parameter.size == 1:
        return np.broadcast_to(parameter.reshape(()), shape)
    if block_size:
        repeated = np.repeat(parameter, block_size, axis=axis)
        return repeated.take(range(shape[axis]), axis=axis)
    return np.broadcast_to(parameter.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]), shape)


def quantized(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, precision: Any, dtype: Any) -> np.ndarray:
    """As the operator's text says."""
    with np.errstate(all="ignore"):
        quotient = (x.astype(precision) / scale.astype(precision)).astype(np.float64)
    info = np.iinfo(dtype)
    return np.nan_to_num(np.clip(np.rint(quotient) + zero.astype(np.float64), info.min, info.max), nan=0.0).astype(dtype)


def data_to_quantize(dtype: Any, scale: np.ndarray) -> np.ndarray:
    """Numbers with half-way cases among them, some far beyond the range of what they are quantised to, and NaN and infinities."""
    steps = rng(3).uniform(-300, 300, DATA)
    steps.flat[::3] = np.rint(steps.flat[::3]) + 0.5
    steps.flat[::11] *= 1e4
    x = steps * scale
    if np.dtype(dtype).kind == "i":
        return (x * 9).astype(dtype)
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    x.flat[:7] = [np.inf, -np.inf, np.nan, 0, -0.0, np.finfo(F).tiny, 6e4]
    return np.asarray(x)


@natively_together
@every(
    ("dtype", "granularity"), [(d, g) for d in INTEGERS for g in GRANULARITIES if d in (np.int8, np.uint16) or g in ("tensor", "axis")]
)
def test_quantize(dtype: Any, granularity: str) -> None:
    shape, attributes = GRANULARITIES[granularity]
    scale, zero = scales(*shape), integers(dtype, *shape, seed=5)
    full = [spread(p, DATA, **attributes) for p in (scale, zero)]
    x = data_to_quantize(F, full[0])
    want = quantized(x, *full, F, dtype)
    check_native(node("QuantizeLinear", ["x", "s", "z"], **attributes), {"x": x, "s": scale, "z": zero}, expected=[want])


@natively_together
@every(("source", "scale_type", "precision"), [
    (np.float16, np.float16, None), (BF16, BF16, None), (np.int32, F, None), (np.float16, F, None), (F, np.float16, None),
    (F, F, np.float16), (F, F, BF16), (np.float16, np.float16, F), (np.int32, np.int32, None), (F, F, np.float64),
])  # fmt: skip
@every("dtype", [np.int8, np.uint16])
def test_the_type_of_the_scale_or_the_precision_is_that_of_the_quotient(dtype: Any, source: Any, scale_type: Any, precision: Any) -> None:
    scale = np.array([3, 1, 7, 2, 5], scale_type) if scale_type is np.int32 else scales(5, dtype=scale_type)
    zero = integers(dtype, 5)
    x = data_to_quantize(source, spread(scale.astype(np.float64), DATA))
    computed = np.float64 if scale_type is np.int32 else precision or scale_type
    want = quantized(x, spread(scale, DATA), spread(zero, DATA), computed, dtype)
    attributes = {} if precision is None else {"precision": onnx_type(precision)}
    check_native(node("QuantizeLinear", ["x", "s", "z"], **attributes), {"x": x, "s": scale, "z": zero}, opset=23, expected=[want])


@natively_together
@every("dtype", [None, *INTEGERS])
def test_quantize_without_a_zero_point(dtype: Any) -> None:
    x, scale = data_to_quantize(F, np.array(0.1)), np.array(0.1, F)
    attributes = {} if dtype is None else {"output_dtype": onnx_type(dtype)}
    want = quantized(x, scale, np.array(0), F, dtype or np.uint8)
    check_native(node("QuantizeLinear", ["x", "s"], **attributes), {"x": x, "s": scale}, expected=[want])


@natively_together
@every("opset", [10, 13, 19, 21, 23, 25])
def test_quantize_and_back_of_any_version(opset: int) -> None:
    x, constants = floats(4, 6), {"s": np.array(0.02, F), "z": np.array(131, np.uint8)}
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"])]
    want = (quantized(x, constants["s"], constants["z"], F, np.uint8).astype(F) - 131) * F(0.02)
    check_native(nodes, {"x": x}, constants, opset=opset, terms=0, expected=[want])


DEQUANTIZED = [
    (np.int8, F, None), (np.uint8, F, None), (np.int16, F, np.float16), (np.uint16, BF16, None), (np.int8, np.float16, None),
    (np.uint8, np.float16, F), (np.int16, BF16, F),
]  # fmt: skip


@natively_together
@every(
    ("types", "granularity"), [(t, g) for i, t in enumerate(DEQUANTIZED) for g in GRANULARITIES if i in (1, 3) or g in ("tensor", "blocks")]
)
def test_dequantize(types: Any, granularity: str) -> None:
    dtype, scale_type, output = types
    shape, attributes = GRANULARITIES[granularity]
    x, scale, zero = integers(dtype, *DATA), scales(*shape, dtype=scale_type), integers(dtype, *shape, seed=5)
    full = [spread(p, DATA, **attributes).astype(F) for p in (scale, zero)]
    want = ((x.astype(F) - full[1]) * full[0]).astype(output or scale_type)
    asked = {} if output is None else {"output_dtype": onnx_type(output)}
    check_native(
        node("DequantizeLinear", ["x", "s", "z"], **attributes, **asked), {"x": x, "s": scale, "z": zero}, opset=23, terms=0, expected=[want]
    )


@natively_together
@every("with_zero", [False, True])
def test_dequantize_sums(with_zero: bool) -> None:
    x, scale = integers(np.int32, 7, 5), scales(5)
    arrays = {"x": x, "s": scale, **({"z": np.zeros(5, np.int32)} if with_zero else {})}
    check_native(node("DequantizeLinear", list(arrays)), arrays, terms=0, expected=[x.astype(F) * scale])


SOMETIMES = [floats(3, 40), np.abs(floats(50)), -np.abs(floats(50)), np.zeros(5, F), np.array(3.5, F), floats(1), floats(4, 33, 17) * F(1e-30)]


@natively_together
@every("x", SOMETIMES, ids=lambda x: f"{x.min():.2g} to {x.max():.2g}")
def test_dynamic_quantize(x: np.ndarray) -> None:
    check_native(node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"]), {"x": x}, outputs=("y", "s", "z"), terms=0)


# --- products


def requantized(total: np.ndarray, factor: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Sums in i32 times a factor in f32, rounded, and the zero point after that."""
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(total.astype(F) * factor.astype(F)).astype(np.float64) + zero, info.min, info.max).astype(zero.dtype)


SIDES: list[tuple[Shape, Shape, Shape, Shape]] = [  # the operands, and their scales
    ((6, 45), (45, 19), (), ()), ((6, 45), (45, 19), (1,), (19,)), ((6, 45), (45, 19), (6,), (19,)), ((2, 6, 45), (45, 19), (), (19,)),
    ((2, 3, 6, 45), (2, 3, 45, 19), (2, 3, 6, 1), (2, 3, 1, 19)), ((45,), (45, 19), (), (19,)), ((6, 45), (45,), (6,), ()), ((45,), (45,), (), ()),
]  # fmt: skip


@natively_together
@each({
    "sides": SIDES,
    ("left", "right", "result"): [(np.uint8, np.uint8, np.uint8), (np.int8, np.int8, np.int8), (np.uint8, np.int8, np.uint8)],
})
def test_qlinear_matmul(left: Any, right: Any, result: Any, sides: tuple[Shape, Shape, Shape, Shape]) -> None:
    a, b = integers(left, *sides[0]), integers(right, *sides[1], seed=2)
    a_scale, b_scale = scales(*sides[2]), scales(*sides[3], seed=4)
    a_zero, b_zero = integers(left, *sides[2], seed=6), integers(right, *sides[3], seed=7)
    scale, zero = np.array(7.3, F), np.array(101, result)
    rows = [v[:, None] if v.ndim == 1 and v.size > 1 else v for v in (a_scale, a_zero)]
    total = np.matmul(a.astype(np.int32) - rows[1], b.astype(np.int32) - b_zero)
    row_factor = rows[0][..., 0] if rows[0].ndim and b.ndim == 1 else rows[0]
    factor = (row_factor * b_scale) / scale
    arrays = {"a": a, "as": a_scale, "az": a_zero, "b": b, "bs": b_scale, "bz": b_zero, "s": scale, "z": zero}
    check_native(node("QLinearMatMul", list(arrays)), arrays, expected=[requantized(total, np.asarray(factor), zero)])


@natively_together
@every("dtype", [np.float16, BF16])
def test_qlinear_matmul_with_narrow_scales(dtype: Any) -> None:
    """Whose product is too small for the type."""
    a, b = integers(np.uint8, 5, 9), integers(np.uint8, 9, 4)
    parameters = [np.array(v, dtype) for v in (0.0003, 0.002, 0.001)]
    total = (a.astype(np.int32) - 3) @ (b.astype(np.int32) - 250)
    want = requantized(total, np.asarray(parameters[0].astype(F) * parameters[1].astype(F) / parameters[2].astype(F)), np.array(7, np.uint8))
    zeros = [np.array(v, np.uint8) for v in (3, 250, 7)]
    arrays = {"a": a, "as": parameters[0], "az": zeros[0], "b": b, "bs": parameters[1], "bz": zeros[1], "s": parameters[2], "z": zeros[2]}
    check_native(node("QLinearMatMul", list(arrays)), arrays, expected=[want])


CONVOLUTIONS: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 12, 9, 11), (8, 12, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 12, 9, 11), (8, 3, 3, 3), {"group": 4, "strides": [2, 1], "pads": [0, 1, 2, 1]}),
    ((1, 6, 10, 7), (6, 1, 3, 3), {"group": 6, "auto_pad": "SAME_UPPER"}),
    ((1, 16, 7, 7), (5, 16, 1, 1), {}),
    ((2, 4, 9), (3, 4, 3), {"dilations": [2], "pads": [2, 2]}),
    ((1, 3, 5, 4, 6), (2, 3, 2, 3, 2), {"pads": [1, 1, 0, 0, 1, 1]}),
]


@natively_together
@each({
    "case": CONVOLUTIONS,
    ("data", "weights", "per_filter", "biased"): [
        (np.uint8, np.int8, True, True), (np.uint8, np.uint8, False, True), (np.int8, np.int8, True, False)
    ],
})
def test_qlinear_conv(data: Any, weights: Any, per_filter: bool, biased: bool, case: tuple[Shape, Shape, dict[str, Any]]) -> None:
    """As ONNX Runtime, to the bit."""
    shape, filters, attributes = case
    some = (filters[0],) if per_filter else ()
    arrays = {
        "x": integers(data, *shape), "xs": np.array(0.02, F), "xz": np.array(19, data),
        "w": factors(*filters) if weights is np.int8 else integers(weights, *filters), "ws": scales(*some),
        "wz": np.full(some, 0 if weights is np.int8 else 128, weights), "s": np.array(4.7, F), "z": np.array(77, data),
        **({"b": (floats(filters[0]) * 9000).astype(np.int32)} if biased else {}),
    }  # fmt: skip
    check_native(node("QLinearConv", list(arrays), **attributes), arrays)


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
def test_products_are_those_of_integers(op: str) -> None:
    """They read integers, and give bytes, in one kernel; nothing but integers is multiplied."""
    shapes: tuple[Shape, Shape] = ((1, 16, 8, 8), (24, 16, 3, 3)) if op == "QLinearConv" else ((32, 64), (64, 48))
    arrays = {
        "x": integers(np.uint8, *shapes[0]), "xs": np.array(0.02, F), "xz": np.array(0, np.uint8),
        "w": integers(np.int8, *shapes[1]), "ws": np.array(0.05, F), "wz": np.array(0, np.int8),
        "s": np.array(4.7, F), "z": np.array(77, np.uint8),
    }  # fmt: skip
    made = [node(op, list(arrays))]
    proto = model(made, {"x": arrays["x"]}, {"y": expected_outputs(made, arrays, ["y"], {}, 21)[0]}, {k: v for k, v in arrays.items() if k != "x"})
    for target, reads in (("x86-64-v3", "xi16>"), ("x86-64-v4-vnni", "xui8>")):
        text = stepwell.lower(proto, "graph-opt", target=target).text()
        [kernel] = [part for part in text.split("func.func ")[1:] if "packed.matmul" in part or "packed.conv" in part]
        assert reads in kernel.split("->")[0]  # what it takes
        assert "xi8>" in kernel.split("->")[0]
        assert "to = f32" in kernel
        assert re.search(r"-> tensor<[0-9x]*xui8> attributes", kernel)
        body = next(p for p in stepwell.lower(proto, "linalg", target=target).text().split("linalg.generic") if "arith.muli" in p)
        assert "arith.mulf" not in body.partition("linalg.yield")[0]


# --- what does not fit


WRONG: list[tuple[str, dict[str, np.ndarray], dict[str, Any], str]] = [
    ("QuantizeLinear", {"x": floats(3, 4), "s": scales(4), "z": np.zeros(3, np.int8)}, {}, "must have one shape"),
    ("QuantizeLinear", {"x": floats(3, 4), "s": scales(3), "z": np.zeros(3, np.int8)}, {}, "as long as axis 1"),
    ("QuantizeLinear", {"x": floats(3, 4), "s": scales(4), "z": np.zeros(4, np.int8)}, {"axis": 2}, "axis must be"),
    ("QuantizeLinear", {"x": floats(3, 4), "s": scales(3, 3)}, {"block_size": 2}, "must have 2 there"),
    ("QuantizeLinear", {"x": floats(3, 4), "s": scales(3, 2)}, {"block_size": -2}, "block_size"),
    ("QuantizeLinear", {"x": floats(3, 4), "s": scales(), "z": np.array(0, np.int8)}, {"output_dtype": TensorProto.UINT8}, "output_dtype"),
    ("DequantizeLinear", {"x": integers(np.int8, 3, 4), "s": scales(3)}, {}, "as long as axis 1"),
    ("DequantizeLinear", {"x": integers(np.int8, 3, 4), "s": scales(3, 4)}, {}, "one number or a vector"),
    (
        "QLinearMatMul",
        {
            "a": integers(np.int8, 3, 4), "as": scales(4), "az": np.zeros(4, np.int8), "b": integers(np.int8, 4, 5), "bs": scales(),
            "bz": np.array(0, np.int8), "s": scales(), "z": np.array(0, np.int8),
        },
        {}, "a zero point tensor<4xi8> does not fit tensor<3x4xi8>",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arrays", "attributes", "said"), WRONG, ids=lambda v: v if isinstance(v, str) else "")
def test_what_does_not_fit_is_told(op: str, arrays: dict[str, np.ndarray], attributes: dict[str, Any], said: str) -> None:
    proto = model([node(op, list(arrays), **attributes)], arrays, {"y": np.zeros((3, 4), np.int8 if op.startswith("Q") else F)})
    if op.startswith("Q") and "z" not in arrays:
        proto.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    with pytest.raises(StepwellError, match=said):
        stepwell.compile(proto)


# --- ONNX Runtime's own

X = {"x": integers(np.uint8, 2, 6, 5, 7), "xs": np.array(0.03, F), "xz": np.array(121, np.uint8)}
Y = {"y": integers(np.uint8, 2, 6, 5, 7, seed=3), "ys": np.array(0.051, F), "yz": np.array(7, np.uint8)}
ROW = {"y": integers(np.uint8, 7, seed=3), "ys": np.array(0.051, F), "yz": np.array(7, np.uint8)}
SIGNED = {"x": integers(np.int8, 2, 6, 5, 7), "xs": np.array(0.03, F), "xz": np.array(-9, np.int8)}
GEMM = {
    "a": integers(np.uint8, 5, 40), "as": np.array(0.03, F), "az": np.array(120, np.uint8),
    "b": factors(40, 9), "bs": scales(9), "bz": np.zeros(9, np.int8), "c": (floats(9) * 3000).astype(np.int32),
}  # fmt: skip
WHOLE = {**GEMM, "bs": np.array(0.02, F), "bz": np.array(-3, np.int8)}
TURNED = {**WHOLE, "a": integers(np.uint8, 40, 5), "b": factors(9, 40)}
IMAGE_WEIGHTS = {"w": factors(4, 3, 3, 3), "ws": scales(4), "wz": np.zeros(4, np.int8)}


def to(scale: float, zero: int, dtype: Any = np.uint8) -> dict[str, np.ndarray]:
    return {"s": np.array(scale, F), "z": np.array(zero, dtype)}


POOL: dict[str, Any] = {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "strides": [2, 1]}
OURS: list[tuple[str, dict[str, np.ndarray], dict[str, Any], int]] = [  # operator, inputs, attributes, how many steps results may lie apart
    ("QLinearAdd", {**X, **Y, **to(0.061, 60)}, {}, 1),
    ("QLinearAdd", {**X, **ROW, **to(0.061, 60)}, {}, 1),
    ("QLinearAdd", {**SIGNED, "y": SIGNED["x"][::-1].copy(), "ys": Y["ys"], "yz": np.array(3, np.int8), **to(0.061, -6, np.int8)}, {}, 1),
    ("QLinearMul", {**X, **Y, **to(0.2, 60)}, {}, 0),
    ("QLinearMul", {**X, **ROW, **to(0.2, 60)}, {}, 0),
    ("QLinearSigmoid", {**X, **to(1 / 256, 0)}, {}, 1),
    ("QLinearSigmoid", {**SIGNED, **to(1 / 256, -128, np.int8)}, {}, 1),
    ("QLinearLeakyRelu", {**X, **to(0.03, 20)}, {"alpha": 0.3}, 0),
    ("QLinearLeakyRelu", {**SIGNED, **to(0.02, 20, np.int8)}, {}, 0),
    ("QLinearSoftmax", {**X, **to(1 / 256, 0)}, {"axis": -1, "opset": 13}, 1),
    ("QLinearSoftmax", {**X, **to(1 / 256, 0)}, {"axis": 2, "opset": 11}, 1),
    ("QLinearWhere", {"c": rng(9).random((2, 6, 5, 7)) > 0.5, **X, **Y, **to(0.05, 110)}, {}, 0),
    ("QLinearConcat", {**to(0.05, 110), **X, **Y}, {"axis": 1}, 0),
    ("QLinearConcat", {**to(0.05, 110), **X, **Y}, {"axis": -1}, 0),
    *(("QLinearGlobalAveragePool", {**X, **to(0.011, 100)}, {"channels_last": last}, 0) for last in (0, 1)),
    *(
        ("QLinearAveragePool", {**X, **to(0.021, 100)}, {**POOL, "channels_last": last, "count_include_pad": counted}, 1)
        for last in (0, 1)
        for counted in (0, 1)
    ),
    ("QLinearConv", {**X, **IMAGE_WEIGHTS, **to(4.7, 110)}, {"group": 2, "pads": [1, 1, 1, 1]}, 0),
    ("QGemm", {**GEMM, **to(4.7, 120)}, {}, 0),
    ("QGemm", {**WHOLE, **to(4.7, 120)}, {"alpha": 0.7}, 0),
    ("QGemm", {**TURNED, **to(4.7, 12)}, {"transA": 1, "transB": 1}, 0),
    ("QGemm", GEMM, {}, 0),
    ("QuantizeLinear", {"x": floats(3, 4), "s": scales(4), "z": integers(np.int16, 4)}, {"axis": 1}, 0),
    ("QuantizeLinear", {"x": floats(3, 4, dtype=np.float16), "s": np.array(0.01, np.float16), "z": np.array(3, np.uint8)}, {}, 0),
    ("DequantizeLinear", {"x": integers(np.uint16, 3, 4), "s": scales(3), "z": integers(np.uint16, 3)}, {"axis": 0}, 0),
    (
        "MatMulIntegerToFloat",
        {"a": GEMM["a"], "b": GEMM["b"], "as": GEMM["as"], "bs": GEMM["bs"], "az": GEMM["az"], "bz": integers(np.int8, 9), "bias": floats(9)},
        {}, 0,
    ),
    ("MatMulIntegerToFloat", {"a": GEMM["a"], "b": GEMM["b"], "as": GEMM["as"], "bs": np.array(0.02, F)}, {}, 0),
    ("DynamicQuantizeMatMul", {"a": floats(5, 40), "b": GEMM["b"], "bs": GEMM["bs"], "bz": GEMM["bz"], "bias": floats(9)}, {}, 0),
    ("DynamicQuantizeMatMul", {"a": floats(2, 5, 40), "b": GEMM["b"], "bs": np.array(0.02, F)}, {}, 0),
]  # fmt: skip


def nearly(got: np.ndarray, want: np.ndarray, steps: int) -> None:
    """Equal integers, or ones that a half-way case moves by so many steps; floats to a few roundings of the largest."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
    if want.dtype.kind == "f":
        assert apart.max() <= 4 * float(np.finfo(want.dtype).eps) * float(np.abs(want).max())
        return
    assert apart.max() <= steps
    assert (apart != 0).mean() <= 0.1  # few cases are half-way
    assert len(np.unique(want)) > 3


@natively_together
@every("case", OURS, ids=lambda c: c[0])
def test_operators_of_onnx_runtime(case: tuple[str, dict[str, np.ndarray], dict[str, Any], int]) -> None:
    op, arrays, attributes, steps = case
    made = [node(op, list(arrays), ["out"], domain=MICROSOFT, **attributes)]
    (want,) = expected_outputs(made, arrays, ["out"], {}, 21)
    for given in (list(arrays), [next(k for k, a in arrays.items() if a.ndim > 1)]):  # what is no input is a constant
        inputs = {name: arrays[name] for name in given}
        constants = {name: array for name, array in arrays.items() if name not in given}
        check_model(model(made, inputs, {"out": want}, constants), inputs, lambda got: nearly(got["out"], want, steps))


ABSENT: list[tuple[str, Sequence[str], dict[str, Any]]] = [
    ("QLinearAdd", ["x", "xs", "", "y", "ys", "", "s", "z"], {}),
    ("QLinearMul", ["x", "xs", "", "y", "ys", "yz", "s", ""], {}),
    ("QLinearLeakyRelu", ["x", "xs", "", "s", "z"], {}),
    ("QLinearAveragePool", ["x", "xs", "", "s", "z"], {"kernel_shape": [2, 2]}),
]


@natively_together
@every(("op", "names", "attributes"), ABSENT, ids=lambda v: v if isinstance(v, str) else "")
def test_zero_points_that_are_not_there_are_zero(op: str, names: Sequence[str], attributes: dict[str, Any]) -> None:
    everything = {**X, **Y, **to(0.2, 60)}
    arrays = {name: everything[name] for name in names if name}
    told = node(op, [name or "zero" for name in names], ["out"], domain=MICROSOFT, **attributes)
    (want,) = expected_outputs([told], {**arrays, "zero": np.array(0, np.uint8)}, ["out"], {}, 21)
    made = model([node(op, names, ["out"], domain=MICROSOFT, **attributes)], arrays, {"out": want})
    check_model(made, arrays, lambda got: nearly(got["out"], want, 1))
