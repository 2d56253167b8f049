"""The pass that computes 3x3 convolutions of narrow integers by Winograd's minimal filtering, bit for bit, if that costs less."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.value_range import Range
from stepwell.dialects.packed import IntegerWinogradConvOp, PackedConvOp
from stepwell.dialects.packed.integer_winograd import (
    INTEGER_POINTS,
    SUMS,
    integer_matrices,
    transformed_integers,
    transformed_range,
    with_depth,
)
from stepwell.dialects.packed.winograd import TAPS
from stepwell.dialects.target.description import GENERIC
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.rewriting import replace_results
from stepwell.passes.graph.integer_products import (
    IntegerProductPass,
    ProductRewriting,
    fastest,
    holds,
    is_integer_product,
    kind_of,
    rate,
    speed,
    widened,
)
from stepwell.passes.graph.matching import deferred_weight, source_of
from stepwell.passes.graph.ranges import range_of
from stepwell.passes.packed.winograd_cost import Arithmetic, CostOptions, Sizes, Variant, best, chosen, direct_cost, winograd_cost
from stepwell.passes.packed.winograd_images import cut_back, filled_up, likely_sizes, not_worth_it, sink

HELD = "i16"  # the type of transformed data and filters


@register_pass("use-integer-winograd", level="graph", optional=True)
class UseIntegerWinograd(CostOptions, IntegerProductPass):
    """Replace blocked 3x3 convolutions of narrow integers with stride 1 by Winograd ones if these cost less and give the same bits.

    rewrite: packed.conv(cast(x), cast(w))  ->  slice(packed.integer_winograd_conv(pad(x), w))
    rewrite: packed.conv(cast(x), cast(w))  ->  slice(packed.integer_winograd_conv(pad(x), G w G^T computed now))
                                                if w would be transformed too often

    F(2, 3) along both axes needs 16 products instead of 36 for four results, F(4, 3) needs 36 instead of 144 for 16. All matrices consist of whole
    numbers, and nothing is rounded or saturated. Transformed numbers have 16 bits: if an instruction of the target multiplies twice as many bytes,
    half of the saving is lost (see `use-winograd` for the cost model, `flops_per_byte`, `slack` and `most_bytes`).

    The candidates are the direct method and the tiles for which all transformed data fit 16 bits, which follows from the range of the image, and
    all results times 2**shift fit 32, which follows from that range and the filters.
    """

    slack: float = 0.25
    gain: float = 1.4  # a tile must cost at least this factor less than the direct method
    tile: int = 0  # 2 or 4; 0 for the best one
    done: ClassVar[str] = "computed by Winograd's method in integers, exactly"

    def takes(self, view: Any) -> bool:
        return isinstance(view, PackedConvOp) and is_integer_product(view)

    def rewriting(self, state: PassState, known: dict[ir.Value, Range]) -> ProductRewriting:
        return _Replacing(state, known, options=self.for_target(state.machine.costs))


@dataclass
class _Replacing(ProductRewriting):
    """The replacement of convolutions in one function."""

    options: UseIntegerWinograd = field(kw_only=True)

    def rewrite(self, op: ir.Operation) -> None:
        """Replace a convolution. Raises NoMatch if it stays."""
        conv, values = op.opview, op.opview.attribute_values()
        x, w = type_of(conv.x), type_of(conv.w)
        if x.rank != 5 or w.shape[2:4] != (TAPS, TAPS) or values["strides"] != (1, 1) or values["dilations"] != (1, 1):
            raise NoMatch("it is not a blocked 3x3 convolution with stride 1 and without dilation")
        lanes, _, depth = w.static_shape[4:]
        if lanes * depth != x.shape[4]:
            raise NoMatch("it reads a part of each block of channels only, or its groups share one")
        casts = [widened(value) for value in op.operands]
        filters = None if casts[1] is None else source_of(casts[1].x, self.state.weights)
        if casts[0] is None or filters is None:
            raise NoMatch("its image is not made of narrow integers, or its filters are not known")
        self._replace(op, casts[0].x, casts[1].x, filters)

    def _replace(self, op: ir.Operation, x: ir.Value, w: ir.Value, filters: Callable[[], np.ndarray]) -> None:
        (blocks, channels, _, _, lanes, block, depth), whole = type_of(w).static_shape, type_of(op.results[0]).shape
        if None in whole:
            raise NoMatch(f"a size of its result, {type_of(op.results[0])}, is not known")
        target = None if self.state.target is None else self.state.machine
        fastest_product, before = fastest(kind_of(HELD), kind_of(HELD), target), rate(kind_of(type_of(x).dtype), kind_of(type_of(w).dtype), target)
        if fastest_product is None or not before or lanes * depth % fastest_product.depth:
            raise NoMatch("the target has no instruction for its products, or none for those of 16 bits that divides a block of its channels")
        flops = 2.0 * (target or GENERIC).lanes(SUMS)  # those of one instruction
        stored, kept = to_numpy(type_of(w).dtype).itemsize, to_numpy(HELD).itemsize
        numbers = Arithmetic(flops / before, flops / speed(fastest_product), stored, kept, result=stored)  # requantised before it is cropped
        likely = likely_sizes(op, channels * lanes * depth, blocks * block, op.opview.attribute_values()["group"])
        variants = [self.variants(sizes, type_of(w).elements, numbers) for sizes in likely]
        data, refused = range_of(x, self.known), []
        while (usual := best(variants, self.options.slack)).tile and not is_exact(usual.tile, data, filters()):
            refused.append(f"F({usual.tile}, {TAPS})")
            variants = [[one for one in same if one.tile != usual.tile] for same in variants]
        legal = [usual]
        if self.state.asked("integer-winograd"):  # checking the filters of each candidate takes time
            legal = [one for one in variants[-1] if one.tile in (0, usual.tile) or is_exact(one.tile, data, filters())]
        variant = chosen("integer-winograd", op, legal, usual, self.state, exact=True)
        if variant.tile == 0:
            too_large = f"with data of {data[0]} to {data[1]}, numbers of {' and '.join(refused)} may not fit their bits"
            raise NoMatch(too_large if refused else not_worth_it(likely[-1]))
        self._build(op, x, w, variant, fastest_product.depth, filters)

    def variants(self, sizes: Sizes, elements: int, numbers: Arithmetic) -> list[Variant]:
        """The variants with small enough filters, and the direct method, whose filters have `elements` elements; `stored` is in bytes.

        Filters that are transformed in each run are in vectors of twice as many lanes as data. In groups they are transformed at compile time, like
        those of floats.
        """
        options, out = self.options, []
        for tile in (t for t in INTEGER_POINTS if options.tile in (t, 0)):
            size, both = tile + TAPS - 1, sizes.channels * sizes.filters
            cost, kept = winograd_cost(tile, sizes, options, numbers), numbers.kept * size**2
            if kept * both <= options.most_bytes:
                out.append(Variant(kept * both, cost, tile, True))
            if sizes.group == 1:
                transforms = 2 * (size * TAPS**2 + size**2 * TAPS) - options.flops_per_byte * (kept - numbers.stored * TAPS**2)
                out.append(Variant(numbers.stored * elements, cost + transforms * both, tile, False))
        direct = direct_cost(sizes, options.flops_per_byte, numbers)
        return [*out, Variant(numbers.stored * elements, direct / options.gain, 0, False)]

    def _build(self, op: ir.Operation, x: ir.Value, w: ir.Value, variant: Variant, depth: int, filters: Callable[[], np.ndarray]) -> None:
        """Replace the direct convolution by a variant; its filters have `depth` contiguous neighbours."""
        whole, (blocks, channels, _, _, lanes, block, before), tile = type_of(op.results[0]).shape, type_of(w).static_shape, variant.tile
        with ir.InsertionPoint(op), op.location:
            b, size = GraphBuilder(self.state.weights), tile + TAPS - 1
            x = filled_up(x, whole, tile, b)
            inside = (lanes * before // depth, block, depth)
            if variant.transformed:
                shape = (size, size, blocks, channels, *inside)
                u = deferred_weight(b, w, shape, lambda: [transformed_integers(with_depth(filters(), depth), tile)], HELD)
            elif before != depth:
                u = deferred_weight(b, w, (blocks, channels, TAPS, TAPS, *inside), lambda: [with_depth(filters(), depth)])
            else:
                u = w
            group = op.opview.attribute_values()["group"]
            result = cut_back(b.build(IntegerWinogradConvOp, x, u, tile=tile, group=group, transformed=variant.transformed), whole, b)
        [result] = replace_results(op, [result], b)
        self.replaced.append(op)
        sink(result, b)


def is_exact(tile: int, data: Range, w: np.ndarray) -> bool:
    """Whether F(tile, 3) for data in this range and filters (M / b, K, 3, 3, a / d, b, d) equals the convolution bit for bit."""
    low, high = min(data[0], 0), max(data[1], 0)  # images are padded with 0
    if not np.isfinite([low, high]).all() or not holds(HELD, *transformed_range(tile, (low, high))):
        return False
    matrices = integer_matrices(tile)
    largest = np.abs(matrices.g).sum(axis=1).max() ** 2 * max(int(w.max(initial=0)), -int(w.min(initial=0)))
    if not holds(HELD, -largest, largest):
        return False
    axes = (1, 2, 3, 4, 6)
    positive, negative = (part.sum(axis=axes, dtype=np.int64) for part in (np.maximum(w, 0), np.minimum(w, 0)))
    most = 1 << (SUMS - 1 - matrices.shift)
    return bool(np.all(positive * low + negative * high >= -most) and np.all(positive * high + negative * low < most))
