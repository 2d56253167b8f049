"""Numbers as text and back: Cast."""

import re
from typing import Any

import numpy as np

from stepwell.border.registry import Kind, Prepared, border_operator
from stepwell.dialects.core.dtypes import DTYPES, to_numpy
from stepwell.dialects.support.errors import InputError, UnsupportedError, shown
from stepwell.signature import STRING, is_string

_ELEMENTS = {
    1: "f32", 2: "ui8", 3: "i8", 4: "ui16", 5: "i16", 6: "i32", 7: "i64", 9: "i1", 10: "f16", 11: "f64", 12: "ui32", 13: "ui64", 16: "bf16",
}  # fmt: skip
"""Element types by their numbers in ONNX, which never change."""
_STRING = 8
_FLOAT = re.compile(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)\s*", re.IGNORECASE | re.ASCII)
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)


def as_strings(x: np.ndarray) -> np.ndarray:
    """Numbers as text: integers in decimal, booleans as 1 and 0, floats with up to 8 significant digits, like C's `%.8g`."""
    if x.dtype.kind in "biu":
        texts = [str(int(value)) for value in x.reshape(-1).tolist()]
    else:
        texts = [_float_text(value) for value in x.astype(np.float64).reshape(-1).tolist()]
    out = np.empty(len(texts), STRING)
    out[:] = texts
    return out.reshape(x.shape)


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    return f"{value:.8g}" if abs(value) != float("inf") else "INF" if value > 0 else "-INF"


def as_numbers(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Text as numbers. Raises InputError for text that is not a number, or one beyond the range of an integer type."""
    out = np.empty(x.size, dtype)
    integral = dtype.kind in "biu"
    form, limits = (_INTEGER, None if dtype == np.bool_ else np.iinfo(dtype)) if integral else (_FLOAT, None)
    for i, text in enumerate(x.reshape(-1).tolist()):
        if not form.fullmatch(text):
            raise InputError(f"element {i} is {shown(text)}, which is no {'whole number' if integral else 'number'}")
        value: Any = int(text) if integral else float(text)
        if limits is not None and not limits.min <= value <= limits.max:
            raise InputError(f"element {i} is {shown(text)}, which {dtype.name} does not hold")
        with np.errstate(over="ignore"):
            out[i] = value
    return out.reshape(x.shape)


def as_type(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array of numbers or strings as one of another type. Raises InputError like `as_numbers`."""
    if is_string(dtype):
        return x if is_string(x.dtype) else as_strings(x)
    return as_numbers(x, dtype) if is_string(x.dtype) else x.astype(dtype)


@border_operator("Cast", since=6, of_strings=lambda attributes: attributes.get("to") == _STRING)
def cast(*, to: int, saturate: int = 1, round_mode: str = "up") -> Prepared:
    """Cast; `saturate` and `round_mode` concern 8-bit floats."""
    if to != _STRING and to not in _ELEMENTS:
        raise UnsupportedError(f"to={to} is not supported for strings; supported: {', '.join(DTYPES)}")
    dtype = STRING if to == _STRING else to_numpy(_ELEMENTS[to])
    return Prepared(lambda x: as_type(x, dtype), lambda x: Kind(dtype, x.shape))
