"""Tensor types as light Python values, and their translation to and from MLIR types."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from stepwell.dialects.core.dtypes import *  # noqa: F403  (re-exports its `__all__`, which most users of tensor types need)
from stepwell.dialects.core.dtypes import FLOATS, ElementKind, dtype_info, to_numpy
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.size_parser import parse_all
from stepwell.dialects.core.sizes import Dim, Size, is_static, product, size_text as size_text, sizes_text as sizes_text
from stepwell.dialects.support.errors import InferenceError

MAX_RANK = 64  # the limit of numpy
_DYNAMIC = ir.ShapedType.get_dynamic_size()
_FLOAT_CLASSES = {name: getattr(ir, f"{name.upper()}Type") for name in FLOATS}
_FLOAT_NAMES = {kind: name for name, kind in _FLOAT_CLASSES.items()}


@dataclass(frozen=True)
class TensorType:
    """A ranked tensor type: `dtype` spelled as in MLIR, `shape` with a `Size` for a dynamic dimension, or None if it is unknown."""

    dtype: str
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return is_static(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape of a static type. Raises InferenceError if a dimension is dynamic."""
        if not is_static(self.shape):
            raise InferenceError(f"{self} has a dynamic dimension where a static shape is needed")
        return cast(tuple[int, ...], self.shape)

    @property
    def elements(self) -> int:
        """Number of elements of a static type."""
        return prod(self.static_shape)

    @property
    def size(self) -> Dim:
        """Number of elements, as far as it is known."""
        return product(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes of a static type's dense array."""
        return self.elements * to_numpy(self.dtype).itemsize

    def with_shape(self, shape: Sequence[Dim]) -> "TensorType":
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: str) -> "TensorType":
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        sizes = "".join(f"{d if isinstance(d, int) and d >= 0 else '?'}x" for d in self.shape)
        names = self._names()
        return f"tensor<{sizes}{self.dtype}>" if not names else f'tensor<{sizes}{self.dtype}, "{names}">'

    def _names(self) -> str:
        """The text of all dimensions that are not static; empty if all of these are unknown."""
        free = [d for d in self.shape if not isinstance(d, int)]
        return ", ".join(map(size_text, free)) if any(isinstance(d, Size) for d in free) else ""

    def to_mlir(self) -> ir.RankedTensorType:
        """The MLIR type, in the current context; its encoding names the dynamic dimensions."""
        names = self._names()
        encoding = ir.StringAttr.get(names) if names else None
        sizes = [d if isinstance(d, int) else _DYNAMIC for d in self.shape]
        return ir.RankedTensorType.get(sizes, element_type(self.dtype), encoding=encoding)

    @staticmethod
    def from_mlir(mlir_type: ir.Type) -> "TensorType":
        """The light form of a ranked tensor type. Raises InferenceError for any other type."""
        if not isinstance(mlir_type, ir.RankedTensorType):
            raise InferenceError(f"expected a ranked tensor, got {mlir_type}")
        shape: list[Dim] = [*mlir_type.shape]
        if _DYNAMIC in shape:
            shape = [None if size == _DYNAMIC else size for size in shape]
        encoding = mlir_type.encoding
        if encoding is not None:
            free = [i for i, size in enumerate(shape) if size is None]
            names = parse_all(ir.StringAttr(encoding).value) if isinstance(encoding, ir.StringAttr) else ()
            if len(names) != len(free):
                raise InferenceError(f"expected the sizes of the {len(free)} dynamic dimensions of {mlir_type} as text, such as \"n, 2*s + 1\"")
            for dim, name in zip(free, names, strict=True):
                shape[dim] = name
        return TensorType(dtype_of(mlir_type.element_type), tuple(shape))


def element_type(dtype: str) -> ir.Type:
    """The MLIR element type spelled `dtype`, in the current context."""
    made = _FLOAT_CLASSES.get(dtype)
    if made is not None:
        return made.get()
    info = dtype_info(dtype)
    if info.is_float:
        return ir.Type.parse(dtype)  # slower
    return (ir.IntegerType.get_unsigned if info.kind is ElementKind.UNSIGNED else ir.IntegerType.get_signless)(info.bits)


def dtype_of(mlir_type: ir.Type) -> str:
    """The spelling of an MLIR element type. Raises ElementTypeError for one outside our set."""
    name = _FLOAT_NAMES.get(type(mlir_type))  # printing costs more than everything else here
    if name is not None:
        return name
    is_plain = isinstance(mlir_type, ir.IntegerType) and not mlir_type.is_signed
    return dtype_info(f"{'i' if mlir_type.is_signless else 'ui'}{mlir_type.width}" if is_plain else str(mlir_type)).name


def type_of(value: ir.Value) -> TensorType:
    """The light type of a tensor value."""
    return TensorType.from_mlir(value.type)


def dims_of(value: ir.Value) -> tuple[int | Size, ...]:
    """The shape of a tensor value whose dimensions are all numbers or have symbols, as while a model is imported."""
    shape = type_of(value).shape
    assert None not in shape, f"{type_of(value)} has a dimension without a symbol"
    return cast("tuple[int | Size, ...]", shape)
