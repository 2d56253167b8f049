"""Element-wise ops, compiled, against their references: every dtype, special values, broadcasting."""

import numpy as np
from every import every
from one_op import Literal, check_op, ops_together, run_op

from stepwell.dialects.core.types import DTYPES, FLOATS, INTEGERS, NUMERIC, SIGNED, UNSIGNED, TensorType, to_numpy

RNG = np.random.default_rng(11)
SHAPE = (3, 5, 8)
# Functions of the runtime's libm against numpy's: both may be off by an ulp or two.
FUNCTIONS = {
    "exp": (-80, 80), "log": (0, 50), "sin": (-9, 9), "cos": (-9, 9), "tan": (-1.4, 1.4), "asin": (-1, 1), "acos": (-1, 1), "atan": (-9, 9),
    "sinh": (-9, 9), "cosh": (-9, 9), "tanh": (-9, 9), "asinh": (-9, 9), "acosh": (1, 9), "atanh": (-1, 1), "erf": (-3, 3), "sigmoid": (-90, 90),
    "softplus": (-90, 90), "sqrt": (-1, 9), "rsqrt": (-1, 9), "reciprocal": (-9, 9),
}  # fmt: skip
FLOAT_UNARY = ("floor", "ceil", "round", "neg", "abs", "sign", "relu")
SPECIALS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan)


