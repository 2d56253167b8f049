"""An analytical cost model of a loop nest, to compare schedules: cycles of arithmetic, loads, cache traffic and threads.

A register tile of `t` points by `v` vector registers takes, in each iteration of the reduction loops, the largest of three times: its arithmetic
divided by the arithmetic instructions per cycle, its distinct loads divided by the loads per cycle, and the latency of the operations that fold into
one accumulator. Out-of-order cores overlap short tiles, which hides some or all of this latency. The remainder at the end of a dimension is a smaller
tile with a cost of its own. A tile that does not fit the registers is refused, not costed: an error of the model costs less than spilled
accumulators, which take three times as long.

For each cache the model finds the outermost loop whose data all fit. These data are fetched again in every iteration of the outer loops that reach
other data; overlapping windows are fetched once (Wolf and Lam, "A Data Locality Optimizing Algorithm", 1991). Transfers overlap with arithmetic, so a
nest takes as long as the slowest of them. A tenth of the others' time is added for the part that does not overlap; this also ranks nests that are
bound by their arithmetic.

The model counts quantities; `passes.schedule.quantities` turns them into cycles. The constants of the target's costs are rough on purpose: they fit
any core of the last ten years. `stepwell tuning train` fits them to measured times.
"""

from collections.abc import Iterator
from math import ceil, inf, prod

from stepwell.dialects.core.sizes import static_sizes
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target import llvm_habits as habits
from stepwell.dialects.target.costs import SLOW
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.numbers import LINE
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.factors import WIDENS
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.intrinsics import Use, available
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.quantities import Cost, Quantities, Tiles, Work, compute_cycles, traffic_cycles
from stepwell.passes.schedule.segments import vector_segments

EVEN_ROUNDS = 16
"""The number of iterations per core from which on the load imbalance of threads does not count: it is below a sixteenth."""
EXPANDED = 16
"""Average number of instructions for a function of the math dialect on one vector (see docs/vector-math.md)."""

UNMOVED = (0.0, 0.0, 0.0)  # cycles of transfers that are not counted

Steps = dict[int, int]  # iterations of each dimension in one step of a nest


