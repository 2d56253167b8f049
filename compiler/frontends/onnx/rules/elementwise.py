"""Rules for element-wise arithmetic, comparison, logic and conversion: uniform families in tables, the rest one function each."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from stepwell.dialects.core.types import BOOL, SIGNED, UNSIGNED, dtype_info, is_compact, is_float, is_integer, to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.compact import RoundMode, compacted, number
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.sequences import AnyValue
from stepwell.frontends.onnx.tensors import our_dtype

UNARY = (  # name, since, our op
    ("Abs", 6, "abs"), ("Neg", 6, "neg"), ("Reciprocal", 6, "reciprocal"), ("Sign", 9, "sign"),
    ("Sqrt", 6, "sqrt"), ("Exp", 6, "exp"), ("Log", 6, "log"),
    ("Floor", 6, "floor"), ("Ceil", 6, "ceil"), ("Round", 11, "round"),
    ("Sin", 7, "sin"), ("Cos", 7, "cos"), ("Tan", 7, "tan"), ("Asin", 7, "asin"), ("Acos", 7, "acos"), ("Atan", 7, "atan"),
    ("Sinh", 9, "sinh"), ("Cosh", 9, "cosh"), ("Tanh", 6, "tanh"), ("Asinh", 9, "asinh"), ("Acosh", 9, "acosh"), ("Atanh", 9, "atanh"),
    ("Relu", 6, "relu"), ("Sigmoid", 6, "sigmoid"), ("Softplus", 1, "softplus"),
    ("Not", 1, "not"), ("BitwiseNot", 18, "bitwise_not"), ("IsNaN", 9, "is_nan"),
)  # fmt: skip

BINARY = (
    ("Add", 7, "add"), ("Sub", 7, "sub"), ("Mul", 7, "mul"), ("Div", 7, "div"),
    ("And", 7, "and"), ("Or", 7, "or"),
    ("Less", 7, "less"), ("LessOrEqual", 12, "less_equal"), ("Greater", 7, "greater"), ("GreaterOrEqual", 12, "greater_equal"),
    ("BitwiseAnd", 18, "bitwise_and"), ("BitwiseOr", 18, "bitwise_or"), ("BitwiseXor", 18, "bitwise_xor"),
    ("Equal", 7, "equal"), ("Xor", 7, "xor"),
)  # fmt: skip

VARIADIC = (("Sum", 6, "add"), ("Max", 6, "maximum"), ("Min", 6, "minimum"))


def unary(mnemonic: str) -> Callable[..., Value]:
    """The rule for an operator that maps to one of our unary ops."""

    def rule(b: ImportBuilder, x: Value) -> Value:
        return getattr(b, mnemonic)(x)

    return rule


def binary(mnemonic: str) -> Callable[..., Value]:
    """The rule for an operator that maps to one of our binary ops."""

    def rule(b: ImportBuilder, lhs: Value, rhs: Value) -> Value:
        return getattr(b, mnemonic)(lhs, rhs)

    return rule


def variadic(mnemonic: str) -> Callable[..., Value]:
    """The rule for a variadic operator that applies one of our binary ops from left to right."""

    def rule(b: ImportBuilder, first: Value, *others: Value) -> Value:
        result = first
        for other in others:
            result = getattr(b, mnemonic)(result, other)
        return result

    once = rounded_once(rule)

    def of_several(b: ImportBuilder, first: Value, *others: Value) -> Value:
        return (once if mnemonic == "add" and len(others) > 1 else rule)(b, first, *others)

    return of_several


for _make, _table in ((unary, UNARY), (binary, BINARY), (variadic, VARIADIC)):
    for _name, _since, _mnemonic in _table:
        onnx_rule(_name, since=_since)(_make(_mnemonic))


@onnx_rule("Erf", since=9)
def erf(b: ImportBuilder, x: Value) -> Value:
    """Integers are computed in f64 and truncated at the end."""
    dtype = type_of(x).dtype
    return b.convert(b.erf(b.convert(x, dtype if is_float(dtype) else "f64")), dtype)


@onnx_rule("Mean", since=6)
@rounded_once
def mean(b: ImportBuilder, first: Value, *others: Value) -> Value:
    total = variadic("add")(b, first, *others)
    return b.div(total, b.scalar(1 + len(others), like=total))


@onnx_rule("Pow", since=7)
def pow_(b: ImportBuilder, x: Value, exponent: Value) -> Value:
    dtype, other = type_of(x).dtype, type_of(exponent).dtype
    if dtype == other or (is_float(dtype) and holds(dtype, other, b.constant_value(exponent))):
        return b.pow(x, b.convert(exponent, dtype))
    if is_float(dtype) or is_float(other):  # a float may not hold the exponent; the power of an integer may be a fraction before it is truncated
        return b.convert(b.pow(b.convert(x, "f64"), b.convert(exponent, "f64")), dtype)
    return b.convert(b.pow(b.convert(x, "i64"), in_i64(b, exponent)), dtype)


def holds(dtype: str, other: str, known: np.ndarray | None) -> bool:
    """Whether a float type can represent every value of another type, or at least all elements of a known array."""
    if known is not None:
        return bool(np.array_equal(known.astype(to_numpy(dtype)).astype(np.float64), known.astype(np.float64), equal_nan=is_float(other)))
    return dtype_info(dtype).holds(dtype_info(other))


def in_i64(b: ImportBuilder, x: Value) -> Value:
    """Numbers as i64, clamped to its maximum."""
    if type_of(x).dtype == "ui64":
        x = b.minimum(x, b.scalar(np.iinfo(np.int64).max, like=x))
    return b.convert(x, "i64")


@onnx_rule("Mod", since=10)
def mod(b: ImportBuilder, lhs: Value, rhs: Value, *, fmod: int = 0) -> Value:
    return b.mod(lhs, rhs, fmod=bool(fmod))


@onnx_rule("BitShift", since=11)
def bit_shift(b: ImportBuilder, x: Value, amount: Value, *, direction: Literal["LEFT", "RIGHT"]) -> Value:
    dtype = type_of(x).dtype
    shift = b.shift_left if direction == "LEFT" else b.shift_right
    if dtype not in SIGNED:
        return shift(x, amount)
    # As an unsigned number, a negative amount is huge. A right shift of a negative number copies the sign bit, so shift the complement.
    unsigned = UNSIGNED[SIGNED.index(dtype)]
    negative = b.less(x, b.scalar(0, like=x))
    complement = direction == "RIGHT"
    bits = b.select(negative, b.bitwise_not(x), x) if complement else x
    shifted = b.convert(shift(b.convert(bits, unsigned), b.convert(amount, unsigned)), dtype)
    return b.select(negative, b.bitwise_not(shifted), shifted) if complement else shifted


@onnx_rule("IsInf", since=10)
def is_inf(b: ImportBuilder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    return b.is_inf(x, detect_negative=bool(detect_negative), detect_positive=bool(detect_positive))


@onnx_rule("Where", since=9)
def where(b: ImportBuilder, condition: Value, x: Value, y: Value) -> Value:
    return b.select(condition, x, y)


def wrapping(b: ImportBuilder, x: Value, dtype: str, saturate: bool = True, round_mode: RoundMode = "up") -> Value:
    """`x` as elements of type `dtype`. Integers wrap if out of range; for floats, ONNX leaves that undefined, and ONNX Runtime wraps them.

    `saturate` and `round_mode` concern only 8-bit floats.
    """
    if type_of(x).dtype == dtype:
        return x
    x = number(b, x)
    if is_compact(dtype):
        return compacted(b, x, dtype, saturate=saturate, round_mode=round_mode)
    return x if type_of(x).dtype == dtype else b.cast(x, to=dtype, saturate=not (is_float(type_of(x).dtype) and is_integer(dtype)))


@onnx_rule("Cast", since=6)
def cast(b: ImportBuilder, x: Value, *, to: int, saturate: int = 1, round_mode: RoundMode = "up") -> Value:
    return wrapping(b, x, our_dtype(to), bool(saturate), round_mode)


@onnx_rule("CastLike", since=15)
def cast_like(b: ImportBuilder, x: Value, target: Value, *, saturate: int = 1, round_mode: RoundMode = "up") -> Value:
    return wrapping(b, x, type_of(target).dtype, bool(saturate), round_mode)


@onnx_rule("Clip", since=6)
def clip_by_attributes(b: ImportBuilder, x: Value, *, min: float = float("-inf"), max: float = float("inf")) -> Value:
    return b.clamp(x, min=min, max=max)


@onnx_rule("Clip", since=11)
def clip(b: ImportBuilder, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    bounds = [None if v is None else b.constant_value(v) for v in (low, high)]
    if all(v is None or is_exact(c) for v, c in zip((low, high), bounds, strict=True)):
        least, most = (default if c is None else float(c.reshape(())) for c, default in zip(bounds, (float("-inf"), float("inf")), strict=True))
        return b.clamp(x, min=least, max=most)
    result = x if low is None else b.maximum(x, low)
    return result if high is None else b.minimum(result, high)


def is_exact(number: Any) -> bool:
    """Whether an array is known and is a single number that a float attribute represents exactly."""
    return number is not None and number.size == 1 and float(number.reshape(())) == number.reshape(()).item()


@onnx_rule("BitCast", since=26)
def bit_cast(b: ImportBuilder, x: Value, *, to: int) -> Value:
    """A boolean is a byte that is 0 or 1; for any other byte it keeps only whether it is not 0."""
    have, want = type_of(x).dtype, our_dtype(to)
    bits = [8 if dtype == BOOL else dtype_info(dtype).bits for dtype in (have, want)]
    if bits[0] != bits[1]:
        raise ModelError(f"it must keep the number of bits, got {bits[0]} of {have} and {bits[1]} of {want}")
    if have == want:
        return x
    if have == BOOL:
        return b.bit_cast(b.convert(x, "ui8"), to=want)
    if want == BOOL:
        return b.convert(b.bit_cast(x, to="ui8"), BOOL)
    return b.bit_cast(x, to=want)


@onnx_rule("Identity", since=1)
def identity(b: ImportBuilder, x: AnyValue) -> AnyValue:
    return x


def truth(b: ImportBuilder, like: Value) -> Value:
    """A boolean tensor of ones with the shape of `like`."""
    return b.expand(b.literal(np.array(True)), shape=dims_of(like))
