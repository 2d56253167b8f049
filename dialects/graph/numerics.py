"""Numpy helpers for reference functions: arithmetic for types narrower than f32, integer division, erf, indices."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from stepwell.dialects.core.dtypes import compute_dtype, dtype_info, from_numpy, is_float, to_numpy
from stepwell.dialects.core.index_checks import out_of_range
from stepwell.dialects.support.errors import IndexRangeError

Array = np.ndarray


def is_floating(dtype: np.dtype) -> bool:
    """Whether a numpy dtype is a float with arithmetic; the `kind` of those of `ml_dtypes` does not say so."""
    return dtype.kind in "fV" and is_float(from_numpy(dtype))


def wide(x: Array) -> Array:
    """`x` in the type it is computed in: f32 for narrower floats, else its own."""
    return x.astype(to_numpy(compute_dtype(from_numpy(x.dtype))), copy=False) if is_floating(x.dtype) else x


def summing(x: Array) -> Array:
    """`x` in the type in which a reference sums it: f64 for floats, else its own type (integers wrap)."""
    return x.astype(np.float64) if is_floating(x.dtype) else x


def narrow(x: Array, dtype: np.dtype) -> Array:
    """`x` rounded once to `dtype`."""
    if dtype.type.__module__ != "numpy" and x.dtype == np.float64:  # `isbuiltin` is false for an unpickled dtype of numpy, too
        # ml_dtypes goes through f32, which would round twice; rounding to odd first makes the second rounding the only one.
        with np.errstate(over="ignore", invalid="ignore"):
            single = x.astype(np.float32)
        bits = single.view(np.uint32) if single.ndim else single.reshape(1).view(np.uint32).reshape(())
        away = np.abs(single.astype(np.float64)) > np.abs(x)
        inexact = np.isfinite(x) & np.isfinite(single) & (single.astype(np.float64) != x)
        odd = np.where(inexact, np.where(away, bits - np.uint32(1), bits) | np.uint32(1), bits).astype(np.uint32)
        x = odd.view(np.float32) if odd.ndim else odd.reshape(1).view(np.float32).reshape(())
    return x.astype(dtype, copy=False)


def loses_digits(rounded: Array, exact: Array) -> Array:
    """Whether each product, rounded to a float type, is subnormal and differs from `exact`, the product in f64: it has few correct digits.

    For products in f64 there is nothing more accurate to compare with: there, every subnormal number counts as inexact.
    """
    wide = rounded.astype(np.float64)
    least = float(ml_dtypes.finfo(rounded.dtype).smallest_normal)
    return (np.abs(wide) < least) & ((wide != 0) if rounded.dtype == np.float64 else (wide != exact))


def widened(function: Callable[..., Any]) -> Callable[..., Array]:
    """`function` of arrays, computing floats narrower than f32 in that and rounding its result once to the first array's type.

    An absent optional operand is passed as None, a variadic one as a list.
    """

    def reference(first: Array, *rest: Any, **attributes: Any) -> Array:
        return narrow(np.asarray(function(wide(first), *map(_widened, rest), **attributes)), first.dtype)

    def _widened(operand: Any) -> Any:
        return None if operand is None else [wide(array) for array in operand] if isinstance(operand, list) else wide(operand)

    reference.plain = function  # type: ignore[attr-defined]  # messages name the line of this function
    return reference


def contract(a: Array, b: Array, axes: tuple[Sequence[int], Sequence[int]]) -> Array:
    """The products of the elements of `a` and `b`, summed over pairs of axes: the other axes of `a`, then those of `b`.

    Like `np.tensordot`, which however skips the product if `b` has a single element that is 0, and so turns NaN and infinities in `a` into 0. A
    matrix product multiplies all elements.
    """
    rest_a, rest_b = ([i for i in range(x.ndim) if i not in own] for x, own in zip((a, b), axes, strict=True))
    summed = math.prod(a.shape[i] for i in axes[0])
    left = a.transpose(*rest_a, *axes[0]).reshape(math.prod(a.shape[i] for i in rest_a), summed)
    right = b.transpose(*axes[1], *rest_b).reshape(summed, math.prod(b.shape[i] for i in rest_b))
    return (left @ right).reshape([a.shape[i] for i in rest_a] + [b.shape[i] for i in rest_b])


def pointwise(function: Callable[..., Any]) -> Any:
    """Make the `reference` of an element-wise op from a numpy function."""
    return staticmethod(widened(function))


def erf(x: Array) -> Array:
    """The error function, computed in f64 for each element and then rounded."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(x.dtype)


def truncating_divide(lhs: Array, rhs: Array) -> Array:
    """Integer division that truncates toward zero; 0 if the divisor is 0."""
    return np.asarray((lhs - np.fmod(lhs, rhs)) // rhs)


def power(base: Array, exponent: Array) -> Array:
    """A power of floats. With a single number as the exponent, numpy would use a special function, such as a root that is NaN for minus infinity."""
    return np.asarray(np.power(base, np.array(np.broadcast_to(exponent, np.broadcast_shapes(np.shape(base), np.shape(exponent))))))


def integer_power(base: Array, exponent: Array) -> Array:
    """`base ** exponent` in wrapping integers; a negative exponent gives the truncated reciprocal, and 0 for `0 ** -n`."""
    base, exponent = np.broadcast_arrays(base, exponent)
    if base.dtype.kind == "u":
        return np.asarray(np.power(base, exponent))
    one = base.dtype.type(1)
    odd = np.where(exponent % 2 == 0, one, base)
    reciprocal = np.where(base == 1, one, np.where(base == -1, odd, base.dtype.type(0)))
    return np.where(exponent < 0, reciprocal, np.power(base, np.where(exponent < 0, 0, exponent).astype(base.dtype)))


def checked_indices(indices: Array, size: int, *, from_start: bool = False) -> Array:
    """Normalised indices into a dimension of `size`; negative ones count from the end unless `from_start`. Raises IndexRangeError if out of range."""
    wanted, bad = indices.astype(np.int64), first_out_of_range(indices, size, from_start=from_start)
    if bad is not None:
        raise IndexRangeError(out_of_range(int(wanted[bad]), size, from_start=from_start))
    return np.where(wanted < 0, wanted + size, wanted)


def first_out_of_range(indices: Array, size: int, *, from_start: bool = False) -> tuple[int, ...] | None:
    """The position of the first index that is out of range for a dimension of `size`."""
    bad = (indices < (0 if from_start else -size)) | (indices >= size)
    return tuple(int(i) for i in np.unravel_index(np.argmax(bad), bad.shape)) if bad.any() else None


def lowest(dtype: np.dtype) -> Any:
    """The least value of a dtype: minus infinity for floats."""
    return dtype.type(dtype_info(dtype).extremes[0])


def highest(dtype: np.dtype) -> Any:
    """The greatest value of a dtype: infinity for floats."""
    return dtype.type(dtype_info(dtype).extremes[1])
