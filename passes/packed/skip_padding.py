"""The pass that omits products with the zeros around images if there are many."""

from math import prod

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir, use_count
from stepwell.dialects.core.sizes import is_static
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import MaxPoolOp
from stepwell.dialects.graph.borders import borders
from stepwell.dialects.graph.pooling import separable
from stepwell.dialects.packed import BorderedConvOp, PackedConvOp
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import producer, source_of

WORTH = 0.75
"""Loops are split at the padding if at most this fraction of the products remains."""


@pattern(PackedConvOp)
def without_zeros(op: PackedConvOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: packed.conv(pad(x, 0), w) -> packed.bordered_conv(pad(x, 0), w)"""
    pad = expect(producer(op.x, "pad"), "it does not read a padded image")
    around, attributes = pad.attribute_values(), op.attribute_values()
    x, w, result, spatial = type_of(op.x), type_of(op.w), type_of(op.result), len(attributes["strides"])
    if around["mode"] != "constant" or around["value"] != 0:
        return NoMatch("its image is not padded with zeros")
    if not (is_static((*x.shape[1:], *result.shape[1:])) and w.is_static) or 0 in result.shape:
        return NoMatch("a size is unknown, or there is nothing to compute")
    zeros = (*around["low"][2 : 2 + spatial], *around["high"][2 : 2 + spatial])
    window = {"strides": attributes["strides"], "dilations": attributes["dilations"], "zeros": zeros}
    dims = borders(x, w, result, **window)
    left = prod(dim.reached for dim in dims)
    if left <= WORTH:
        left = prod(sum(s.cost for s in dim.stretches()) / dim.whole.cost for dim in dims)
    if left > WORTH:
        return NoMatch(f"{left:.0%} of its work would be left, more than {WORTH:.0%}")
    filters = source_of(op.w, rw.weights)
    if filters is None or not np.isfinite(filters()).all():
        return NoMatch("its filters are not known, or one is infinite or NaN: then a zero of the padding makes NaN of it")
    return rw.build(BorderedConvOp, op.x, op.w, group=attributes["group"], **window)


@pattern(MaxPoolOp)
def within_borders(op: MaxPoolOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: max_pool(pad(x, lowest value)) -> max_pool(x, pads)"""
    pad, attributes = producer(op.x, "pad"), op.attribute_values()
    if pad is None:
        return NoMatch("it does not read a padded image")
    around, spatial = pad.attribute_values(), len(attributes["kernel"])
    if around["mode"] != "constant" or around["value"] != op.padding_value() or any(around["low"][:2]) or any(around["high"][:2]):
        return NoMatch("its image is not padded with its least value, or has more channels for it")
    if type_of(op.result).rank != 2 + spatial or spatial < 2 or not separable(attributes["kernel"]):
        return NoMatch("it lies in blocks of channels, or its windows are folded at once")
    if not is_static(type_of(pad.x).shape) or not is_static(type_of(op.result).shape):
        return NoMatch("a size is unknown")
    if defining_op(pad.x) is not None and use_count(pad.x) == 1:
        return NoMatch("what makes its image writes it inside of the padding")
    pads = (*around["low"][2:], *around["high"][2:])
    return rw.max_pool(pad.x, **{**attributes, "pads": pads})


@register_pass("skip-padding", level="graph", optional=True)
class SkipPadding(PatternPass):
    """Split convolutions into stretches of positions at which the same taps reach the image, and omit all others.

    The others read the zeros around it. With 3x3 taps, 12 apart, on 33x33 positions they are 43 % of all products; with 128 taps on 49 positions,
    62 %. Small borders stay: loops of odd lengths use registers less well. A pooling that finds maxima along one dimension after the
    other needs no padded image, which would be a copy if no producer could write inside of the padding.
    """

    patterns = (without_zeros, within_borders)
