"""Emission of one scheduled loop nest: affine loops outside, a register tile of `vector` ops inside."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from stepwell.dialects.attributes import dense_value
from stepwell.dialects.errors import PassError
from stepwell.dialects.mlir import affine, arith, defining_op, ir, vector
from stepwell.passes.linalg.intrinsics import Use
from stepwell.passes.linalg.schedules import Nest
from stepwell.passes.linalg.segments import Segment, segments, vector_segments
from stepwell.passes.linalg.structured import COMBINERS, Access, Structured, element_bits
from stepwell.passes.linalg_to_affine.blocks import along, emit_block, neighbours
from stepwell.passes.linalg_to_affine.scalar_body import as_vector, emit_body

LINE = 64  # bytes that a cache fetches at a time
NEAR = 3  # the locality of a prefetch into the first cache
FEW_NUMBERS = 64  # of a constant operand whose elements are written into the code
Offsets = dict[int, int]  # position inside the register tile, by dimension


@dataclass(frozen=True)
class Shrunk:
    """A memref that holds a slice of a buffer: along `places`, results of the accesses' maps, only what is used in a round of shared loops."""

    value: ir.Value
    places: frozenset[int]


@dataclass(frozen=True)
class Enclosing:
    """The shared loops around a nest: their rounds, the place among these of each dimension that they walk, and the buffers that are slices."""

    ivs: Sequence[ir.Value]
    places: Mapping[int, int]
    shrunk: Mapping[ir.Value, Shrunk]


ALONE = Enclosing((), {}, {})


