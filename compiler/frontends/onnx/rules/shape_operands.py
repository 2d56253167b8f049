"""Result types of operators whose result's shape is an operand."""

from collections.abc import Sequence

from stepwell.dialects.core.sizes import Dim, Size, holds
from stepwell.dialects.core.types import MAX_RANK, TensorType
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import NotConstantError
from stepwell.frontends.onnx.builder import ImportBuilder


def inferred_reshape(b: ImportBuilder, x: TensorType, shape: Sequence[Dim], sizes: Sequence[Dim] | None = None) -> list[TensorType]:
    """The type that ONNX infers for a result whose shape is an operand (itself of shape `shape`), or at least its rank.

    `sizes` are those by the operators' rules, if ONNX infers none. Raises UnsupportedError if even the rank is unknown, ModelError if it is too
    large.
    """
    if len(shape) == 1 and isinstance(shape[0], int) and shape[0] > MAX_RANK:
        raise ModelError(f"its shape has {shape[0]} entries; a tensor has at most {MAX_RANK} dimensions")
    declared = b.node.output_types[0] if b.node.output_types else None
    sizes = None if sizes is None else [None if isinstance(size, int) and size < 0 else size for size in sizes]
    if declared is not None:
        if len(shape) == 1 and isinstance(shape[0], Size):
            holds(shape[0], "==", declared.rank)  # assumed from now on
        if sizes is None or len(sizes) != declared.rank:
            return [declared]
        return [declared.with_shape([found if said is None else said for said, found in zip(declared.shape, sizes, strict=True)])]
    if sizes is not None:
        return [x.with_shape(sizes)]
    if len(shape) != 1 or not isinstance(shape[0], int):
        raise NotConstantError("a result of unknown rank is not supported; supported: a shape of known length", sizes=shape)
    return [x.with_shape((None,) * shape[0])]
