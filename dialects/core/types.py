"""Tensor types as light Python values, and their translation to MLIR types."""

from collections.abc import Iterable
from dataclasses import dataclass

from stepwell.dialects.core.dtypes import (
    BOOL,
    COMPACT,
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMERIC,
    SIGNED,
    STORED,
    UNSIGNED,
    from_numpy,
    is_compact,
    is_float,
    is_integer,
    is_unsigned,
    to_numpy,
)
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import ElementTypeError, InferenceError

__all__ = [
    "BOOL", "COMPACT", "DTYPES", "FLOATS", "INTEGERS", "MAX_RANK", "NUMERIC", "SIGNED", "STORED", "UNSIGNED", "TensorType", "dtype_of",
    "element_type", "from_numpy", "is_compact", "is_float", "is_integer", "is_unsigned", "size_text", "sizes_text", "to_numpy", "type_of",
]  # fmt: skip

MAX_RANK = 64  # numpy's
_DYNAMIC = ir.ShapedType.get_dynamic_size()
_FLOAT_CLASSES: dict[type, str] = {ir.F16Type: "f16", ir.BF16Type: "bf16", ir.F32Type: "f32", ir.F64Type: "f64"}


@dataclass(frozen=True)
class TensorType:
    """A ranked tensor type: `dtype` spelled as in MLIR, `shape` with None for a dynamic dimension."""

    dtype: str
    shape: tuple[int | None, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return None not in self.shape

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape of a static type. Raises InferenceError if a dimension is dynamic."""
        sizes = tuple(d for d in self.shape if d is not None)
        if len(sizes) != self.rank:
            raise InferenceError(f"{self} has a dynamic dimension where a static shape is needed")
        return sizes

    @property
    def elements(self) -> int:
        """Number of elements of a static type."""
        count = 1
        for size in self.static_shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        """Size in bytes of a static type's dense array."""
        return self.elements * to_numpy(self.dtype).itemsize

    def with_shape(self, shape: tuple[int | None, ...]) -> "TensorType":
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: str) -> "TensorType":
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return "tensor<" + "".join(f"{size_text(d)}x" for d in self.shape) + self.dtype + ">"

    def to_mlir(self) -> ir.RankedTensorType:
        """The MLIR type, in the current context."""
        dynamic = ir.ShapedType.get_dynamic_size()
        return ir.RankedTensorType.get([dynamic if d is None else d for d in self.shape], element_type(self.dtype))

    @staticmethod
    def from_mlir(mlir_type: ir.Type) -> "TensorType":
        """The light form of a ranked tensor type. Raises InferenceError for any other type."""
        if not isinstance(mlir_type, ir.RankedTensorType):
            raise InferenceError(f"expected a ranked tensor, got {mlir_type}")
        shape = tuple(None if size == _DYNAMIC else size for size in mlir_type.shape)
        return TensorType(dtype_of(mlir_type.element_type), shape)


def size_text(size: int | None) -> str:
    """A size as it is printed: `?` for one that is not known, as MLIR's own negative number for it."""
    return "?" if size is None or size < 0 else str(size)


def sizes_text(sizes: Iterable[int | None]) -> str:
    """Sizes as they are printed in a message: `[2, ?, 8]`."""
    return f"[{', '.join(map(size_text, sizes))}]"


def element_type(dtype: str) -> ir.Type:
    """The MLIR element type spelled `dtype`, in the current context."""
    if dtype not in STORED:
        raise ElementTypeError(f"unknown element type '{dtype}'; known: {', '.join(STORED)}")
    return ir.Type.parse(dtype)


def dtype_of(mlir_type: ir.Type) -> str:
    """The spelling of an MLIR element type. Raises ElementTypeError for one outside our set."""
    text = _FLOAT_CLASSES.get(type(mlir_type)) or str(mlir_type)  # printing costs, and most are floats
    if text not in STORED:
        raise ElementTypeError(f"element type {text} is not supported; supported: {', '.join(STORED)}")
    return text


def type_of(value: ir.Value) -> TensorType:
    """The light type of a tensor value."""
    return TensorType.from_mlir(value.type)
