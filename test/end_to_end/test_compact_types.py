"""Floats and integers of 8 bits and fewer, natively: every code to numbers, numbers to codes, what only moves, and quantisation."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from importing import model, node, rng
from onnx import helper, numpy_helper

import stepwell
from stepwell.dialects.support.errors import StepwellError

FLOATS: dict[str, Any] = {
    "e4m3fn": ml_dtypes.float8_e4m3fn, "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2": ml_dtypes.float8_e5m2,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
POWERS = ml_dtypes.float8_e8m0fnu
INTEGERS: dict[str, Any] = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int2": ml_dtypes.int2, "uint2": ml_dtypes.uint2}
WIDE: list[Any] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
CODES = np.arange(256, dtype=np.uint8)
F = np.float32


def elem_type(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def cast(dtype: Any, inputs: str = "x", output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return node("Cast", [inputs], [output], name=f"to_{output}", to=elem_type(dtype), **attributes)


def run(nodes: list[onnx.NodeProto], inputs: dict[str, np.ndarray], outputs: dict[str, Any], **constants: np.ndarray) -> dict[str, np.ndarray]:
    """What compiled code gives, the same with all inputs known when it is made."""
    ranks = {name: np.zeros((1,) * rank, dtype) for name, (dtype, rank) in outputs.items()}
    got = stepwell.compile(model(nodes, inputs, ranks, constants, opset=25)).run(inputs)
    folded = stepwell.compile(model(nodes, {}, ranks, {**constants, **inputs}, opset=25)).run({})
    for name, (dtype, _) in outputs.items():
        assert got[name].dtype == folded[name].dtype == dtype
        np.testing.assert_array_equal(raw(got[name]), raw(folded[name]))
    return got


def raw(array: np.ndarray) -> np.ndarray:
    """The bits; those of NaN in wide floats as zeros, since there are many."""
    if array.dtype.itemsize > 1 and array.dtype.kind not in "iub":
        array = np.where(np.isnan(array), np.zeros((), array.dtype), array)
    return np.ascontiguousarray(array).view(np.uint8)


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(raw(got), raw(want))


@pytest.mark.parametrize("dtype", [*FLOATS.values(), POWERS], ids=[*FLOATS, "e8m0"])
def test_every_code_to_a_number(dtype: Any) -> None:
    x = CODES[: 16 if dtype is FLOATS["e2m1"] else 256].view(dtype)
    real = x.astype(F)
    small = np.where(np.abs(real) < 100, x.view(np.uint8), 0).astype(np.uint8).view(dtype) if dtype is not POWERS else x[120:133]
    kinds = {"f32": F, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "bool": np.bool_}
    nodes = [*(cast(kind, output=name) for name, kind in kinds.items()), cast(np.int32, "small", "i32")]
    got = run(nodes, {"x": x, "small": small}, {name: (np.dtype(kind), 1) for name, kind in {**kinds, "i32": np.int32}.items()})
    with np.errstate(over="ignore"):
        for name, kind in kinds.items():
            same(got[name], real != 0 if name == "bool" else real.astype(kind))
    assert (np.isnan(got["f32"]) == np.isnan(real)).all()
    same(got["i32"], small.astype(F).astype(np.int32))


def nearest(x: np.ndarray, dtype: Any, saturate: bool) -> np.ndarray:
    """The codes of f64 numbers: of the two neighbours the nearer, of two as near the even code."""
    table = CODES.view(dtype).astype(np.float64)
    order = [c for c in range(128 if dtype is not FLOATS["e2m1"] else 8) if np.isfinite(table[c])]
    known = table[order]
    step = known[-1] - known[-2]
    middles = np.append((known[1:] + known[:-1]) / 2, known[-1] + step / 2)  # all exact
    size = np.abs(x)
    code = np.searchsorted(middles, size)  # from the middle on upwards: a tie is below
    at = np.minimum(code, len(middles) - 1)
    code = np.where((size == middles[at]) & (code % 2 == 1), code + 1, code)
    largest, sign = order[-1], np.uint8(8 if dtype is FLOATS["e2m1"] else 0x80)
    if saturate or dtype is FLOATS["e2m1"]:
        out = np.minimum(code, largest).astype(np.uint8)
    else:
        out = np.where(code > largest, np.array(np.inf).astype(dtype).view(np.uint8), code).astype(np.uint8)
    signed = np.where(np.signbit(x), out | sign, out).astype(np.uint8)
    if "fnuz" in np.dtype(dtype).name:
        signed = np.where(out == 0, 0, signed).astype(np.uint8)  # no negative zero
    return np.asarray(signed.view(dtype))


def numbers(dtype: Any, source: Any) -> np.ndarray:
    """All numbers of a small type, the middles between them, and what is next to these; far beyond; zeros, subnormal numbers, infinities."""
    own = CODES.view(dtype).astype(np.float64)
    own = np.unique(np.abs(own[np.isfinite(own)]))
    middles = np.append((own[1:] + own[:-1]) / 2, 1.5 * own[-1] - 0.5 * own[-2])
    beside = [np.concatenate([own, middles]) * (1 + d) for d in (0, 2.0**-7, -(2.0**-8), 2.0**-23, -(2.0**-24), 2.0**-50)]
    some = np.concatenate([*beside, [1e9, 1e30, 1e-30, 1e-42, np.inf]])
    with np.errstate(over="ignore"):
        return np.concatenate([some, -some]).astype(source)


@pytest.mark.parametrize("name", FLOATS)
def test_floats_to_small_floats(name: str) -> None:
    """From all wide types in one model."""
    dtype, sources = FLOATS[name], {np.dtype(source).name: source for source in WIDE}
    given = {source: numbers(dtype, kind) for source, kind in sources.items()}
    made = [cast(dtype, source, f"{source}_{saturate}", saturate=saturate) for source in sources for saturate in (0, 1)]
    got = run(made, given, {f"{source}_{saturate}": (np.dtype(dtype), 1) for source in sources for saturate in (0, 1)})
    for source, x in given.items():
        for saturate in (0, 1):
            same(got[f"{source}_{saturate}"], nearest(x.astype(np.float64), dtype, bool(saturate)))


def test_nan_stays_one() -> None:
    x = np.array([np.nan, -np.nan, 1.0], F)
    kinds = {f"{name}_{saturate}": dtype for name, dtype in FLOATS.items() if name != "e2m1" for saturate in (0, 1)}
    made = [cast(dtype, output=name, saturate=int(name[-1])) for name, dtype in kinds.items()]
    got = run(made, {"x": x}, {name: (np.dtype(dtype), 1) for name, dtype in kinds.items()})
    for name, y in got.items():
        np.testing.assert_array_equal(np.isnan(y.astype(F)), [True, True, False], err_msg=name)
        assert np.signbit(y.astype(F)[1]) or "fnuz" in name, name


def test_powers_of_two() -> None:
    exponents = np.arange(-149, 128)
    x = np.concatenate([np.ldexp(F(1), exponents), np.ldexp(F(1.5), exponents[:-1]), np.ldexp(F(1.2), exponents[:-1]), [0, np.inf, np.nan]])
    x = np.append(x, np.finfo(F).max).astype(F)
    ways = {f"{mode}_{saturate}": (mode, saturate) for mode in ("up", "down", "nearest") for saturate in (0, 1)}
    made = [cast(POWERS, output=name, saturate=saturate, round_mode=mode) for name, (mode, saturate) in ways.items()]
    got = run(made, {"x": x}, dict.fromkeys(ways, (np.dtype(POWERS), 1)))
    for name, (mode, saturate) in ways.items():
        same(got[name], numpy_helper.to_float8e8m0(x, bool(saturate), mode))


@pytest.mark.parametrize("name", INTEGERS)
def test_small_integers(name: str) -> None:
    """From every byte, whatever its upper bits are; to them by wrapping, floats truncated before that."""
    dtype, bits = INTEGERS[name], 4 if "4" in name else 2
    x = CODES.view(dtype)
    low = (CODES % (1 << bits)).astype(np.int64)
    value = np.where((low >= 1 << (bits - 1)) & (name[0] == "i"), low - (1 << bits), low)
    kinds = {"i8": np.int8, "u8": np.uint8, "i64": np.int64, "f16": np.float16, "f64": np.float64, "bool": np.bool_}
    nodes, given = [cast(kind, output=k) for k, kind in kinds.items()], {"x": x}
    for source in (np.int8, np.uint8, np.int32, np.int64, np.float32, np.bool_):
        some = rng(3).integers(0, 2 if source is np.bool_ else 100, 40).astype(source)
        if np.dtype(source).kind in "if":
            some = (some - 50).astype(source) + (source(0.75) if np.dtype(source).kind == "f" else source(0))
        given[f"of_{source.__name__}"] = some
        nodes.append(cast(dtype, f"of_{source.__name__}", f"to_{source.__name__}"))
    types = {node.output[0]: np.dtype(kinds.get(node.output[0], dtype)) for node in nodes}
    got = run(nodes, given, {name: (kind, 1) for name, kind in types.items()})
    for k, kind in kinds.items():
        same(got[k], value.astype(kind))
    for source, some in list(given.items())[1:]:
        want = (np.trunc(some.astype(np.float64)).astype(np.int64) % (1 << bits)).astype(np.uint8).view(dtype)
        same(got[source.replace("of_", "to_")], want)


def test_between_small_types() -> None:
    x = CODES.view(ml_dtypes.float8_e5m2)
    want = numpy_helper.saturate_cast(x.astype(F), np.dtype(ml_dtypes.float8_e4m3fn))
    same(run([cast(ml_dtypes.float8_e4m3fn)], {"x": x}, {"y": (want.dtype, 1)})["y"], want)
    four = (CODES % 16).view(ml_dtypes.int4)
    like = node("CastLike", ["x", "t"])
    same(run([like], {"x": four}, {"y": (np.dtype(ml_dtypes.uint2), 1)}, t=np.ones(1, ml_dtypes.uint2))["y"], (CODES % 4).view(ml_dtypes.uint2))


def test_moved() -> None:
    """Data and weights of each type, of which several share a byte in the file, an odd number of them."""
    kinds = {**FLOATS, "e8m0": POWERS, **INTEGERS}
    data: dict[str, np.ndarray] = {}
    weights: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []
    for k, dtype in kinds.items():
        bits = 8 * np.dtype(dtype).itemsize if "8" in np.dtype(dtype).name else 2 if np.dtype(dtype).name[-1] == "2" else 4
        data[f"x_{k}"], weights[f"w_{k}"] = ((rng(seed).integers(0, 1 << bits, (3, 5)).astype(np.uint8)).view(dtype) for seed in (1, 2))
        nodes += [
            node("Transpose", [f"x_{k}"], [f"t_{k}"], name=f"t_{k}", perm=[1, 0]), node("Reshape", [f"t_{k}", "shape"], [f"r_{k}"], name=f"r_{k}"),
            node("Identity", [f"w_{k}"], [f"v_{k}"], name=f"v_{k}"), node("Transpose", [f"w_{k}"], [f"u_{k}"], name=f"u_{k}"),
        ]  # fmt: skip
    results = {f"{output}_{k}": (np.dtype(dtype), 2) for k, dtype in kinds.items() for output in "ruv"}
    got = run(nodes, data, results, **weights, shape=np.array([3, 5]))
    for k in kinds:
        same(got[f"r_{k}"], data[f"x_{k}"].T.reshape(3, 5))
        same(got[f"u_{k}"], weights[f"w_{k}"].T)
        same(got[f"v_{k}"], weights[f"w_{k}"])


def test_quantized_and_back() -> None:
    """In blocks of 4 of 10, with zero points where the type has integers; all types in one model."""
    x, scale = (rng(4).normal(0, 3, (6, 10)).astype(F)), rng(5).uniform(0.1, 0.9, (6, 3)).astype(F)
    nodes: list[onnx.NodeProto] = []
    zeros: dict[str, np.ndarray] = {}
    want: dict[str, np.ndarray] = {}
    for name, dtype in {**FLOATS, **INTEGERS}.items():
        whole = name in INTEGERS
        zero = rng(6).integers(0, 2, (6, 3)).astype(np.int64) if whole else np.zeros((6, 3))
        s, z = (np.repeat(p, 4, axis=1)[:, :10] for p in (scale, zero))
        if whole:
            info = ml_dtypes.iinfo(dtype)
            codes = np.clip(np.rint(x / s) + z, info.min, info.max).astype(np.int8).astype(dtype)
        else:
            codes = nearest((x / s).astype(np.float64).reshape(-1), dtype, saturate=True).reshape(x.shape)
        zeros[f"z_{name}"] = zero.astype(dtype)
        want |= {f"q_{name}": codes, f"y_{name}": (codes.astype(F) - z.astype(F)) * s}
        operands, attributes = ["s", f"z_{name}"], {"axis": 1, "block_size": 4}
        nodes.append(node("QuantizeLinear", ["x", *operands], [f"q_{name}"], name=f"q_{name}", **attributes))
        nodes.append(node("DequantizeLinear", [f"q_{name}", *operands], [f"y_{name}"], name=f"y_{name}", **attributes))
    got = run(nodes, {"x": x}, {name: (array.dtype, 2) for name, array in want.items()}, s=scale, **zeros)
    for name, array in want.items():
        same(got[name], array)


def test_scales_that_are_powers_of_two() -> None:
    x = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).reshape(2, 8)
    scale = np.array([[0.25, 8.0], [1.0, 2.0]], F).astype(POWERS)
    made = node("DequantizeLinear", ["x", "s"], axis=1, block_size=4, output_dtype=elem_type(F))
    same(run([made], {"x": x}, {"y": (np.dtype(F), 2)}, s=scale)["y"], x.astype(F) * np.repeat(scale.astype(F), 4, axis=1))


def test_arithmetic_is_refused() -> None:
    a, b = np.zeros((2, 3), ml_dtypes.float8_e4m3fn), np.zeros((3, 2), ml_dtypes.float8_e4m3fn)
    scale, zero = np.array(1, F), np.zeros((), ml_dtypes.float8_e4m3fn)
    arrays = {"a": a, "as": scale, "az": zero, "b": b, "bs": scale, "bz": zero, "s": scale, "z": zero}
    proto = model([node("QLinearMatMul", list(arrays))], arrays, {"y": np.zeros((2, 2), a.dtype)})
    with pytest.raises(StepwellError, match="f8E4M3FN"):
        stepwell.compile(proto)
