"""The loops of a scheduled nest: blocks, threads, steps; where each dimension stands inside of them, and what that makes of an address."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from stepwell.dialects.core.mlir import affine, arith, ir, scf
from stepwell.dialects.core.sizes import Size, known_sizes
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg_to_affine.masks import first_lanes
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.segments import Cut, Segment, halving_segments, masked_segments, overlapping_segments, segments, vector_segments

AT_ONCE = 4
"""Panels that a product of one row goes through at once: of two registers each, eight accumulators hide the latency of a multiply-add."""
Offsets = dict[int, int]  # position inside the register tile, by dimension


@dataclass(frozen=True)
class Shrunk:
    """A memref that holds a slice of a buffer: along `places` (results of the accesses' maps), only what one round of the fused loops uses."""

    value: ir.Value
    places: frozenset[int]


@dataclass(frozen=True)
class Enclosing:
    """The fused loops around a nest: their induction variables, which of them walks which dimension, and the buffers that are slices."""

    ivs: Sequence[ir.Value]
    places: Mapping[int, int]
    shrunk: Mapping[ir.Value, Shrunk]


ALONE = Enclosing((), {}, {})


class LoopNest:
    """Emits the loops around the register tiles of an op; a subclass emits the tile, and the summed loops in it."""

    def __init__(self, root: Structured, nest: Nest, enclosing: Enclosing) -> None:
        self.root, self.nest, self.enclosing = root, nest, enclosing
        self.sizes = root.sizes
        # Of each dimension, what the loops still have to walk: its size, or that of the block they are in.
        self.extents: list[int | Size] = [exact if d in root.open else root.sizes[d] for d, exact in enumerate(root.bounds)]
        self.ivs: list[ir.Value] = list(enclosing.ivs)
        self.where: dict[int, list[int]] = {}  # dimension -> the places in ivs whose sum it is: of the loop over its blocks, and of that in one
        self.fixed: dict[int, int] = {}  # dimension -> what is added to them: all of it where no loop is needed
        self._exprs: dict[tuple[int, int, bool], Any] = {}  # where dimensions stand, as long as the two above stay as they are
        self._addresses: dict[tuple[Any, ...], Any] = {}  # and where accesses go
        self._texts: dict[Any, str] = {}  # of addresses
        self.taken: dict[int, int] = {}  # of summed dimensions, how many iterations a round of the loop around takes in
        self.mask: ir.Value | None = None  # of the lanes of vectors, where not all of them are on
        self.begins = self.ends = True  # whether the summed loops to come start the sums, and finish them: not so in every block of a sum

    def tile(self, tile: Offsets, width: int) -> None:
        """Emit a tile of so many iterations of each dimension, in vectors of `width`."""
        raise NotImplementedError

    @property
    def masked_lanes(self) -> int:
        """The lanes of the last vector of a dimension whose size is known only at run time, if it is computed under a mask; else 0."""
        return 0

    @property
    def may_repeat(self) -> bool:
        """Whether elements may be computed twice, by two vectors one after the other."""
        return False

    def emit(self) -> None:
        """Emit the whole nest at the current insertion point. A product of rows that only the run counts gets code of its own for few of them."""
        few = self._few()
        if few is None:
            self._all()
            return
        dim, panel, at_once = few
        nest, extent = self.nest, self.extents[dim]
        for (count, panels), block in zip(at_once.items(), switch(self._value(extent), list(at_once), self._all), strict=True):
            unroll = [count if d == dim else panels if d == panel else n for d, n in enumerate(nest.unroll)]
            self.extents[dim], self.nest = count, replace(nest, unroll=tuple(unroll), prefetch=0, along=-1)
            with ir.InsertionPoint(block):
                self._all()
                scf.YieldOp([])
            self.extents[dim], self.nest = extent, nest

    def _few(self) -> tuple[int, int, dict[int, int]] | None:
        """The dimensions of a product's rows, which only the run counts, and of its panels; and for few rows how many panels are computed at once.

        A tile of so few rows of one panel would have so few sums that each waited for the one before.
        """
        nest = self.nest
        outer = [d for d in nest.order if d in self.root.parallel_dims and d != nest.vector]
        rows = [d for d in outer if isinstance(self.extents[d], Size)]
        if len(rows) != 1 or not self.root.reduction_dims or self.enclosing.ivs or nest.block:
            return None
        shared = [a for a in self.root.inputs if a.is_shaped and a.kind(rows[0]) != "scalar"]  # what the panels are multiplied by
        panels = [d for d in outer if d not in rows and nest.unroll[d] == 1 and any(a.kind(d) == "scalar" for a in shared)]
        most = 1 << (min(AT_ONCE, nest.unroll[rows[0]]).bit_length() - 1)
        at_once = {count: most // count for count in (1, 2) if count < most}
        return (rows[0], panels[0], at_once) if panels and at_once else None

    def _all(self) -> None:
        """Emit the nest for all iterations.

        From outside: the threaded loops, over blocks where their dimensions have them; loops over blocks of the other dimensions, and of
        what is summed; then all loops that are left.
        """
        nest, blocks = self.nest, self.nest.blocks
        threaded, serial = nest.order[: nest.parallel], nest.order[nest.parallel :]
        outer = [(d, True) for d in serial if blocks.get(d)] + [(d, True) for d in self.root.reduction_dims if blocks.get(d)]
        inner = [(d, False) for d in nest.order if d in serial or blocks.get(d)]
        self._parallel([(d, bool(blocks.get(d))) for d in threaded], [*outer, *inner])

    def _cut(self, dim: int, *, into_blocks: bool) -> Cut:
        if into_blocks:
            return segments(self.extents[dim], self.nest.blocks[dim])
        extent, step = self.extents[dim], self.nest.unroll[dim]
        if dim == self.nest.vector and isinstance(extent, Size) and self.masked_lanes:
            return [*masked_segments(extent, self.nest.width, self.masked_lanes)]
        if dim == self.nest.vector:
            return [*vector_segments(extent, self.nest.width)]
        if isinstance(extent, Size) and not self.root.reduction_dims:  # nothing is kept in registers: halves make less code
            return [*halving_segments(extent, step)]
        return segments(extent, step)

    def _parallel(self, threaded: list[tuple[int, bool]], serial: list[tuple[int, bool]], chosen: tuple[Segment, ...] = ()) -> None:
        """Loops for the threaded dimensions: one affine.parallel for each combination of their segments, of which the first are `chosen`."""
        if len(chosen) < len(threaded):
            dim, into_blocks = threaded[len(chosen)]
            self._each(self._cut(dim, into_blocks=into_blocks), lambda segment: self._parallel(threaded, serial, (*chosen, segment)))
            return
        dims = [(d, into_blocks, s) for (d, into_blocks), s in zip(threaded, chosen, strict=True)]
        whole = [(d, s) for d, into_blocks, s in dims if not into_blocks]
        steps = {d: s.step for d, s in whole if d != self.nest.vector}
        lanes = next((s.step for d, s in whole if d == self.nest.vector), 1)
        before = list(self.extents)
        for d, _, s in dims:
            self.extents[d] = s.step
        looping = [(d, s) for d, _, s in dims if s.rounds != 1]
        for d, _, s in dims:
            if s.rounds == 1:
                self._begin(d, s.low)
        if looping:
            loop = parallel_loop([s for _, s in looping], self.root.shapes)
            block = loop.regions[0].blocks[0]
            with ir.InsertionPoint(block):
                for (d, _), iv in zip(looping, block.arguments, strict=True):
                    self._enter(d, iv)
                self._serial(serial, steps, lanes)
                for d, _ in reversed(looping):
                    self._leave(d)
                affine.AffineYieldOp([])
        else:
            self._serial(serial, steps, lanes)
        for d, _, s in reversed(dims):
            if s.rounds == 1:
                self._end(d, s.low)
        self.extents = before

    def _serial(self, loops: list[tuple[int, bool]], tile: Offsets, width: int) -> None:
        """The loops over these dimensions, or over their blocks, and the tile inside."""
        if not loops:
            self.tile({d: t for d, t in tile.items() if t > 1}, width)
            return
        (dim, into_blocks), *rest = loops
        if into_blocks and dim in self.root.reduction_dims:
            self._sum_in_blocks(dim, rest, tile, width)
            return
        cut = self._cut(dim, into_blocks=into_blocks)
        extent = self.extents[dim]
        if dim == self.nest.vector and not into_blocks and isinstance(extent, int) and len(cut) > 2 and self.may_repeat:
            cut = [*overlapping_segments(extent, self.nest.width)]

        def walk(segment: Segment) -> None:
            with_width = segment.step if dim == self.nest.vector and not into_blocks else width
            inner = tile if into_blocks or dim == self.nest.vector else {**tile, dim: segment.step}
            self._in_loop(dim, segment, rest, inner, with_width)

        self._each(cut, walk)

    def _each(self, cut: Cut, walk: Callable[[Segment], None]) -> None:
        """Have each stretch walked; of a rest the one whose length it is when it runs."""
        for part in cut:
            if isinstance(part, Segment):
                with self.under(part):
                    walk(part)
                continue
            for length, block in zip(part.lengths, switch(self._value(part.high - part.low), part.lengths), strict=True):
                with ir.InsertionPoint(block):
                    walk(part.of(length))
                    scf.YieldOp([])

    def _in_loop(self, dim: int, segment: Segment, rest: list[tuple[int, bool]], tile: Offsets, width: int) -> None:
        """A loop over `segment`, in whose rounds that much of `dim` is left to walk."""
        before, self.extents[dim] = self.extents[dim], segment.step

        def body(carried: list[Any]) -> list[Any]:
            self._serial(rest, tile, width)
            return carried

        self.loop(dim, segment, [], body)
        self.extents[dim] = before

    def _sum_in_blocks(self, dim: int, rest: list[tuple[int, bool]], tile: Offsets, width: int) -> None:
        """A loop over blocks of a sum: the first starts it, the last finishes it, and between them it lies in memory."""
        begins, ends, block = self.begins, self.ends, self.nest.blocks[dim]
        [size] = known_sizes([self.extents[dim]])
        last = (size - 1) // block * block
        cut = [Segment(0, min(block, size), min(block, size))]
        cut += [Segment(block, last, block)] if last > block else []
        cut += [Segment(last, size, size - last)] if last else []
        for place, segment in enumerate(cut):
            self.begins, self.ends = begins and place == 0, ends and place == len(cut) - 1
            self._in_loop(dim, segment, rest, tile, width)
        self.begins, self.ends = begins, ends

    @contextmanager
    def under(self, segment: Segment) -> Iterator[None]:
        """Inside, vectors have the lanes that the segment leaves on."""
        around = self.mask
        if segment.masked:
            self.mask = first_lanes(segment.step, self._value(segment.high - segment.low))
        yield
        self.mask = around

    def loop(
        self, dim: int, segment: Segment, carried: list[Any], body: Callable[[list[Any]], list[Any]], *, written_out: bool = False
    ) -> list[Any]:
        """One loop over `segment`, or its body alone where there is a single round, under a condition where there may be none.

        `written_out`, for a segment of known ends, has the rounds follow each other without a loop.
        """

        def once(low: int | Size, carried: list[Any]) -> list[Any]:
            self._begin(dim, low)
            results = body(carried)
            self._end(dim, low)
            return results

        if segment.rounds == 1:
            return once(segment.low, carried)
        if segment.optional:
            return self._if_any(segment, carried, lambda: once(segment.low, carried))
        if written_out:
            first, last = known_sizes((segment.low, segment.high))
            for at in range(first, last, segment.step):
                carried = once(at, carried)
            return carried
        low, high = (bound_of(self.root.shapes, bound) for bound in (segment.low, segment.high))
        loop = affine.AffineForOp(
            low[0], high[0], segment.step, iter_args=carried, lower_bound_operands=low[1], upper_bound_operands=high[1]
        )  # fmt: skip
        with ir.InsertionPoint(loop.body):
            self._enter(dim, loop.induction_variable)
            affine.AffineYieldOp(body(list(loop.inner_iter_args)))
            self._leave(dim)
        return list(loop.results)

    def _if_any(self, segment: Segment, carried: list[Any], once: Callable[[], list[Any]]) -> list[Any]:
        """The round of a segment if there is one: a loop would be unrolled, in vain."""
        some = arith.cmpi(arith.CmpIPredicate.slt, self._value(segment.low), self._value(segment.high))
        choice = scf.IfOp(some, [value.type for value in carried], has_else=bool(carried))
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp(once())
        if carried:
            with ir.InsertionPoint(choice.else_block):
                scf.YieldOp(carried)
        return list(choice.results)

    def _enter(self, dim: int, iv: ir.Value) -> None:
        self.where.setdefault(dim, []).append(len(self.ivs))
        self.ivs.append(iv)
        self._moved()

    def _leave(self, dim: int) -> None:
        self.where[dim].pop()
        self.ivs.pop()
        self._moved()

    def _moved(self) -> None:
        """Forget what depends on where the dimensions stand."""
        self._exprs.clear()
        self._addresses.clear()

    def _begin(self, dim: int, low: int | Size) -> None:
        """From here on a dimension is `low` further, without a loop."""
        if isinstance(low, int):
            self.fixed[dim] = self.fixed.get(dim, 0) + low
            self._moved()
        else:
            self._enter(dim, self._value(low))

    def _end(self, dim: int, low: int | Size) -> None:
        """What `_begin` did is undone."""
        if isinstance(low, int):
            self.fixed[dim] -= low
            self._moved()
        else:
            self._leave(dim)

    def _value(self, size: int | Size) -> ir.Value:
        """A size as a value that affine loops can have as a symbol."""
        return value_of(self.root.shapes, size)

    def point_exprs(self, point: Offsets, lane: int = 0, *, own: bool = False) -> list[Any]:
        """For each dimension, the affine expression of the loop variables that gives its value at `point` of the tile.

        With `own`, its value inside the current round of the fused loops.
        """
        return [self._expr(d, point.get(d, 0) + (lane if d == self.nest.vector else 0), own) for d in range(len(self.sizes))]

    def _expr(self, d: int, offset: int, own: bool) -> Any:
        """The expression of dimension `d`, so much further: see `point_exprs`."""
        expr: Any = self._exprs.get((d, offset, own))
        if expr is None:
            expr = ir.AffineConstantExpr.get(self.fixed.get(d, 0) + offset)
            for place in reversed(self.where.get(d, [])):
                expr = ir.AffineExpr.get_add(ir.AffineDimExpr.get(place), expr)
            if d in self.enclosing.places and not own:
                expr = ir.AffineExpr.get_add(ir.AffineDimExpr.get(self.enclosing.places[d]) * self.sizes[d], expr)
            self._exprs[d, offset, own] = expr
        return expr

    def address(self, access: Access, point: Offsets, lane: int = 0, across: Sequence[Any] | None = None) -> Any:
        """Where an access goes at `point`; `across` gives an epilogue's dimensions as expressions of the root's."""
        # Of the point, only the dimensions count that the access moves along; an epilogue's moves along any of the root's.
        dims = range(len(self.sizes)) if across is not None else access.moving
        offsets = tuple(point.get(d, 0) + (lane if d == self.nest.vector else 0) for d in dims)
        key = (access.value, access.map, across is not None, offsets)
        if key not in self._addresses:
            self._addresses[key] = self._address(access, point, lane, across)
        return self._addresses[key]

    def place(self, access: Access, point: Offsets) -> str:
        """The text of an address: points of one text read the same elements. To print it takes longer than to make it, so it is kept."""
        where = self.address(access, point)
        if where not in self._texts:
            self._texts[where] = str(where)
        return self._texts[where]

    def _address(self, access: Access, point: Offsets, lane: int, across: Sequence[Any] | None) -> Any:
        count = len(self.ivs)
        shrunk = self.enclosing.shrunk.get(access.value)

        def within(own: bool) -> Any:
            inner = ir.AffineMap.get(count, 0, self.point_exprs(point, lane, own=own))
            return inner if across is None else ir.AffineMap.get(count, 0, [e.compose(inner) for e in across])

        results = access.results
        if shrunk is None and across is None and min(access.dims, default=0) >= 0:  # the usual case: each result is a dimension
            return ir.AffineMap.get(count, 0, [self._expr(d, point.get(d, 0) + (lane if d == self.nest.vector else 0), False) for d in access.dims])
        places = shrunk.places if shrunk else frozenset()
        whole, own = within(False), within(True) if places else None
        return ir.AffineMap.get(count, 0, [r.compose(own if i in places else whole) for i, r in enumerate(results)])

    def memory(self, access: Access) -> ir.Value:
        """The memref that an access goes to."""
        shrunk = self.enclosing.shrunk.get(access.value)
        return shrunk.value if shrunk else access.value


def switch(value: ir.Value, cases: Sequence[int], otherwise: Callable[[], None] = lambda: None) -> list[ir.Block]:
    """An scf.index_switch of these cases; gives their blocks, which want an scf.yield at the end. `otherwise` emits what is done in any other."""

    def default(_: ir.Block) -> None:
        otherwise()
        scf.YieldOp([])

    op = scf.IndexSwitchOp([], value, cases, default_body_builder=default)
    return list(op.case_blocks)


def bound_of(shapes: SymbolicShapes, size: int | Size) -> tuple[Any, list[ir.Value]]:
    """A loop's bound as a number, or as a map with its operand."""
    if isinstance(size, int):
        return size, []
    return ir.AffineMap.get(0, 1, [ir.AffineSymbolExpr.get(0)]), [value_of(shapes, size)]


def value_of(shapes: SymbolicShapes, size: int | Size) -> ir.Value:
    """A size as a value at the top of its function, where affine loops can have it as a symbol."""
    return shapes.value(size, ir.InsertionPoint.at_block_begin(shapes.block))


def parallel_loop(cut: Sequence[Segment], shapes: SymbolicShapes | None = None) -> Any:
    """An affine.parallel over the segments, its body block still empty; `shapes` are those of its function if there are symbols in these."""
    index = ir.IndexType.get()
    i32 = ir.IntegerType.get_signless(32)
    operands: list[ir.Value] = []
    maps = []
    for bounds in ([s.low for s in cut], [s.high for s in cut]):
        exprs: list[Any] = []
        count = len(operands)
        for bound in bounds:
            if isinstance(bound, int):
                exprs.append(ir.AffineConstantExpr.get(bound))
            else:
                assert shapes is not None
                exprs.append(ir.AffineSymbolExpr.get(len(operands) - count))
                operands.append(value_of(shapes, bound))
        maps.append(ir.AffineMap.get(0, len(operands) - count, exprs))
    groups = ir.DenseIntElementsAttr.get([ir.IntegerAttr.get(i32, 1)] * len(cut), ir.RankedTensorType.get([len(cut)], i32))
    steps = ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(64), s.step) for s in cut])
    low, high = (ir.AffineMapAttr.get(m) for m in maps)
    loop = affine.AffineParallelOp([], ir.ArrayAttr.get([]), low, groups, high, groups, steps, operands)
    loop.regions[0].blocks.append(*[index] * len(cut))
    return loop