class NestEmitter:
    """Emits the loops of a chain of structured ops over one output: an optional fill, a root, and element-wise epilogues.

    The root's accumulators live in registers from the fill's value to the epilogues' result, and are stored once.
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
        fma: bool = False,
    ) -> None:
        """`use` is how the intrinsic that the nest names computes the root."""
        self.fma = fma
        self.root, self.nest, self.initial, self.epilogues, self.enclosing = root, nest, initial, epilogues, enclosing
        self.sizes = root.sizes
        self.extents = list(root.sizes)  # of each dimension, what the loops still have to walk: its size, or that of the block they are in
        self.ivs: list[ir.Value] = list(enclosing.ivs)
        self.where: dict[int, list[int]] = {}  # dimension -> the places in ivs whose sum it is: of the loop over its blocks, and of that in one
        self.fixed: dict[int, int] = {}  # dimension -> what is added to them: all of it where no loop is needed
        self.begins = self.ends = True  # whether the summed loops to come start the sums, and finish them: not so in every block of a sum
        self.lanes_reduce = nest.vector in root.reduction_dims
        self.known = {n: array for n, a in enumerate(root.inputs) if (array := known_array(a)) is not None}
        self.written_out = {d for n in self.known for d in root.reduction_dims if root.inputs[n].kind(d) != "scalar"} - {nest.vector}
        self.use = use if not self.known else None  # numbers that are written into the code need no vectors of them

    # -- loops around the register tile -------------------------------------------------------------------------------------

    def emit(self) -> None:
        """Emit the whole nest at the current insertion point.

        From outside: the threaded loops, over blocks where their dimensions have them; loops over blocks of the other dimensions, and of
        what is summed; then all loops that are left.
        """
        nest, blocks = self.nest, self.nest.blocks
        threaded, serial = nest.order[: nest.parallel], nest.order[nest.parallel :]
        outer = [(d, True) for d in serial if blocks.get(d)] + [(d, True) for d in self.root.reduction_dims if blocks.get(d)]
        inner = [(d, False) for d in nest.order if d in serial or blocks.get(d)]
        self._parallel([(d, bool(blocks.get(d))) for d in threaded], [*outer, *inner])

    def _cut(self, dim: int, *, into_blocks: bool) -> list[Segment]:
        if into_blocks:
            return segments(self.extents[dim], self.nest.blocks[dim])
        if dim == self.nest.vector:
            return vector_segments(self.extents[dim], self.nest.width)
        return segments(self.extents[dim], self.nest.unroll[dim])

    def _parallel(self, threaded: list[tuple[int, bool]], serial: list[tuple[int, bool]]) -> None:
        """Loops for the threaded dimensions: one affine.parallel for each combination of their segments."""

        def combine(rest: list[tuple[int, bool]], chosen: list[Segment]) -> None:
            if rest:
                for segment in self._cut(rest[0][0], into_blocks=rest[0][1]):
                    combine(rest[1:], [*chosen, segment])
                return
            dims = [(d, into_blocks, s) for (d, into_blocks), s in zip(threaded, chosen, strict=True)]
            whole = [(d, s) for d, into_blocks, s in dims if not into_blocks]
            steps = {d: s.step for d, s in whole if d != self.nest.vector}
            lanes = next((s.step for d, s in whole if d == self.nest.vector), 1)
            before = list(self.extents)
            for d, _, s in dims:
                self.extents[d] = s.step
            looping = [(d, s) for d, _, s in dims if s.rounds > 1]
            for d, _, s in dims:
                if s.rounds == 1:
                    self._fix(d, s.low)
            if looping:
                loop = parallel_loop([s for _, s in looping])
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
            for d, _, s in dims:
                if s.rounds == 1:
                    self._fix(d, -s.low)
            self.extents = before

        combine(threaded, [])

    def _serial(self, loops: list[tuple[int, bool]], tile: Offsets, width: int) -> None:
        """The loops over these dimensions, or over their blocks, and the tile inside."""
        if not loops:
            self._tile({d: t for d, t in tile.items() if t > 1}, width)
            return
        (dim, into_blocks), *rest = loops
        if into_blocks and dim in self.root.reduction_dims:
            self._sum_in_blocks(dim, rest, tile, width)
            return
        for segment in self._cut(dim, into_blocks=into_blocks):
            with_width = segment.step if dim == self.nest.vector and not into_blocks else width
            inner = tile if into_blocks or dim == self.nest.vector else {**tile, dim: segment.step}
            self._in_loop(dim, segment, rest, inner, with_width)

    def _in_loop(self, dim: int, segment: Segment, rest: list[tuple[int, bool]], tile: Offsets, width: int) -> None:
        """A loop over `segment`, in whose rounds that much of `dim` is left to walk."""
        before, self.extents[dim] = self.extents[dim], segment.step

        def body(carried: list[Any]) -> list[Any]:
            self._serial(rest, tile, width)
            return carried

        self._loop(dim, segment, [], body)
        self.extents[dim] = before

    def _sum_in_blocks(self, dim: int, rest: list[tuple[int, bool]], tile: Offsets, width: int) -> None:
        """A loop over blocks of a sum: the first starts it, the last finishes it, and between them it lies in memory."""
        begins, ends, block = self.begins, self.ends, self.nest.blocks[dim]
        last = (self.extents[dim] - 1) // block * block
        cut = [Segment(0, min(block, self.extents[dim]), min(block, self.extents[dim]))]
        cut += [Segment(block, last, block)] if last > block else []
        cut += [Segment(last, self.extents[dim], self.extents[dim] - last)] if last else []
        for place, segment in enumerate(cut):
            self.begins, self.ends = begins and place == 0, ends and place == len(cut) - 1
            self._in_loop(dim, segment, rest, tile, width)
        self.begins, self.ends = begins, ends

    def _loop(self, dim: int, segment: Segment, carried: list[Any], body: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """One loop over `segment`, or its body alone where there is a single round."""
        if segment.rounds == 1:
            self._fix(dim, segment.low)
            results = body(carried)
            self._fix(dim, -segment.low)
            return results
        loop = affine.AffineForOp(segment.low, segment.high, segment.step, iter_args=carried)
        with ir.InsertionPoint(loop.body):
            self._enter(dim, loop.induction_variable)
            affine.AffineYieldOp(body(list(loop.inner_iter_args)))
            self._leave(dim)
        return list(loop.results)

    def _enter(self, dim: int, iv: ir.Value) -> None:
        self.where.setdefault(dim, []).append(len(self.ivs))
        self.ivs.append(iv)

    def _leave(self, dim: int) -> None:
        self.where[dim].pop()
        self.ivs.pop()

    def _fix(self, dim: int, value: int) -> None:
        self.fixed[dim] = self.fixed.get(dim, 0) + value

    # -- the register tile --------------------------------------------------------------------------------------------------

    def _tile(self, tile: Offsets, width: int) -> None:
        points: list[Offsets] = [{}]
        for dim, count in tile.items():
            points = [{**p, dim: k} for p in points for k in range(count)]
        flat: list[Any] = [self._start(out, p, width) for p in points for out in self.root.outputs]
        if self.lanes_reduce:
            flat = self._reduce_in_lanes(points, flat)
        else:
            use = self.use if self.use is not None and width % self.use.intrinsic.lanes == 0 else None
            flat = self._reduce(self.root.reduction_dims, points, flat, width, use=use)
        count = len(self.root.outputs)
        groups = [flat[i * count : (i + 1) * count] for i in range(len(points))]
        for epilogue in self.epilogues if self.ends else ():
            groups = [self._epilogue(epilogue, p, g, width) for p, g in zip(points, groups, strict=True)]
        for p, group in zip(points, groups, strict=True):
            for out, v in zip(self.root.outputs, group, strict=True):
                self._store(out, v, p, width)

    def _start(self, out: Access, point: Offsets, width: int) -> ir.Value | None:
        if not self.begins:
            return self._load(out, point, width)
        if not out.used:
            # The body ignores what was there: nothing to load, but loops carry a value, so give them zero.
            return as_vector(constant_of(out.element_type, 0), self._lanes(out, width)) if self.root.reduction_dims else None
        if self.initial is not None:
            return as_vector(self.initial, self._lanes(out, width))
        return self._load(out, point, width)

    def _lanes(self, access: Access, width: int) -> int:
        return 1 if self.lanes_reduce else width

    def _reduce(
        self, dims: list[int], points: list[Offsets], acc: list[Any], width: int, only: dict[int, Segment] | None = None, use: Use | None = None
    ) -> list[Any]:
        """The loops over `dims` around the sums `acc`, inside of which `use` computes, or the body."""
        if not dims:
            return self._step(points, acc, width) if use is None else self._blocks(use, points, acc, width)
        dim, *rest = dims
        if dim in self.written_out:
            for value in range(self.sizes[dim]):
                self.fixed[dim] = value
                acc = self._reduce(rest, points, acc, width, only)
            del self.fixed[dim]
            return acc
        segments = [((only or {}).get(dim, Segment(0, self.extents[dim], 1)), use)]
        if use is not None and not self.lanes_reduce and dim == use.summed:
            # Whole blocks, then what is left over by the body.
            depth = use.intrinsic.depth
            whole = self.extents[dim] // depth * depth
            segments = [(Segment(0, whole, depth), use), *([(Segment(whole, self.extents[dim], 1), None)] if whole < self.extents[dim] else [])]
        for segment, inside in segments:

            def body(inner: list[Any], inside: Use | None = inside) -> list[Any]:
                return self._reduce(rest, points, inner, width, only, inside)

            acc = self._loop(dim, segment, acc, body)
        return acc

    def _reduce_in_lanes(self, points: list[Offsets], acc: list[Any]) -> list[Any]:
        """Vectors along a reduction: lanes start neutral, are folded together at the end, and what is left over goes one by one."""
        combiner = self.root.combiner
        if combiner is None:
            raise PassError(f"'{self.root.operation.name}' at {self.root.operation.location} is not a fold that lanes could share")
        element = self.root.outputs[0].element_type
        for segment in vector_segments(self.sizes[self.nest.vector], self.nest.width):
            only, width = {self.nest.vector: segment}, segment.step
            if width == 1:
                acc = self._reduce(self.root.reduction_dims, points, acc, 1, only)
                continue
            use = self.use if self.use is not None and width % (self.use.intrinsic.lanes * self.use.intrinsic.depth) == 0 else None
            lanes = [as_vector(neutral(combiner, element), width if use is None else width // use.intrinsic.depth) for _ in acc]
            lanes = self._reduce(self.root.reduction_dims, points, lanes, width, only, use)
            kind = ir.Attribute.parse(f"#vector.kind<{COMBINERS[combiner]}>")
            order = arith.FastMathFlags.reassoc if isinstance(element, ir.FloatType) else arith.FastMathFlags.none  # by halves, not one by one
            folded = [vector.ReductionOp(element, kind, v, fastmath=order).result for v in lanes]
            acc = [combine(combiner, a, f) for a, f in zip(acc, folded, strict=True)]
        return acc

    def _step(self, points: list[Offsets], acc: list[Any], width: int) -> list[Any]:
        count = len(self.root.outputs)
        loaded: dict[tuple[int, str], ir.Value] = {}  # one load for each distinct address of the tile
        results: list[Any] = []
        for i, point in enumerate(points):
            inputs: list[ir.Value | None] = []
            numbers = {n: number for n in self.known if (number := self._number(n, point)) is not None}
            if self.root.kind == "contraction" and any(number == 0 for number in numbers.values()):
                results += acc[i * count : (i + 1) * count]  # a matrix's zero stands for no term at all, not for 0 * infinity
                continue
            for n, access in enumerate(self.root.inputs):
                if not access.used:
                    inputs.append(None)
                    continue
                if n in numbers:
                    inputs.append(constant_of(access.element_type, numbers[n]))
                    continue
                key = (n, str(self.address(access, point)) if access.is_shaped else "")
                if key not in loaded:
                    loaded[key] = self._load(access, point, width)
                    self._prefetch(access, point, width)
                inputs.append(loaded[key])
            index = partial(self._index, point=point, width=width)
            results += emit_body(self.root, [*inputs, *acc[i * count : (i + 1) * count]], width, index, fma=self.fma)
        return results

    def _blocks(self, use: Use, points: list[Offsets], acc: list[Any], width: int) -> list[Any]:
        """As `_step`, by an intrinsic, which takes in several iterations at once."""
        operands: dict[tuple[int, str], list[ir.Value]] = {}
        results: list[Any] = []
        for point, total in zip(points, acc, strict=True):
            keys = [(side, str(self.address(self.root.inputs[index], point))) for side, index in enumerate(use.sides)]
            for key in keys:
                if key not in operands:
                    operands[key] = self._operand(use, key[0], point, width)
            results.append(emit_block(use, total, [operands[key] for key in keys]))
        return results

    def _operand(self, use: Use, side: int, point: Offsets, width: int) -> list[ir.Value]:
        access, depth = self.root.inputs[use.sides[side]], use.intrinsic.depth
        if self.lanes_reduce:
            return along(use, side, self._load(access, point, width), width)
        if access.kind(self.nest.vector) == "scalar" and access.kind(use.summed) == "vector":
            return neighbours(use, side, [load(self.memory(access), "vector", depth, self.ivs, lambda _: self.address(access, point))])
        return neighbours(use, side, [self._load(access, {**point, use.summed: i}, width) for i in range(depth)])

    def _number(self, n: int, point: Offsets) -> float | None:
        """What input `n`, a known array, holds at `point`, if that is one element in every round of the loops."""
        place = list(self.address(self.root.inputs[n], point).results)
        if not all(isinstance(r, ir.AffineConstantExpr) for r in place):
            return None
        number: float = self.known[n][tuple(r.value for r in place)].item()
        return number

    def _epilogue(self, epilogue: Structured, point: Offsets, group: list[Any], width: int) -> list[Any]:
        """Apply an element-wise op to the tile; its dimensions are the results of the root's output map."""
        lanes = 1 if self.lanes_reduce else width
        across = [self.root.outputs[0].map.results[d] for d in range(len(epilogue.iterators))]
        inner = NestView(self, epilogue, across, point, lanes)
        inputs = [inner.load(a) if a.used else None for a in epilogue.inputs]
        return emit_body(epilogue, [*inputs, *group], lanes, inner.index, fma=self.fma)

    # -- addresses ----------------------------------------------------------------------------------------------------------

    def point_exprs(self, point: Offsets, lane: int = 0, *, own: bool = False) -> list[Any]:
        """For each dimension, the affine expression of the loop variables that gives its value at `point` of the tile.

        With `own`, its value within the round of the shared loops.
        """
        exprs: list[Any] = []
        for d in range(len(self.sizes)):
            offset = point.get(d, 0) + (lane if d == self.nest.vector else 0)
            expr: Any = ir.AffineConstantExpr.get(self.fixed.get(d, 0) + offset)
            for place in reversed(self.where.get(d, [])):
                expr = ir.AffineExpr.get_add(ir.AffineDimExpr.get(place), expr)
            if d in self.enclosing.places and not own:
                expr = ir.AffineExpr.get_add(ir.AffineDimExpr.get(self.enclosing.places[d]) * self.sizes[d], expr)
            exprs.append(expr)
        return exprs

    def address(self, access: Access, point: Offsets, lane: int = 0, across: Sequence[Any] | None = None) -> Any:
        """Where an access goes at `point`; `across` gives an epilogue's dimensions as expressions of the root's."""
        count = len(self.ivs)
        shrunk = self.enclosing.shrunk.get(access.value)

        def within(own: bool) -> Any:
            inner = ir.AffineMap.get(count, 0, self.point_exprs(point, lane, own=own))
            return inner if across is None else ir.AffineMap.get(count, 0, [e.compose(inner) for e in across])

        places = shrunk.places if shrunk else frozenset()
        whole, own = within(False), within(True) if places else None
        return ir.AffineMap.get(count, 0, [r.compose(own if i in places else whole) for i, r in enumerate(access.map.results)])

    def memory(self, access: Access) -> ir.Value:
        """The memref that an access goes to."""
        shrunk = self.enclosing.shrunk.get(access.value)
        return shrunk.value if shrunk else access.value

    def _load(self, access: Access, point: Offsets, width: int) -> ir.Value:
        if not access.is_shaped:
            return access.value
        kind = access.kind(self.nest.vector) if self.nest.vector >= 0 and width > 1 else "scalar"
        return load(self.memory(access), kind, width, self.ivs, lambda lane: self.address(access, point, lane))

    def _prefetch(self, access: Access, point: Offsets, width: int) -> None:
        """Ask for the lines of a vector that the innermost summed loop loads some rounds later; past its end, for what lies behind."""
        ahead, summed = self.nest.prefetch, self.root.reduction_dims
        if not ahead or width == 1 or not access.is_shaped or access.kind(self.nest.vector) != "vector" or access.kind(summed[-1]) == "scalar":
            return
        later = {**point, summed[-1]: point.get(summed[-1], 0) + ahead}
        for lane in range(0, width, LINE * 8 // element_bits(access.element_type)):
            where = ir.AffineMapAttr.get(self.address(access, later, lane))
            affine.AffinePrefetchOp(self.memory(access), self.ivs, False, NEAR, True, where)

    def _store(self, access: Access, v: ir.Value, point: Offsets, width: int) -> None:
        where = ir.AffineMapAttr.get(self.address(access, point))
        if width == 1 or self.lanes_reduce:
            affine.AffineStoreOp(v, self.memory(access), self.ivs, where)
        else:
            affine.AffineVectorStoreOp(as_vector(v, width), self.memory(access), self.ivs, where)

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
        if not access.is_shaped:
            return access.value
        kind = access.kind(self.vector) if self.vector >= 0 and self.width > 1 else "scalar"
        nest = self.nest
        return load(nest.memory(access), kind, self.width, nest.ivs, lambda lane: nest.address(access, self.point, lane, self.across))

    def index(self, dim: int) -> ir.Value:
        inner = ir.AffineMap.get(len(self.nest.ivs), 0, self.nest.point_exprs(self.point))
        return index_value(self.across[dim].compose(inner), self.nest.ivs, self.width if dim == self.vector else 1)


def load(source: ir.Value, kind: str, width: int, ivs: list[ir.Value], address: Callable[[int], Any]) -> ir.Value:
    """Load from a memref: a scalar, a vector of successive elements, or a vector put together from single ones."""
    element = ir.MemRefType(source.type).element_type
    if kind == "scalar":
        return affine.AffineLoadOp(element, source, ivs, ir.AffineMapAttr.get(address(0))).result
    vector_type = ir.VectorType.get([width], element)
    if kind == "vector" and str(element) != "i1":  # a vector of i1 is bits, booleans in memory are bytes
        return affine.AffineVectorLoadOp(vector_type, source, ivs, ir.AffineMapAttr.get(address(0))).result
    lanes = [affine.AffineLoadOp(element, source, ivs, ir.AffineMapAttr.get(address(lane))).result for lane in range(width)]
    return vector.FromElementsOp(vector_type, lanes).result


def index_value(expr: Any, ivs: list[ir.Value], width: int) -> ir.Value:
    """An affine expression of the loop variables as an index, or as `width` successive ones."""
    scalar = affine.AffineApplyOp(ir.AffineMapAttr.get(ir.AffineMap.get(len(ivs), 0, [expr])), ivs).result
    if width == 1:
        return scalar
    vector_type = ir.VectorType.get([width], ir.IndexType.get())
    return arith.addi(vector.broadcast(vector_type, scalar), vector.StepOp(vector_type).result)


def parallel_loop(cut: Sequence[Segment]) -> Any:
    """An affine.parallel over the segments, its body block still empty."""
    index = ir.IndexType.get()
    i32 = ir.IntegerType.get_signless(32)
    constants = [ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(getattr(s, bound)) for s in cut]) for bound in ("low", "high")]
    groups = ir.DenseIntElementsAttr.get([ir.IntegerAttr.get(i32, 1)] * len(cut), ir.RankedTensorType.get([len(cut)], i32))
    steps = ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(64), s.step) for s in cut])
    low, high = (ir.AffineMapAttr.get(m) for m in constants)
    loop = affine.AffineParallelOp([], ir.ArrayAttr.get([]), low, groups, high, groups, steps, [])
    loop.regions[0].blocks.append(*[index] * len(cut))
    return loop


