"""The pass that has the ops of a kernel share outer loops, so that what one leaves for the next stays in a cache."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from stepwell.dialects.core.mlir import defining_op, ir, use_count
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.sched.shared_loops import SharedLoop
from stepwell.passes.framework.registry import Declined, Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import ops_below
from stepwell.passes.linalg.structured import Access, Structured, Walk, element_bits, walk
from stepwell.passes.linalg.tensor_chains import tensor_chains
from stepwell.passes.linalg.views import TENSOR_RESHAPES, origin
from stepwell.passes.schedule.parallel import QUICK, THREADED_WORK


@register_pass("share-loops", level="linalg", anchor="func.func", optional=True)
@dataclass
class ShareLoops(Pass):
    """Put loops around several ops of a kernel, each of which then does a slice at a time.

    rewrite: {sched.axes = {rows = 3, …}}  ->  {sched.shared = #sched.shared<[{loop = "rows", dim = 3, step = 1, slots = 2}, …]>}
    rewrite: %0 = generic(…); generic ins(%0, %w, …)  ->  the same with {sched.shared = …} on both

    Where ops run over more things than data, as Winograd's do, the lowering says with `sched.axes` which loops of theirs run over the same one. The
    pass knows Winograd's five stages: two over channels that transform the image, the products, and two over filters that transform
    back. Elsewhere it looks at what a contraction reads and the op that makes that, an element-wise one or a depthwise convolution: the
    loops in which both go over it are those of images, rows and columns. A pooling of what a contraction, or Winograd's last stage,
    makes goes over that in windows which lie apart, and so takes part in those loops with fewer rows and columns at a time.

    This pass says which of the loops are shared, in what order and steps. Two forms are weighed by the bytes that they move through more
    than a core's own cache:

    - a few rows or tiles of the image at a time: what the ops hand on stays in the cache, and the filters are read for each few;
    - all of it: what is handed on is written and read once, and so are the filters.

    Filters that Winograd transforms when the kernel runs make two more stages before the products. Those share a loop over blocks of filters
    with all that follow, so that the transformed ones stay in the cache.
    """

    slots: int = 0  # stretches that the outermost loop is dealt out in; 0 for one to each of the target's cores

    def run(self, op: ir.Operation, state: PassState) -> None:
        staged = [Structured(o) for o in ops_below(op, "linalg.generic") if ScheduleInfo(o).axes]
        stages = [_Stage.of(s) for s in staged]
        kinds = [set(stage.axes) for stage in stages]
        if state.target is None:
            state.declined.append(Declined(self.name, op.name, op.location, "there is no target whose caches could hold slices"))
        else:
            if kinds in (WITH_FILTERS, TRANSFORMED, IN_GROUPS):
                self._share_winograd(stages, kinds == WITH_FILTERS, state)
            elif (fed := next(fed_ops(op, "contraction"), None)) is not None:
                self._share_fed(fed, state)
            for fed in fed_ops(op, "reduction"):
                if ScheduleInfo(fed.producer.operation).shared:
                    fed.follow()
                else:
                    self._share_fed(fed, state)
            state.count(self.name, int(any(ScheduleInfo(o).shared for o in ops_below(op, "linalg.generic"))))
        for s in staged:
            del ScheduleInfo(s.operation).axes

    def _share_winograd(self, stages: "list[_Stage]", by_filters: bool, state: PassState) -> None:
        products = stages[-3]
        slots = self._slots(prod(products.op.extents), state)
        handed_on = [products.op.inputs[0], products.op.outputs[0]]
        steps = {} if by_filters else steps_in_cache(products, handed_on, state.machine.caches.per_core, slots, ROOM)
        for stage in stages:
            loops: list[tuple[str, int]]
            if by_filters and "filters" in stage.axes:
                loops = [(name, 1) for name in ("filters", "channels") if name in stage.axes]
            elif stage is products and not steps:
                continue
            else:
                loops = [("images", 1)] if stage.extent("images") > 1 else []
                loops += list(steps.items())
                loops += [(name, 1) for name in ("channels", "filters") if name in stage.axes and stage is not products]
            stage.share(loops, slots)

    def _share_fed(self, fed: "Fed", state: PassState) -> None:
        """Have an op and what feeds it share loops, if it pays."""
        leader, units = fed.leader()
        slots = self._slots(prod(leader.op.extents) // QUICK, state)
        steps = {"images": 1, **steps_in_cache(leader, [fed.handed_on(leader.op)], state.machine.caches.per_core, slots, SMALL, units)}
        # A loop of one round is left out, so that rows and columns can become one dimension (see `collapse-dimensions`).
        loops = [(name, step) for name, step in steps.items() if step < leader.extent(name)]
        if loops:
            leader.share(loops, slots)
            fed.follow()

    def _slots(self, work: int, state: PassState) -> int:
        """In how many stretches the outermost loop is dealt out: one for little work."""
        return 1 if work < THREADED_WORK else self.slots or state.machine.cores


ROOM = 0.75  # of a core's own cache, for what shared loops keep there
SMALL = 0.25  # of it, for what an image's producer hands on: the rest is for what it reads, and for the result
LAST = 1 / 3  # of the time that memory takes for a byte, what the last cache takes

TRANSFORM = {"images", "rows", "columns", "channels"}
FILTERS = {"filters", "channels"}
PRODUCT = {"images", "rows", "columns", "filters"}
TRANSFORMED = [TRANSFORM, TRANSFORM, PRODUCT, PRODUCT, PRODUCT]
WITH_FILTERS = [TRANSFORM, TRANSFORM, FILTERS, FILTERS, PRODUCT, PRODUCT, PRODUCT]
IN_GROUPS = [TRANSFORM, TRANSFORM, PRODUCT - {"filters"}, PRODUCT, PRODUCT]  # the products' loop is over the filters of a group


@dataclass
class _Stage:
    """A structured op and its named loops."""

    op: Structured
    axes: dict[str, int]

    @staticmethod
    def of(op: Structured) -> "_Stage":
        return _Stage(op, dict(ScheduleInfo(op.operation).axes))

    def extent(self, axis: str) -> int:
        """How many iterations its loop of that name has; 1 if it has none."""
        return self.op.extents[self.axes[axis]] if axis in self.axes else 1

    def share(self, loops: Sequence[tuple[str, int]], slots: int) -> None:
        """Say on the op that it shares these loops in these steps, outermost first, the first one dealt out to `slots`."""
        rounds = self.extent(loops[0][0]) // loops[0][1]
        dealt = [min(slots, rounds), *[1] * (len(loops) - 1)]
        shared = (SharedLoop(name, self.axes[name], step, n) for (name, step), n in zip(loops, dealt, strict=True))
        ScheduleInfo(self.op.operation).shared = tuple(shared)


@dataclass
class Fed:
    """An op, what makes one of its operands in the same kernel and for it alone, and how it reads that."""

    producer: Structured
    reader: Structured
    read: Access

    def handed_on(self, by: Structured) -> Access:
        """How one of the two goes through what is handed on."""
        return self.read if by is self.reader else self.producer.outputs[0]

    def other(self, op: Structured) -> Structured:
        """The other one."""
        return self.producer if op is self.reader else self.reader

    def leader(self) -> "tuple[_Stage, dict[str, int]]":
        """The contraction, with those of its loops over what is handed on, (N, C, spatial…), that the other op has too, by name.

        And of how many iterations at least a step of each has to be, so that the other one takes whole steps as well.
        """
        op = self.reader if self.reader.kind == "contraction" else self.producer
        axes, units = {}, {}
        for dim in op.parallel_dims:
            found, there = walk(op, self.handed_on(op), dim), self.counterpart(op, dim)
            if found is None or there is None or self.other(op).extents[there[0]] == 1 < op.extents[dim]:
                continue  # a loop over groups, say, which is inside of the other op's one round over an image
            name = IMAGE.get((found if op is self.reader else there[1]).place)  # what groups make has more dimensions than what is read
            if name is not None:
                axes[name] = dim
                units[name] = max(1, there[1].stretch // found.stretch)
        return _Stage(op, axes), units

    def counterpart(self, op: Structured, dim: int) -> tuple[int, Walk] | None:
        """The loop of the other op that goes over what is handed on as loop `dim` of `op` does, in steps as alike as can be."""
        other, one = self.other(op), walk(op, self.handed_on(op), dim)
        if one is None:
            return None
        walks = [(d, w) for d in other.parallel_dims if (w := walk(other, self.handed_on(other), d)) is not None]
        alike = [(d, w) for d, w in walks if (w.at_once, other.extents[d] * w.stretch) == (one.at_once, op.extents[dim] * one.stretch)]
        return min(alike, key=lambda found: max(found[1].stretch, one.stretch) / min(found[1].stretch, one.stretch), default=None)

    def follow(self) -> None:
        """Have the one that shares no loops share those of the other, from the outermost one as far as it has them too."""
        leader = self.producer if ScheduleInfo(self.producer.operation).shared else self.reader
        loops: list[SharedLoop] = []
        for loop in ScheduleInfo(leader.operation).shared:
            one, there = walk(leader, self.handed_on(leader), loop.dim), self.counterpart(leader, loop.dim)
            if one is None or there is None or loop.step * one.stretch % there[1].stretch:
                break
            loops.append(replace(loop, dim=there[0], step=loop.step * one.stretch // there[1].stretch))
        if loops:
            ScheduleInfo(self.other(leader).operation).shared = tuple(loops)


IMAGE = {0: "images", 2: "rows", 3: "columns"}  # by the dimensions of (N, C, spatial…)


def fed_ops(function: ir.Operation, kind: str) -> Iterator[Fed]:
    """The ops of a kind that others feed in a kernel; a contraction is one of the two."""
    chains = tensor_chains(function)
    made = {chain[-1].results[0]: chain for chain in chains}
    for chain in chains:
        reader = root_of(chain)
        for read in reader.inputs if reader.kind == kind else ():
            source = origin(read.value, TENSOR_RESHAPES)
            if source in made and used_once(read.value):
                producer = root_of(made[source])
                if "contraction" in (reader.kind, producer.kind):
                    yield Fed(producer, reader, read)


def root_of(chain: list[ir.Operation]) -> Structured:
    """The op of a chain that is not its fill or an epilogue."""
    ops = [Structured(op) for op in chain]
    return next((op for op in ops if not op.is_fill), ops[0])


def used_once(value: ir.Value) -> bool:
    """Whether a value, and each that it is a view of, has one use."""
    while use_count(value) == 1:
        op = defining_op(value)
        if op is None or op.name not in TENSOR_RESHAPES:
            return True
        value = op.operands[0]
    return False


def steps_in_cache(
    contraction: _Stage, handed_on: Sequence[Access], caches: tuple[int, int, int], slots: int, small: float, units: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The steps of the shared loops over rows and columns, whole `units` of each; none where it costs more to read the filters again.

    `caches` are the sizes in bytes of what a core has of each. A share of the second is for slices of what is handed on, operands of the
    contraction, and for the filters if these fit as well. Slices that are a share `small` of it need not be smaller: rounds cost something
    too. The rows are dealt out to `slots` evenly.
    """
    _, cache, last = caches
    element = element_bits(handed_on[0].element_type) // 8
    image = [contraction.axes[name] for name in ("rows", "columns") if name in contraction.axes]
    still = [a for a in contraction.op.inputs if a not in handed_on and all(a.kind(d) == "scalar" for d in image)]
    filters = sum(prod(a.shape) for a in still) * element
    whole = sum(prod(a.shape) for a in handed_on) * element // contraction.extent("images")
    rows, columns = contraction.extent("rows"), contraction.extent("columns")

    def far(size: int) -> float:
        """What it takes to go through so many bytes that are not in the core's own cache: less where the last one has room for them."""
        return size * LAST if size <= last else float(size)

    def cost(step: tuple[int, int]) -> tuple[float, float, int]:
        """What it takes to go through all that is not kept in the core's own cache; then the size of the slices, and the fewest rounds."""
        share = rows * columns // (step[0] * step[1])
        slices = whole // share
        again = far(filters) * (share if slices + filters > cache * ROOM else 1)
        return again + (2 * far(whole) if slices > cache * ROOM else 0), max(slices, small * cache), share

    least = units or {}
    some_rows, some_columns = (
        [n for n in divisors(size) if n % least.get(name, 1) == 0] for name, size in (("rows", rows), ("columns", columns))
    )
    options = [(r, c) for r in some_rows for c in some_columns if even(rows // r, slots) and (c == columns or r == some_rows[0])]
    best = min(options, key=cost, default=None)
    if best is None or cost(best)[0] >= far(filters) + 2 * far(whole):
        return {}
    return {"rows": best[0], "columns": best[1]}


UNEVEN = 1.2  # by what factor the busiest of the slots may have more to do than the average


def even(rounds: int, slots: int) -> bool:
    """Whether that many rounds are shared out evenly enough."""
    return -(-rounds // slots) * slots <= UNEVEN * rounds


def divisors(n: int) -> list[int]:
    """The divisors of n, in order."""
    return [d for d in range(1, n + 1) if n % d == 0]
