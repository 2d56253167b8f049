"""Converts LLVM IR text for a parser that is older than the printer: numbers are spelled as all versions read them."""

import re
from typing import Any

import ml_dtypes
import numpy as np

_TYPES = {"half": np.dtype(np.float16), "bfloat": np.dtype(ml_dtypes.bfloat16), "float": np.dtype(np.float32), "double": np.dtype(np.float64)}
_PREFIXES = {"half": "0xH", "bfloat": "0xR"}
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_NAN = re.compile(r"(?P<sign>[+-]?)(?P<kind>[qs]?)nan(?:\((?P<payload>0x[0-9A-Fa-f]+)\))?")
_TOKEN = re.compile(
    r"(?P<type>\b(?:half|bfloat|float|double)\b)"
    r"|(?<![\w.%@$!-])(?P<number>-?\d+\.\d+(?:e[+-]?\d+)?|f0x[0-9A-Fa-f]+|[+-]?inf|[+-]?(?:[qs]?nan)(?:\(0x[0-9A-Fa-f]+\))?)(?![\w.])"
)


def portable(text: str) -> str:
    """LLVM IR whose floating-point constants are hexadecimal numbers, which every version of LLVM reads.

    The LLVM of the bindings prints them as `f0x3F800000`, the bits, or as the shortest decimal that rounds to them; an older parser accepts only
    exact decimals. NaN is `+qnan`, or with a payload `+nan(0x1)`, and `+snan(0x1)` if it is a signalling one. The type of a number is the last one named before it in its line. Text in quotes, such as a name, stays unchanged.
    """
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    kind: str | None = None

    def spelled(found: re.Match[str]) -> str:
        nonlocal kind
        if found["type"]:
            kind = found["type"]
            return kind
        return found["number"] if kind is None else _hexadecimal(found["number"], kind)

    return "".join(part if part.startswith('"') else _TOKEN.sub(spelled, part) for part in _QUOTED.split(line))


def _hexadecimal(number: str, kind: str) -> str:
    dtype = _TYPES[kind]
    if number.startswith("f0x"):
        value = np.frombuffer(bytes.fromhex(number[3:])[::-1], dtype)[0]
    elif nan := _NAN.fullmatch(number):
        value = _nan(dtype, nan)
    else:
        value = dtype.type(number)
    if kind in _PREFIXES:
        return _PREFIXES[kind] + np.asarray(value).astype(dtype).view(np.uint16).item().to_bytes(2, "big").hex().upper()
    return f"0x{_as_double(value):016X}"


def _nan(dtype: np.dtype[Any], nan: re.Match[str]) -> np.floating:
    """The NaN of this sign, kind and payload: quiet unless it is called signalling."""
    words = np.dtype(f"u{dtype.itemsize}")
    infinity = int(np.array(np.inf, dtype).view(words))
    quiet = 1 << int(ml_dtypes.finfo(dtype).nmant) - 1
    bits = infinity | int(nan["payload"] or "0", 16) | (0 if nan["kind"] == "s" else quiet) | (1 << 8 * dtype.itemsize - 1) * (nan["sign"] == "-")
    value: np.floating = np.array(bits, words).view(dtype)[()]
    return value


def _as_double(value: np.floating) -> int:
    """The bits of a float as those of a double: a signalling NaN stays one."""
    if isinstance(value, np.float32) and np.isnan(value):
        bits = int(value.view(np.uint32))
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    return int(np.float64(value).view(np.uint64))
