"""Interpretations of scalar ops (arith, math), on one scalar or on an array: signless integers wrap, and the op decides signedness."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from stepwell.dialects.core.attributes import dense_value
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph import numerics
from stepwell.dialects.interpreter.base import Interpreter, ReferenceFault, Values, meaning, scalar_dtype

Array = np.ndarray
Function = Callable[..., Any]


def unsigned(x: Array) -> Array:
    """The same bits as unsigned integers."""
    x = np.asarray(x)
    return x if x.dtype.kind == "b" else x.view(f"u{x.dtype.itemsize}")


def signed(x: Array) -> Array:
    """The same bits as signed integers; true is -1."""
    x = np.asarray(x)
    return -x.astype(np.int8) if x.dtype.kind == "b" else x


def modular(function: Function) -> Function:
    """Integer arithmetic that wraps, on booleans modulo 2."""

    def wrapped(*operands: Array) -> Array:
        if operands[0].dtype.kind != "b":
            return np.asarray(function(*operands))
        return np.asarray(function(*(x.astype(np.uint8) for x in operands)) & 1).astype(bool)

    return wrapped


def on(view: Callable[[Array], Array], function: Function) -> Function:
    """`function` of the operands seen as signed or unsigned, with the result as signless bits."""

    def viewed(*operands: Array) -> Array:
        result = np.asarray(function(*map(view, operands)))
        if operands[0].dtype.kind == "b":
            return (result & 1).astype(bool) if result.dtype.kind != "b" else result
        return result.view(operands[0].dtype)

    return viewed


def checked(function: Function) -> Function:
    """`function` of a dividend and a divisor, which must not be 0: native code would trap."""

    def divide(x: Array, y: Array) -> Array:
        if not np.all(y):
            raise ReferenceFault("division by 0")
        return np.asarray(function(x, y))

    return divide


def floor_divide(x: Array, y: Array) -> Array:
    """The quotient rounded down."""
    return np.asarray(x // y)


def ceil_divide(x: Array, y: Array) -> Array:
    """The quotient rounded up."""
    return np.asarray(x // y + (x % y != 0))


def truncating_divide(x: Array, y: Array) -> Array:
    """The quotient rounded toward 0; the smallest integer divided by -1 wraps."""
    if x.dtype.kind == "u":
        return np.asarray(x // y)
    wraps = (x == np.iinfo(x.dtype).min) & (y == -1)
    return np.where(wraps, x, numerics.truncating_divide(np.where(wraps, x.dtype.type(0), x), y))


def greater(x: Array, y: Array) -> Array:
    """The larger of two, NaN if one is, and +0 above -0."""
    return np.asarray(np.where((x == y) & (x == 0), x + y, np.maximum(x, y))).astype(x.dtype)


def lesser(x: Array, y: Array) -> Array:
    """The smaller of two, NaN if one is, and -0 below +0."""
    return -greater(-x, -y)


def fused(x: Array, y: Array, z: Array) -> Array:
    """`x * y + z` of a type at least twice as wide (for f64, as wide as the machine has), rounded to that of the operands."""
    wide = np.longdouble if x.dtype.itemsize > 2 else np.float64
    return np.asarray(np.asarray(x, wide) * np.asarray(y, wide) + np.asarray(z, wide)).astype(x.dtype)


def half_away(x: Array) -> Array:
    """The nearest integer, halves away from 0."""
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole), x).astype(x.dtype)


ARITHMETIC: dict[str, Function] = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide, "arith.remf": np.fmod,
    "arith.negf": np.negative, "arith.maximumf": greater, "arith.minimumf": lesser, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    "arith.addi": modular(np.add), "arith.subi": modular(np.subtract), "arith.muli": modular(np.multiply),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.divsi": checked(on(signed, truncating_divide)), "arith.divui": checked(on(unsigned, truncating_divide)),
    "arith.remsi": checked(on(signed, np.fmod)), "arith.remui": checked(on(unsigned, np.fmod)),
    "arith.floordivsi": checked(on(signed, floor_divide)), "arith.ceildivsi": checked(on(signed, ceil_divide)),
    "arith.ceildivui": checked(on(unsigned, ceil_divide)),
    "arith.maxsi": on(signed, np.maximum), "arith.minsi": on(signed, np.minimum),
    "arith.maxui": on(unsigned, np.maximum), "arith.minui": on(unsigned, np.minimum),
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift, "arith.shrui": on(unsigned, np.right_shift), "arith.select": np.where,
    "math.absf": np.abs, "math.absi": np.abs, "math.ceil": np.ceil, "math.floor": np.floor, "math.trunc": np.trunc, "math.roundeven": np.rint,
    "math.round": half_away, "math.copysign": np.copysign, "math.sqrt": np.sqrt, "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.cbrt": np.cbrt, "math.exp": np.exp, "math.exp2": np.exp2, "math.expm1": np.expm1, "math.log": np.log, "math.log1p": np.log1p,
    "math.log2": np.log2, "math.log10": np.log10, "math.sin": np.sin, "math.cos": np.cos, "math.tan": np.tan, "math.asin": np.arcsin,
    "math.acos": np.arccos, "math.atan": np.arctan, "math.atan2": np.arctan2, "math.sinh": np.sinh, "math.cosh": np.cosh, "math.tanh": np.tanh,
    "math.asinh": np.arcsinh, "math.acosh": np.arccosh, "math.atanh": np.arctanh, "math.erf": numerics.erf, "math.powf": numerics.power,
    "math.fma": fused, "math.isnan": np.isnan, "math.isinf": np.isinf, "math.isfinite": np.isfinite,
}  # fmt: skip


def resize_signed(x: Array, dtype: np.dtype) -> Array:
    """A signed integer of another width; the lower bits of a longer one."""
    return (x & 1).astype(bool) if dtype.kind == "b" and x.dtype.kind != "b" else signed(x).astype(dtype)


def resize_unsigned(x: Array, dtype: np.dtype) -> Array:
    """An unsigned integer of another width."""
    return unsigned(x).astype(f"u{dtype.itemsize}").view(dtype)


def to_float(x: Array, dtype: np.dtype) -> Array:
    """An integer as a float, rounded once."""
    return numerics.narrow(x.astype(np.float64), dtype) if dtype in (np.float16, ml_dtypes.bfloat16) else x.astype(dtype)


# Functions of an operand and of the type of the result.
CONVERSIONS: dict[str, Callable[[Array, np.dtype], Array]] = {
    "arith.extf": lambda x, dtype: x.astype(dtype), "arith.truncf": numerics.narrow, "arith.bitcast": lambda x, dtype: np.asarray(x).view(dtype),
    "arith.extsi": resize_signed, "arith.trunci": resize_signed, "arith.index_cast": resize_signed,
    "arith.extui": resize_unsigned, "arith.index_castui": resize_unsigned,
    "arith.sitofp": lambda x, dtype: to_float(signed(x), dtype), "arith.uitofp": lambda x, dtype: to_float(unsigned(x), dtype),
    "arith.fptosi": lambda x, dtype: x.astype(dtype), "arith.fptoui": lambda x, dtype: x.astype(f"u{dtype.itemsize}").view(dtype),
}  # fmt: skip


def elementwise(function: Function, *, converts: bool = False) -> Any:
    """The interpretation of an op from a numpy function of its operands and, if it `converts`, of the type of the result."""

    def results(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
        kind = op.results[0].type
        dtype = scalar_dtype(kind.element_type if isinstance(kind, ir.ShapedType) else kind)
        with np.errstate(all="ignore"):
            return [np.asarray(function(*operands, *([dtype] if converts else []))).astype(dtype, copy=False)]

    return results


for _name, _function in ARITHMETIC.items():
    meaning(_name)(elementwise(_function))
for _name, _function in CONVERSIONS.items():
    meaning(_name)(elementwise(_function, converts=True))

# The predicates in the order of their numbers.
INTEGER_PREDICATES: list[Function] = [
    np.equal, np.not_equal,
    *(lambda x, y, f=f: f(signed(x), signed(y)) for f in (np.less, np.less_equal, np.greater, np.greater_equal)),
    *(lambda x, y, f=f: f(unsigned(x), unsigned(y)) for f in (np.less, np.less_equal, np.greater, np.greater_equal)),
]  # fmt: skip
# Those that NaN makes false, the last of which holds for all other numbers; then come the same with NaN.
ORDERED: list[Function] = [np.equal, np.greater, np.greater_equal, np.less, np.less_equal, lambda x, y: (x < y) | (x > y)]


@meaning("arith.cmpi")
def compare_integers(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """One of ten relations, signed or not."""
    return [np.asarray(INTEGER_PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value](*operands))]


@meaning("arith.cmpf")
def compare_floats(_: Interpreter, op: ir.Operation, operands: list[Any], __: Values) -> Sequence[Any]:
    """One of sixteen relations: never, six that NaN makes false, ordered, six that NaN makes true, unordered, always."""
    number, (x, y) = ir.IntegerAttr(op.attributes["predicate"]).value, operands
    nan = np.isnan(x) | np.isnan(y)
    if number in (0, 15):
        return [np.full(nan.shape, number == 15)]
    if number in (7, 14):
        return [~nan if number == 7 else nan]
    holds = ORDERED[(number - 1) % 7](x, y)
    return [np.asarray(holds & ~nan if number < 7 else holds | nan)]


@meaning("arith.constant")
def constant(_: Interpreter, op: ir.Operation, __: list[Any], ___: Values) -> Sequence[Any]:
    """A scalar or a dense tensor."""
    kind: Any = op.results[0].type
    attribute: Any = op.attributes["value"]
    if isinstance(kind, ir.ShapedType):
        return [dense_value(attribute)]
    dtype = scalar_dtype(kind)
    return [np.asarray(ir.BoolAttr(attribute).value if dtype.kind == "b" else attribute.value).astype(dtype)]
