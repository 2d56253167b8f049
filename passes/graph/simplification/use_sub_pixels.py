"""The pass that computes transposed convolutions as convolutions, one for each set of phases of the result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, always, is_static, maximum, minimum
from stepwell.dialects.core.symbolic_shapes import likely_size
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import ConvTransposeOp
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import new_weight, stored

MOST_CONVOLUTIONS = 16
"""The largest number of convolutions into which a transposed one is split: each is a kernel."""
WORTH_APART = 1.2
"""The largest ratio of the positions that one convolution computes to those of the several convolutions it replaces."""


@dataclass(frozen=True)
class Class:
    """Neighbouring phases of one dimension whose results read the same places of the image."""

    places: tuple[int, ...]
    """The elements that position 0 reads, ascending and evenly spaced."""
    taps: tuple[tuple[int, ...], ...]
    """For each phase, the tap of each place."""


@dataclass(frozen=True)
class Plan:
    """How one dimension of the result, with its cut-off beginning, splits into phases."""

    stride: int
    offset: int
    positions: int | Size
    """The class of each phase."""
    classes: tuple[Class, ...]

    @property
    def is_natural(self) -> bool:
        """Whether the dimension needs only one convolution."""
        return len(self.classes) == 1

    def singly(self) -> "Plan":
        """The same plan with each phase in a class of its own."""
        return Plan(self.stride, self.offset, self.positions, tuple(Class(c.places, (taps,)) for c in self.classes for taps in c.taps))


def plan(size: int | Size, out: int | Size, taps: int, stride: int, dilation: int, pad: int) -> Plan:
    """How to split a dimension of `size` that becomes `out`, with `pad` cut off its beginning, into phases.

    Position p of the result adds tap t of element i if p + pad = i * stride + t * dilation. The first phase begins at the result's first position, or
    at that of the uncut result, whichever needs fewer convolutions. Raises NoMatch if some positions read no element.
    """
    if size == 1 and dilation == 1:
        stride = taps  # without a second element the stride is irrelevant: each phase is one tap

    def phases(offset: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        for phase in range(stride):
            at = phase - offset + pad
            mine = [t for t in reversed(range(taps)) if (at - t * dilation) % stride == 0]
            yield tuple((at - t * dilation) // stride for t in mine), tuple(mine)

    def planned(offset: int) -> Plan:
        classes: list[Class] = []
        for places, mine in phases(offset):
            if classes and classes[-1].places == places:
                classes[-1] = Class(places, (*classes[-1].taps, mine))
            else:
                classes.append(Class(places, (mine,)))
        return Plan(stride, offset, -(-(out + offset) // stride), tuple(classes))

    plans = [planned(0), planned(pad % stride)]
    if any(not c.places for c in plans[0].classes):
        raise NoMatch(f"its {taps} taps, {dilation} apart, leave gaps between elements {stride} apart")
    exact, uncut = plans
    fewer = len(uncut.classes) < len(exact.classes) and likely_size(uncut.positions) <= WORTH_APART * likely_size(exact.positions)
    return uncut if fewer else exact


@pattern(ConvTransposeOp)
def transposed_by_phases(op: ConvTransposeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: conv_transpose(x, w) -> pixel_shuffle(concat(conv(x, taps of some phases), …))"""
    x, w, result = type_of(op.x), type_of(op.w), type_of(op.result)
    if None in (whole := (*x.shape, *result.shape)) or 0 in whole or not w.is_static or not is_static((*x.shape[1:2], *result.shape[1:2])):
        return NoMatch("sizes are unknown, or there is nothing to compute")
    attributes, spatial = op.attribute_values(), x.rank - 2
    group, (channels, each, *taps) = attributes["group"], w.static_shape
    if group == channels > 1 and each == 1 and prod(attributes["strides"]) > 1:
        return NoMatch("it works by channel")
    filters = expect(stored(op.w, rw.weights), "its filters are not known")
    per_dim = zip(x.shape[2:], result.shape[2:], taps, attributes["strides"], attributes["dilations"], attributes["pads"], strict=False)
    plans = [plan(size, out, *numbers) for size, out, *numbers in per_dim if size is not None and out is not None]
    # Phases are ordered row by row: if an inner dimension needs several convolutions, each phase of the outer ones is in convolutions of its own.
    plans = [p.singly() if any(not inner.is_natural for inner in plans[i + 1 :]) else p for i, p in enumerate(plans)]
    combinations = list(product(*(p.classes for p in plans)))
    if len(combinations) > MOST_CONVOLUTIONS or (group > 1 and len(combinations) > 1):
        return NoMatch(f"it would take {len(combinations)} convolutions in {group} groups, more than {MOST_CONVOLUTIONS} or one for several groups")
    windows = [[window(p, c, n) for p, c, n in zip(plans, classes, x.shape[2:], strict=True) if n is not None] for classes in combinations]
    if any(always(low, ">=", high) for around in windows for low, high, _, _ in around):
        return NoMatch("what follows the image takes part of the result in by itself")
    if not is_static(after for around in windows for _, _, _, after in around):
        return NoMatch("how much of it reads what follows the image is known only at run time")
    grouped = filters.reshape(group, channels // group, each, *taps)
    ones = [1] * spatial
    parts = []
    for classes, around in zip(combinations, windows, strict=True):
        image = op.x
        if any((low, high) != (0, n) for (low, high, _, _), n in zip(around, x.shape[2:], strict=True)):
            sizes = [*x.shape[:2], *(high - low for low, high, _, _ in around)]
            image = rw.slice(image, starts=[0, 0, *(low for low, _, _, _ in around)], sizes=sizes, steps=[1] * x.rank)
        pads = [*(before for _, _, before, _ in around), *(after for _, _, _, after in around)]
        steps = [c.places[1] - c.places[0] if len(c.places) > 1 else 1 for c in classes]
        weights = new_weight(rw, op.w, filters_of(grouped, classes))
        parts.append(rw.conv(image, weights, strides=ones, pads=pads, dilations=steps, group=group))
    strides = [p.stride for p in plans]
    value: ir.Value = rw.concat(parts, axis=1) if len(parts) > 1 else parts[0]
    if prod(strides) == 1:
        return value
    offsets = [p.offset for p in plans]
    return rw.pixel_shuffle(value, strides=strides, offsets=offsets, sizes=result.shape[2:], group=group)


def window(p: Plan, c: Class, size: int | Size) -> tuple[int, int | Size, int, int | Size]:
    """The range of elements of a dimension of `size` that a class reads, and the amount of padding before and after it."""
    first, end = c.places[0], p.positions + c.places[-1]
    low, high = max(first, 0), minimum(end, size)
    return low, high, max(-first, 0), maximum(end - size, 0)


def filters_of(filters: np.ndarray, classes: Sequence[Class]) -> np.ndarray:
    """The filters (groups, C, M, taps…) of a transposed convolution as those (groups * phases * M, C, places…) of a convolution over some phases."""
    spatial = len(classes)
    for i, c in enumerate(classes):
        filters = np.take(filters, np.array(c.taps), axis=3 + 2 * i)  # -> (…, phases, places, …)
    order = [0, *range(3, 3 + 2 * spatial, 2), 2, 1, *range(4, 4 + 2 * spatial, 2)]
    groups, channels, each = filters.shape[:3]
    places = [len(c.places) for c in classes]
    return np.ascontiguousarray(filters.transpose(order)).reshape(groups * prod(len(c.taps) for c in classes) * each, channels, *places)


@register_pass("use-sub-pixels", level="graph", optional=True)
class UseSubPixels(PatternPass):
    """Compute transposed convolutions as convolutions of the image itself, instead of one spread out with zeros between its elements.

    Every `strides`-th position of the result reads the same taps of neighbouring elements: such a phase is a convolution. Phases that read the same
    elements are filters of one convolution. W. Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016.
    """

    patterns = (transposed_by_phases,)
