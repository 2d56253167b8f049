"""The schedules of a structured op as candidates of a choice (`PassState.choose`): their names, predicted times and features."""

from collections.abc import Iterator, Mapping
from math import inf, prod

from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.support.numbers import whole_number
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.description import Target
from stepwell.dialects.target.dot_products import NONE
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.arithmetic import arithmetic
from stepwell.passes.schedule.cost_model import CycleModel
from stepwell.passes.schedule.effects import code_key
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.quantities import Cost, features_of
from stepwell.passes.schedule.schedulers import first
from stepwell.passes.schedule.search import neighbours, why_fixed
from stepwell.passes.schedule.space import Knob, Value, knobs

SCHEDULE = "schedule"
"""The kind of choice."""
_NEUTRAL: Mapping[str, tuple[Value, ...]] = {
    "order": ((),), "parallel": (0,), "unroll": (1,), "block": (0,), "intrinsic": (NONE,), "prefetch": (0,), "along": (-1,)
}  # fmt: skip


def knobs_text(values: Mapping[str, Value]) -> str:
    """Knobs as text, such as `order=0,1 unroll.0=6 vector=1 width=16`."""
    return " ".join(f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}" for name, value in values.items())


def schedule_text(nest: Nest, op: Structured) -> str:
    """The knobs of a schedule that have an effect, as text."""
    return knobs_text({name: value for name, value in nest.values(op).items() if value not in _NEUTRAL.get(name.partition(".")[0], ())})


def parse_knobs(text: str) -> dict[str, Value]:
    """The values in `text` by knob. Raises ScheduleError if it is not of the form `NAME=VALUE …`."""
    values: dict[str, Value] = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        if not equals or not value or name in values:
            raise ScheduleError(f"expected knobs in the form 'unroll.0=4 width=8', each once, got '{part}'")
        numbers = tuple(-1 if number == "-1" else whole_number(number) for number in value.split(","))
        known = tuple(number for number in numbers if number is not None)
        values[name] = value if len(known) < len(numbers) else known if name == "order" or len(known) > 1 else known[0]
    return values


def parse_schedule(text: str, op: Structured, target: Target | None, known: tuple[Knob, ...] | None = None) -> Nest:
    """The schedule of `op` in a text that names all knobs with an effect, as `schedule_text` writes it. Raises ScheduleError, naming the knob.

    `known` are the op's knobs, for callers that keep them.
    """
    values: dict[str, Value] = {}
    known = known or knobs(op, target)
    for knob in known:
        neutral = _NEUTRAL.get(knob.name.partition(".")[0])
        if neutral is not None and (knob.name != "order" or not op.parallel_dims):
            values[knob.name] = neutral[0]
    return Nest.from_values({**values, **parse_knobs(text)}, op, target, known)


class ScheduleSpace:
    """The legal schedules of `op` on `target`, around the default one (`passes.framework.choices.SearchSpace`).

    The name of a candidate consists of the knobs in which it differs from the default, such as `unroll.0=5 width=8`; the default's name lists all
    knobs that have an effect.
    """

    def __init__(self, op: Structured, target: Target | None, default: Nest) -> None:
        self.op, self.target, self.default = op, target, default
        self.nests = {self._name(default): default}

    @cached_property
    def _model(self) -> CycleModel | None:
        return None if self.target is None else CycleModel(self.op, self.target)

    def all(self) -> list[Candidate]:
        """The default; and if a cost model searches (`schedulers.schedule`), the start of that search, and the default's neighbours."""
        start, is_start = first(self.op, self.target)
        nests = dict.fromkeys((self.default, start, *self._near(self.default)) if is_start else (self.default,))
        return [self.candidate(nest) for nest in nests]

    def named(self, name: str) -> Candidate:
        """The schedule with these knobs; the others are the default's. Raises ScheduleError, naming the knob, if it is not legal."""
        if name not in self.nests:
            return self.candidate(Nest.from_values({**self.default.values(self.op), **parse_knobs(name)}, self.op, self.target))
        return self.candidate(self.nests[name])

    def near(self, name: str) -> list[Candidate]:
        """The legal schedules that differ in one knob from the one of that name, and in others as far as the registers demand it."""
        return [self.candidate(nest) for nest in self._near(self.nests[name])]

    def _near(self, nest: Nest) -> Iterator[Nest]:
        if self._model is None or why_fixed(self.op, nest, self.target) is not None:
            return
        seen = {code_key(nest, self.op)}
        for neighbour in neighbours(self._model, nest, orders=True):
            key = code_key(neighbour, self.op)
            if key not in seen and self._is_legal(neighbour):
                seen.add(key)
                yield neighbour

    def _is_legal(self, nest: Nest) -> bool:
        try:
            nest.check(self.op, self.target)
        except ScheduleError:
            return False
        return True

    def _name(self, nest: Nest) -> str:
        usual = self.default.values(self.op)
        return knobs_text({name: value for name, value in nest.values(self.op).items() if value != usual[name]}) or schedule_text(nest, self.op)

    def candidate(self, nest: Nest) -> Candidate:
        """A legal schedule as a candidate; from now on `nests` has it by name."""
        name = self._name(nest)
        self.nests.setdefault(name, nest)
        rounded = arithmetic(nest, self.op)
        if self._model is None:
            return Candidate(name, arithmetic=rounded)
        cost = self._model.cost(nest)
        return Candidate(name, self._model.seconds(cost), nest_features(self._model, nest, cost), rounded)


def nest_features(model: CycleModel, nest: Nest, cost: Cost) -> dict[str, float]:
    """Numbers that describe a schedule: its knobs, the parts of its cost in cycles, and if the registers hold its tile the quantities behind them."""
    use = model.uses.get(nest.intrinsic)
    return {
        **{knob: float(value) for knob, value in nest.values(model.op).items() if isinstance(value, int)},
        **{f"order.{place}": float(dim) for place, dim in enumerate(nest.order)},
        **dict(zip(("compute", "l1", "l2", "l3"), (cost.compute, *cost.traffic), strict=True)),
        "iterations": float(prod(model.op.sizes)),
        "imbalance": cost.threads,
        **(features_of(model.quantities(nest)) if cost.compute < inf else {}),
        "registers": float(model.registers(nest)),
        "products": 0.0 if use is None else use.intrinsic.products / use.intrinsic.instructions,
    }
