"""Which ops may be computed in the kernel of the op that reads them, and how it reads them."""

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.blocked import BlockedConvOp
from stepwell.dialects.graph.pooling import AvgPoolOp, MaxPoolOp
from stepwell.dialects.graph.traits import Fusion
from stepwell.passes.graph.fusion.categories import category

DEPTHWISE = ("graph.blocked_depthwise_conv",)
CONVOLUTIONS = ("graph.blocked_conv", "graph.winograd_conv")


def read_once(root: ir.Operation) -> ir.Value | None:
    """The operand of which each element is read once at most, so that it may be computed where it is read: in registers."""
    view = root.opview
    if category(root) == Fusion.REDUCTION:
        return root.operands[0]
    if isinstance(view, (AvgPoolOp, MaxPoolOp)):
        values = view.attribute_values()
        apart = all(s >= d * (k - 1) + 1 for s, d, k in zip(values["strides"], values["dilations"], values["kernel"], strict=True))
        return root.operands[0] if apart and not any(values["pads"]) and not values["ceil_mode"] else None
    return None


def read_in_slices(root: ir.Operation) -> tuple[ir.Value, tuple[str, ...]] | None:
    """An operand that can be computed a slice at a time, in a loop that both share (see the pass `fuse-loops`), and by which ops.

    The image of a pointwise convolution: positions of the result need the same positions of it, of all channels and for all filters. In groups
    that is so too, but does not pay: ShuffleNet takes as long and needs a twelfth more memory, since an image, its slice and the result
    then live at once.

    The image of a pooling whose windows lie apart and leave nothing out: rows of the result need rows of it that no others need. Where windows
    overlap, as in most first layers, there are only channels that need nothing of each other: a convolution with a few filters at a time,
    which reads its image again for these, was slower together with its pooling than apart. A global pooling takes too little time to gain.
    """
    view = root.opview
    if isinstance(view, (AvgPoolOp, MaxPoolOp)):
        image, strides = read_once(root), view.attribute_values()["strides"]
        read = [s * (n or 0) for s, n in zip(strides, type_of(view.result).shape[2:], strict=False)]
        return (image, CONVOLUTIONS) if image is not None and list(type_of(image).shape[2 : 2 + len(strides)]) == read else None
    if not isinstance(view, BlockedConvOp):
        return None
    values, (x, w) = view.attribute_values(), (type_of(v) for v in root.operands)
    spatial = len(values["strides"])
    if x.rank != 3 + spatial or values["group"] != 1 or any(s != 1 for s in values["strides"]) or any(k != 1 for k in w.shape[2 : 2 + spatial]):
        return None
    return root.operands[0], DEPTHWISE
