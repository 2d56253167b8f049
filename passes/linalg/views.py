"""Views of memrefs and of tensors, seen through."""

from stepwell.dialects.core.mlir import defining_op, ir

RESHAPES = ("memref.collapse_shape", "memref.expand_shape")
VIEWS = (*RESHAPES, "memref.subview", "memref.cast", "memref.view", "memref.reinterpret_cast")
TENSOR_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
TENSOR_VIEWS = (*TENSOR_RESHAPES, "tensor.extract_slice", "tensor.cast")


def origin(value: ir.Value, views: tuple[str, ...] = VIEWS) -> ir.Value:
    """The memref or tensor that a chain of views of these kinds starts from."""
    op = defining_op(value)
    while op is not None and op.name in views:
        value = op.operands[0]
        op = defining_op(value)
    return value
