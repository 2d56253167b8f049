"""The pass that computes 3x3 convolutions by Winograd's minimal filtering where that takes fewer operations."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.graph import GraphBuilder, constant_value
from stepwell.dialects.graph.winograd import TAPS, transformed_filters
from stepwell.dialects.mlir import ir
from stepwell.dialects.types import type_of
from stepwell.passes.graph.matching import new_weight
from stepwell.passes.registry import Declined, Pass, PassState, register_pass
from stepwell.passes.rewriting import ops_below


@register_pass("use-winograd", level="graph", optional=True)
@dataclass
class UseWinograd(Pass):
    """Replace blocked 3x3 convolutions with stride 1 by Winograd ones with filters transformed now.

    rewrite: blocked_conv(x, w)  ->  slice(winograd_conv(pad(x), G w G^T))

    The tile is F(4, 3) along both axes: 36 products instead of 144 for 16 results, and transforms whose share falls with the number of
    channels. Rounding grows with the tile: for f32, about 10 times that of the direct method (test_winograd.py states and keeps the
    bound). `min_channels` on both sides is where the transforms are paid for.
    """

    min_channels: int = 16
    tile: int = 4

    def run(self, op: ir.Operation, state: PassState) -> None:
        for inner in ops_below(op, "graph.blocked_conv"):
            with ir.InsertionPoint(inner), inner.location:
                result = self._rewrite(inner.opview, GraphBuilder(state.weights))
            if isinstance(result, str):
                state.declined.append(Declined(self.name, inner.name, str(inner.location), result))
                continue
            inner.results[0].replace_all_uses_with(result)
            inner.erase()
            state.count(self.name)

    def _rewrite(self, conv: Any, b: GraphBuilder) -> "ir.Value | str":
        """The replacement, or why there is none."""
        values, x, w = conv.attribute_values(), type_of(conv.x), type_of(conv.w)
        if w.rank != 6 or w.shape[2:4] != (TAPS, TAPS) or values["strides"] != (1, 1) or values["dilations"] != (1, 1):
            return "it is not a blocked 3x3 convolution with stride 1 and without dilation"
        if x.dtype != "f32":
            return f"rounding is known to be harmless for f32, not for {x.dtype}"
        filters, channels = w.static_shape[0] * w.static_shape[5], w.static_shape[1] * w.static_shape[4]
        if min(filters, channels) < self.min_channels:
            return f"{min(filters, channels)} channels do not pay for the transforms; {self.min_channels} do"
        array = constant_value(conv.w, b.weights, 1 << 62)
        if array is None:
            return "its filters are not known"
        image = type_of(conv.result).static_shape[2:4]
        filling = [-n % self.tile for n in image]
        data = conv.x
        if any(filling):
            data = b.pad(data, low=[0] * 5, high=[0, 0, *filling, 0], mode="constant", value=0.0)
        u = new_weight(b, conv.w, transformed_filters(array, self.tile))
        result: ir.Value = b.winograd_conv(data, u, tile=self.tile)
        if any(filling):
            result = b.slice(result, starts=[0] * 5, sizes=type_of(conv.result).static_shape, steps=[1] * 5)
        return result
