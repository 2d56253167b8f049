"""Copies of contiguous runs of memory, which need no loops."""

from math import prod

from stepwell.dialects.core.mlir import ir, memref
from stepwell.dialects.core.sizes import is_static, static_sizes
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.copies import moved, sizes_of_part, stretch
from stepwell.passes.linalg_to_affine.position import Position
from stepwell.passes.linalg_to_affine.values import index_value


def is_contiguous_copy(at: Position) -> bool:
    """Whether the iterations left to walk are a copy of a long contiguous run of memory."""
    context = at.context
    alone = not context.epilogues and not any(a.value in context.enclosing.shrunk for a in context.root.accesses)
    return alone and is_static(at.extents) and stretch(context.root, static_sizes(at.extents)) >= context.costs.memcpy_bytes


def copy_contiguous(at: Position) -> None:
    """Copy the rest of the iterations in one op."""
    source, target = (_part(at, access) for access in moved(at.context.root) or ())
    memref.CopyOp(source, target)


def _part(at: Position, access: Access) -> ir.Value:
    """The part of an operand that is left to walk, a contiguous run, as a one-dimensional view."""
    sizes = sizes_of_part(access, static_sizes(at.extents))
    offsets = [e.value if isinstance(e, ir.AffineConstantExpr) else index_value(e, at.ivs, 1) for e in at.address(access, {}).results]
    part = memref.subview(access.value, offsets, sizes, [1] * len(sizes))
    if len(sizes) == 1:
        return part
    strided = isinstance(part.type.layout, ir.StridedLayoutAttr)
    layout = ir.StridedLayoutAttr.get(part.type.get_strides_and_offset()[1], [1]) if strided else None
    flat = ir.MemRefType.get([prod(sizes)], access.element_type, layout)
    return memref.CollapseShapeOp(flat, part, [list(range(len(sizes)))]).result