def floats(dtype: str, low: float = -9, high: float = 9, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Random floats with special values among them."""
    x = RNG.uniform(low, high, shape)
    x.reshape(-1)[: len(SPECIALS)] = SPECIALS[: x.size]
    return x.astype(to_numpy(dtype))


def integers(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Random integers of the whole range, with its ends and small ones among them."""
    limits = np.iinfo(to_numpy(dtype))
    x = RNG.integers(limits.min, limits.max, shape, dtype=to_numpy(dtype), endpoint=True)
    x.reshape(-1)[:6] = limits.min, limits.max, 0, 1, 2, limits.max // 2
    if limits.min < 0:
        x.reshape(-1)[6:8] = -1, limits.min + 1
    return x


def values(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    if dtype == "i1":
        return RNG.integers(0, 2, shape).astype(bool)
    return floats(dtype, shape=shape) if dtype in FLOATS else integers(dtype, shape)


@ops_together
@every("dtype", FLOATS)
@every("mnemonic", FUNCTIONS)
def test_functions(mnemonic: str, dtype: str) -> None:
    low, high = FUNCTIONS[mnemonic]
    check_op(mnemonic, [floats(dtype, low, high)], ulps=4)


@ops_together
@every("dtype", FLOATS)
@every("mnemonic", FLOAT_UNARY)
def test_exact_float_functions(mnemonic: str, dtype: str) -> None:
    check_op(mnemonic, [floats(dtype)], terms=0, ulps=0)


@ops_together
@every("dtype", FLOATS)
def test_activations_with_slopes(dtype: str) -> None:
    check_op("leaky_relu", [floats(dtype)], alpha=0.01)
    check_op("elu", [floats(dtype)], alpha=0.7, ulps=4)
    check_op("elu", [floats(dtype, -1e-3, 1e-3)], alpha=0.7, ulps=4)


@ops_together
@every("dtype", FLOATS)
@every("mnemonic", ["is_nan", "is_inf"])
def test_predicates(mnemonic: str, dtype: str) -> None:
    for negative, positive in [(True, True), (True, False), (False, True), (False, False)]:
        options = {"detect_negative": negative, "detect_positive": positive} if mnemonic == "is_inf" else {}
        check_op(mnemonic, [floats(dtype)], **options)


@ops_together
@every("dtype", INTEGERS)
@every("mnemonic", ["abs", "sign", "relu", "bitwise_not", "neg"])
def test_integer_unary(mnemonic: str, dtype: str) -> None:
    if mnemonic != "neg" or dtype in SIGNED:
        check_op(mnemonic, [integers(dtype)])


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Two operands that meet in every combination of special values."""
    count = 11
    x, y = values(dtype, (24, 1)), values(dtype, (24,))
    x[:count, 0] = y[:count]
    return x, y


@ops_together
@every("dtype", ["f32", "f64", "f16", "bf16", "i8", "ui8", "i32", "ui32", "i64", "ui64"])
@every("mnemonic", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_arithmetic(mnemonic: str, dtype: str) -> None:
    check_op(mnemonic, pairs(dtype), terms=0, ulps=0)


@ops_together
@every("fmod", [True, False])
@every("dtype", ["f32", "f64", "f16", "i8", "ui8", "i64", "ui64"])
def test_mod(dtype: str, fmod: bool) -> None:
    check_op("mod", pairs(dtype), fmod=fmod, ulps=0)


@ops_together
@every("dtype", ["f32", "f64", "bf16"])
def test_float_power(dtype: str) -> None:
    check_op("pow", [np.abs(floats(dtype)), floats(dtype, -2, 2)], ulps=3)
    check_op("pow", [floats(dtype), Literal(np.array(2, to_numpy(dtype)))])


@ops_together
@every("dtype", ["i8", "ui8", "i32", "i64", "ui64"])
def test_integer_power(dtype: str) -> None:
    base = integers(dtype, (24, 1))
    exponent = np.array([0, 1, 2, 3, 5, 31] + ([-1, -2, -7] if dtype in SIGNED else []), to_numpy(dtype))
    check_op("pow", [base, exponent])


@ops_together
@every("dtype", UNSIGNED)
@every("mnemonic", ["shift_left", "shift_right"])
def test_shifts_beyond_the_width(mnemonic: str, dtype: str) -> None:
    width = to_numpy(dtype).itemsize * 8
    check_op(mnemonic, [integers(dtype, (24, 1)), np.array([0, 1, width - 1, width, width + 1, 200], to_numpy(dtype))])


@ops_together
@every("dtype", ["f32", "bf16", "i8", "ui8", "i64", "ui64"])
@every("mnemonic", ["equal", "less", "less_equal", "greater", "greater_equal"])
def test_comparisons(mnemonic: str, dtype: str) -> None:
    check_op(mnemonic, pairs(dtype))


@ops_together
@every("mnemonic", ["and", "or", "xor", "equal", "not"])
def test_booleans(mnemonic: str) -> None:
    check_op(mnemonic, [values("i1")] if mnemonic == "not" else [values("i1"), values("i1", (5, 1))])


@ops_together
@every("dtype", ["i8", "ui8", "i64"])
@every("mnemonic", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(mnemonic: str, dtype: str) -> None:
    check_op(mnemonic, pairs(dtype))


@ops_together
@every("dtype", DTYPES)
def test_select(dtype: str) -> None:
    check_op("select", [values("i1", (3, 1, 1)), values(dtype), values(dtype, (8,))], terms=0, ulps=0)


@ops_together
@every("dtype", NUMERIC)
def test_clamp(dtype: str) -> None:
    x = values(dtype)
    for low, high in [(0.0, 6.0), (-3.0, np.inf), (-np.inf, 100.0), (-1e30, 1e30)]:
        check_op("clamp", [x], min=low, max=high, terms=0, ulps=0)


@ops_together
@every("source", DTYPES)
def test_casts(source: str) -> None:
    x = values(source)
    for to in DTYPES:
        for saturate in (True, False):
            check_op("cast", [x], to=to, saturate=saturate, terms=0, ulps=0)


def test_rounding_to_narrow_floats_is_done_once() -> None:
    # Just above the middle between two neighbours, by less than an f32 can show: rounding through f32 would fall on the middle and go to even.
    middle = 1 + 2.0**-8
    x = np.array([middle + 2.0**-40, middle, middle - 2.0**-40, -(middle + 2.0**-40), 1e300, 1e-300])
    check_op("cast", [x], to="bf16", saturate=True, terms=0, ulps=0)
    check_op("cast", [x * (1 + 2.0**-11) / middle], to="f16", saturate=True, terms=0, ulps=0)
    (result,) = run_op("cast", [x], to="bf16", saturate=True)
    assert result[0] > result[1]


@ops_together
@every("shapes", [((), (2, 3)), ((1,), (2, 1)), ((4, 1, 5), (3, 1)), ((1, 6, 1, 1), (2, 6, 3, 4)), ((0, 3), (1, 3)), ((), ())])
def test_broadcasting(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (RNG.standard_normal(s).astype(np.float32) for s in shapes)
    check_op("sub", [a, b], terms=0, ulps=0)
    check_op("sub", [b, a], terms=0, ulps=0)


@ops_together
def test_constants_in_a_kernel() -> None:
    x = floats("f32")
    check_op("sub", [Literal(np.float32(1.5)), x], terms=0, ulps=0)
    check_op("mul", [x, Literal(np.full((5, 1), 3, np.float32))], terms=0, ulps=0)
    check_op("mul", [x, Literal(np.arange(8, dtype=np.float32))], terms=0, ulps=0)
    check_op("maximum", [values("ui8"), Literal(np.array(200, np.uint8))])
    check_op("and", [values("i1"), Literal(np.array(True))])


@ops_together
def test_dynamic_dimensions() -> None:
    x, y = floats("f32"), RNG.standard_normal((5, 1)).astype(np.float32)
    check_op("sub", [x, y], types=[TensorType("f32", (None, 5, None)), TensorType("f32", (5, 1))], terms=0, ulps=0)
    check_op("sub", [y, x], types=[TensorType("f32", (5, 1)), TensorType("f32", (None, None, None))], terms=0, ulps=0)
