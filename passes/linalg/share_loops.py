"""The pass that has the ops of a kernel share outer loops, so that what one leaves for the next stays in a cache."""

from dataclasses import dataclass
from math import prod

from stepwell.dialects.attributes import to_python
from stepwell.dialects.mlir import ir
from stepwell.passes.linalg.shared_loops import ATTRIBUTE, AXES, SharedLoop, to_shared_attribute
from stepwell.passes.linalg.structured import Structured, element_bits
from stepwell.passes.linalg.threads import THREADED_WORK
from stepwell.passes.registry import Pass, PassState, register_pass
from stepwell.passes.rewriting import ops_below


@register_pass("share-loops", level="linalg", anchor="func.func", optional=True)
@dataclass
class ShareLoops(Pass):
    """Put loops around several contractions of a kernel, each of which then does a slice at a time.

    rewrite: {axes = {rows = 3, …}}  ->  {shared = #sched.shared<[{loop = "rows", dim = 3, step = 1, slots = 2}, …]>}

    The lowering says with `axes` which loops of different ops run over the same thing; this pass says which of them are shared, in what
    order and steps. It knows Winograd's five stages: two over channels that transform the image, the products, and two over filters
    that transform back. Two forms are weighed by the bytes that they move through more than a core's own cache:

    - a few tiles of the image at a time: what the stages hand on stays in the cache, and the transformed filters are read for each few;
    - all tiles: the transformed image and the products are written and read once, and so are the filters.

    Filters that are transformed when the kernel runs make two more stages before the products. Those share a loop over blocks of filters
    with all that follow, so that the transformed ones stay in the cache.
    """

    slots: int = 0  # stretches that the outermost loop is dealt out in; 0 for one to each of the target's cores

    def run(self, op: ir.Operation, state: PassState) -> None:
        staged = [Structured(o) for o in ops_below(op, "linalg.generic") if AXES in o.attributes]
        stages = [_Stage.of(s) for s in staged]
        kinds = [set(stage.axes) for stage in stages]
        if kinds in (WITH_FILTERS, TRANSFORMED, IN_GROUPS):
            self._share_winograd(stages, kinds == WITH_FILTERS, state)
            state.count(self.name)
        for s in staged:
            del s.operation.attributes[AXES]

    def _share_winograd(self, stages: "list[_Stage]", by_filters: bool, state: PassState) -> None:
        products = stages[-3]
        work = prod(products.op.extents)
        slots = 1 if work < THREADED_WORK else self.slots or getattr(state.target, "cores", 1)
        steps = {} if by_filters else tiles_in_cache(products, state.target.caches.l2, slots)
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
            rounds = stage.extent(loops[0][0]) // loops[0][1]
            dealt = [min(slots, rounds), *[1] * (len(loops) - 1)]
            shared = [SharedLoop(name, stage.axes[name], step, n) for (name, step), n in zip(loops, dealt, strict=True)]
            stage.op.operation.attributes[ATTRIBUTE] = to_shared_attribute(shared)


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
        """How many iterations its loop of that name has."""
        return self.op.extents[self.axes[axis]]


def tiles_in_cache(products: _Stage, cache: int, slots: int) -> dict[str, int]:
    """The steps of the shared loops over rows and columns of tiles; none where it costs more to read the filters again.

    `cache` is the size in bytes of a core's own cache, three quarters of which are for the slices of the transformed image and of the
    products, and for the transformed filters if these fit as well. The rows are dealt out to `slots` evenly.
    """
    element = element_bits(products.op.outputs[0].element_type) // 8
    image, filters = (prod(a.shape) * element for a in products.op.inputs)
    handed_on = (image + prod(products.op.outputs[0].shape) * element) // products.extent("images")
    rows, columns = products.extent("rows"), products.extent("columns")
    room = cache * 3 // 4

    def moved(step: tuple[int, int]) -> int:
        """Bytes that do not come from the cache or stay there."""
        share = rows * columns // (step[0] * step[1])
        slices = handed_on // share
        again = filters * share if slices + filters > room else filters
        return again + (2 * handed_on if slices > room else 0)

    options = [(r, c) for r in divisors(rows) for c in divisors(columns) if even(rows // r, slots) and (c == columns or r == 1)]
    best = min(options, key=lambda step: (moved(step), -step[0] * step[1]), default=None)
    if best is None or moved(best) >= filters + 2 * handed_on:
        return {}
    return {"rows": best[0], "columns": best[1]}


UNEVEN = 1.2  # by what factor the busiest of the slots may have more to do than the average


def even(rounds: int, slots: int) -> bool:
    """Whether that many rounds are shared out evenly enough."""
    return -(-rounds // slots) * slots <= UNEVEN * rounds


def divisors(n: int) -> list[int]:
    """The divisors of n, in order."""
    return [d for d in range(1, n + 1) if n % d == 0]
