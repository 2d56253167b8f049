"""An analytical cost model of a loop nest, to compare schedules: cycles of arithmetic, loads, cache traffic and threads.

A register tile of `t` points by `v` vector registers takes, each round of the summed loops, the largest of: its arithmetic over the
arithmetic started in a cycle, its distinct loads over the loads started in a cycle, and the latency of what folds into one accumulator.
Out-of-order cores overlap short tiles, which hides some or all of this latency. The remainder at the end of a
dimension is a smaller tile with a cost of its own. A tile that does not fit the registers is
refused, not costed: spilled accumulators cost three times more than anything else that could be wrong.

For each cache the model finds the outermost loop such that all data read and written inside it fit. These data are fetched again for every
round of the loops outside that reaches other data; overlapping windows are fetched once (Wolf and Lam,
"A Data Locality Optimizing Algorithm", 1991). Transfers overlap with arithmetic, so a nest takes as long as the slowest of them; a tenth of
the others' time is added for what does not overlap, which also ranks nests that are bound by their arithmetic.

The constants are rough on purpose: they fit any core of the last ten years; the target says how wide and how deep it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, prod

from stepwell.dialects.core.sizes import known_sizes
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target import llvm_habits as habits
from stepwell.dialects.target.costs import COMMON
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.numbers import LINE
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.factors import WIDENS
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.intrinsics import Use, available
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.segments import vector_segments

FILL = 0.8
"""The part of a cache that the data of one nest may fill; the rest is for what runs beside it."""
TILE_START = 8.0
"""Cycles to begin and end a register tile, beside its stores."""
LOOP_START = 3.0
"""Cycles to begin one loop over a reduction dimension inside a register tile."""
FOLD = 1.0
"""Cycles to add the upper half of one accumulator's lanes to the lower half."""
SLOW = {"arith.divf": 5, "arith.divsi": 20, "arith.divui": 20, "arith.remsi": 20, "arith.remui": 20, "arith.remf": 20, "math.sqrt": 6, "math.absf": 1}
EXPANDED = 16
"""Instructions that a function of the math dialect takes on a vector, on average (see docs/vector-math.md)."""

Steps = dict[int, int]  # iterations of each dimension in one step of a nest


@dataclass(frozen=True)
class Cost:
    """What a nest takes, in cycles of one core."""

    compute: float
    """Arithmetic and loads from the first cache."""
    traffic: tuple[float, float, float]
    """Transfers into each cache."""
    threads: float = 1.0
    """How much longer the busiest thread works than the average; 1 for one thread."""
    start: float = 0.0
    """Starting threads."""
    exposed: float = COMMON.exposed
    """The part of a transfer that nothing hides."""

    @property
    def cycles(self) -> float:
        parts = (self.compute, *self.traffic)
        return ((1 - self.exposed) * max(parts) + self.exposed * sum(parts)) * self.threads + self.start


