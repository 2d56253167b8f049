"""Cast between all pairs of element types and BitCast, natively and folded: every bit is that of an exact computation in fractions."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from every import every
from importing import check_native, expected_outputs, ints, model, node, rng
from native_checks import Arrays, Check, check, natively_together
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.core.types import DTYPES, INTEGERS, is_float, to_numpy

# Explicit bits of the significand, and the exponents of the least and the greatest normal number.
FORMATS = {"f16": (10, -14, 15), "bf16": (7, -126, 127), "f32": (23, -126, 127), "f64": (52, -1022, 1023)}
ENDS = [float(2**n + d) for n in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)]
REALS = [
    0.0, 1.0, 0.5, 1.5, 2.5, 0.99, 100.7, 255.9, 256.1, 300.7, 65519.99, 65520.0, 70000.5, 3e9, 5e9, 1e19, 2e19, 3.3e38, 3.4e38, 1e300,
    1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 2**-8 + 2**-40, 1 + 3 * 2**-8, 1 + 2**-24, 1 + 2**-24 + 2**-50,
    2.0**-24, 2.0**-25, 2.0**-25 + 2**-60, 3 * 2.0**-25, 2.0**-133, 2.0**-134, 3 * 2.0**-134, 2.0**-149, 2.0**-150, 2.0**-150 + 2**-190, 5e-324,
    math.inf, math.nan, *ENDS,
]  # fmt: skip
WHOLES = [0, 1, 2, 3, 127, 128, 255, 256, 257, 2049, 2051, 65519, 65520, *((1 << n) + d for n in (24, 31, 32, 53, 62, 63) for d in (-1, 0, 1, 3))]
# A tie of bf16 with something far below it, which an f64 does not hold any more.
WHOLES += [(1 << 62) + (1 << 54), (1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 54) - 1, (1 << 62) + 3 * (1 << 54) + 1, (1 << 40) + (1 << 32) + 1]


def values(dtype: str) -> np.ndarray:
    """Of a type: what is special about it and about others, both signs, and some at random."""
    kind = to_numpy(dtype)
    if dtype == "i1":
        return np.array([True, False] * 9)
    if is_float(dtype):
        with np.errstate(over="ignore"):
            info = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
            own = np.array([info.max, info.smallest_normal, info.smallest_subnormal], kind)
            drawn = np.concatenate([rng(5).normal(0, 10.0**e, 7) for e in (-6, 0, 3, 6, 12)])
            some = np.concatenate([own, np.array(REALS).astype(kind), drawn.astype(kind)])
        return np.concatenate([some, -some])
    limits = np.iinfo(kind)
    both = [sign * w for w in WHOLES for sign in (1, -1)]
    drawn = [int(n) for n in rng(6).integers(limits.min, limits.max, 30, kind, endpoint=True)]
    return np.array([w for w in [*both, limits.min, limits.max, *drawn] if limits.min <= w <= limits.max], kind)


def rounded(number: Fraction, dtype: str) -> float:
    """The float of a type that is nearest to a number, the even one of two; infinity beyond the greatest."""
    digits, least, most = FORMATS[dtype]
    if number == 0:
        return 0.0
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, least) - digits)
    whole = round(size / unit)  # Python's rounds halves to even
    near = whole * unit
    out = math.inf if near >= Fraction(2) ** (most + 1) else float(near)
    return math.copysign(out, -1.0 if number < 0 else 1.0)


def whole_number(x: float, dtype: str) -> int:
    """A float as the integer that it becomes: see docs/numerics.md."""
    kind = to_numpy(dtype)
    bits = 64 if kind.itemsize == 8 else 32
    half = 1 << (bits - 1)

    def signed(y: float) -> int:
        return math.trunc(y) if not math.isnan(y) and not math.isinf(y) and -half <= math.trunc(y) < half else -half

    inner = half + signed(x - half) if kind.kind == "u" and kind.itemsize * 8 == bits and x >= half else signed(x)
    return wrapped(inner, kind)


def wrapped(number: int, kind: np.dtype) -> int:
    """An integer at the width of a type."""
    bits = 8 * kind.itemsize
    low = number % (1 << bits)
    return low - (1 << bits) if kind.kind == "i" and low >= 1 << (bits - 1) else low


def converted(x: np.ndarray, dtype: str) -> np.ndarray:
    """What each element of `x` becomes, by fractions."""
    kind = to_numpy(dtype)
    numbers: Sequence[Any] = x.astype(np.float64).tolist() if x.dtype.kind not in "iub" else x.tolist()
    if dtype == "i1":
        return np.array([n != 0 for n in numbers])  # NaN too
    if not is_float(dtype):
        return np.array([whole_number(n, dtype) if isinstance(n, float) else wrapped(int(n), kind) for n in numbers], kind)
    special = [isinstance(n, float) and (not math.isfinite(n) or n == 0) for n in numbers]
    return np.array([n if s else rounded(Fraction(n), dtype) for n, s in zip(numbers, special, strict=True)]).astype(kind)


def assert_same(got: np.ndarray, want: np.ndarray, x: np.ndarray) -> None:
    """Equal types, and equal bits but for those of NaN."""
    assert got.dtype == want.dtype
    bad = got != want
    if is_float(next(d for d in DTYPES if to_numpy(d) == got.dtype)):
        bad &= ~(np.isnan(got) & np.isnan(want))
        bad |= np.signbit(got) != np.signbit(want)
        bad &= ~np.isnan(want)
    assert [(x[i], got[i], want[i]) for i in np.flatnonzero(bad)] == []


@pytest.mark.parametrize("source", DTYPES)
def test_cast_of_every_pair(source: str) -> None:
    """To all types in one model, with the data given, and known when the code is made."""
    x = values(source)
    others = [d for d in DTYPES if d != source]
    nodes = [node("Cast", ["x"], [d], to=helper.np_dtype_to_tensor_dtype(to_numpy(d)), name=d) for d in others]
    want = {d: converted(x, d) for d in others}
    for inputs, constants in (({"x": x}, {}), ({}, {"x": x})):
        got = stepwell.compile(model(nodes, inputs, want, constants)).run(inputs)
        for d in others:
            assert_same(got[d], want[d], x)


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_out_of_range_as_onnx_runtime(source: str, target: str) -> None:
    """What it gives on x86. For ui32 it has two ways, by vectors and one by one, which agree up to 2**32; from f16 and bf16 others again."""
    x = values(source)
    if target == "ui32":
        x = x[(x > -(2.0**31)) & (x < 2.0**32)]
    made = [node("Cast", ["x"], to=helper.np_dtype_to_tensor_dtype(to_numpy(target)))]
    (want,) = expected_outputs(made, {"x": x}, ["y"], {}, 21)
    assert_same(converted(x, target), want, x)


@natively_together
@every("opset", [6, 9, 13, 19, 21, 25])
def test_cast_of_any_version(opset: int) -> None:
    x = np.array([300.7, -1.5, 2.5, -0.0], np.float32)
    attributes = {"saturate": 1} if opset >= 19 else {}
    check_native(node("Cast", ["x"], to=TensorProto.INT8, **attributes), {"x": x}, opset=opset, expected=[ints(44, -1, 2, 0, dtype=np.int8)])
    if opset >= 15:
        check_native(
            node("CastLike", ["x", "t"]), {"x": x, "t": ints(7, dtype=np.uint8)}, opset=opset, expected=[ints(44, 255, 2, 0, dtype=np.uint8)]
        )


PAIRS = [(a, b) for a in DTYPES for b in DTYPES if to_numpy(a).itemsize == to_numpy(b).itemsize]


@natively_together
@every("width", [1, 2, 4, 8])
def test_bit_cast_of_every_pair(width: int) -> None:
    """Bytes of any value: of a byte as a boolean counts whether it is 0."""
    data = rng(width).integers(0, 256, 64 * width, np.uint8)
    for source, target in ((a, b) for a, b in PAIRS if to_numpy(a).itemsize == width):
        x = (data % 2).view(np.bool_) if source == "i1" else data.view(to_numpy(source))
        want = x.view(np.uint8) != 0 if target == "i1" else x.view(to_numpy(target))

        def judge(got: Arrays, want: np.ndarray = want) -> None:
            assert got["y"].dtype == want.dtype
            assert got["y"].tobytes() == want.tobytes()

        check(Check(f"{source} as {target}", bit_cast(x, target), {"x": x}, judge))


def bit_cast(x: np.ndarray, target: str) -> Any:
    elem_type = helper.np_dtype_to_tensor_dtype(to_numpy(target))
    return model([node("BitCast", ["x"], to=elem_type)], {"x": x}, {"y": x.view(to_numpy(target))}, opset=26)


@natively_together
@every("shape", [(), (3, 0, 2), (2, 3, 5)])
def test_bit_cast_keeps_the_shape(shape: tuple[int, ...]) -> None:
    x = rng().normal(size=shape).astype(np.float32)
    want = np.asarray(numpy_helper.to_array(numpy_helper.from_array(x)).view(np.int32))
    check_native(node("BitCast", ["x"], to=TensorProto.INT32), {"x": x}, opset=26, expected=[want])


def test_bit_cast_to_another_width_is_told() -> None:
    x = np.zeros(4, np.float32)
    proto = model([node("BitCast", ["x"], to=TensorProto.INT64)], {"x": x}, {"y": np.zeros(4, np.int64)}, opset=26)
    with pytest.raises(stepwell.StepwellError, match="bit"):
        stepwell.compile(proto)
