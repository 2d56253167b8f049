"""The pass that fills only the border of a padded tensor: the rest is overwritten anyway."""

from dataclasses import dataclass
from math import prod

from stepwell.dialects.core.mlir import defining_op, ir, linalg, tensor, users
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import ops_below
from stepwell.passes.linalg.structured import Structured

Window = tuple[list[int], list[int]]  # offsets and sizes
TWICE = 8  # elements that are quicker written in vectors, and again, than one of them alone


@register_pass("fill-borders", level="linalg", anchor="func.func", optional=True)
@dataclass
class FillBorders(Pass):
    """Fill a padded tensor around its inside, not all of it.

    rewrite: %f = fill(%c, %d); … insert_slice(%x into %f[window])  ->  the same with %f made of fills of the slices around the window

    Each of these is small, and none is written twice. A window in the middle of two dimensions has four slices around it. If they are scattered all
    over the tensor, as those of a last dimension that is filled up are, it takes less to fill all of it.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for insert in ops_below(op, "tensor.insert_slice"):
            fill, window = defining_op(insert.operands[1]), static_window(insert)
            if fill is None or fill.name != "linalg.fill":
                continue
            if window is None or not insert.operands[1].type.has_static_shape:
                state.decline(self.name, insert, NoMatch("all of it is filled: where the inside lies is not known, or it has gaps"))
                continue
            if not all(_only_sees(user, insert, window) for user in users(fill.results[0])):
                state.decline(self.name, insert, NoMatch("all of it is filled: something else reads what is filled"))
                continue
            shape = list(fill.results[0].type.shape)
            regions = around(window, shape)
            if sum(stretches(sizes, shape) for _, sizes in regions) > prod(shape) / TWICE:
                state.decline(self.name, insert, NoMatch("all of it is filled: what is around the inside are single elements all over it"))
                continue
            state.did(self.name, insert, f"filled in {len(regions)} slices around its inside")
            with ir.InsertionPoint(fill), fill.location:
                current = fill.operands[1]
                for offsets, sizes in regions:
                    current = _filled(fill.operands[0], current, offsets, sizes)
            fill.results[0].replace_all_uses_with(current)
            fill.erase()
            state.count(self.name)


def static_window(op: ir.Operation) -> Window | None:
    """What an insert_slice or extract_slice touches, if that is known and without gaps."""
    offsets, sizes, strides = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))
    dynamic = ir.ShapedType.get_dynamic_size(), ir.ShapedType.get_dynamic_stride_or_offset()
    return (offsets, sizes) if all(s == 1 for s in strides) and not any(n in dynamic for n in (*offsets, *sizes)) else None


def _only_sees(user: ir.Operation, insert: ir.Operation, window: Window) -> bool:
    """Whether a user of the filled tensor is the insertion, or reads nothing but the window in order to overwrite it."""
    if user == insert:
        return True
    return user.name == "tensor.extract_slice" and static_window(user) == window and _is_overwritten(user.results[0])


def _is_overwritten(value: ir.Value) -> bool:
    """Whether all users of a tensor write over it without reading it."""
    return all(
        _is_overwritten(user.results[0]) if user.name in ("tensor.expand_shape", "tensor.collapse_shape")
        else user.name in ("linalg.fill", "linalg.generic") and all(not a.used for a in Structured(user).accesses if a.value == value)
        for user in users(value)
    )  # fmt: skip


def around(window: Window, shape: list[int]) -> list[Window]:
    """Windows that together cover all of `shape` but `window`, without overlaps: for each dimension what lies before and behind."""
    offsets, sizes = window
    out: list[Window] = []
    for d, (offset, size, whole) in enumerate(zip(offsets, sizes, shape, strict=True)):
        for start, end in ((0, offset), (offset + size, whole)):
            if start < end:
                out.append(([*offsets[:d], start, *[0] * (len(shape) - d - 1)], [*sizes[:d], end - start, *shape[d + 1 :]]))
    return [region for region in out if prod(region[1])]


def stretches(sizes: list[int], shape: list[int]) -> int:
    """How many stretches of neighbouring elements a slice of such a tensor consists of."""
    inner = next((d for d in range(len(shape) - 1, -1, -1) if sizes[d] != shape[d]), 0)
    return prod(sizes[:inner])


def _filled(value: ir.Value, whole: ir.Value, offsets: list[int], sizes: list[int]) -> ir.Value:
    """`whole` with one window filled."""
    ones = [1] * len(sizes)
    kind = ir.RankedTensorType.get(sizes, whole.type.element_type)
    part = tensor.ExtractSliceOp(kind, whole, [], [], [], offsets, sizes, ones).result
    filled = linalg.fill(value, outs=[part])
    part = filled if isinstance(filled, ir.Value) else filled.result
    result: ir.Value = tensor.InsertSliceOp(part, whole, [], [], [], offsets, sizes, ones).result
    return result