def known_array(access: Access) -> np.ndarray | None:
    """The few numbers that an operand is known to hold: it is a constant of the module."""
    source = defining_op(access.value) if access.is_shaped else None
    if source is None or source.name != "memref.get_global" or math.prod(access.shape) > FEW_NUMBERS:
        return None
    module = source
    while module.parent is not None:
        module = module.parent.operation
    found = ir.SymbolTable(module)[ir.FlatSymbolRefAttr(source.attributes["name"]).value]
    return dense_value(ir.DenseElementsAttr(found.attributes["initial_value"]))


def constant_of(element: ir.Type, value: float) -> ir.Value:
    """A scalar constant of type `element`."""
    attribute = ir.FloatAttr.get(element, float(value)) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, int(value))
    return arith.ConstantOp(element, attribute).result


def neutral(combiner: str, element: ir.Type) -> ir.Value:
    """The neutral element of a combiner: folding it in changes nothing."""
    width = 64 if isinstance(element, ir.FloatType) else ir.IntegerType(element).width
    values: dict[str, float] = {
        "arith.addf": 0.0, "arith.addi": 0, "arith.mulf": 1.0, "arith.muli": 1, "arith.maximumf": float("-inf"), "arith.minimumf": float("inf"),
        "arith.maxsi": -(1 << (width - 1)), "arith.minsi": (1 << (width - 1)) - 1, "arith.maxui": 0, "arith.minui": -1, "arith.andi": -1,
        "arith.ori": 0, "arith.xori": 0,
    }  # fmt: skip
    return constant_of(element, values[combiner])


def combine(combiner: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Fold two scalars with the combining op of that name."""
    return ir.Operation.create(combiner, results=[a.type], operands=[a, b]).results[0]
