"""Which ops may be computed in the kernel of the op that reads them, and how it reads them."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.blocked import BlockedConvOp
from stepwell.dialects.graph.pooling import AvgPoolOp, MaxPoolOp
from stepwell.dialects.graph.traits import Fusion
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.graph.fusion.categories import category

DEPTHWISE = ("graph.blocked_depthwise_conv",)
CONVOLUTIONS = ("graph.blocked_conv", "graph.winograd_conv")


@dataclass(frozen=True)
class Sliced:
    """An operand that can be computed a slice at a time, and by which ops."""

    operand: ir.Value
    makers: tuple[str, ...]


def read_once(root: ir.Operation) -> ir.Value | NoMatch:
    """The operand of which each element is read once at most, so that it may be computed where it is read: in registers."""
    view = root.opview
    if category(root) == Fusion.REDUCTION:
        return root.operands[0]
    if isinstance(view, (AvgPoolOp, MaxPoolOp)):
        values = view.attribute_values()
        apart = all(s >= d * (k - 1) + 1 for s, d, k in zip(values["strides"], values["dilations"], values["kernel"], strict=True))
        if any(values["pads"]) or values["ceil_mode"]:
            return NoMatch("what makes its image is computed apart: its windows reach beyond the image")
        return root.operands[0] if apart else NoMatch("what makes its image is computed apart: its windows overlap")
    return NoMatch("what makes its operands is computed apart: it reads each element several times")


def read_in_slices(root: ir.Operation) -> Sliced | NoMatch:
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
        if isinstance(image, NoMatch):
            return image
        whole = list(type_of(image).shape[2 : 2 + len(strides)]) == read
        return Sliced(image, CONVOLUTIONS) if whole else NoMatch("it shares no loops with what makes its image: its windows leave a rest of that out")
    if not isinstance(view, BlockedConvOp):
        return NoMatch(f"it shares no loops with what makes its operands: only pooling and pointwise convolutions do, it is '{root.name}'")
    values, (x, w) = view.attribute_values(), (type_of(v) for v in root.operands)
    spatial = len(values["strides"])
    if x.rank != 3 + spatial or values["group"] != 1 or any(s != 1 for s in values["strides"]) or any(k != 1 for k in w.shape[2 : 2 + spatial]):
        return NoMatch("it shares no loops with what makes its image: it is no pointwise convolution, has groups or strides, or reads a plain image")
    return Sliced(root.operands[0], DEPTHWISE)
