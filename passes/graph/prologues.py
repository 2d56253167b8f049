"""Which ops may be computed in the kernel of the op that reads them, and how it reads them."""

from stepwell.dialects.graph.blocked import BlockedConvOp
from stepwell.dialects.graph.pooling import AvgPoolOp, MaxPoolOp
from stepwell.dialects.mlir import ir
from stepwell.dialects.types import type_of
from stepwell.passes.graph.categories import Category, category

DEPTHWISE = "graph.blocked_depthwise_conv"


def read_once(root: ir.Operation) -> ir.Value | None:
    """The operand of which each element is read once at most, so that it may be computed where it is read: in registers."""
    view = root.opview
    if category(root) == Category.REDUCTION:
        return root.operands[0]
    if isinstance(view, (AvgPoolOp, MaxPoolOp)):
        values = view.attribute_values()
        apart = all(s >= d * (k - 1) + 1 for s, d, k in zip(values["strides"], values["dilations"], values["kernel"], strict=True))
        return root.operands[0] if apart and not any(values["pads"]) and not values["ceil_mode"] else None
    return None


def read_in_slices(root: ir.Operation) -> ir.Value | None:
    """The image of a pointwise convolution: positions of the result need the same positions of it, of all channels and for all filters.

    So it can be computed a few positions at a time, in a loop that both share (see the pass `share-loops`). In groups that is so too, but does
    not pay: ShuffleNet takes as long and needs a twelfth more memory, since an image, its slice and the result then live at once.
    """
    view = root.opview
    if not isinstance(view, BlockedConvOp):
        return None
    values, (x, w) = view.attribute_values(), (type_of(v) for v in root.operands)
    spatial = len(values["strides"])
    if x.rank != 3 + spatial or values["group"] != 1 or any(s != 1 for s in values["strides"]) or any(k != 1 for k in w.shape[2 : 2 + spatial]):
        return None
    return root.operands[0]
