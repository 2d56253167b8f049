"""Emission of one scheduled loop nest: affine loops outside, a register tile of `vector` ops inside."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, product
from math import prod
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import affine, arith, ir, memref, vector
from stepwell.dialects.core.sizes import Size, known, known_sizes
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.dialects.target.llvm_habits import ROLLED_ROUNDS
from stepwell.dialects.target.numbers import LINE
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.copies import STRETCH, moved, sizes_of_part, stretch
from stepwell.passes.linalg.structured import COMBINERS, Structured
from stepwell.passes.linalg.views import origin
from stepwell.passes.linalg_to_affine import emit
from stepwell.passes.linalg_to_affine.blocks import along, emit_block, everywhere, neighbours
from stepwell.passes.linalg_to_affine.loops import ALONE, Enclosing, LoopNest, Offsets
from stepwell.passes.linalg_to_affine.masks import masked_lanes, masked_load, masked_store
from stepwell.passes.linalg_to_affine.scalar_body import ScalarBody, as_vector, emit_value
from stepwell.passes.linalg_to_affine.shared_sums import tile_sums
from stepwell.passes.linalg_to_affine.short_rows import ShortRows, store_lanes
from stepwell.passes.linalg_to_affine.tiles import TiledSums
from stepwell.passes.linalg_to_affine.transposition import transposed
from stepwell.passes.linalg_to_affine.values import combine, constant_of, extended, given_number, index_value, is_zero, known_array, load, neutral
from stepwell.passes.schedule.intrinsics import Use
from stepwell.passes.schedule.nest import Nest, turned_dim
from stepwell.passes.schedule.segments import Segment, vector_segments

EARLY = 16
"""Iterations of a dimension in which tiles prefetch along an outer loop, if only the run knows how many there are."""
NEAR, FAR = 3, 2
"""MLIR's locality hints of a prefetch into the first cache, and into the second."""


