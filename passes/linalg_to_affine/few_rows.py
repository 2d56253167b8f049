"""The version of a product with a dynamic number of rows for few rows: other tiles of the same nest."""

from dataclasses import dataclass, replace

from stepwell.dialects.core.sizes import Size
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Position

AT_ONCE = 4
"""Panels that a product of one row computes at once: with two registers each, eight accumulators hide the latency of a multiply-add."""


@dataclass(frozen=True)
class FewRows:
    """The computation of a product with few rows."""

    dim: int
    """The dimension of the rows."""
    panel: int
    """The dimension of the panels."""
    at_once: dict[int, int]
    """Maps a number of rows to the number of panels that are computed at once."""

    def version(self, context: NestContext, count: int) -> NestContext:
        """The nest for `count` rows."""
        tile = {self.dim: count, self.panel: self.at_once[count]}
        unroll = tuple(tile.get(d, n) for d, n in enumerate(context.nest.unroll))
        return replace(context, nest=replace(context.nest, unroll=unroll, prefetch=0, along=-1))


def few_rows(context: NestContext) -> FewRows | None:
    """How to compute a product with a dynamic number of rows when there are few; None for any other nest.

    With so few rows, a tile of one panel would have too few accumulators: each would wait for the one before.
    """
    root, nest, extents = context.root, context.nest, Position.outside(context).extents
    outer = [d for d in nest.order if d in root.parallel_dims and d != nest.vector]
    rows = [d for d in outer if isinstance(extents[d], Size)]
    if len(rows) != 1 or not root.reduction_dims or context.enclosing.ivs or nest.block:
        return None
    shared = [a for a in root.inputs if a.is_shaped and a.kind(rows[0]) != "scalar"]  # the other operand of the panels
    panels = [d for d in outer if d not in rows and nest.unroll[d] == 1 and any(a.kind(d) == "scalar" for a in shared)]
    most = 1 << (min(AT_ONCE, nest.unroll[rows[0]]).bit_length() - 1)
    at_once = {count: most // count for count in (1, 2) if count < most}
    return FewRows(rows[0], panels[0], at_once) if panels and at_once else None
