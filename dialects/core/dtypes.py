"""Element types as values, looked up by their MLIR spelling. Independent of the bindings: a cached model runs without them.

IR, attributes and `TensorType` name an element type by its spelling; this module knows everything else about it. A type is one table entry.
"""

import enum
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from stepwell.dialects.support.errors import ElementTypeError
from stepwell.dialects.support.properties import cached_property

__all__ = [
    "BOOL", "BYTES", "DTYPES", "ELEMENT_TYPES", "FLOATS", "HALVES", "INTEGERS", "NARROW", "NUMERIC", "SIGNED", "UNSIGNED", "WIDE_FLOATS",
    "ElementKind", "ElementType", "compute_dtype", "dtype_info", "from_numpy", "is_compact", "is_emulated", "is_float", "is_integer",
    "is_small_float", "is_unsigned", "plain_booleans", "register_element_type", "to_numpy",
]  # fmt: skip


class ElementKind(enum.Enum):
    """The interpretation of an element's bits."""

    FLOAT = "a float"
    SIGNED = "a signed integer"
    UNSIGNED = "an unsigned integer"
    BOOLEAN = "a boolean"


@dataclass(frozen=True)
class ElementType:
    """One element type: the meaning of its bits, its layout in memory, and the type in which arithmetic on it is done."""

    name: str
    """The MLIR spelling."""
    kind: ElementKind
    bits: int
    numpy: np.dtype
    """The numpy type of arrays with such elements. An element of fewer than 8 bits occupies the lowest bits of a byte."""
    compute: str | None
    """The type of arithmetic: itself, or a wider float, from which results are rounded once. None: elements are only stored, moved and converted."""

    @property
    def is_float(self) -> bool:
        return self.kind is ElementKind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (ElementKind.SIGNED, ElementKind.UNSIGNED)

    @property
    def is_unsigned(self) -> bool:
        """Whether values are never negative: unsigned integers and booleans."""
        return self.kind in (ElementKind.UNSIGNED, ElementKind.BOOLEAN)

    @property
    def is_compact(self) -> bool:
        """Whether it is a float of 8 bits or an element of fewer: below the graph level it is a byte, and only conversions read it as a number."""
        return self.kind is not ElementKind.BOOLEAN and (self.bits < 8 or (self.is_float and self.bits == 8))

    @property
    def is_emulated(self) -> bool:
        """Whether arithmetic on it needs a conversion before and after, because no level below the graph level has the type."""
        return self.is_compact and self.compute is not None

    @cached_property
    def is_small_float(self) -> bool:
        """Whether it is a compact float with sign, exponent and mantissa, between which and other types casts exist."""
        return self.is_compact and self.is_float and self.limits[0] < 0

    @property
    def storage(self) -> str:
        """The MLIR type below the graph level, where operations carry the signedness."""
        return f"i{8 * self.numpy.itemsize}" if self.is_integer or self.is_compact else self.name

    @cached_property
    def limits(self) -> tuple[Any, Any]:
        """The least and the greatest value as Python numbers; the finite ones for a float."""
        if self.kind is ElementKind.BOOLEAN:
            return 0, 1
        if self.is_float:
            return float(self._facts.min), float(self._facts.max)
        limits: Any = ml_dtypes.iinfo(self.numpy)
        return int(limits.min), int(limits.max)

    @property
    def extremes(self) -> tuple[Any, Any]:
        """Like `limits`, but the infinities for a float."""
        return (-math.inf, math.inf) if self.is_float else self.limits

    @cached_property
    def precision(self) -> int:
        """Significant bits of a float, or bits of an integer's magnitude: all whole numbers up to 2 to this power are representable."""
        return int(self._facts.nmant) + 1 if self.is_float else self.bits - (self.kind is ElementKind.SIGNED)

    @cached_property
    def eps(self) -> float:
        """The distance from 1 to the next larger float."""
        return float(self._facts.eps)

    @cached_property
    def has_infinity(self) -> bool:
        """Whether it is a float type with infinities."""
        return self.is_float and bool(np.isinf(np.array(np.inf, np.float32).astype(self.numpy).astype(np.float32)))

    def holds(self, other: "ElementType") -> bool:
        """Whether this type can represent every value of the other."""
        if self.kind is ElementKind.BOOLEAN or (other.is_float and not self.is_float):
            return self == other
        if other.precision > self.precision or other.limits[0] < self.limits[0] or other.limits[1] > self.limits[1]:
            return False
        if not other.is_float:
            return True
        return self._facts.smallest_subnormal <= other._facts.smallest_subnormal and self.has_infinity >= other.has_infinity

    @property
    def _facts(self) -> Any:
        return ml_dtypes.finfo(self.numpy)

    def __str__(self) -> str:
        return self.name