class CostModel:
    """Costs of schedules for one op on one target, by numbers that are read from the IR once."""

    def __init__(self, op: Structured, target: Target) -> None:
        self.op, self.target = op, target
        self.sizes = op.sizes
        self.reductions = op.reduction_dims
        widened = widenings(op)
        self.inputs = [_Reach(a, len(self.sizes), widened.count(n)) for n, a in enumerate(op.inputs) if a.used and a.is_shaped]
        self.outputs = [_Reach(a, len(self.sizes)) for a in op.outputs]
        self.vector_bytes = target.vector_bits // 8
        self.uses = available(op, target)
        self.arithmetic = body_cost(op, target.fma)
        self.bytes = max(a.bytes for a in (*self.inputs, *self.outputs))
        self.capacities = [c * FILL for c in target.caches.per_core]

    def cost(self, nest: Nest, limit: float = inf) -> Cost:
        """What `nest` costs; infinite if its tile does not fit the registers. Where it is above `limit`, traffic may be left out."""
        compute = self.compute(nest) if self.fits(nest) else inf
        threads, start = self.imbalance(nest)
        known = Cost(compute, (0.0, 0.0, 0.0), threads, start, self.target.costs.exposed)
        return known if known.cycles >= limit or compute == inf else replace(known, traffic=self.traffic(nest))

    @cached_property
    def least(self) -> float:
        """A lower bound of any nest's cost: its arithmetic in full vectors, and a load for each point of the operands that move along every loop."""
        vectors = prod(self.sizes) * self.bytes / self.vector_bytes
        everywhere = [a for a in self.inputs if all(d in a.moving for d in self.op.parallel_dims if self.sizes[d] > 1)]
        loads = sum(vectors * a.bytes / self.bytes for a in everywhere)
        if self.uses:
            return 0.0  # nobody has said what these can do at best
        return max(vectors * self.arithmetic / self.target.pipes.fmas, loads / self.target.pipes.loads)

    # -- registers and arithmetic -------------------------------------------------------------------------------------------

    def registers(self, nest: Nest) -> int:
        """Vector registers that a tile occupies: its accumulators, the vectors that it multiplies, and one for broadcasts.

        Without a sum nothing is kept: each point is stored before the next. If each point has vectors of its own,
        they pass one by one through a few registers.
        """
        tile = self.tile_steps(nest)
        in_lanes = nest.intrinsic in self.uses and nest.vector in self.reductions
        width = nest.width // self.uses[nest.intrinsic].intrinsic.depth if in_lanes else nest.width
        vectors, points = self.vectors(width, self.bytes), prod(tile.values())
        if not self.reductions or nest.vector < 0:
            return vectors
        moving = [self.loads(a, tile) for a in self.inputs if a.kinds[nest.vector] != "scalar"]
        still = any(a.kinds[nest.vector] == "scalar" for a in self.inputs)
        reused = sum(n for n in moving if n < points)
        return points * len(self.outputs) * vectors + max(min(vectors, habits.LOADS_AHEAD), reused * vectors) + still

    @staticmethod
    def tile_steps(nest: Nest) -> Steps:
        """The dimensions of which a register tile holds several iterations, and how many."""
        return {d: nest.unroll[d] for d in nest.order if d != nest.vector and nest.unroll[d] > 1}

    def fits(self, nest: Nest) -> bool:
        """Whether the register tile of `nest` fits the registers."""
        return self.registers(nest) <= self.target.vector_registers

    def vectors(self, width: int, size: int) -> int:
        """Registers of a vector of `width` elements of `size` bytes."""
        return max(1, -(-width * size // self.vector_bytes))

    @staticmethod
    def loads(access: "_Reach", tile: Steps) -> int:
        """Distinct addresses that a tile reads through an access."""
        count = 1
        for dim, step in tile.items():
            if dim in access.moving:
                count *= step
        return count

    def loaded(self, access: "_Reach", tile: Steps, width: int, vector: int) -> float:
        """Loads through an access for a tile in a round of the summed loops, on average.

        Vectors of windows that move by single elements mostly lie across two lines of a cache, and take two loads. Where the windows of a tile
        overlap from round to round of the innermost summed loop, and LLVM writes that out, a vector is kept for all windows that it is in, if
        there is room for it.
        """
        count = self.loads(access, tile) * self.load(access, width, vector)
        if vector < 0 or vector in self.reductions or not any(access.moves_alike(vector, d) for d in self.reductions):
            return count
        count *= 1 + min(1.0, width * access.bytes / LINE)
        inner = next((d for d in reversed(self.reductions) if self.sizes[d] > 1), vector)
        along = next((d for d in tile if access.moves_alike(d, inner)), None)
        kept = (prod(tile.values()) * len(self.outputs) + self.loads(access, tile)) * self.vectors(width, self.bytes) + 2
        if along is None or self.sizes[inner] > habits.WRITTEN_OUT or kept > self.target.vector_registers:
            return count
        return count / tile[along] * (tile[along] + self.sizes[inner] - 1) / self.sizes[inner]

    def compute(self, nest: Nest) -> float:
        """Cycles of arithmetic and loads over the whole iteration space."""
        full = self.tile_steps(nest)
        pieces = prod(-(-self.sizes[d] // nest.blocks[d]) for d in self.reductions if d in nest.blocks)
        summed = -(-prod(self.sizes[d] for d in self.reductions if d != nest.vector) // pieces)
        inside = len([d for d in self.reductions if self.sizes[d] > 1])
        total = 0.0
        for count, tile, width in self._tiles(nest, full):
            use = self.uses.get(nest.intrinsic)
            fits = use is not None and width % (use.intrinsic.lanes * (use.intrinsic.depth if nest.vector in self.reductions else 1)) == 0
            once = self.tile(tile, width, nest.vector, summed, inside, use if fits else None)
            again = prod(tile.values()) * self.vectors(width, self.bytes) / self.target.pipes.loads if pieces > 1 else 0.0  # sums so far
            total += count * pieces * (once + again)
        accumulators = prod(full.values()) * self.vectors(nest.width, self.bytes)
        tiled = nest.intrinsic in self.uses and self.uses[nest.intrinsic].intrinsic.tile is not None  # in registers of its own
        if not tiled and self.reductions and nest.vector >= 0:
            kept, use = self.vectors(nest.width, self.bytes), self.uses.get(nest.intrinsic)
            if accumulators > room(self.op, nest.vector, self.target.vector_registers, use, kept):
                total *= habits.CROWDED_COST
        return total

    def _tiles(self, nest: Nest, full: Steps) -> Iterator[tuple[int, Steps, int]]:
        """The different tiles of a nest: how many there are of each, their steps, and the width of their vectors."""
        rest = prod(self.sizes[d] for d in nest.order if d not in full and d != nest.vector)
        combined: list[tuple[int, Steps]] = [(rest, {})]
        for dim, step in full.items():
            whole, left = divmod(self.sizes[dim], step)
            parts = [(whole, step)] * (whole > 0) + [(1, left)] * (left > 0)
            combined = [(count * n, {**tile, dim: s}) for count, tile in combined for n, s in parts]
        if nest.vector < 0 or nest.vector in self.reductions:
            yield from ((count, tile, nest.width if nest.vector >= 0 else 1) for count, tile in combined)
            return
        for rounds, width in widths(self.sizes[nest.vector], nest.width):
            yield from ((count * rounds, tile, width) for count, tile in combined)

    def tile(self, tile: Steps, width: int, vector: int, summed: int, inside: int, use: Use | None = None) -> float:
        """Cycles of one register tile, over all of the summed loops and with its stores."""
        points, pipes = prod(tile.values()), self.target.pipes
        in_lanes = vector in self.reductions
        stores = points * sum(1 if in_lanes else self.vectors(width, out.bytes) for out in self.outputs)
        parts = widths(self.sizes[vector], width) if in_lanes else [(1, width)]
        instructions, work, waiting, folds = float(stores), 0.0, 0.0, 0.0
        for rounds, w in parts:
            vectors, times = self.vectors(w, self.bytes), rounds * summed
            if use is None:
                loads = sum(self.loaded(a, tile, w, vector) for a in self.inputs)
                widened = sum(self.loads(a, tile) * a.widening * (1 if a.kinds[vector] == "scalar" else vectors) for a in self.inputs)
                arithmetic = points * vectors * self.arithmetic + widened
            else:
                loads, arithmetic = self.block(use, tile, w, vector)
                times = times if in_lanes else -(-times // use.intrinsic.depth)
            instructions += (arithmetic + loads) * times
            work += max(arithmetic / pipes.fmas, loads / pipes.loads) * times
            waiting += max(arithmetic / pipes.fmas, loads / pipes.loads, pipes.latency if self.reductions else 0.0) * times
            lanes = w if use is None else w // use.intrinsic.depth
            folds += points * FOLD * (lanes.bit_length() - 1) if in_lanes else 0.0
        # The part of the latency that no other tile hides: none if the summed loops are unrolled and interleaved with the next tile's.
        alone = min(1.0, instructions / self.target.costs.window) if summed * sum(r for r, _ in parts) > habits.UNROLLED else 0.0
        return work + stores + folds + (waiting - work + TILE_START + LOOP_START * inside) * alone

    def block(self, use: Use, tile: Steps, width: int, vector: int) -> tuple[float, float]:
        """Loads and instructions of a tile's blocks: calls, and what brings the operands into the order that these want."""
        chosen, in_lanes = use.intrinsic, vector in self.reductions
        calls = width // chosen.lanes // (chosen.depth if in_lanes else 1)
        if chosen.tile is not None:  # a register holds rows, each of which would else be loaded, and takes several steps at once
            registers = prod(-(-step // chosen.tile.rows) if d == use.rows else step for d, step in tile.items())
            return registers * (1 + calls) / chosen.tile.steps, registers * calls * chosen.instructions / chosen.tile.steps
        loads, arithmetic = 0.0, prod(tile.values()) * calls * chosen.instructions
        for a in self.inputs:
            count, moving = self.loads(a, tile), a.kinds[vector] != "scalar"
            if not in_lanes and use.is_grouped(a.access, vector):
                loads += count * calls
                continue
            together = in_lanes or (not moving and a.kinds[use.summed] == "vector")
            each = 1 if together else chosen.depth
            loads += count * each * (calls if in_lanes else self.load(a, width, vector))
            broadcast = 0 if together and use.is_as_wide(a.access, self.op) else 2  # a load can do it
            arithmetic += count * (calls * (1 if in_lanes else chosen.depth) if moving else broadcast)
        return loads, arithmetic

    def load(self, access: "_Reach", width: int, vector: int) -> float:
        """Loads that it takes to have `width` elements along the vector dimension."""
        kind = access.kinds[vector] if vector >= 0 and width > 1 else "scalar"
        if kind == "scalar":
            return 1.0
        if kind == "vector":
            return self.vectors(width, access.bytes)
        apart = access.close.get(vector, width)
        return 2.0 * width if apart >= width else self.vectors(width, access.bytes) * (2.0 * apart - 1)  # loaded and put in their places

    def loops(self, nest: Nest) -> list[tuple[int, int, int]]:
        """The loops of a nest of more than one round, outermost first: dimension, how much of it one round of what is around reaches, rounds."""
        blocks, threaded, summed = nest.blocks, nest.order[: nest.parallel], self.reductions
        outside = [*threaded, *(d for d in (*nest.order, *summed) if d in blocks and d not in threaded)]
        out = [(d, self.sizes[d], -(-self.sizes[d] // blocks.get(d, nest.step(d)))) for d in outside]
        for d in (*nest.order, *summed):
            if d not in outside or d in blocks:
                upto = min(self.sizes[d], blocks.get(d, self.sizes[d]))
                out.append((d, upto, -(-upto // nest.step(d))))
        return [loop for loop in out if loop[2] > 1]

    # -- caches ---------------------------------------------------------------------------------------------------------------

    def traffic(self, nest: Nest) -> tuple[float, float, float]:
        """Cycles to fetch what is read and written into each cache."""
        loops = self.loops(nest)
        reached = {d: min(nest.step(d), self.sizes[d]) for d in (*nest.order, *self.reductions)}
        everything = [*self.inputs, *self.outputs]
        # Footprints of the data inside each loop, from the innermost outwards.
        inside = [[a.footprint(reached) for a in everything]]
        for d, upto, _ in reversed(loops):
            reached[d] = upto
            inside.append([a.footprint(reached) if d in a.moving else size for a, size in zip(everything, inside[-1], strict=True)])
        rounds = [n for _, _, n in loops]
        inside.reverse()  # inside[i]: what is reached by the loops from the i-th on
        out: list[float] = []
        for capacity, speed in zip(self.capacities, self.target.costs.bytes_per_cycle, strict=True):
            fits = next((i for i, sizes in enumerate(inside) if sum(sizes) <= capacity), len(loops))
            around = max(fits - 1, 0)  # from one round of this loop to the next, what both reach is still there
            last = [max((i for i in range(around) if loops[i][0] in a.moving), default=-1) for a in everything]
            out.append(sum(size * prod(rounds[: i + 1]) for size, i in zip(inside[around], last, strict=True)) / speed)
        # Data that fit the last cache are there already: the previous kernel wrote them, or the previous run read them.
        if sum(inside[0]) <= self.capacities[-1]:
            out[-1] = 0.0
        return out[0], out[1], out[2]

    # -- threads ------------------------------------------------------------------------------------------------------------

    def imbalance(self, nest: Nest) -> tuple[float, float]:
        """How much longer the busiest thread works than the average, and what starting threads costs; each remainder starts them anew."""
        cores = self.target.cores
        if not nest.parallel:
            return (1.0, 0.0)
        starts, whole, total = 1, 1, 1.0
        for d in nest.order[: nest.parallel]:
            step = nest.blocks.get(d, nest.step(d))
            rounds, left = divmod(self.sizes[d], step)
            starts *= (rounds > 0) + (left > 0)
            whole *= max(1, rounds)
            total *= self.sizes[d] / step
        longer = max(1.0, ceil(whole / cores) * cores / max(total, 1.0)) if whole < cores * 16 else 1.0
        return longer, (starts - 1) * self.target.costs.threads_start * (cores > 1)


class _Reach:
    """An access in plain numbers."""

    def __init__(self, access: Access, dims: int, widening: int = 0) -> None:
        self.access = access
        self.widening = widening  # instructions that the body needs to widen what it loaded
        self.bytes = element_bits(access.element_type) // 8
        self.kinds = {d: access.kind(d) for d in range(dims)} | {-1: "scalar"}
        self.close = {d: abs(access.step(d) or 0) for d, kind in self.kinds.items() if kind == "strided" and not access.is_gathered(d)}
        self.moving = frozenset(d for d, kind in self.kinds.items() if kind != "scalar")

    def moves_alike(self, dim: int, other: int) -> bool:
        """Whether the access moves along two dimensions in the same way."""
        steps = self.access.coefficients(dim)
        return any(steps) and None not in steps and steps == self.access.coefficients(other)

    @cached_property
    def _results(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """For each dimension of the operand its size, and the loops that move along it with how far."""
        columns = [self.access.coefficients(d) for d in self.kinds if d >= 0]
        sizes = self.access.shape
        rows = [[column[r] for column in columns] for r in range(len(sizes))]  # what is not linear is taken to go everywhere
        return [(n, [(d, n if c is None else abs(c)) for d, c in enumerate(row) if c != 0]) for n, row in zip(sizes, rows, strict=True)]

    def footprint(self, reached: Steps) -> float:
        """Bytes of the cache lines that are touched while each dimension takes so many values."""
        total = 1.0
        extent = 1
        for size, steps in self._results:
            extent = 1
            for dim, step in steps:
                extent += step * (reached[dim] - 1)
            extent = max(1, min(extent, size))  # of a size that only a run tells, none may seem likely
            total *= extent
        # Single elements of lines, where the innermost dimension of the operand is not walked.
        return total / extent * max(extent * self.bytes, min(LINE, self._results[-1][0] * self.bytes)) if self._results else self.bytes


def read_by_tile(op: Structured, nest: Nest) -> float:
    """Bytes of the cache lines that a register tile of `nest` reads, over all that is summed."""
    reached = {d: min(nest.step(d), op.sizes[d]) for d in op.parallel_dims} | {d: op.sizes[d] for d in op.reduction_dims}
    return sum(_Reach(a, len(op.sizes)).footprint(reached) for a in op.inputs if a.used and a.is_shaped)


def room(op: Structured, vector: int, registers: int, use: Use | None = None, vectors: int = 1) -> int:
    """How many registers the accumulators of a tile may take without LLVM spilling or moving values.

    There are fewer if a short innermost loop goes over overlapping windows: LLVM unrolls it, loads the overlap once, and keeps it in
    registers for the next window. There are more if an intrinsic is one instruction, which changes its accumulator and leaves nothing else
    behind: the `vectors` of a round are kept then, and what they are multiplied by goes through two registers.
    """
    if use is not None and use.intrinsic.instructions == 1:
        return registers - vectors - habits.OPERANDS_IN_TURN
    inner = next((d for d in reversed(op.reduction_dims) if op.sizes[d] > 1 and d != vector), None)
    if inner is None or op.sizes[inner] > habits.WRITTEN_OUT:
        return int(habits.ROOM * registers)
    broadcast = [a for a in op.inputs if a.used and a.is_shaped and a.kind(vector) == "scalar"]
    pairs = [pair for d in op.parallel_dims for a in broadcast for pair in zip(a.coefficients(d), a.coefficients(inner), strict=True)]
    kept = any(apart and step and step < apart < step * op.sizes[inner] for apart, step in pairs)
    return int((habits.CROWDED if kept else habits.ROOM) * registers)


def widths(size: int, width: int) -> list[tuple[int, int]]:
    """Rounds and width of the stretches of vectors that cover `size`: `width` first, then halves of it for what is left."""
    cut = vector_segments(size, width)
    return list(zip(known_sizes(segment.rounds for segment in cut), (segment.step for segment in cut), strict=True))


def body_cost(op: Structured, fma: bool) -> float:
    """Instructions of the body for one vector of results, without those that widen inputs."""
    if op.is_fill:
        return 0.0
    arithmetic = -float(len(widenings(op)))
    names = [o.operation.name for o in op.body.operations]
    for name in names:
        if name.startswith("math."):
            arithmetic += SLOW.get(name, EXPANDED)
        elif name.startswith("arith.") and name != "arith.constant":
            arithmetic += SLOW.get(name, 1)
    return arithmetic - 1 if fma and "arith.mulf" in names and "arith.addf" in names else arithmetic


def widenings(op: Structured) -> list[int]:
    """The numbers of the inputs that the body widens, once for each time."""
    if op.is_fill:
        return []
    arguments = list(op.body.arguments)[: len(op.inputs)]
    operands = [o.operation.operands[0] for o in op.body.operations if o.operation.name in WIDENS]
    return [n for operand in operands for n, argument in enumerate(arguments) if operand == argument]
