"""Converts LLVM IR text for a parser that is older than the printer: numbers are spelled as all versions read them."""

import re

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
    exact decimals. NaN is `+qnan`, or with a payload `+nan(0x1)`, and `+snan(0x1)` if it is a signalling one. The type of a number is the last one
    named before it in its line. Text in quotes, such as a name, stays unchanged.
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
    raw = bytes.fromhex(number[3:])[::-1] if number.startswith("f0x") else None
    if nan := _NAN.fullmatch(number):
        raw = _nan_bits(nan, dtype.itemsize, int(ml_dtypes.finfo(dtype).nmant))
    value = dtype.type(number) if raw is None else np.frombuffer(raw, dtype)[0]
    if kind in _PREFIXES:
        return _PREFIXES[kind] + np.asarray(value).astype(dtype).view(np.uint16).item().to_bytes(2, "big").hex().upper()
    return f"0x{_as_double(value):016X}"


def _nan_bits(nan: re.Match[str], size: int, digits: int) -> bytes:
    """The bytes, lowest first, of a NaN of this sign, kind and payload, in a type of `size` bytes with so many `digits` of mantissa."""
    sign, quiet = int(nan["sign"] == "-"), int(nan["kind"] != "s")
    exponent = (1 << 8 * size - 1 - digits) - 1
    return (sign << 8 * size - 1 | exponent << digits | quiet << digits - 1 | int(nan["payload"] or "0", 16)).to_bytes(size, "little")


def _as_double(value: np.floating) -> int:
    """The bits of a float as those of a double: a signalling NaN stays one."""
    if isinstance(value, np.float32) and np.isnan(value):
        bits = int(value.view(np.uint32))
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    return int(np.float64(value).view(np.uint64))
