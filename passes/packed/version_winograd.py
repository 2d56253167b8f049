"""The pass that gives few images a kernel with a smaller Winograd tile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from stepwell.dialects.core.mlir import func, ir, ops_below, replace_op
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.packed import WinogradConvOp
from stepwell.dialects.packed.winograd import POINTS, TAPS
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.versions import KernelVersionPass, VersionProposal, add_argument, launches
from stepwell.passes.graph.matching import plain_source
from stepwell.passes.packed.winograd_cost import CostOptions, winograd_cost
from stepwell.passes.packed.winograd_images import likely_sizes, transformed_weight


@register_pass("version-winograd", level="graph-opt", optional=True)
@dataclass
class VersionWinograd(CostOptions, KernelVersionPass):
    """Give a kernel with a `packed.winograd_conv` of images that only a run counts a version for few images, with a smaller tile.

    rewrite: @k { packed.winograd_conv(x, u) }  ->
             @k and a copy @k.few { packed.winograd_conv(x, few) } {stepwell.version = {of = "k", size = "n", most = 1}}

    F(4, 3) reads 36 numbers for each filter of a channel where F(2, 3) reads 16, and one image of 7x7 positions has little else to do. The version
    pays where the usual tile costs over `slack` more than a smaller one for fewer images than are likely (see `use-winograd`). Filters for both tiles
    are stored, so those of the smaller one may take at most `most_bytes`. Loops are fused in each version for the images that it is for.
    """

    slack: float = 0.08

    def propose(self, subject: func.FuncOp, state: PassState) -> VersionProposal[func.FuncOp] | NoMatch | None:
        found = ops_below(subject.operation, WinogradConvOp.OPERATION_NAME)
        conv = found[0].opview if len(found) == 1 else None
        images = None if conv is None else type_of(conv.result).shape[0]
        if conv is None or not isinstance(images, Size):
            return None
        values, u = conv.attribute_values(), type_of(conv.u).static_shape
        if not values["transformed"] or not isinstance(conv.u, ir.BlockArgument):
            return NoMatch("its filters are transformed in each run, or are a part of its code")
        options, usual, both = self.for_target(state.machine.costs), values["tile"], u[2] * u[5] * u[3] * u[4]
        sizes = likely_sizes(found[0], u[3] * u[4], u[2] * u[5], values["group"])[-1]

        def better(tile: int, count: int) -> bool:
            by_usual, by_other = (winograd_cost(t, replace(sizes, images=count), options) for t in (usual, tile))
            return by_usual > (1 + options.slack) * by_other

        for tile in (t for t in sorted(POINTS) if t < usual and usual % t == 0 and 4 * (t + TAPS - 1) ** 2 * both <= options.most_bytes):
            most = max((count for count in range(1, sizes.images) if better(tile, count)), default=0)
            if most:
                calls, place = launches(subject), conv.u.arg_number
                plain = {call: source for call in calls if (source := plain_source(call.operands[place], state.weights)) is not None}
                if len(plain) < max(1, len(calls)):
                    return NoMatch("its filters before their transform are not known")
                specialise = partial(_by_tile, subject, tile, plain, GraphBuilder(state.weights))
                return VersionProposal(found[0], images, most, specialise, reason=f"which it computes by F({tile}, {TAPS})")
        return NoMatch(f"no smaller tile costs less for fewer than {sizes.images} images")


def _by_tile(kernel: func.FuncOp, tile: int, plain: Mapping[ir.Operation, Callable[[], np.ndarray]], b: GraphBuilder, copy: func.FuncOp) -> None:
    """Make a copy of a kernel compute its convolution by F(tile, 3). `plain` gives the filters before their transform for each launch."""
    [conv] = ops_below(copy.operation, WinogradConvOp.OPERATION_NAME)
    view, place, made = conv.opview, conv.operands[1].arg_number, {}
    for call, filters in plain.items():
        usual = call.operands[place]
        with ir.InsertionPoint.after(usual.owner), usual.owner.location:
            made[call] = transformed_weight(usual, filters, tile, type_of(usual).static_shape[2:], b)
    few = add_argument(kernel, copy, place + 1, made)
    with ir.InsertionPoint(conv), conv.location:
        result = b.build(WinogradConvOp, view.x, few, **{**view.attribute_values(), "tile": tile})
    replace_op(conv, [result])
