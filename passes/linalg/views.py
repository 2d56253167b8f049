"""Views of memrefs and of tensors, seen through."""

from itertools import accumulate

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.symbolic_shapes import LIKELY, dropped

RESHAPES = ("memref.collapse_shape", "memref.expand_shape")
SLICES = (*RESHAPES, "memref.subview", "memref.cast", "memref.reinterpret_cast")
VIEWS = (*SLICES, "memref.view")
TENSOR_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
TENSOR_VIEWS = (*TENSOR_RESHAPES, "tensor.extract_slice", "tensor.cast")


def origin(value: ir.Value, views: tuple[str, ...] = VIEWS) -> ir.Value:
    """The memref or tensor that a chain of views of these kinds starts from."""
    op = defining_op(value)
    while op is not None and op.name in views:
        value = op.operands[0]
        op = defining_op(value)
    return value


def strides(value: ir.Value) -> list[int]:
    """How far apart in memory the neighbours of each dimension of a tensor of static shape lie, in elements, once it is a buffer.

    Its buffer is what the chain of views and destinations that it comes from starts with, which is row-major.
    """
    op = defining_op(value)
    while op is not None and (op.name.startswith("linalg.") or op.name == "tensor.insert_slice"):  # a concatenation has as many as operands
        value = op.operands[1 if op.name == "tensor.insert_slice" else len(op.operands) - len(op.results) + ir.OpResult(value).result_number]
        op = defining_op(value)
    shape = [size if size >= 0 else LIKELY for size in ir.ShapedType(value.type).shape]
    if op is None or op.name not in TENSOR_VIEWS:
        return row_major(shape)
    source = strides(op.operands[0])
    if op.name == "tensor.extract_slice":
        taken = list(op.attributes["static_strides"])
        kept = sorted(set(range(len(source))) - dropped(list(op.attributes["static_sizes"]), list(ir.ShapedType(value.type).shape)))
        return [source[i] * taken[i] for i in kept]
    if op.name == "tensor.cast":
        return source
    groups = [[int(i) for i in group] for group in op.attributes["reassociation"]]
    if op.name == "tensor.collapse_shape":
        sizes = [size if size >= 0 else LIKELY for size in ir.ShapedType(op.operands[0].type).shape]
        return [next((source[i] for i in reversed(group) if sizes[i] > 1), 1) for group in groups]
    if not groups:  # of a scalar
        return row_major(shape)
    return [source[i] * step for i, group in enumerate(groups) for step in row_major([shape[d] for d in group])]


def row_major(shape: list[int]) -> list[int]:
    """The strides of a contiguous row-major array."""
    return list(accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1))[::-1] if shape else []
