"""The pass that computes 3x3 convolutions by Winograd's minimal filtering if that costs less."""

from typing import Any

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.packed import WinogradConvOp
from stepwell.dialects.packed.winograd import POINTS, TAPS, error_bound
from stepwell.passes.framework.decisions import NoMatch, expect
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import replace_results
from stepwell.passes.graph.matching import producer, source_of
from stepwell.passes.packed.winograd_cost import CostOptions, Sizes, Variant, best, chosen, direct_cost, winograd_cost
from stepwell.passes.packed.winograd_images import cut_back, filled_up, likely_sizes, not_worth_it, sink, transformed_weight

ERRORS = {tile: error_bound(tile) for tile in POINTS}
"""For each tile, the largest f32 rounding error relative to the result's scale; test_winograd.py checks these bounds."""


AT_RUN_TIME = 4
"""The largest Winograd tile for filters that are transformed at run time: a block of those of F(6, 3) would exceed a core's own cache."""


@register_pass("use-winograd", level="graph", optional=True, relaxed=("use-winograd",))
class UseWinograd(CostOptions, Pass):
    """Replace blocked 3x3 convolutions with stride 1 by Winograd ones if these cost less.

    rewrite: packed.conv(x, w)  ->  slice(packed.winograd_conv(pad(x), G w G^T computed now))
    rewrite: packed.conv(x, w)  ->  slice(packed.winograd_conv(pad(x), w))      where G w G^T would be large

    F(2, 3) along both axes needs 16 products instead of 36 for four results, F(4, 3) needs 36 instead of 144 for 16, F(6, 3) needs 64 instead of
    324 for 36. The relative cost of the transforms falls with the number of channels, and a larger tile pads an image more: one of 56x56
    positions becomes 60x60 in tiles of 6, so that F(6, 3) needs a tenth fewer products than F(4, 3), not a fifth; and it must be cropped to
    56x56, which costs more than that. Transformed filters take 1.78, 4 and 7.1 times the memory of plain ones. If they would take more than
    `most_bytes`, they may also be transformed at run time, a block at a time; F(6, 3), which reads the most, is then no candidate.

    The candidates are the direct method and the tiles whose error (`error_bound`) is at most `error` of the result's scale (the direct method's
    is 1e-6). Of those that cost at most `slack` more than the best, the pass chooses the one with the smallest filters. Where only a run tells the
    number of images, what counts is how much more a candidate costs than the best one at worst: for as many as are likely, or a few
    (`version-winograd` may give these a smaller tile).

    `flops_per_byte` is the arithmetic of one core in the time of reading one byte of filters from memory once.

    An infinity or NaN in the input of a tile makes all of its results NaN, even those whose own windows are finite.
    """

    error: float = 2e-5
    slack: float = 0.08
    tile: int = 0  # 2, 4 or 6; 0 for the best one

    def run(self, op: ir.Operation, state: PassState) -> None:
        options = self.for_target(state.machine.costs)
        for inner in ops_below(op, "packed.conv"):
            with state.attempt(self.name, inner):
                b = GraphBuilder(state.weights)
                with ir.InsertionPoint(inner), inner.location:
                    result = options._rewrite(inner.opview, b, state)
                state.did(self.name, inner, _outcome(result))
                [result] = replace_results(inner, [result], b)
                inner.erase()
                sink(result, b)
                state.count(self.name)

    def _rewrite(self, conv: Any, b: GraphBuilder, state: PassState) -> ir.Value:
        """The replacement. Raises NoMatch if there is none."""
        values, x, w = conv.attribute_values(), type_of(conv.x), type_of(conv.w)
        if w.rank != 6 or w.shape[2:4] != (TAPS, TAPS) or values["strides"] != (1, 1) or values["dilations"] != (1, 1):
            raise NoMatch("it is not a blocked 3x3 convolution with stride 1 and without dilation")
        if w.shape[4] != x.shape[4]:
            raise NoMatch("it reads a part of each block of channels only, or its groups share one")
        if x.dtype != "f32":
            raise NoMatch(f"rounding is known to be harmless for f32, not for {x.dtype}")
        whole = type_of(conv.result).shape
        if None in whole:
            raise NoMatch(f"a size of its result, {type_of(conv.result)}, is not known")
        filters, channels = w.static_shape[0] * w.static_shape[5], w.static_shape[1] * w.static_shape[4]
        likely = likely_sizes(conv.operation, channels, filters, values["group"])
        sizes, found = likely[-1], [self.variants(of, w.elements) for of in likely]
        if len(found[0]) == 1:
            raise NoMatch(f"no tile has an error of at most {self.error}")
        array = expect(source_of(conv.w, b.weights), "its filters are not known")
        variant = chosen("winograd", conv, found[-1], best(found, self.slack), state)
        if variant.tile == 0:
            raise NoMatch(not_worth_it(sizes))
        data = filled_up(conv.x, whole, variant.tile, b)

        u = transformed_weight(conv.w, array, variant.tile, (*w.static_shape[:2], *w.static_shape[4:]), b) if variant.transformed else conv.w
        result = b.build(WinogradConvOp, data, u, tile=variant.tile, group=values["group"], transformed=variant.transformed)
        return cut_back(result, whole, b)

    def variants(self, sizes: Sizes, elements: int) -> "list[Variant]":
        """Winograd's variants with a small enough error, and the direct method, whose filters have `elements` elements.

        Filters of groups are transformed at compile time: at run time their loop over filters could not be fused with what follows.
        """
        out = []
        for tile in (t for t, error in ERRORS.items() if self.tile in (t, 0) and error <= self.error):
            size, both = tile + TAPS - 1, sizes.channels * sizes.filters
            cost = winograd_cost(tile, sizes, self)
            large = 4 * size**2 * both > self.most_bytes
            if tile <= AT_RUN_TIME or not large:
                out.append(Variant(size**2 * both, cost, tile, True))
            if tile <= AT_RUN_TIME and large and sizes.group == 1:
                transforms = 4 * (size * TAPS**2 + size**2 * TAPS)
                read_less = self.flops_per_byte * 4 * (size**2 - TAPS**2)
                out.append(Variant(TAPS**2 * both, cost + (transforms - read_less) * both, tile, False))
        return [*out, Variant(elements, direct_cost(sizes, self.flops_per_byte), 0, False)]


def _outcome(result: ir.Value) -> str:
    """The outcome for a convolution, for `--explain`."""
    cut = producer(result, "slice")
    values = producer(result if cut is None else cut.x, WinogradConvOp.OPERATION_NAME).attribute_values()
    when = "transformed now" if values["transformed"] else "transformed each time, a block at a time"
    return f"computed by F({values['tile']}, {TAPS}), with filters {when}"
