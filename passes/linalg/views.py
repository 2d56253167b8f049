"""Looks through views of memrefs and tensors."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Dim, product
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, dropped, shapes_around

RESHAPES = ("memref.collapse_shape", "memref.expand_shape")
SLICES = (*RESHAPES, "memref.subview", "memref.cast", "memref.reinterpret_cast")
VIEWS = (*SLICES, "memref.view")
TENSOR_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
WHOLE_TENSOR_VIEWS = (*TENSOR_RESHAPES, "tensor.cast")
TENSOR_VIEWS = (*WHOLE_TENSOR_VIEWS, "tensor.extract_slice")


def origin(value: ir.Value, views: tuple[str, ...] = VIEWS) -> ir.Value:
    """The memref or tensor at the start of a chain of views of these kinds."""
    op = defining_op(value)
    while op is not None and op.name in views:
        value = op.operands[0]
        op = defining_op(value)
    return value


def strides(value: ir.Value) -> list[Dim]:
    """The strides of a memref or tensor in memory, in elements; None for an unknown stride.

    The buffer of a tensor is the row-major one at the start of its chain of views and destinations.
    """
    if isinstance(value.type, ir.MemRefType):
        unknown = ir.ShapedType.get_dynamic_stride_or_offset()
        said = value.type.get_strides_and_offset()[0]
        if unknown not in said:
            return list(said)
        return [found if step == unknown else step for step, found in zip(said, _followed(value), strict=True)]
    return _followed(value)


def _followed(value: ir.Value) -> list[Dim]:
    """Like `strides`, from the defining ops of the value alone."""
    op = defining_op(value)
    while op is not None and (op.name.startswith("linalg.") or op.name == "tensor.insert_slice"):  # a concatenation has as many as operands
        value = op.operands[1 if op.name == "tensor.insert_slice" else len(op.operands) - len(op.results) + ir.OpResult(value).result_number]
        op = defining_op(value)
    shape = exact_shape(value)
    if op is None or op.name not in (*TENSOR_VIEWS, *SLICES):
        strided = isinstance(value.type, ir.MemRefType) and isinstance(value.type.layout, ir.StridedLayoutAttr)
        return [None] * len(shape) if strided else row_major(shape)
    if op.name == "memref.reinterpret_cast":
        return [None] * len(shape)
    source = strides(op.operands[0])
    if op.name in ("tensor.extract_slice", "memref.subview"):
        taken = [None if step == ir.ShapedType.get_dynamic_size() else step for step in op.attributes["static_strides"]]
        kept = sorted(set(range(len(source))) - dropped(list(op.attributes["static_sizes"]), list(ir.ShapedType(value.type).shape)))
        return [product((source[i], taken[i])) for i in kept]
    if op.name in ("tensor.cast", "memref.cast"):
        return source
    groups = [[int(i) for i in group] for group in op.attributes["reassociation"]]
    if op.name in ("tensor.collapse_shape", "memref.collapse_shape"):
        sizes = exact_shape(op.operands[0])
        return [next((source[i] for i in reversed(group) if sizes[i] not in (0, 1)), 1) for group in groups]
    if not groups:  # of a scalar
        return row_major(shape)
    return [product((source[i], step)) for i, group in enumerate(groups) for step in row_major([shape[d] for d in group])]


def exact_shape(value: ir.Value) -> list[Dim]:
    """The sizes of a tensor or memref: numbers, and expressions of symbols for dynamic sizes."""
    sizes: list[Dim] = list(ir.ShapedType(value.type).shape)
    if all(isinstance(size, int) and size >= 0 for size in sizes):
        return sizes
    return shapes_of(value).shape(value)


def shapes_of(value: ir.Value) -> SymbolicShapes:
    """The shapes of the function around a value."""
    return shapes_around((value.owner.owner if isinstance(value.owner, ir.Block) else value.owner).operation)


def row_major(shape: Sequence[Dim]) -> list[Dim]:
    """The strides of a contiguous row-major array."""
    return [product(shape[place + 1 :]) for place in range(len(shape))]