def _integers(kind: ElementKind, prefix: str, *widths: int) -> list[ElementType]:
    return [ElementType(f"{prefix}i{w}", kind, w, np.dtype(f"{prefix}int{w}"), f"{prefix}i{w}") for w in widths]


def _float(name: str, bits: int, dtype: type, compute: str | None) -> ElementType:
    return ElementType(name, ElementKind.FLOAT, bits, np.dtype(dtype), compute)


ELEMENT_TYPES = {
    entry.name: entry
    for entry in (
        ElementType("i1", ElementKind.BOOLEAN, 1, np.dtype(np.bool_), "i1"),
        *_integers(ElementKind.SIGNED, "", 8, 16, 32, 64),
        *_integers(ElementKind.UNSIGNED, "u", 8, 16, 32, 64),
        _float("f16", 16, np.float16, "f32"),
        _float("bf16", 16, ml_dtypes.bfloat16, "f32"),
        _float("f32", 32, np.float32, "f32"),
        _float("f64", 64, np.float64, "f64"),
        _float("f8E4M3FN", 8, ml_dtypes.float8_e4m3fn, "f32"),
        _float("f8E4M3FNUZ", 8, ml_dtypes.float8_e4m3fnuz, "f32"),
        _float("f8E5M2", 8, ml_dtypes.float8_e5m2, "f32"),
        _float("f8E5M2FNUZ", 8, ml_dtypes.float8_e5m2fnuz, "f32"),
        _float("f8E8M0FNU", 8, ml_dtypes.float8_e8m0fnu, None),  # powers of two, without 0: scales of blocks
        _float("f4E2M1FN", 4, ml_dtypes.float4_e2m1fn, None),
        ElementType("i4", ElementKind.SIGNED, 4, np.dtype(ml_dtypes.int4), None),
        ElementType("ui4", ElementKind.UNSIGNED, 4, np.dtype(ml_dtypes.uint4), None),
        ElementType("i2", ElementKind.SIGNED, 2, np.dtype(ml_dtypes.int2), None),
        ElementType("ui2", ElementKind.UNSIGNED, 2, np.dtype(ml_dtypes.uint2), None),
    )
}
"""All element types that tensors may have, by name."""
_FROM_NUMPY = {entry.numpy: entry for entry in ELEMENT_TYPES.values()}


def _native(*kinds: ElementKind) -> tuple[str, ...]:
    return tuple(entry.name for entry in ELEMENT_TYPES.values() if entry.kind in kinds and not entry.is_compact)


BOOL = "i1"
DTYPES = _native(*ElementKind)
"""The types that code computes with, or converts on loads and stores; arithmetic of an emulated type is done in one of these."""
FLOATS = _native(ElementKind.FLOAT)
SIGNED = _native(ElementKind.SIGNED)
UNSIGNED = _native(ElementKind.UNSIGNED)
INTEGERS = SIGNED + UNSIGNED
NUMERIC = FLOATS + INTEGERS
HALVES = tuple(name for name in FLOATS if ELEMENT_TYPES[name].compute != name)
"""Floats of 16 bits, which are computed in f32."""
WIDE_FLOATS = tuple(name for name in FLOATS if name not in HALVES)
NARROW = tuple(sorted((name for name in INTEGERS if ELEMENT_TYPES[name].bits <= 16), key=lambda name: ELEMENT_TYPES[name].bits))
"""Integers that floats are quantised to, and that products read and accumulate in i32; smallest first."""
BYTES = tuple(name for name in NARROW if ELEMENT_TYPES[name].bits == 8)


