"""Element types by their MLIR spelling, and the numpy dtypes that hold them. Free of the bindings: a cached model runs without those."""

import ml_dtypes
import numpy as np

from stepwell.dialects.support.errors import ElementTypeError

FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("ui8", "ui16", "ui32", "ui64")
INTEGERS = SIGNED + UNSIGNED
NUMERIC = FLOATS + INTEGERS
BOOL = "i1"

_NUMPY: dict[str, np.dtype] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8), "ui16": np.dtype(np.uint16), "ui32": np.dtype(np.uint32), "ui64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip
_FROM_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}
DTYPES = tuple(_NUMPY)


def to_numpy(dtype: str) -> np.dtype:
    """The numpy dtype of an element type spelled as in MLIR (`f32`, `ui8`, `i1`, …)."""
    return _NUMPY[dtype]


def from_numpy(dtype: np.dtype) -> str:
    """The MLIR spelling of a numpy dtype. Raises ElementTypeError for one that has no tensor type here (strings, complex)."""
    name = _FROM_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if name is None:
        raise ElementTypeError(f"element type {dtype} is not supported; supported: {', '.join(DTYPES)}")
    return name


def is_float(dtype: str) -> bool:
    """Whether it is a floating-point type."""
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    """Whether it is an integer type, signed or not (booleans are not)."""
    return dtype in INTEGERS


def is_unsigned(dtype: str) -> bool:
    """Whether values are never negative: unsigned integers and booleans."""
    return dtype in UNSIGNED or dtype == BOOL
