"""Element-wise comparisons, boolean and bitwise logic, selection and conversion between element types."""

import math
from typing import Any

import numpy as np

from stepwell.dialects.core.dtypes import ELEMENT_TYPES, HALVES, compute_dtype, dtype_info, is_small_float
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import BOOL, DTYPES, FLOATS, INTEGERS, NUMERIC, UNSIGNED, TensorType, is_float, to_numpy, type_of
from stepwell.dialects.graph.base import Elementwise, GraphOp, InferredTypes, KeepsFinite, Operand, Pure, Result, broadcast
from stepwell.dialects.graph.elementwise import Binary, Unary
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.graph.inference import binary, expect_dtype, expect_same_dtype, unary
from stepwell.dialects.graph.numerics import is_floating, narrow, wide
from stepwell.dialects.graph.traits import Converts, Exact
from stepwell.dialects.graph.value_range import ANY, Range, union
from stepwell.dialects.support.errors import InferenceError


class Comparison(Binary, infer=binary(NUMERIC, result=BOOL)):
    """An element-wise comparison of numbers; false if either is NaN."""


class EqualOp(Comparison, name="equal", infer=binary(DTYPES, result=BOOL), reference=np.equal):
    """`lhs == rhs`, also for booleans; NaN equals nothing."""


class LessOp(Comparison, name="less", reference=np.less):
    """`lhs < rhs`."""


class LessEqualOp(Comparison, name="less_equal", reference=np.less_equal):
    """`lhs <= rhs`."""


class GreaterOp(Comparison, name="greater", reference=np.greater):
    """`lhs > rhs`."""


class GreaterEqualOp(Comparison, name="greater_equal", reference=np.greater_equal):
    """`lhs >= rhs`."""


class BoolBinary(Binary, infer=binary((BOOL,))):
    """An element-wise op with two boolean operands."""


class AndOp(BoolBinary, name="and", reference=np.logical_and):
    """True if both are true."""


class OrOp(BoolBinary, name="or", reference=np.logical_or):
    """True if at least one is true."""


class XorOp(BoolBinary, name="xor", reference=np.logical_xor):
    """True if exactly one is true."""


class NotOp(Unary, name="not", infer=unary((BOOL,)), reference=np.logical_not):
    """True if `x` is false."""


class IntegerBinary(Binary, infer=binary(INTEGERS)):
    """An element-wise op with two integer operands."""


class BitwiseAndOp(IntegerBinary, name="bitwise_and", reference=np.bitwise_and):
    """Bitwise and."""


class BitwiseOrOp(IntegerBinary, name="bitwise_or", reference=np.bitwise_or):
    """Bitwise or."""


class BitwiseXorOp(IntegerBinary, name="bitwise_xor", reference=np.bitwise_xor):
    """Bitwise exclusive or."""


class BitwiseNotOp(Unary, name="bitwise_not", infer=unary(INTEGERS), reference=np.bitwise_not):
    """Bitwise complement of `x`."""


class ShiftLeftOp(Binary, name="shift_left", infer=binary(UNSIGNED), reference=np.left_shift):
    """The bits of `lhs` shifted left by `rhs`; 0 if `rhs` is the type's width or more."""


class ShiftRightOp(Binary, name="shift_right", infer=binary(UNSIGNED), reference=np.right_shift):
    """The bits of `lhs` shifted right by `rhs`; 0 if `rhs` is the type's width or more."""


class IsNanOp(Unary, name="is_nan", infer=unary(FLOATS, result=BOOL), reference=np.isnan):
    """Whether `x` is NaN."""


class IsInfOp(Unary, name="is_inf"):
    """Whether `x` is an infinity with one of the selected signs."""

    detect_negative: ir.BoolAttr
    detect_positive: ir.BoolAttr
    infer = unary(FLOATS, result=BOOL)

    @staticmethod
    def reference(x: np.ndarray, *, detect_negative: bool, detect_positive: bool) -> np.ndarray:
        return np.isinf(x) & np.where(x < 0, detect_negative, detect_positive)


