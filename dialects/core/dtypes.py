"""Element types by their MLIR spelling, and the numpy dtypes that hold them. Free of the bindings: a cached model runs without those."""

import ml_dtypes
import numpy as np

from stepwell.dialects.support.errors import ElementTypeError

FLOATS = ("f16", "bf16", "f32", "f64")
HALVES = ("f16", "bf16")
"""Floats of 16 bits: they are computed in f32, and rounded once."""
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("ui8", "ui16", "ui32", "ui64")
INTEGERS = SIGNED + UNSIGNED
BYTES = ("i8", "ui8")
NARROW = (*BYTES, "i16", "ui16")
"""Integers that floats are quantised to, and that products read and sum in i32; smallest first."""
NUMERIC = FLOATS + INTEGERS
BOOL = "i1"
COMPACT = ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU", "f4E2M1FN", "i4", "ui4", "i2", "ui2")
"""Floats and integers of 8 bits and fewer that are only stored, a byte each, and moved: to compute with them, they are made other types.

The byte is that of `ml_dtypes`: the bits of the element are its lowest.
"""

_NUMPY: dict[str, np.dtype] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8), "ui16": np.dtype(np.uint16), "ui32": np.dtype(np.uint32), "ui64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip
DTYPES = tuple(_NUMPY)
"""The element types that ops compute with."""
_NUMPY.update(zip(COMPACT, map(np.dtype, (
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2,
)), strict=True))  # fmt: skip
_FROM_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}
STORED = tuple(_NUMPY)
"""All element types that tensors may have."""


def to_numpy(dtype: str) -> np.dtype:
    """The numpy dtype of an element type spelled as in MLIR (`f32`, `ui8`, `i1`, …)."""
    return _NUMPY[dtype]


def from_numpy(dtype: np.dtype) -> str:
    """The MLIR spelling of a numpy dtype. Raises ElementTypeError for one that has no tensor type here (strings, complex)."""
    name = _FROM_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if name is None:
        raise ElementTypeError(f"element type {dtype} is not supported; supported: {', '.join(STORED)}")
    return name


def is_float(dtype: str) -> bool:
    """Whether it is a floating-point type."""
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    """Whether it is an integer type, signed or not (booleans are not)."""
    return dtype in INTEGERS


def is_compact(dtype: str) -> bool:
    """Whether it is a type of 8 bits or fewer that is only stored and moved."""
    return dtype in COMPACT


def is_unsigned(dtype: str) -> bool:
    """Whether values are never negative: unsigned integers and booleans."""
    return dtype in UNSIGNED or dtype == BOOL


def plain_booleans(array: np.ndarray) -> np.ndarray:
    """An array of booleans whose bytes are 0 or 1, as code requires: itself or a copy.

    For numpy any nonzero byte is true, and views of other data have such.
    """
    codes = array.view(np.uint8)
    return np.asarray(codes != 0) if codes.max(initial=0) > 1 else array  # of a scalar array it is no array
