"""The pass that fills only the border of a padded tensor, because the rest is overwritten anyway."""

from math import prod

from stepwell.dialects.core.mlir import defining_op, ir, ops_below, replace_op, tensor, users
from stepwell.dialects.core.sizes import Size, always
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, shapes_around
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.linalg.structured import Structured, filled

Window = tuple[list[int | Size], list[int | Size]]  # offsets and sizes
TWICE = 8
"""The shortest run, in elements, for which overlapping vector stores are faster than storing single elements."""


@register_pass("fill-borders", level="linalg", anchor="func.func", optional=True)
class FillBorders(Pass):
    """Fill a padded tensor only around its inside.

    rewrite: %f = fill(%c, %d); … insert_slice(%x into %f[window])  ->  the same with %f made of fills of the slices around the window

    Each of these slices is small, and none is written twice. A window in the middle of two dimensions has four slices around it. If the slices are
    scattered over the tensor, as when the last dimension is padded, it is cheaper to fill all of it.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        inserts = ops_below(op, "tensor.insert_slice")
        if not inserts:
            return
        shapes = shapes_around(op)
        for insert in inserts:
            fill = defining_op(insert.operands[1])
            if fill is None or fill.name != "linalg.fill":
                continue
            with state.attempt(self.name, insert):
                window, shape = window_of(insert, shapes), [size for size in shapes.shape(insert.operands[1]) if size is not None]
                if window is None or len(shape) < len(window[0]):
                    raise NoMatch("all of it is filled: where the inside lies is not known, or it has gaps")
                if not all(_only_sees(user, insert, window, shapes) for user in users(fill.results[0])):
                    raise NoMatch("all of it is filled: something else reads what is filled")
                regions = around(window, shape)
                if sum(stretches(sizes, shape, shapes) for _, sizes in regions) > prod(map(shapes.likely, shape)) / TWICE:
                    raise NoMatch("all of it is filled: what is around the inside are single elements all over it")
                state.did(self.name, insert, f"filled in {len(regions)} slices around its inside")
                with ir.InsertionPoint(fill), fill.location:
                    current = fill.operands[1]
                    for offsets, sizes in regions:
                        current = _filled(fill.operands[0], current, offsets, sizes, shapes)
                replace_op(fill, [current])
                state.count(self.name)


def window_of(op: ir.Operation, shapes: SymbolicShapes) -> Window | None:
    """The window of an insert_slice or extract_slice, if it is known (possibly in symbols) and has no gaps; otherwise None."""
    offsets, sizes, strides = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))
    dynamic = ir.ShapedType.get_dynamic_size(), ir.ShapedType.get_dynamic_stride_or_offset()
    values = list(op.operands)[1 if op.name == "tensor.extract_slice" else 2 :]
    found = [shapes.index(values.pop(0)) if n in dynamic else n for n in (*offsets, *sizes)]
    numbers = [n for n in found if n is not None]
    if len(numbers) < len(found) or any(s != 1 for s in strides):
        return None
    return numbers[: len(offsets)], numbers[len(offsets) :]


def _only_sees(user: ir.Operation, insert: ir.Operation, window: Window, shapes: SymbolicShapes) -> bool:
    """Whether a user of the filled tensor is the insertion, or only reads the window in order to overwrite it."""
    if user == insert:
        return True
    return user.name == "tensor.extract_slice" and window_of(user, shapes) == window and _is_overwritten(user.results[0])


def _is_overwritten(value: ir.Value) -> bool:
    """Whether all users of a tensor overwrite it without reading it."""
    return all(
        _is_overwritten(user.results[0]) if user.name in ("tensor.expand_shape", "tensor.collapse_shape")
        else user.name in ("linalg.fill", "linalg.generic") and all(not a.used for a in Structured(user).accesses if a.value == value)
        for user in users(value)
    )  # fmt: skip


def around(window: Window, shape: list[int | Size]) -> list[Window]:
    """Windows that together cover all of `shape` except `window`, without overlaps: for each dimension the parts before and after it.

    A window of dynamic size may be empty.
    """
    offsets, sizes = window
    out: list[Window] = []
    for d, (offset, size, whole) in enumerate(zip(offsets, sizes, shape, strict=True)):
        for start, end in ((0, offset), (offset + size, whole)):
            if not always(end, "<=", start):
                out.append(([*offsets[:d], start, *[0] * (len(shape) - d - 1)], [*sizes[:d], end - start, *shape[d + 1 :]]))
    return [region for region in out if 0 not in region[1]]


def stretches(sizes: list[int | Size], shape: list[int | Size], shapes: SymbolicShapes) -> int:
    """The (likely) number of contiguous runs in a slice of such a tensor."""
    inner = next((d for d in range(len(shape) - 1, -1, -1) if sizes[d] != shape[d]), 0)
    return prod(map(shapes.likely, sizes[:inner]))


def _filled(value: ir.Value, whole: ir.Value, offsets: list[int | Size], sizes: list[int | Size], shapes: SymbolicShapes) -> ir.Value:
    """`whole` with one window filled."""
    ones, dynamic = [1] * len(sizes), ir.ShapedType.get_dynamic_size()
    starts, lengths = ([shapes.value(n) for n in side if isinstance(n, Size)] for side in (offsets, sizes))
    static = [[n if isinstance(n, int) else dynamic for n in side] for side in (offsets, sizes)]
    kind = ir.RankedTensorType.get(static[1], whole.type.element_type)
    part = tensor.ExtractSliceOp(kind, whole, starts, lengths, [], *static, ones).result
    return tensor.InsertSliceOp(filled(value, part), whole, starts, lengths, [], *static, ones).result