class CycleModel:
    """Predicts costs of schedules for one op on one target, from numbers that are read from the IR once."""

    def __init__(self, op: Structured, target: Target) -> None:
        self.op, self.target = op, target
        self.sizes = op.sizes
        self.reductions = op.reduction_dims
        self.inside = len([d for d in self.reductions if self.sizes[d] > 1])  # loops inside a register tile
        widened = widenings(op)
        self.inputs = [_Reach(a, len(self.sizes), widened.count(n)) for n, a in enumerate(op.inputs) if a.used and a.is_shaped]
        self.widened = [a for a in self.inputs if a.widening]
        self.outputs = [_Reach(a, len(self.sizes)) for a in op.outputs]
        self.vector_bytes = target.vector_bits // 8
        self.uses = available(op, target)
        self.arithmetic = body_cost(op, target.fma)
        self.bytes = max(a.bytes for a in (*self.inputs, *self.outputs))
        self.capacities = [c * target.costs.nest_share for c in target.caches.per_core]

    def cost(self, nest: Nest, limit: float = inf) -> Cost:
        """The cost of `nest`; infinite if its tile does not fit the registers. If the cost exceeds `limit`, traffic may be left out."""
        imbalance, starts = self.imbalance(nest)
        start, exposed = starts * self.target.costs.threads_start, self.target.costs.exposed
        if not self.fits(nest):
            return Cost(inf, UNMOVED, imbalance, start, exposed)
        known = Cost(self.compute(nest), UNMOVED, imbalance, start, exposed)
        return known if known.cycles >= limit else Cost(known.compute, self.traffic(nest), imbalance, start, exposed)

    def quantities(self, nest: Nest) -> Quantities[float]:
        """The numbers of which costs of the target make the cost of `nest`."""
        imbalance, starts = self.imbalance(nest)
        return Quantities(self.work(nest), self.moved(nest), imbalance, starts)

    def seconds(self, cost: Cost) -> float | None:
        """The predicted time on one core; None if the registers do not hold the tile."""
        return None if cost.cycles == inf else self.target.seconds(cycles=cost.cycles)

    @cached_property
    def least(self) -> float:
        """A lower bound of any nest's cost: its arithmetic in full vectors, and a load for each point of the operands that move along every loop."""
        vectors = prod(self.sizes) * self.bytes / self.vector_bytes
        everywhere = [a for a in self.inputs if all(d in a.moving for d in self.op.parallel_dims if self.sizes[d] > 1)]
        loads = sum(vectors * a.bytes / self.bytes for a in everywhere)
        if self.uses:
            return 0.0  # their best throughput is not declared
        return max(vectors * self.arithmetic / self.target.pipes.fmas, loads / self.target.pipes.loads)

    # -- registers and arithmetic -------------------------------------------------------------------------------------------

    def registers(self, nest: Nest) -> int:
        """Vector registers that a tile occupies: its accumulators, the vectors that it multiplies, and one for broadcasts.

        Without a reduction nothing stays in registers: each point is stored before the next one is computed. If each point has vectors of its own,
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
        """Maps each dimension in which a register tile spans several iterations to the number of them."""
        return {d: nest.unroll[d] for d in nest.order if d != nest.vector and nest.unroll[d] > 1}

    def fits(self, nest: Nest) -> bool:
        """Whether the register tile of `nest` fits the registers."""
        return self.registers(nest) <= self.target.vector_registers

    def vectors(self, width: int, size: int) -> int:
        """The number of registers for a vector of `width` elements of `size` bytes."""
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
        """Average number of loads through an access for a tile in one iteration of the reduction loops.

        Vectors of windows that move by single elements mostly straddle two cache lines and take two loads. If the windows of a tile overlap between
        iterations of the innermost reduction loop and LLVM unrolls it, a vector stays in a register for all windows that contain it, if there is
        room.
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
        return compute_cycles(self.work(nest), self.target.pipes, self.target.costs, max)

    def work(self, nest: Nest) -> Work[float]:
        """The arithmetic, loads and stores over the whole iteration space."""
        full = self.tile_steps(nest)
        pieces = prod(-(-self.sizes[d] // nest.blocks[d]) for d in self.reductions if d in nest.blocks) if nest.block else 1
        summed = -(-prod(self.sizes[d] for d in self.reductions if d != nest.vector) // pieces)
        along = widths(self.sizes[nest.vector], nest.width) if nest.vector in self.reductions else None
        use = self.uses.get(nest.intrinsic)
        unit = 1 if use is None else use.intrinsic.lanes * (1 if along is None else use.intrinsic.depth)
        tiles: list[Tiles[float]] = []
        stores, folds, reloads = 0.0, 0.0, 0.0
        for rounds, tile, width in self._tiles(nest, full):
            count = rounds * pieces
            parts = [(1, width)] if along is None else along
            stored, folded = self.tile(tiles, count, tile, nest.vector, parts, summed, None if width % unit else use)
            stores += count * stored
            folds += count * folded
            reloads += count * prod(tile.values()) * self.vectors(width, self.bytes) if pieces > 1 else 0.0
        kept = self.vectors(nest.width, self.bytes)
        tiled = use is not None and use.intrinsic.tile is not None  # the intrinsic has accumulators of its own
        crowded = not tiled and bool(self.reductions) and nest.vector >= 0
        if crowded:
            crowded = prod(full.values()) * kept > register_budget(self.op, nest.vector, self.target.vector_registers, use, kept)
        return Work(tiles, self.inside, stores, folds, reloads, habits.CROWDED_COST if crowded else 1.0)

    def _tiles(self, nest: Nest, full: Steps) -> Iterator[tuple[int, Steps, int]]:
        """The different tiles of a nest: the number of each, its steps, and the width of its vectors."""
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

    def tile(
        self, tiles: list[Tiles[float]], count: int, tile: Steps, vector: int, parts: list[tuple[int, int]], summed: int, use: Use | None
    ) -> tuple[int, int]:  # fmt: skip
        """Append the work of `count` equal register tiles over all reduction loops to `tiles`; returns the stores and the folds of one of them.

        `parts` are the count and the width of the vectors: one vector, or those that cover a reduction dimension.
        """
        points, in_lanes = prod(tile.values()), vector in self.reductions
        stores = points * sum(1 if in_lanes else self.vectors(parts[0][1], out.bytes) for out in self.outputs)
        instructions, folds = float(stores), 0
        found: list[tuple[float, float, int]] = []
        for rounds, w in parts:
            vectors, times = self.vectors(w, self.bytes), rounds * summed
            if use is None:
                loads = sum(self.loaded(a, tile, w, vector) for a in self.inputs)
                widened = sum(self.loads(a, tile) * a.widening * (1 if a.kinds[vector] == "scalar" else vectors) for a in self.widened)
                arithmetic = points * vectors * self.arithmetic + widened
            else:
                loads, arithmetic = self.block(use, tile, w, vector)
                times = times if in_lanes else -(-times // use.intrinsic.depth)
            instructions += (arithmetic + loads) * times
            found.append((arithmetic, loads, times * count))
            lanes = w if use is None else w // use.intrinsic.depth
            folds += points * (lanes.bit_length() - 1) if in_lanes else 0
        # No latency shows if the summed loops are unrolled and interleaved with the next tile's.
        alone = instructions if summed * sum(rounds for rounds, _ in parts) > habits.UNROLLED else 0.0
        for n, (arithmetic, loads, times) in enumerate(found):
            tiles.append((arithmetic * times, loads * times, times if self.reductions else 0, alone, 0 if n else count))
        return stores, folds

    def block(self, use: Use, tile: Steps, width: int, vector: int) -> tuple[float, float]:
        """Loads and instructions for a tile's blocks: the calls of the intrinsic, and the shuffles that reorder its operands."""
        chosen, in_lanes = use.intrinsic, vector in self.reductions
        calls = width // chosen.lanes // (chosen.depth if in_lanes else 1)
        if chosen.tile is not None:  # a tile register holds rows, each of which would otherwise be loaded, and covers several steps at once
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
            broadcast = 0 if together and use.is_as_wide(a.access, self.op) else 2  # the load itself broadcasts
            arithmetic += count * (calls * (1 if in_lanes else chosen.depth) if moving else broadcast)
        return loads, arithmetic

    def load(self, access: "_Reach", width: int, vector: int) -> float:
        """The number of loads that fill a vector of `width` elements along the vector dimension."""
        kind = access.kinds[vector] if vector >= 0 and width > 1 else "scalar"
        if kind == "scalar":
            return 1.0
        if kind == "vector":
            return self.vectors(width, access.bytes)
        apart = access.close.get(vector, width)
        return 2.0 * width if apart >= width else self.vectors(width, access.bytes) * (2.0 * apart - 1)  # loaded and put into their lanes one by one

    def loops(self, nest: Nest) -> list[tuple[int, int, int]]:
        """The loops with more than one iteration, outermost first, as (dimension, its iterations per round of the loop, number of rounds)."""
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
        """Cycles to fetch everything read and written into each cache."""
        return traffic_cycles(self.moved(nest), self.target.costs)

    def moved(self, nest: Nest) -> tuple[float, float, float]:
        """Bytes read and written that are fetched into each cache."""
        loops = self.loops(nest)
        reached = {d: min(nest.step(d), self.sizes[d]) for d in (*nest.order, *self.reductions)}
        everything = [*self.inputs, *self.outputs]
        # Footprints of the data inside each loop, from the innermost outwards.
        inside = [[a.footprint(reached) for a in everything]]
        for d, upto, _ in reversed(loops):
            reached[d] = upto
            inside.append([a.footprint(reached) if d in a.moving else size for a, size in zip(everything, inside[-1], strict=True)])
        rounds = [n for _, _, n in loops]
        inside.reverse()  # inside[i]: the data that the loops from the i-th on reach
        out: list[float] = []
        for capacity in self.capacities:
            fits = next((i for i, sizes in enumerate(inside) if sum(sizes) <= capacity), len(loops))
            around = max(fits - 1, 0)  # the overlap of neighbouring iterations of this loop is still in the cache
            last = [max((i for i in range(around) if loops[i][0] in a.moving), default=-1) for a in everything]
            out.append(sum(size * prod(rounds[: i + 1]) for size, i in zip(inside[around], last, strict=True)))
        # Data that fit the last cache are already there: the previous kernel wrote them, or the previous run read them.
        if sum(inside[0]) <= self.capacities[-1]:
            out[-1] = 0.0
        return out[0], out[1], out[2]

    # -- threads ------------------------------------------------------------------------------------------------------------

    def imbalance(self, nest: Nest) -> tuple[float, int]:
        """The load imbalance (the busiest thread's work divided by the average), and how often threads are started again, for remainders."""
        cores = self.target.cores
        if not nest.parallel:
            return (1.0, 0)
        starts, whole, total = 1, 1, 1.0
        for d in nest.order[: nest.parallel]:
            step = nest.blocks.get(d, nest.step(d))
            rounds, left = divmod(self.sizes[d], step)
            starts *= (rounds > 0) + (left > 0)
            whole *= max(1, rounds)
            total *= self.sizes[d] / step
        longer = max(1.0, ceil(whole / cores) * cores / max(total, 1.0)) if whole < cores * EVEN_ROUNDS else 1.0
        return longer, (starts - 1) * (cores > 1)


class _Reach:
    """An access as plain numbers."""

    def __init__(self, access: Access, dims: int, widening: int = 0) -> None:
        self.access = access
        self.widening = widening  # instructions with which the body widens a loaded vector
        self.bytes = element_bits(access.element_type) // 8
        self.kinds = {d: access.kind(d) for d in range(dims)} | {-1: "scalar"}
        self.close = {d: abs(access.step(d) or 0) for d, kind in self.kinds.items() if kind == "strided" and not access.is_gathered(d)}
        self.moving = frozenset(d for d, kind in self.kinds.items() if kind != "scalar")

    def moves_alike(self, dim: int, other: int) -> bool:
        """Whether the access has the same strides along two dimensions."""
        steps = self.access.coefficients(dim)
        return any(steps) and None not in steps and steps == self.access.coefficients(other)

    @cached_property
    def _results(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """For each dimension of the operand, its size and the loops that move along it with their strides."""
        columns = [self.access.coefficients(d) for d in self.kinds if d >= 0]
        sizes = self.access.shape
        rows = [[column[r] for column in columns] for r in range(len(sizes))]  # an access that is not linear may reach everything
        return [(n, [(d, n if c is None else abs(c)) for d, c in enumerate(row) if c != 0]) for n, row in zip(sizes, rows, strict=True)]

    def footprint(self, reached: Steps) -> float:
        """Bytes of the cache lines touched while each dimension takes the given number of values."""
        total = 1.0
        extent = 1
        for size, steps in self._results:
            extent = 1
            for dim, step in steps:
                extent += step * (reached[dim] - 1)
            extent = max(1, min(extent, size))  # a dynamic size may have no likely value
            total *= extent
        # Only single elements of each line are read if no loop moves along the operand's innermost dimension.
        return total / extent * max(extent * self.bytes, min(LINE, self._results[-1][0] * self.bytes)) if self._results else self.bytes


def bytes_read_by_tile(op: Structured, nest: Nest) -> float:
    """Bytes of the cache lines that a register tile of `nest` reads over the whole reduction."""
    reached = {d: min(nest.step(d), op.sizes[d]) for d in op.parallel_dims} | {d: op.sizes[d] for d in op.reduction_dims}
    return sum(_Reach(a, len(op.sizes)).footprint(reached) for a in op.inputs if a.used and a.is_shaped)


def register_budget(op: Structured, vector: int, registers: int, use: Use | None = None, vectors: int = 1) -> int:
    """The number of registers that a tile's accumulators may use before LLVM spills or moves values.

    There are fewer if a short innermost loop goes over overlapping windows: LLVM unrolls it, loads the overlap once, and keeps it in registers for
    the next window. There are more if an intrinsic is a single instruction that updates its accumulator in place: the `vectors` of an iteration then
    stay in registers, and the other operand goes through two registers.
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
    """Count and width of the vectors that cover `size`: first `width`, then halves of it for the remainder."""
    cut = vector_segments(size, width)
    return list(zip(static_sizes(segment.rounds for segment in cut), (segment.step for segment in cut), strict=True))


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
    """The index of each input that the body widens, once per widening."""
    if op.is_fill:
        return []
    arguments = list(op.body.arguments)[: len(op.inputs)]
    operands = [o.operation.operands[0] for o in op.body.operations if o.operation.name in WIDENS]
    return [n for operand in operands for n, argument in enumerate(arguments) if operand == argument]
