"""The loops of a scheduled nest: blocks, threads, steps."""

from collections.abc import Callable, Sequence

from stepwell.dialects.core.mlir import affine, ir, scf
from stepwell.dialects.core.sizes import Size, static_sizes
from stepwell.passes.linalg_to_affine.affine_loops import loop, parallel_loop, switch
from stepwell.passes.linalg_to_affine.context import NestContext
from stepwell.passes.linalg_to_affine.position import Offsets, Position
from stepwell.passes.schedule.segments import Cut, Segment, halving_segments, masked_segments, overlapping_segments, segments, vector_segments

Loops = Sequence[tuple[int, bool]]
"""Dimensions of loops, outermost first, each with a flag: whether the loop walks blocks of the dimension."""


class LoopNest:
    """Emits the loops around the register tiles of an op; a subclass emits the tile, and the reduction loops in it."""

    def __init__(self, context: NestContext) -> None:
        self.context, self.root, self.nest = context, context.root, context.nest

    def tile(self, at: Position, counts: Offsets, width: int) -> None:
        """Emit a tile of `counts` iterations of each dimension, in vectors of `width`."""
        raise NotImplementedError

    def emit(self, at: Position) -> None:
        """Emit the nest at the current insertion point, for all iterations.

        From the outside in: the threaded loops (over blocks, if their dimensions have them), loops over blocks of the other dimensions and of the
        reduction dimensions, then all remaining loops.
        """
        nest, blocks = self.nest, self.nest.blocks
        threaded, serial = nest.order[: nest.parallel], nest.order[nest.parallel :]
        outer = [(d, True) for d in serial if blocks.get(d)] + [(d, True) for d in self.root.reduction_dims if blocks.get(d)]
        inner = [(d, False) for d in nest.order if d in serial or blocks.get(d)]
        self._parallel(at, [(d, bool(blocks.get(d))) for d in threaded], [*outer, *inner])

    def _cut(self, at: Position, dim: int, *, into_blocks: bool) -> Cut:
        if into_blocks:
            return segments(at.extents[dim], self.nest.blocks[dim])
        extent, step, masked_lanes = at.extents[dim], self.nest.unroll[dim], self.context.masked_lanes
        if dim == self.nest.vector and isinstance(extent, Size) and masked_lanes:
            return [*masked_segments(extent, self.nest.width, masked_lanes)]
        if dim == self.nest.vector:
            return [*vector_segments(extent, self.nest.width)]
        if isinstance(extent, Size) and not self.root.reduction_dims:  # nothing stays in registers: halving makes less code
            return [*halving_segments(extent, step)]
        return segments(extent, step)

    def _parallel(self, at: Position, threaded: Loops, serial: Loops, chosen: tuple[Segment, ...] = ()) -> None:
        """Loops for the threaded dimensions: one affine.parallel for each combination of their segments; `chosen` holds the first segments."""
        if len(chosen) < len(threaded):
            dim, into_blocks = threaded[len(chosen)]
            cut = self._cut(at, dim, into_blocks=into_blocks)
            self._each(at, cut, lambda at, segment: self._parallel(at, threaded, serial, (*chosen, segment)))
            return
        dims = [(d, into_blocks, s) for (d, into_blocks), s in zip(threaded, chosen, strict=True)]
        whole = [(d, s) for d, into_blocks, s in dims if not into_blocks]
        steps = {d: s.step for d, s in whole if d != self.nest.vector}
        lanes = next((s.step for d, s in whole if d == self.nest.vector), 1)
        at = at.within({d: s.step for d, _, s in dims})
        looping = [(d, s) for d, _, s in dims if s.rounds != 1]
        for d, _, s in dims:
            if s.rounds == 1:
                at = at.moved(d, s.low)
        if not looping:
            self._serial(at, serial, steps, lanes)
            return
        block = parallel_loop([s for _, s in looping], self.root.shapes).regions[0].blocks[0]
        with ir.InsertionPoint(block):
            for (d, _), iv in zip(looping, block.arguments, strict=True):
                at = at.entered(d, iv)
            self._serial(at, serial, steps, lanes)
            affine.AffineYieldOp([])

    def _serial(self, at: Position, loops: Loops, counts: Offsets, width: int) -> None:
        """The loops over these dimensions, or over their blocks, and the tile inside."""
        if not loops:
            self.tile(at, {d: count for d, count in counts.items() if count > 1}, width)
            return
        (dim, into_blocks), *rest = loops
        if into_blocks and dim in self.root.reduction_dims:
            self._sum_in_blocks(at, dim, rest, counts, width)
            return
        cut = self._cut(at, dim, into_blocks=into_blocks)
        extent = at.extents[dim]
        if dim == self.nest.vector and not into_blocks and isinstance(extent, int) and len(cut) > 2 and self.context.may_repeat:
            cut = [*overlapping_segments(extent, self.nest.width)]

        def walk(at: Position, segment: Segment) -> None:
            with_width = segment.step if dim == self.nest.vector and not into_blocks else width
            inner = counts if into_blocks or dim == self.nest.vector else {**counts, dim: segment.step}
            self._in_loop(at, dim, segment, rest, inner, with_width)

        self._each(at, cut, walk)

    def _each(self, at: Position, cut: Cut, walk: Callable[[Position, Segment], None]) -> None:
        """Walk each segment; for a `Rest`, the one with the length found at run time."""
        for part in cut:
            if isinstance(part, Segment):
                walk(at.under(part), part)
                continue
            for length, block in zip(part.lengths, switch(at.value(part.high - part.low), part.lengths), strict=True):
                with ir.InsertionPoint(block):
                    walk(at, part.segment(length))
                    scf.YieldOp([])

    def _in_loop(self, at: Position, dim: int, segment: Segment, rest: Loops, counts: Offsets, width: int) -> None:
        """A loop over `segment`, inside which that much of `dim` is left to walk."""

        def body(at: Position, carried: list[ir.Value]) -> list[ir.Value]:
            self._serial(at, rest, counts, width)
            return carried

        loop(at.within({dim: segment.step}), dim, segment, [], body)

    def _sum_in_blocks(self, at: Position, dim: int, rest: Loops, counts: Offsets, width: int) -> None:
        """A loop over blocks of a sum: the first block starts the sum, the last one finishes it, and in between it lies in memory."""
        block = self.nest.blocks[dim]
        [size] = static_sizes([at.extents[dim]])
        last = (size - 1) // block * block
        cut = [Segment(0, min(block, size), min(block, size))]
        cut += [Segment(block, last, block)] if last > block else []
        cut += [Segment(last, size, size - last)] if last else []
        for place, segment in enumerate(cut):
            part = at.in_sum_block(begins=at.begins and place == 0, ends=at.ends and place == len(cut) - 1)
            self._in_loop(part, dim, segment, rest, counts, width)