class NestEmitter(LoopNest):
    """Emits the loops of a stage, structured ops over one output: an optional fill, a root, and element-wise epilogues.

    The root's accumulators live in registers from the fill's value to the epilogues' result, and are stored once. An output that moves
    along a summed loop, as that of a scan does, is stored in each of its rounds.
    """

    def __init__(
        self,
        root: Structured,
        nest: Nest,
        initial: ir.Value | None,
        epilogues: Sequence[Structured],
        enclosing: Enclosing = ALONE,
        use: Use | None = None,
        *,
        target: Target | None = None,
    ) -> None:
        """`use` is how the intrinsic that the nest names computes the root."""
        self.target, self.fma = target, (target or GENERIC).contracts
        super().__init__(root, nest, enclosing)
        self.initial, self.epilogues = initial, epilogues
        self.lanes_reduce = nest.vector in root.reduction_dims
        self.known = {n: array for n, a in enumerate(root.inputs) if (array := known_array(a)) is not None}
        self.written_out = {d for n in self.known for d in root.reduction_dims if root.inputs[n].kind(d) != "scalar"} - {nest.vector}
        self.shown = [any(o.kind(d) != "scalar" for d in root.reduction_dims) for o in root.outputs]
        self.use = use if not self.known else None  # numbers that are written into the code need no vectors of them
        self._bodies: dict[Structured, ScalarBody] = {}
        self._numbers: dict[ir.Value, ir.Value | None] = {}  # what single elements hold
        self.whole = True  # whether the tile at hand is one, and not what is left over

    @cached_property
    def may_repeat(self) -> bool:
        """Whether the nest sums, and what it stores is nowhere read: neither by a sum in blocks, nor by an op that overwrites what it reads."""
        out, *more = self.root.outputs
        starts = not out.used or self.initial is not None
        if more or any(self.shown) or self.lanes_reduce or not self.root.reduction_dims or not starts or self.use is not None:
            return False
        if self.enclosing.ivs or any(self.nest.blocks.get(d) for d in self.root.reduction_dims) or out.kind(self.nest.vector) != "vector":
            return False
        target = origin(out.value)
        if not isinstance(target, ir.BlockArgument):
            return False
        function = target.owner.owner.operation
        if function.name not in KernelInfo.on or KernelInfo(function).in_place:
            return False
        read = [a for member in (self.root, *self.epilogues) for a in member.inputs if a.used and a.is_shaped]
        return all(origin(a.value) != target for a in read)

    @cached_property
    def masked_lanes(self) -> int:
        """See `LoopNest`; vectors that an intrinsic takes are whole."""
        return 0 if self.use is not None else masked_lanes(self.root, self.nest, self.epilogues, self.target)

    # -- copies -------------------------------------------------------------------------------------------------------------

    def _serial(self, loops: list[tuple[int, bool]], tile: Offsets, width: int) -> None:
        alone = not self.epilogues and not any(a.value in self.enclosing.shrunk for a in self.root.accesses)
        if not alone or not known(self.extents) or stretch(self.root, known_sizes(self.extents)) < STRETCH:
            super()._serial(loops, tile, width)
            return
        source, target = (self._part(access) for access in moved(self.root) or ())
        memref.CopyOp(source, target)

    def _part(self, access: Access) -> ir.Value:
        """What is left to walk of an operand, which is a stretch of memory, as a view of one dimension."""
        sizes = sizes_of_part(access, known_sizes(self.extents))
        offsets = [e.value if isinstance(e, ir.AffineConstantExpr) else index_value(e, self.ivs, 1) for e in self.address(access, {}).results]
        part = memref.subview(access.value, offsets, sizes, [1] * len(sizes))
        if len(sizes) == 1:
            return part
        strided = isinstance(part.type.layout, ir.StridedLayoutAttr)
        layout = ir.StridedLayoutAttr.get(part.type.get_strides_and_offset()[1], [1]) if strided else None
        flat = ir.MemRefType.get([prod(sizes)], access.element_type, layout)
        return memref.CollapseShapeOp(flat, part, [list(range(len(sizes)))]).result

    # -- the register tile --------------------------------------------------------------------------------------------------

    def tile(self, tile: Offsets, width: int) -> None:
        points: list[Offsets] = [{}]
        for dim, count in tile.items():
            points = [{**p, dim: k} for p in points for k in range(count)]
        self.whole = len(points) == prod(self.nest.unroll)
        use = self.use if self.use is not None and (self.lanes_reduce or width % self.use.intrinsic.lanes == 0) else None
        shared = self._shared_sums(points, width)
        if shared is not None:
            flat = shared
        elif use is not None and use.intrinsic.tile is not None:
            flat = self._sums_in_tiles(TiledSums(use, points, width))
        elif self.lanes_reduce:
            flat = self._reduce_in_lanes(points, self._starts(points, width))
        elif use is not None:
            flat = self._reduce(self.root.reduction_dims, points, self._starts(points, width), width, use=use)
        else:
            flat = self._reduce_in_parts(points, self._starts(points, width), width)
        count = len(self.root.outputs)
        groups = [flat[i * count : (i + 1) * count] for i in range(len(points))]
        outputs, written = self.root.outputs, self.root.outputs[0].value
        for epilogue in self.epilogues if self.ends else ():
            groups = [self._epilogue(epilogue, p, g, width, written) for p, g in zip(points, groups, strict=True)]
            if epilogue.outputs[0].value != written:  # elements of another type, in memory of their own
                written = epilogue.outputs[0].value
                outputs = [replace(self.root.outputs[0], value=written)]
        across = [self._across(out, points, [group[n] for group in groups], width) for n, out in enumerate(outputs)]
        for p, group in zip(points, groups, strict=True):
            for out, v, stored in zip(outputs, group, [a or b for a, b in zip(self.shown, across, strict=True)], strict=True):
                if not stored:
                    self._store(out, v, p, width)

    def _starts(self, points: list[Offsets], width: int) -> list[Any]:
        return [self._start(out, p, width, shown) for p in points for out, shown in zip(self.root.outputs, self.shown, strict=True)]

    def _start(self, out: Access, point: Offsets, width: int, shown: bool) -> ir.Value | None:
        if not self.begins:
            return self._load(out, point, width)
        if shown or not out.used:
            # The body ignores what was there: nothing to load, but loops carry a value, so give them zero.
            return as_vector(constant_of(out.element_type, 0), self._lanes(out, width)) if self.root.reduction_dims else None
        if self.initial is not None:
            return as_vector(self.initial, self._lanes(out, width))
        return self._load(out, point, width)

    def _lanes(self, access: Access, width: int) -> int:
        return 1 if self.lanes_reduce else width

    def _sums_in_tiles(self, tiles: TiledSums) -> list[Any]:
        """The sums of a tile, a vector for each point, by registers of two dimensions: what they begin with is added at the end."""
        self.tiles = tiles
        element = self.root.outputs[0].element_type
        made = self._reduce(self.root.reduction_dims, tiles.points, tiles.zeros(element), tiles.width, use=tiles.use)
        combiner = self.root.combiner
        assert combiner is not None  # it is a contraction
        found = tiles.vectors(made, element)
        before = self._starts(tiles.points, tiles.width)
        return [v if is_zero(b) else combine(combiner, b, v) for b, v in zip(before, found, strict=True)]

    def _reduce(
        self, dims: list[int], points: list[Offsets], acc: list[Any], width: int, only: dict[int, Segment] | None = None, use: Use | None = None
    ) -> list[Any]:
        """The loops over `dims` around the sums `acc`, inside of which `use` computes, or the body."""
        if not dims:
            return self._step(points, acc, width) if use is None else self._blocks(use, points, acc, width)
        dim, *rest = dims
        segments = [((only or {}).get(dim, Segment(0, self.extents[dim], 1)), use)]
        if use is not None and not self.lanes_reduce:
            segments = use.cut(dim, self.extents[dim])
        for segment, inside in segments:

            def body(inner: list[Any], segment: Segment = segment, inside: Use | None = inside) -> list[Any]:
                self.taken[dim] = segment.step
                if len(rest) == 1:
                    self._prefetch_lines(dim, rest[0], points, width)
                return self._reduce(rest, points, inner, width, only, inside)

            few = use is not None and use.intrinsic.tile is None and dim == use.innermost(self.root) and segment.rounds == ROLLED_ROUNDS
            acc = self.loop(dim, segment, acc, body, written_out=few or dim in self.written_out)
        return acc

    def _reduce_in_parts(self, points: list[Offsets], acc: list[Any], width: int) -> list[Any]:
        """As `_reduce`; where the op says so, a few rounds of the outermost summed loop at a time, which are added up on their own."""
        dims, extent = self.root.reduction_dims, self.extents[self.root.reduction_dims[0]] if self.root.reduction_dims else 0
        rounds = self.root.part // prod(self.sizes[d] for d in dims[1:])
        if not isinstance(extent, int) or not 0 < rounds < extent:
            return self._reduce(dims, points, acc, width)
        zero = as_vector(constant_of(self.root.outputs[0].element_type, 0), width)
        whole, left = extent - extent % rounds, extent % rounds
        for segment in (Segment(0, whole, rounds), *([Segment(whole, extent, left)] if left else [])):

            def part(before: list[Any], size: int = segment.step) -> list[Any]:
                self.extents[dims[0]] = size
                added = self._reduce(dims, points, [zero] * len(before), width)
                return [arith.addf(a, b) for a, b in zip(before, added, strict=True)]

            acc = self.loop(dims[0], segment, acc, part)
        self.extents[dims[0]] = extent
        return acc

    def _reduce_in_lanes(self, points: list[Offsets], acc: list[Any]) -> list[Any]:
        """Vectors along a reduction: lanes start neutral, are folded together at the end, and what is left over goes one by one."""
        combiner = self.root.combiner
        if combiner is None:
            raise PassError(f"'{self.root.operation.name}' at {self.root.operation.location} is not a fold that lanes could share")
        element = self.root.outputs[0].element_type
        extent = self.extents[self.nest.vector]
        if isinstance(extent, Size) and self.masked_lanes:
            return self._reduce_under_masks(extent, combiner, points, acc)
        for segment in vector_segments(extent, self.nest.width):
            only, width = {self.nest.vector: segment}, segment.step
            if width == 1:
                acc = self._reduce(self.root.reduction_dims, points, acc, 1, only)
                continue
            use = self.use if self.use is not None and width % (self.use.intrinsic.lanes * self.use.intrinsic.depth) == 0 else None
            lanes = [as_vector(neutral(combiner, element), width if use is None else width // use.intrinsic.depth) for _ in acc]
            lanes = self._reduce(self.root.reduction_dims, points, lanes, width, only, use)
            acc = self._folded(combiner, acc, lanes)
        return acc

    def _reduce_under_masks(self, extent: Size, combiner: str, points: list[Offsets], acc: list[Any]) -> list[Any]:
        """As `_reduce_in_lanes`, with one vector for all that is left over, so that lanes are folded only once."""
        width, whole = self.nest.width, extent // self.nest.width * self.nest.width
        lanes = [as_vector(neutral(combiner, self.root.outputs[0].element_type), width) for _ in acc]
        for segment in (Segment(0, whole, width), *([Segment(whole, extent, width, masked=True, optional=True)] if whole != extent else [])):
            with self.under(segment):
                lanes = self._reduce(self.root.reduction_dims, points, lanes, width, {self.nest.vector: segment})
        return self._folded(combiner, acc, lanes)

    def _folded(self, combiner: str, acc: list[Any], lanes: list[Any]) -> list[Any]:
        """The sums `acc`, or what else is folded, with all lanes of vectors of them."""
        element = self.root.outputs[0].element_type
        kind = ir.Attribute.parse(f"#vector.kind<{COMBINERS[combiner]}>")
        order = arith.FastMathFlags.reassoc if isinstance(element, ir.FloatType) else arith.FastMathFlags.none  # by halves, not one by one
        if combiner == "arith.maxnumf":
            order |= arith.FastMathFlags.nnan  # each lane began with a number
        folded = [vector.ReductionOp(element, kind, v, fastmath=order).result for v in lanes]
        return [combine(combiner, a, f) for a, f in zip(acc, folded, strict=True)]

    def _step(self, points: list[Offsets], acc: list[Any], width: int) -> list[Any]:
        count = len(self.root.outputs)
        loaded = self._turned(points, width)  # one load for each distinct address of the tile
        results: list[Any] = []
        for i, point in enumerate(points):
            inputs: list[ir.Value | None] = []
            numbers = {n: number for n in self.known if (number := self._number(n, point, width)) is not None}
            if any(numbers.get(n) == 0 for n in self.root.multiplied):
                results += acc[i * count : (i + 1) * count]  # a matrix's zero stands for no term at all, not for 0 * infinity
                continue
            for n, access in enumerate(self.root.inputs):
                if not access.used:
                    inputs.append(None)
                    continue
                if n in numbers:
                    inputs.append(constant_of(access.element_type, numbers[n]))
                    continue
                key = (n, self.place(access, point) if access.is_shaped else "")
                if key not in loaded:
                    loaded[key] = self._load(access, point, width)
                    self._prefetch(access, point, width)
                inputs.append(loaded[key])
            index = partial(self._index, point=point, width=width)
            before = acc[i * count : (i + 1) * count]
            own = [self._load(o, point, width) if s and o.used else a for o, s, a in zip(self.root.outputs, self.shown, before, strict=True)]
            made = self._body(self.root).emit([*inputs, *own], width, index)
            if self.mask is not None and self.lanes_reduce:
                made = [arith.select(self.mask, m, o) for m, o in zip(made, own, strict=True)]
            for n, (out, shown) in enumerate(zip(self.root.outputs, self.shown, strict=True)):
                if shown:
                    self._store(out, made[n], point, width)
                    made[n] = before[n]
            results += made
        return results

    def _turned(self, points: list[Offsets], width: int) -> dict[tuple[int, str], ir.Value]:
        """What the tile reads along another of its dimensions than its vectors lie: loaded along that one, and transposed in registers."""
        found: dict[tuple[int, str], ir.Value] = {}
        for n, access in enumerate(self.root.inputs if width > 1 and not self.lanes_reduce else ()):
            dim = turned_dim(access, self.nest) if access.used and n not in self.known else None
            if dim is None or dim not in points[-1]:
                continue
            count = len({p[dim] for p in points})
            for first in [p for p in points if p[dim] == 0]:
                for segment in vector_segments(count, width):
                    for low in range(*known_sizes([segment.low, segment.high, segment.step])) if segment.step > 1 else ():
                        self._turn(found, n, {**first, dim: low}, dim, segment.step, width)
        return found

    def _turn(self, found: dict[tuple[int, str], ir.Value], n: int, first: Offsets, dim: int, count: int, width: int) -> None:
        """Load input `n` at `count` points along `dim` from `first` on, in vectors of `width` along the nest's dimension."""
        access = self.root.inputs[n]
        keys = [(n, self.place(access, {**first, dim: first[dim] + i})) for i in range(count)]
        if keys[0] in found:  # points that differ only in dimensions along which the input does not move
            return

        def row(lane: int) -> ir.Value:
            return load(self.memory(access), "vector", count, self.ivs, lambda _: self.address(access, first, lane))

        found.update(zip(keys, transposed([row(lane) for lane in range(width)]), strict=True))

    def _shared_sums(self, points: list[Offsets], width: int) -> list[Any] | None:
        """The sums of a tile that multiplies columns by a matrix of known numbers, where its rows share what they can; None if it does not."""
        dims, initial = self.root.reduction_dims, self.initial if self.begins else None
        if len(self.known) != 1 or not self.root.adds_products or self.lanes_reduce or not self.written_out.issuperset(dims):
            return None
        if initial is None or not is_zero(initial):
            return None
        [n], [(m, other)] = self.known, [(m, a) for m, a in enumerate(self.root.inputs) if m not in self.known]
        signed = self.root.factors is None or any(f.index == m and f.kind.startswith("s") for f in self.root.factors)
        columns = [dict(zip(dims, values, strict=True)) for values in product(*(range(self.sizes[d]) for d in dims))]

        def load(place: Offsets) -> ir.Value:
            self._prefetch(other, place, width)
            return extended(self._load(other, place, width), self.root.outputs[0].element_type, signed)

        sums = tile_sums(
            [[{**point, **column} for column in columns] for point in points], number=lambda place: self._number(n, place, width),
            address=lambda place: self.place(other, place), load=load, width=width, fma=self.fma,
        )  # fmt: skip
        return None if sums is None else [as_vector(initial, width) if v is None else v for v in sums]

    def _blocks(self, use: Use, points: list[Offsets], acc: list[Any], width: int) -> list[Any]:
        """As `_step`, by an intrinsic, which takes in several iterations at once; `acc` are registers of two dimensions if it works on these."""
        if use.intrinsic.tile is not None:
            return self.tiles.step(self, acc)
        keys = [[(side, self.place(self.root.inputs[index], point)) for side, index in enumerate(use.sides)] for point in points]
        # What there is most of is taken one after the other, so that only the other operand stays in registers.
        most = max(range(len(use.sides)), key=lambda side: len({key[side] for key in keys}))
        alike: dict[tuple[int, str], list[int]] = {}
        for n, both in enumerate(keys):
            alike.setdefault(both[most], []).append(n)
        operands: dict[tuple[int, str], list[ir.Value]] = {}
        results = list(acc)
        for n in chain.from_iterable(alike.values()):
            for key in keys[n]:
                if key not in operands:
                    operands[key] = self._operand(use, key[0], points[n], width)
            results[n] = emit_block(use, acc[n], [operands[key] for key in keys[n]])
        return results

    def _operand(self, use: Use, side: int, point: Offsets, width: int) -> list[ir.Value]:
        access, depth = self.root.inputs[use.sides[side]], use.intrinsic.depth

        def factor(loaded: ir.Value) -> ir.Value:
            argument, index = self.root.body.arguments[use.sides[side]], partial(self._index, point=point, width=width if self.lanes_reduce else 1)
            return emit_value(self.root, use.values[side], argument, loaded, index)

        if self.lanes_reduce:
            return along(use, side, factor(self._load(access, point, width)), width)
        if use.is_grouped(access, self.nest.vector):
            self._prefetch(access, point, width)
            whole = load(self.memory(access), "vector", width * depth, self.ivs, lambda _: self.address(access, point))
            return along(use, side, factor(whole), width * depth)
        if access.kind(self.nest.vector) == "scalar" and access.kind(use.summed) == "vector":
            return everywhere(use, side, factor(load(self.memory(access), "vector", depth, self.ivs, lambda _: self.address(access, point))))
        return neighbours(use, side, [factor(self._load(access, {**point, use.summed: i}, width)) for i in range(depth)])

    def _number(self, n: int, point: Offsets, width: int) -> float | None:
        """What input `n`, a known array, holds at `point`, if that is one element in every lane and in every round of the loops."""
        access = self.root.inputs[n]
        if width > 1 and access.kind(self.nest.vector) != "scalar":
            return None
        place = list(self.address(access, point).results)
        if not all(isinstance(r, ir.AffineConstantExpr) for r in place):
            return None
        number: float = self.known[n][tuple(r.value for r in place)].item()
        return number

    def _epilogue(self, epilogue: Structured, point: Offsets, group: list[Any], width: int, written: ir.Value) -> list[Any]:
        """Apply an element-wise op to the tile, whose elements belong to `written`; its dimensions are the results of the root's output map."""
        lanes = 1 if self.lanes_reduce else width
        results = list(self.root.outputs[0].map.results)
        across = [results[d] for d in range(len(epilogue.iterators))]
        inner = NestView(self, epilogue, across, point, lanes)
        inputs = [group[0] if a.value == written else inner.load(a) if a.used else None for a in epilogue.inputs]
        before = group if epilogue.outputs[0].value == written else [None]
        return self._body(epilogue).emit([*inputs, *before], lanes, inner.index)

    def _body(self, op: Structured) -> ScalarBody:
        """The body of the root or of an epilogue."""
        if op not in self._bodies:
            self._bodies[op] = ScalarBody(op, fma=self.fma)
        return self._bodies[op]

    # -- loads and stores ---------------------------------------------------------------------------------------------------

    def _load(self, access: Access, point: Offsets, width: int) -> ir.Value:
        return self.load_along(access, self.nest.vector, width, lambda lane: self.address(access, point, lane))

    def load_along(self, access: Access, dim: int, width: int, address: Callable[[int], Any]) -> ir.Value:
        """What an access reads at `width` iterations of `dim`, -1 for a single one; `address` says where each of them is."""
        if not access.is_shaped:
            return access.value
        if access.value not in self._numbers:
            self._numbers[access.value] = given_number(access)
        number = self._numbers[access.value]
        if number is not None:
            return number
        kind = access.kind(dim) if dim >= 0 and width > 1 else "scalar"
        if self.mask is not None and kind == "vector":
            return masked_load(self.memory(access), self.ivs, address(0), self.mask)
        rows = self._rows(access, dim) if kind == "strided" else None
        if rows is not None:
            place = rows.place(address(0))
            if place is not None and rows.length < width:
                return rows.load(place, width, self.ivs, rows.start(address(0)))
        step = access.step(dim) if kind == "strided" and access.row(dim) is None else None
        return load(self.memory(access), kind, width, self.ivs, address, step)

    def _rows(self, access: Access, dim: int) -> ShortRows | None:
        """The short rows of memory across which vectors along `dim` lie, if they do."""
        first, memory = access.row(dim), self.memory(access)
        if first is None or access.coefficients(dim)[first] != 1 or memory != access.value:
            return None
        return ShortRows(memory, first)

    def _across(self, access: Access, points: list[Offsets], values: list[Any], width: int) -> bool:
        """Store the tile's vectors if they lie across short rows: side by side where they make whole ones. False if they lie along rows."""
        dim = self.nest.vector
        if width == 1 or self.lanes_reduce or access.kind(dim) != "strided":
            return False
        rows = self._rows(access, dim)
        made: dict[str, dict[int | None, tuple[Offsets, ir.Value]]] = {}
        for p, v in zip(points, values, strict=True):
            where = self.address(access, p)
            place = None if rows is None else rows.place(where)
            row = str(where if rows is None or place is None else rows.start(where))
            made.setdefault(row, {})[place] = p, as_vector(v, width)
        for found in made.values():
            whole = {place: v for place, (_, v) in found.items() if place is not None}
            if rows is not None and len(whole) == rows.length:
                rows.store(whole, self.ivs, rows.start(self.address(access, found[0][0])))
                continue
            for p, v in found.values():
                store_lanes(v, self.memory(access), self.ivs, [self.address(access, p, lane) for lane in range(width)])
        return True

    def _prefetch(self, access: Access, point: Offsets, width: int) -> None:
        """Ask for the lines of a vector that is loaded some rounds later, or of the neighbours that an intrinsic takes for each of its lanes; past
        the end of a loop, for what lies behind."""
        if width == 1 or self.mask is not None or not access.is_shaped:
            return
        apart = self.use.intrinsic.depth if self.use is not None and self.use.is_grouped(access, self.nest.vector) else 1
        if apart == 1 and access.kind(self.nest.vector) != "vector":
            return
        if any(place and access.kind(d) == "scalar" for d, place in self.fixed.items() if d in self.root.reduction_dims):
            return  # a round before this one, without a loop, has asked for the same
        for dim, ahead, locality in self._ahead(access):
            later = {**point, dim: point.get(dim, 0) + ahead}
            with self._early() if dim == self.nest.along else nullcontext():
                for lane in range(0, width, LINE * 8 // (apart * element_bits(access.element_type))):
                    emit.prefetch(self.memory(access), self.ivs, self.address(access, later, lane), locality)

    def _prefetch_lines(self, around: int, innermost: int, points: list[Offsets], width: int) -> None:
        """Where vectors are asked for, ask for what they are multiplied by, too: a line that lasts for the innermost summed loop, a round of the
        loop around it early. Hardware follows lines side by side, but the next line of each point is elsewhere."""
        nest = self.nest
        if not nest.prefetch or nest.along >= 0 or width == 1 or self.mask is not None:
            return
        for access in self.root.inputs:
            if not access.used or not access.is_shaped or (access.kind(nest.vector), access.kind(innermost)) != ("scalar", "vector"):
                continue
            if access.kind(around) == "scalar" or self.sizes[innermost] * element_bits(access.element_type) != LINE * 8:
                continue
            now, later = ({self.place(access, p): p for p in ({**p, around: i} for p in points)} for i in (0, 1))
            for text in [t for t in later if t not in now]:  # windows that overlap have the others in any case
                emit.prefetch(self.memory(access), self.ivs, self.address(access, later[text]), NEAR)

    @contextmanager
    def _early(self) -> Iterator[None]:
        """Inside, ops are for the first tiles alone, where only the run knows how many there are: what these have asked for is there for the others.

        With many rows a panel is read from the second cache again and again, and asking in each tile for what is there would take as much of it.
        """
        exprs = self.point_exprs({})
        early = [EARLY - 1 - exprs[d] for d in self.root.parallel_dims if d in self.root.open and self.nest.unroll[d] > 1]
        if not early:
            yield
            return
        tiles = ir.IntegerSet.get(len(self.ivs), 0, early, [False] * len(early))
        choice = affine.AffineIfOp(tiles, cond_operands=self.ivs)
        with ir.InsertionPoint(choice.then_block):
            yield
            affine.AffineYieldOp([])

    def _ahead(self, access: Access) -> list[tuple[int, int, int]]:
        """Along which dimensions vectors are asked for, how many iterations before they are loaded, and for which cache.

        The nest's own dimension, and those of fused loops. What is left over of a tile asks for nothing along an outer loop: it computes so little
        that it waits for memory in any case.
        """
        nest, found = self.nest, []
        if nest.prefetch and (nest.along < 0 or self.whole):
            inner = self.root.reduction_dims[-1] if self.use is None else self.use.innermost(self.root)
            dim = nest.along if nest.along >= 0 else inner
            found.append((dim, nest.prefetch * nest.step(dim), NEAR if nest.along < 0 else FAR))
        if access.value not in self.enclosing.shrunk:
            found += [(loop.dim, loop.prefetch * loop.step, NEAR) for loop in self.root.fused if loop.prefetch]
        return [ahead for ahead in found if access.kind(ahead[0]) != "scalar"]

    def _store(self, access: Access, v: ir.Value, point: Offsets, width: int) -> None:
        where = self.address(access, point)
        if width == 1 or self.lanes_reduce:
            emit.store(v, self.memory(access), self.ivs, where)
        elif self.mask is not None:
            masked_store(as_vector(v, width), self.memory(access), self.ivs, where, self.mask)
        else:
            emit.store(as_vector(v, width), self.memory(access), self.ivs, where)

    def _index(self, dim: int, point: Offsets, width: int) -> ir.Value:
        """The value of `linalg.index dim`: a scalar, or a vector of successive indices along the vector dimension."""
        expr = self.point_exprs(point)[dim]
        return index_value(expr, self.ivs, width if dim == self.nest.vector else 1)


class NestView:
    """An epilogue's accesses, seen through the root's loops: each of its dimensions is a result of the root's output map."""

    def __init__(self, nest: NestEmitter, op: Structured, across: list[Any], point: Offsets, width: int) -> None:
        self.nest, self.op, self.across, self.point, self.width = nest, op, across, point, width
        self.vector = next((d for d, e in enumerate(across) if isinstance(e, ir.AffineDimExpr) and e.position == nest.nest.vector), -1)

    def load(self, access: Access) -> ir.Value:
        return self.nest.load_along(access, self.vector, self.width, lambda lane: self.nest.address(access, self.point, lane, self.across))

    def index(self, dim: int) -> ir.Value:
        inner = ir.AffineMap.get(len(self.nest.ivs), 0, self.nest.point_exprs(self.point))
        return index_value(self.across[dim].compose(inner), self.nest.ivs, self.width if dim == self.vector else 1)
