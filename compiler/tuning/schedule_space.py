"""The search space of one structured op: its schedules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from math import factorial, isfinite, prod
from random import Random

from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import NONE
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg_to_affine.strategies.registry import has_own_strategies
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.candidates import nest_features, parse_schedule, schedule_text
from stepwell.passes.schedule.cost_model import CycleModel
from stepwell.passes.schedule.defaults import tile_prefetch
from stepwell.passes.schedule.effects import effective, walked_or_tiled
from stepwell.passes.schedule.intrinsics import available
from stepwell.passes.schedule.nest import MAX_TILE, Nest
from stepwell.passes.schedule.quantities import Cost
from stepwell.passes.schedule.space import MAX_PREFETCH, MAX_STEP, MAX_WIDTH, Value, knobs

TRIES = 32
"""The most attempts to draw a legal schedule at random."""
WITHOUT = 0.5
"""The share of random values of a block or a prefetch distance that are none, since they seldom help."""
BY_RULE = 0.5
"""The share of random candidates whose prefetch distance is by the default's rule for their tile, if the default's is."""
LISTED = 4
"""The largest number of loops all of whose orders are listed; of more, a loop is moved at a time."""


class ScheduleSpace:
    """The schedules of `op` on `target`, around the default one (`tuning.spaces.Space`).

    A candidate's text names all knobs that have an effect (`schedule_text`). Texts are canonical: knobs without effect are neutral, and loops of one
    iteration are innermost. Blocks and prefetch distances are thinned out: others than the listed values are legal, but not proposed.
    """

    def __init__(
        self, op: Structured, target: Target, default: Nest, *, rounding: bool = False, threads: int = 1, in_place: bool = False
    ) -> None:  # fmt: skip
        """With `rounding`, candidates may compute other bits than the default. On one thread, the number of threaded loops is the default's.

        `in_place` says that the kernel's result shares memory with an input: then blocks of a sum, with partial sums in the result, are illegal.
        """
        self.op, self.target, self.rounding, self.threads, self.in_place = op, target, rounding, threads, in_place
        self._knobs, self._uses, self._start = knobs(op, target), available(op, target), default
        self._own_strategies = has_own_strategies(op.kind)
        self._nests: dict[str, Nest] = {}
        self._texts: dict[Nest, str] = {}
        self._costs: dict[Nest, Cost] = {}
        self._refused: dict[Nest, bool] = {}
        self._arithmetic = arithmetic(default, op)
        settled = self._settled(default)
        self.default = self._text(settled if settled is not None else default)

    # -- the interface -------------------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """See `Space`."""
        counts = [len(values) for name, values in self._values.items() if name != "order"]
        return prod(counts) * factorial(sum(size > 1 for d, size in enumerate(self.op.sizes) if d in self.op.parallel_dims))

    def every(self) -> Iterator[str]:
        """See `Space`."""
        seen = {self.default}
        yield self.default
        names = list(self._values)
        walked = [d for d in self.op.parallel_dims if self.op.sizes[d] > 1 or d in self.op.open]
        still = tuple(d for d in self.op.parallel_dims if d not in walked)
        orders = [(*order, *still) for order in permutations(walked)]
        for values in product(*(orders if name == "order" else self._values[name] for name in names)):
            found = self._with(self.nest(self.default), dict(zip(names, values, strict=True)))
            if found is not None and (text := self._text(found)) not in seen:
                seen.add(text)
                yield text

    def sample(self, random: Random) -> str:
        """See `Space`. Tiles that exceed the registers are drawn only if `TRIES` attempts find no other."""
        legal, by_rule = None, self._by_rule(self._start)
        for _ in range(TRIES):
            found = self._with(self.nest(self.default), {name: self._drawn(name, random) for name in self._values})
            if found is not None and by_rule and random.random() < BY_RULE:
                found = self._ruled(found)
            if found is None:
                continue
            if self._model.fits(found):
                return self._text(found)
            legal = legal or found
        return self.default if legal is None else self._text(legal)

    def near(self, text: str) -> list[str]:
        """See `Space`."""
        nest = self.nest(text)
        values = nest.values(self.op)
        found = (self._changed(nest, name, value) for name, now in values.items() for value in self._beside(name, now, nest))
        return list(dict.fromkeys(other for one in found if one is not None and (other := self._text(one)) != text))

    def move(self, text: str, random: Random) -> str:
        """See `Space`."""
        nest = self.nest(text)
        values = list(nest.values(self.op).items())
        for _ in range(TRIES):
            name, now = random.choice(values)
            beside = list(self._beside(name, now, nest))
            found = self._changed(nest, name, random.choice(beside)) if beside else None
            if found is not None and (other := self._text(found)) != text:
                return other
        return text

    def lines(self, text: str) -> dict[str, list[str]]:
        """See `Space`."""
        nest = self.nest(text)
        now, out = nest.values(self.op), {}
        for name, value in now.items():
            line = {value: text}
            for other in self._orders(nest) if name == "order" else self._values[name]:
                found = None if other == value else self._with(nest, {name: other})
                after = {} if found is None else found.values(self.op)
                if found is not None and [knob for knob in now if now[knob] != after[knob]] == [name]:
                    line[after[name]] = self._text(found)
            if len(line) > 1:
                out[name] = [line[key] for key in sorted(line, key=lambda v: (isinstance(v, str), v))]
        return out

    def cross(self, one: str, other: str, random: Random) -> str:
        """See `Space`."""
        first, second = (self.nest(text).values(self.op) for text in (one, other))
        for _ in range(TRIES):
            found = self._with(self.nest(one), {name: random.choice((first[name], second[name])) for name in first})
            if found is not None and self._model.fits(found):
                return self._text(found)
        return one

    def refusal(self, text: str) -> str | None:
        """See `Space`."""
        try:
            nest = parse_schedule(text, self.op, self.target, self._knobs)
        except ScheduleError as error:
            return str(error.args[0])
        if self.in_place and any(d in self.op.reduction_dims for d in nest.blocks):
            return "blocks of a sum would overwrite an input, with which the kernel's result shares memory"
        if not self._same_bits(nest):
            now, usual = (what or "in the order of the loops" for what in (arithmetic(nest, self.op), self._arithmetic))
            return f"it may compute other bits: its sums are {now}, the default's are {usual}"
        settled = self._settled(nest)
        if settled is None or self._text(settled) != text:
            return f"it is not canonical: expected '{'' if settled is None else self._text(settled)}'"
        return None

    def predict(self, texts: Sequence[str]) -> list[float | None]:
        """See `Space`. Raises ScheduleError for a candidate that is not legal."""
        return [self._model.seconds(self._cost(self.nest(text))) for text in texts]

    def features(self, text: str) -> dict[str, float]:
        """See `Space`: the knobs and the quantities of the prediction, as far as they are finite."""
        nest = self.nest(text)
        found = nest_features(self._model, nest, self._cost(nest))
        return {name: value for name, value in {**found, "tile": float(prod(nest.unroll))}.items() if isfinite(value)}

    def nest(self, text: str) -> Nest:
        """The schedule of a text. Raises ScheduleError if it is not legal."""
        if text not in self._nests:
            self._nests[text] = parse_schedule(text, self.op, self.target, self._knobs)
        return self._nests[text]

    def knob_values(self, text: str) -> dict[str, Value]:
        """The values of all knobs of a candidate, as plans list them."""
        return self.nest(text).values(self.op)

    # -- values of knobs -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _model(self) -> CycleModel:
        with self.op.operation.context:
            return CycleModel(self.op, self.target)

    @cached_property
    def _values(self) -> dict[str, tuple[Value, ...]]:
        """The proposed values of each knob, ascending; of the order the default's alone, see `_orders`."""
        op, start = self.op, self._start.values(self.op)
        found: dict[str, tuple[Value, ...]] = {}
        for knob in self._knobs:
            now = start[knob.name]
            kind, _, dim = knob.name.partition(".")
            values: set[Value] = {now}
            if kind in ("unroll", "vector", "intrinsic", "along") or (kind == "parallel" and self.threads > 1 and op.may_thread):
                values |= set(knob.legal)
            elif kind == "width":
                values |= {1 << i for i in range(self._widest.bit_length())}
            elif kind == "block" and self._can_block(int(dim)):
                values |= {0, *blocks(op.sizes[int(dim)])}
            elif kind == "prefetch" and op.reduction_dims:
                values |= {0, *(1 << i for i in range(MAX_PREFETCH.bit_length()))}
            possible = (value for value in values if value == now or self._is_possible(knob.name, value))
            found[knob.name] = tuple(sorted(possible, key=lambda v: (isinstance(v, str), v)))
        return found

    def _is_possible(self, name: str, value: Value) -> bool:
        """Whether the default with this value of a knob has loops for it, and computes the same bits."""
        if name in ("vector", "along") and isinstance(value, int) and value >= 0 and self.op.sizes[value] == 1 and value not in self.op.open:
            return False
        changed = Nest.of_values({**self._start.values(self.op), name: value}, self.op)
        if name == "vector":  # vectors of one element have the same bits along all dimensions
            changed = replace(changed, width=max(2, changed.width))
        return self.rounding or arithmetic(changed, self.op) == self._arithmetic

    @cached_property
    def _widest(self) -> int:
        """The largest useful width: vectors of half of the registers, and not longer than a dimension."""
        longest = max((self.op.sizes[d] for d in range(len(self.op.sizes)) if self.op.can_vectorise(d)), default=1)
        lanes = self.target.vector_bits // 8 // max(1, self._model.bytes) or 1
        return int(min(MAX_WIDTH, lanes * self.target.vector_registers // 2, 1 << max(0, longest.bit_length() - 1)))

    def _orders(self, nest: Nest) -> list[tuple[int, ...]]:
        """The orders of the loops that make a difference: all of a few loops, of more those with one loop moved."""
        moving = [d for d in nest.order if d in walked_or_tiled(nest, self.op)]
        still = tuple(d for d in nest.order if d not in moving)
        if len(moving) <= LISTED:
            return [(*order, *still) for order in permutations(moving)]
        rests = {d: [other for other in moving if other != d] for d in moving}
        moved = {(*rest[:place], d, *rest[place:]) for d, rest in rests.items() for place in range(len(moving))}
        return [(*order, *still) for order in sorted(moved)]

    def _beside(self, name: str, now: Value, nest: Nest) -> list[Value]:
        """The values of a knob next to `now`: for a tile or a block also its double, its half and its extremes."""
        if name == "order":
            return [order for order in self._orders(nest) if order != now]
        values = self._values[name]
        if name.partition(".")[0] not in ("unroll", "block", "prefetch") or not isinstance(now, int):
            return [value for value in values if value != now]
        numbers = [value for value in values if isinstance(value, int)]
        place = sum(value < now for value in numbers)
        after = place + (now in numbers)
        wanted = {*numbers[max(0, place - 1) : place], *numbers[after : after + 1], numbers[0], numbers[-1], 2 * now, now // 2}
        return [value for value in numbers if value in wanted and value != now]

    def _drawn(self, name: str, random: Random) -> Value:
        """A random value of a knob; of tiles small ones more often, since the registers hold few large ones."""
        values = self._values[name]
        if name == "order":
            order = list(self._start.order)
            random.shuffle(order)
            return tuple(order)
        if name.startswith("unroll."):
            return values[min(int(len(values) ** random.random()), len(values)) - 1]
        if name.startswith(("block.", "prefetch")) and random.random() < WITHOUT:
            return values[0]
        return random.choice(values)

    # -- legal schedules -----------------------------------------------------------------------------------------------------------

    def _with(self, nest: Nest, changes: Mapping[str, Value]) -> Nest | None:
        """`nest` with other values of some knobs, and others changed as needed; None if that is not legal, or may compute other bits."""
        found = self._settled(Nest.of_values({**nest.values(self.op), **changes}, self.op))
        return found if found is not None and self._same_bits(found) else None

    def _changed(self, nest: Nest, name: str, value: Value) -> Nest | None:
        """`nest` with another value of one knob, as `_with`. A prefetch distance by the default's rule is chosen anew for the tile."""
        found = self._with(nest, {name: value})
        return found if found is None or name in ("prefetch", "along") or not self._by_rule(nest) else self._ruled(found)

    def _by_rule(self, nest: Nest) -> bool:
        """Whether the prefetch distance of a schedule is that of the default's rule for its tile."""
        return nest.along < 0 and nest.prefetch == self._usual(nest)

    def _ruled(self, nest: Nest) -> Nest | None:
        """`nest` with the prefetch distance by the default's rule, if that has one for it."""
        usual = self._usual(nest)
        return nest if usual is None else self._with(nest, {"prefetch": usual, "along": -1})

    def _usual(self, nest: Nest) -> int | None:
        """The prefetch distance by the default's rule, which is for vectors in sums; None for other schedules."""
        return tile_prefetch(self.op, self.target, nest) if self.op.reduction_dims and nest.vector >= 0 else None

    def _settled(self, nest: Nest) -> Nest | None:
        """The canonical schedule with the code of `nest`, after changes that make it legal; None if there is none."""
        op, sums = self.op, nest.vector in self.op.reduction_dims
        unroll = tuple(1 if d == nest.vector else min(n, max(1, op.sizes[d]) if d not in op.open else MAX_STEP) for d, n in enumerate(nest.unroll))
        width = 1 if nest.vector < 0 else nest.width
        if prod(unroll) > MAX_TILE:
            return None
        use = self._uses.get(nest.intrinsic)
        unit = 1 if use is None else use.intrinsic.lanes * (use.intrinsic.depth if sums else 1)
        intrinsic = NONE if use is None or nest.vector < 0 or width % unit or any(a.is_constant for a in op.inputs) else nest.intrinsic
        parallel = self._start.parallel if self.threads == 1 else nest.parallel
        found = replace(nest, unroll=unroll, width=width, intrinsic=intrinsic, parallel=parallel, block=())
        cut = []
        for d, size in enumerate(nest.block):
            rounded = size // found.step(d) * found.step(d)
            cut.append(0 if rounded >= op.sizes[d] or not self._can_block(d) or (sums and d in op.reduction_dims) else rounded)
        return self._canonical(replace(found, block=tuple(cut) if any(cut) else ()))

    def _canonical(self, nest: Nest) -> Nest | None:
        """`nest` without knobs that have no effect, and with loops that are not walked innermost; None if it is not legal."""
        walked = walked_or_tiled(nest, self.op)
        order = (*(d for d in nest.order if d in walked), *sorted(d for d in nest.order if d not in walked))
        found = effective(replace(nest, order=order, parallel=min(nest.parallel, len(walked))), self.op)
        if found not in self._refused:
            try:
                found.check(self.op, self.target, self._knobs)
                self._refused[found] = False
            except ScheduleError:
                self._refused[found] = True
        return None if self._refused[found] else found

    def _can_block(self, dim: int) -> bool:
        return self.op.can_block(dim) and not (self.in_place and dim in self.op.reduction_dims)

    def _same_bits(self, nest: Nest) -> bool:
        """Whether a schedule may be proposed: the strategies of plugins may sum in another order in each tile."""
        if self.rounding:
            return True
        if self._own_strategies and effective(nest, self.op) != effective(self._start, self.op):
            return False
        return arithmetic(nest, self.op) == self._arithmetic

    def _cost(self, nest: Nest) -> Cost:
        """The predicted cost; on one thread, threaded loops run like others."""
        if nest not in self._costs:
            self._costs[nest] = self._model.cost(nest)
        cost = self._costs[nest]
        return cost if self.threads > 1 else replace(cost, threads=1.0, start=0.0)

    def _text(self, nest: Nest) -> str:
        if nest not in self._texts:
            self._texts[nest] = schedule_text(nest, self.op)
            self._nests.setdefault(self._texts[nest], nest)
        return self._texts[nest]


def blocks(size: int) -> set[int]:
    """Proposed blocks of a dimension: powers of two, and halves, quarters and so on of it."""
    powers = {1 << i for i in range(1, size.bit_length()) if 1 << i < size}
    return powers | {cut for i in range(1, size.bit_length()) if 1 < (cut := -(-size >> i)) < size}
