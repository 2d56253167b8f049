"""The pass that has the ops of a kernel share outer loops, so that what one leaves for the next stays in a cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from stepwell.dialects.attributes import to_python
from stepwell.dialects.mlir import defining_op, ir, use_count
from stepwell.passes.linalg.shared_loops import ATTRIBUTE, AXES, SharedLoop, to_shared_attribute
from stepwell.passes.linalg.structured import Access, Structured, element_bits, position
from stepwell.passes.linalg.tensor_chains import tensor_chains
from stepwell.passes.linalg.threads import QUICK, THREADED_WORK
from stepwell.passes.linalg.views import TENSOR_RESHAPES, origin
from stepwell.passes.registry import Declined, Pass, PassState, register_pass
from stepwell.passes.rewriting import ops_below


@register_pass("share-loops", level="linalg", anchor="func.func", optional=True)
@dataclass
class ShareLoops(Pass):
    """Put loops around several ops of a kernel, each of which then does a slice at a time.

    rewrite: {axes = {rows = 3, …}}  ->  {shared = #sched.shared<[{loop = "rows", dim = 3, step = 1, slots = 2}, …]>}
    rewrite: %0 = generic(…); generic ins(%0, %w, …)  ->  the same with {shared = …} on both

    Where ops run over more things than data, as Winograd's do, the lowering says with `axes` which loops of theirs run over the same one. The
    pass knows Winograd's five stages: two over channels that transform the image, the products, and two over filters that transform
    back. Elsewhere it looks at what a contraction reads and the op that makes that, an element-wise one or a depthwise convolution: the
    loops in which both go over it are those of images, rows and columns.

    This pass says which of the loops are shared, in what order and steps. Two forms are weighed by the bytes that they move through more
    than a core's own cache:

    - a few rows or tiles of the image at a time: what the ops hand on stays in the cache, and the filters are read for each few;
    - all of it: what is handed on is written and read once, and so are the filters.

    Filters that Winograd transforms when the kernel runs make two more stages before the products. Those share a loop over blocks of filters
    with all that follow, so that the transformed ones stay in the cache.
    """

    slots: int = 0  # stretches that the outermost loop is dealt out in; 0 for one to each of the target's cores

    def run(self, op: ir.Operation, state: PassState) -> None:
        staged = [Structured(o) for o in ops_below(op, "linalg.generic") if AXES in o.attributes]
        stages = [_Stage.of(s) for s in staged]
        kinds = [set(stage.axes) for stage in stages]
        if state.target is None:
            state.declined.append(Declined(self.name, op.name, str(op.location), "there is no target whose caches could hold slices"))
        elif kinds in (WITH_FILTERS, TRANSFORMED, IN_GROUPS):
            self._share_winograd(stages, kinds == WITH_FILTERS, state)
            state.count(self.name)
        elif (fed := fed_contraction(op)) is not None and self._share_fed(fed, state):
            state.count(self.name)
        for s in staged:
            del s.operation.attributes[AXES]

    def _share_winograd(self, stages: "list[_Stage]", by_filters: bool, state: PassState) -> None:
        products = stages[-3]
        slots = self._slots(prod(products.op.extents), state)
        handed_on = [products.op.inputs[0], products.op.outputs[0]]
        steps = {} if by_filters else steps_in_cache(products, handed_on, state.target.caches.l2, slots, ROOM)
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

    def _share_fed(self, fed: "Fed", state: PassState) -> bool:
        """Whether a contraction and what feeds it now share loops."""
        slots = self._slots(prod(fed.contraction.op.extents) // QUICK, state)
        steps = {"images": 1, **steps_in_cache(fed.contraction, [fed.read], state.target.caches.l2, slots, SMALL)}
        # A loop of one round is left out, so that rows and columns can become one dimension (see `collapse-dimensions`).
        loops = [(name, step) for name, step in steps.items() if step < fed.contraction.extent(name)]
        for stage in (fed.producer, fed.contraction) if loops else ():
            stage.share(loops, slots)
        return bool(loops)

    def _slots(self, work: int, state: PassState) -> int:
        """In how many stretches the outermost loop is dealt out: one for little work."""
        return 1 if work < THREADED_WORK else self.slots or getattr(state.target, "cores", 1)


ROOM = 0.75  # of a core's own cache, for what shared loops keep there
SMALL = 0.25  # of it, for what an image's producer hands on: the rest is for what it reads, and for the result

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
        return _Stage(op, to_python(op.operation.attributes[AXES]))

    def extent(self, axis: str) -> int:
        """How many iterations its loop of that name has; 1 if it has none."""
        return self.op.extents[self.axes[axis]] if axis in self.axes else 1

    def share(self, loops: Sequence[tuple[str, int]], slots: int) -> None:
        """Say on the op that it shares these loops in these steps, outermost first, the first one dealt out to `slots`."""
        rounds = self.extent(loops[0][0]) // loops[0][1]
        dealt = [min(slots, rounds), *[1] * (len(loops) - 1)]
        shared = [SharedLoop(name, self.axes[name], step, n) for (name, step), n in zip(loops, dealt, strict=True)]
        self.op.operation.attributes[ATTRIBUTE] = to_shared_attribute(shared)


@dataclass
class Fed:
    """A contraction, what makes one of its operands in the same kernel, and how it reads that."""

    producer: _Stage
    contraction: _Stage
    read: Access


def fed_contraction(function: ir.Operation) -> Fed | None:
    """The first contraction of a kernel that has an op before it which makes one of its operands, for it alone; None if there is none."""
    chains = tensor_chains(function)
    made = {chain[-1].results[0]: chain for chain in chains}
    for chain in chains:
        contraction = root_of(chain)
        for read in contraction.inputs if contraction.kind == "contraction" else ():
            source = origin(read.value, TENSOR_RESHAPES)
            if source in made and used_once(read.value):
                producer = root_of(made[source])
                walks = common_walks(contraction, read, producer)
                if len(walks) > 1:
                    axes = [dict(zip(("images", "rows", "columns"), dims, strict=False)) for dims in zip(*walks, strict=True)]
                    return Fed(_Stage(producer, axes[1]), _Stage(contraction, axes[0]), read)
    return None


def root_of(chain: list[ir.Operation]) -> Structured:
    """The op of a chain that is not its fill or an epilogue."""
    ops = [Structured(op) for op in chain]
    return next((op for op in ops if not op.is_fill), ops[0])


def used_once(value: ir.Value) -> bool:
    """Whether a value, and each that it is a view of, has one use."""
    op = defining_op(value)
    return use_count(value) == 1 and (op is None or op.name not in TENSOR_RESHAPES or used_once(op.operands[0]))


def common_walks(contraction: Structured, read: Access, producer: Structured) -> list[tuple[int, int]]:
    """The parallel loops of a contraction that go over what it reads as loops of its producer do over what they write, and these."""

    def walks(op: Structured, access: Access) -> dict[tuple[int, int], int]:
        """By places at once and neighbouring elements in each iteration, the loops that are dimensions of an operand."""
        places = {d: position(access, d) for d in reversed(op.parallel_dims)}
        return {(prod(access.shape[:at]), prod(access.shape[at + 1 :])): d for d, at in places.items() if at is not None}

    writing = walks(producer, producer.outputs[0])
    return sorted((d, writing[walk]) for walk, d in walks(contraction, read).items() if walk in writing)


def steps_in_cache(contraction: _Stage, handed_on: Sequence[Access], cache: int, slots: int, small: float) -> dict[str, int]:
    """The steps of the shared loops over rows and columns; none where it costs more to read the filters again.

    `cache` is the size in bytes of a core's own cache, of which a share is for slices of what is handed on, operands of the contraction, and
    for the filters if these fit as well. Slices that are a share `small` of the cache need not be smaller: rounds cost something too. The
    rows are dealt out to `slots` evenly.
    """
    element = element_bits(handed_on[0].element_type) // 8
    filters = sum(prod(a.shape) for a in contraction.op.inputs if a not in handed_on) * element
    whole = sum(prod(a.shape) for a in handed_on) * element // contraction.extent("images")
    rows, columns = contraction.extent("rows"), contraction.extent("columns")

    def cost(step: tuple[int, int]) -> tuple[int, float, int]:
        """Bytes that do not come from the cache or stay there; then the size of the slices, and the fewest rounds."""
        share = rows * columns // (step[0] * step[1])
        slices = whole // share
        again = filters * share if slices + filters > cache * ROOM else filters
        return again + (2 * whole if slices > cache * ROOM else 0), max(slices, small * cache), share

    options = [(r, c) for r in divisors(rows) for c in divisors(columns) if even(rows // r, slots) and (c == columns or r == 1)]
    best = min(options, key=cost, default=None)
    if best is None or cost(best)[0] >= filters + 2 * whole:
        return {}
    return {"rows": best[0], "columns": best[1]}


UNEVEN = 1.2  # by what factor the busiest of the slots may have more to do than the average


def even(rounds: int, slots: int) -> bool:
    """Whether that many rounds are shared out evenly enough."""
    return -(-rounds // slots) * slots <= UNEVEN * rounds


def divisors(n: int) -> list[int]:
    """The divisors of n, in order."""
    return [d for d in range(1, n + 1) if n % d == 0]
