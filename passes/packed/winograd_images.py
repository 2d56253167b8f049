"""Parts that the passes of Winograd's method share: likely sizes, images filled up to whole tiles, results cut back, transformed filters."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir, replace_op, users
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.symbolic_shapes import FEWER, hints_around, likely_size
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.packed.winograd import TAPS, transformed_filters
from stepwell.passes.graph.integer_products import widened
from stepwell.passes.graph.matching import deferred_weight, is_elementwise
from stepwell.passes.packed.winograd_cost import Sizes


def likely_sizes(conv: ir.Operation, channels: int, filters: int, group: int) -> list[Sizes]:
    """The sizes of a blocked convolution, each of whose filters reads `channels`: for a few of the likely images, if their number is dynamic, and
    for all of them. The sizes of its result may be dynamic."""
    whole, hints = type_of(conv.results[0]).shape, hints_around(conv)
    images, rows, columns = (likely_size(size, hints) for size in (whole[0], *whole[2:4]) if size is not None)
    usual = Sizes(images, rows, columns, channels, filters, group)
    return [usual] if isinstance(whole[0], int) else [replace(usual, images=max(1, images // FEWER)), usual]


def not_worth_it(of: Sizes) -> str:
    """The reason for computing a convolution directly, for `--explain`."""
    return f"{of.filters} filters of {of.channels} channels on {of.rows}x{of.columns} positions do not pay for the transforms"


def filled_up(x: ir.Value, whole: Sequence[Dim], tile: int, b: GraphBuilder) -> ir.Value:
    """A blocked image with zeros added at the end, so that a result of shape `whole` has whole tiles; the image itself if it has."""
    filling = [-n % tile for n in whole[2:4] if n is not None]
    if all(n == 0 for n in filling):
        return x
    return b.pad(x, low=[0] * 5, high=[0, 0, *filling, 0], mode="constant", value=0.0)


def transformed_weight(source: ir.Value, plain: Callable[[], np.ndarray], tile: int, blocks: Sequence[int], b: GraphBuilder) -> ir.Value:
    """A weight named after `source`: plain filters, transformed for F(tile, 3). `blocks` is (M / b, K, a, b) (see `WinogradConvOp`)."""
    size = tile + TAPS - 1
    return deferred_weight(b, source, (size, size, *blocks), lambda: [transformed_filters(plain(), tile)], plain=plain)


def cut_back(result: ir.Value, whole: Sequence[Dim], b: GraphBuilder) -> ir.Value:
    """The part of a result of whole tiles that has shape `whole`."""
    if type_of(result).shape == tuple(whole):
        return result
    return b.slice(result, starts=[0] * 5, sizes=whole, steps=[1] * 5)


def sink(cut: ir.Value, b: GraphBuilder) -> None:
    """Move a slice after the element-wise ops that follow it, so that these still fuse with the op before it.

    rewrite: f(slice(x), c, …) -> slice(f(x, c, …))  where the slice has no other user, and every c is 1 along what the slice cuts

    It stays before a cast that widens, which fuses with a product that reads narrow numbers.
    """
    while True:
        source, user = defining_op(cut), users(cut)
        view: Any = user[0].opview if len(user) == 1 else None
        if source is None or source.name != "graph.slice" or not is_elementwise(view) or widened(view.operation.results[0]) is not None:
            return
        op, whole = user[0], source.operands[0]
        have, kept = type_of(whole).shape, type_of(cut).shape
        cuts = [d - len(have) for d, (a, c) in enumerate(zip(have, kept, strict=True)) if a != c]  # counted from the end
        others = [type_of(v).shape for v in op.operands if v != cut]
        if type_of(op.results[0]).shape != kept or any(len(shape) >= -d and shape[d] != 1 for shape in others for d in cuts):
            return
        with ir.InsertionPoint(op), op.location:
            made = b.build(type(view), *(whole if v == cut else v for v in op.operands), **view.attribute_values())
            after = b.slice(made, **source.opview.attribute_values())
        replace_op(op, [after])
        source.erase()
        cut = after