class SelectOp(GraphOp, name="select", traits=[Pure, Elementwise]):
    """`a` where `cond` is true, else `b`."""

    cond: Operand
    a: Operand
    b: Operand
    result: Result

    @staticmethod
    def infer(cond: TensorType, a: TensorType, b: TensorType) -> InferredTypes:
        expect_dtype("cond", cond, (BOOL,))
        expect_same_dtype(a=a, b=b)
        return TensorType(a.dtype, broadcast(cond, a, b))

    @staticmethod
    def reference(cond: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(cond, a, b)

    def value_range(self, cond: Range, a: Range, b: Range) -> Range:
        """The union of the ranges of both choices."""
        return union([a, b])


class CastOp(Unary, name="cast", traits=[KeepsFinite, Exact, Converts]):
    """`x` converted to the element type `to`: rounded once to nearest even for floats, truncated for integers, compared with 0 for i1.

    Integers wrap. Floats outside an integer type's range become its nearest value (NaN becomes 0) if `saturate`. Else they wrap too, with a limit:
    those that i32 (for `to` of 64 bits, i64) does not hold become its least value, where ui32 and ui64 begin from half their range again.
    Beyond the greatest number of a float of 8 bits or fewer lies that one if `saturate`, else infinity, or NaN in a type without one.
    """

    to: ir.TypeAttr
    saturate: ir.BoolAttr

    @staticmethod
    def infer(x: TensorType, *, to: str, saturate: bool) -> InferredTypes:
        fitting = [*DTYPES, *filter(is_small_float, ELEMENT_TYPES)]
        expect_dtype("x", x, fitting)
        if to not in fitting:
            raise InferenceError(f"attribute 'to' must be one of {', '.join(fitting)}; got {to}")
        return x.with_dtype(to)

    @staticmethod
    def reference(x: np.ndarray, *, to: str, saturate: bool) -> np.ndarray:
        target, dtype = dtype_info(to), to_numpy(to)
        if dtype_info(x.dtype).is_small_float:
            x = x.astype(np.float32)
        if target.is_small_float:
            numbers = x.astype(np.float64) if is_floating(x.dtype) else exact(x)
            return narrow(np.clip(numbers, *target.limits) if saturate else numbers, dtype)
        if is_floating(dtype):
            return narrow(x if is_floating(x.dtype) or dtype.itemsize > 2 else exact(x), dtype)
        if dtype.kind == "b":
            return x != x.dtype.type(0)
        if is_floating(x.dtype):
            return saturated(wide(x), dtype) if saturate else wrapped(wide(x).astype(np.float64), dtype)
        return x.astype(dtype)

    def repeats_cheaply(self) -> bool:
        """Halves in the type that they are computed in."""
        source = self.operand_types()[0].dtype
        return source in HALVES and self.result_types()[0].dtype == compute_dtype(source)

    def value_range(self, x: Range) -> Range:
        """Truncated towards zero for integers; floats hold small integers exactly. NaN becomes 0, or the least of wide integers."""
        (low, high), dtype = x, self.result_types()[0].dtype
        if dtype_info(dtype).is_float:
            return x if max(abs(low), abs(high)) <= min(256, 2 ** dtype_info(dtype).precision) else ANY
        if not (math.isfinite(low) and math.isfinite(high)):
            return ANY
        least, most = math.trunc(low), math.trunc(high)
        if not is_float(self.operand_types()[0].dtype):
            return (least, most)
        if not self.attribute_values()["saturate"] and to_numpy(dtype).itemsize >= 4:
            return ANY
        return (min(least, 0), max(most, 0))


class BitCastOp(Unary, name="bit_cast"):
    """The bits of `x` as elements of type `to`, which has the same size in bytes. For compact types below 8 bits, only the lowest bits count."""

    to: ir.TypeAttr
    flops = staticmethod(no_arithmetic)

    @staticmethod
    def infer(x: TensorType, *, to: str) -> InferredTypes:
        numeric = [dtype for dtype in ELEMENT_TYPES if dtype != BOOL]
        expect_dtype("x", x, numeric)
        fitting = [dtype for dtype in numeric if to_numpy(dtype).itemsize == to_numpy(x.dtype).itemsize]
        if to not in fitting:
            raise InferenceError(f"attribute 'to' must be one of {', '.join(fitting)} for {x}, got {to}")
        return x.with_dtype(to)

    @staticmethod
    def reference(x: np.ndarray, *, to: str) -> np.ndarray:
        return np.ascontiguousarray(x).view(to_numpy(to)).reshape(x.shape)


def rounds_result(op: ir.Operation) -> bool:
    """Whether a cast to a 16-bit float rounds the result of a node that computes in f32. A cast that is a node itself has its own location."""
    made = defining_op(op.operands[0])
    result = type_of(op.results[0]).dtype
    narrows = result in HALVES and type_of(op.operands[0]).dtype == compute_dtype(result)
    return narrows and made is not None and made.location == op.location


def wrapped(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert floats (in f64) to integers as x86 does without AVX-512: values that the intermediate integer cannot hold become its smallest value."""
    through: Any = np.int64 if dtype.itemsize == 8 else np.int32
    least = int(np.iinfo(through).min)
    half = -float(least)

    def converted(y: np.ndarray) -> np.ndarray:
        inside = (np.trunc(y) >= -half) & (y < half)
        return np.where(inside, y, -half).astype(through)

    whole = converted(x)
    if dtype.kind == "u" and dtype.itemsize == whole.itemsize:
        whole = np.where(x >= half, converted(x - half) ^ least, whole)
    return whole.astype(dtype)


def exact(x: np.ndarray) -> np.ndarray:
    """Integers as f64, with those of more than 53 bits rounded to odd, so that rounding again to f16 or bf16 gives the correctly rounded result."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    low = x.dtype.type(2047)
    odd = np.where(x & low, x | (low + 1), x) & ~low
    return np.where(np.abs(x.astype(np.float64)) < 2.0**53, x, odd).astype(np.float64)


def saturated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert floats to integers; values out of range become the nearest end of the range, and NaN becomes 0."""
    limits = np.iinfo(dtype)
    above, below = x >= float(limits.max), x <= float(limits.min)
    inside = np.where(above | below | np.isnan(x), x.dtype.type(0), x).astype(dtype)
    return np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), inside))