def register_element_type(entry: ElementType) -> ElementType:
    """Add a type of at most 8 bits, with arithmetic in the wider type `compute` if that is given. IR, arrays and code may then use it.

    Raises ElementTypeError if its name or numpy dtype is taken, or if the levels below cannot store or compute it.
    """
    for known in (ELEMENT_TYPES.get(entry.name), _FROM_NUMPY.get(entry.numpy)):
        if known is not None and known != entry:
            raise ElementTypeError(f"element type {entry.name} of numpy's {entry.numpy}: there is {known.name} already, of numpy's {known.numpy}")
    if not entry.is_compact or entry.numpy.itemsize != 1:
        raise ElementTypeError(f"element type {entry.name}: expected a float of at most 8 bits or an integer of fewer, in a byte; got {entry}")
    fitting = [name for name in FLOATS if entry.is_small_float and ELEMENT_TYPES[name].holds(entry)]
    if entry.compute not in (None, *fitting):
        raise ElementTypeError(f"element type {entry.name}: compute must be None{''.join(f' or {name}' for name in fitting)}; got {entry.compute}")
    ELEMENT_TYPES[entry.name] = _FROM_NUMPY[entry.numpy] = entry
    return entry


def dtype_info(dtype: str | np.dtype) -> ElementType:
    """The element type with a name or numpy dtype. Raises ElementTypeError if there is none (strings, complex numbers)."""
    found = ELEMENT_TYPES.get(dtype) if isinstance(dtype, str) else _FROM_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if found is None:
        raise ElementTypeError(f"element type {dtype} is not supported; supported: {', '.join(ELEMENT_TYPES)}")
    return found


def to_numpy(dtype: str) -> np.dtype:
    """The numpy dtype of an element type spelled as in MLIR (`f32`, `ui8`, `i1`, …)."""
    return dtype_info(dtype).numpy


def from_numpy(dtype: np.dtype) -> str:
    """The MLIR spelling of a numpy dtype. Raises ElementTypeError for one that is not supported (strings, complex)."""
    return dtype_info(np.dtype(dtype)).name


def compute_dtype(dtype: str) -> str:
    """The type in which elements of `dtype` are computed and summed: f32 for narrow floats, otherwise the type itself."""
    return dtype_info(dtype).compute or dtype


def is_float(dtype: str) -> bool:
    """Whether it is a floating-point type with arithmetic."""
    return dtype in FLOATS or (is_emulated(dtype) and ELEMENT_TYPES[dtype].is_float)


def is_integer(dtype: str) -> bool:
    """Whether it is an integer type with arithmetic, signed or not (booleans are not)."""
    return dtype in INTEGERS


def is_compact(dtype: str) -> bool:
    """Whether it is a type that the levels below the graph level treat as bytes."""
    return dtype in ELEMENT_TYPES and ELEMENT_TYPES[dtype].is_compact


def is_emulated(dtype: str) -> bool:
    """Whether it is a compact type with arithmetic, which is done in its compute type."""
    return dtype in ELEMENT_TYPES and ELEMENT_TYPES[dtype].is_emulated


def is_small_float(dtype: str) -> bool:
    """Whether it is a float of 8 bits or fewer between which and other types casts exist."""
    return dtype in ELEMENT_TYPES and ELEMENT_TYPES[dtype].is_small_float


def is_unsigned(dtype: str) -> bool:
    """Whether values are never negative: unsigned integers and booleans."""
    return dtype in UNSIGNED or dtype == BOOL


def plain_booleans(array: np.ndarray) -> np.ndarray:
    """An array of booleans with bytes 0 or 1, as code requires: the array itself or a copy.

    Numpy takes any nonzero byte as true, and views of other data contain such bytes.
    """
    codes = array.view(np.uint8)
    return np.asarray(codes != 0) if codes.max(initial=0) > 1 else array  # a scalar array becomes a numpy scalar in the comparison
