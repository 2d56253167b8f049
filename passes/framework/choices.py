"""Decisions of passes as data: candidates at named sites, their predicted costs, the plan's wishes, and the results."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from stepwell.dialects.core.locations import node_names
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import PassError, ScheduleError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.decisions import Decisions


@dataclass(frozen=True)
class Candidate:
    """One of the alternatives between which a pass chooses."""

    name: str
    """Its name in plans, the same in every model, such as `F(4, 3)`."""
    seconds: float | None = None
    """Predicted seconds on one core of the target, for the part that differs between the candidates; None without a prediction."""
    features: Mapping[str, float] = field(default_factory=dict)
    """Quantities from which a cost model may predict instead, such as `operations` and `bytes`."""


@dataclass(frozen=True)
class Site:
    """A place where a pass chooses."""

    kind: str
    """The kind of choice, such as `winograd`."""
    name: str
    """The ONNX nodes that the op implements, joined by `+`; `#2` marks the second site of the same nodes and kind."""
    what: str
    """The op, and the type of its result."""
    target: Target

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True)
class Choice:
    """The result of a choice at a site."""

    site: Site
    candidates: Sequence[Candidate]
    seconds: Sequence[float | None]
    """The prediction of the cost model for each candidate."""
    chosen: str
    planned: bool
    """Whether a plan demanded it."""

    def __str__(self) -> str:
        told = (
            candidate.name if seconds is None else f"{candidate.name} {_time(seconds)}"
            for candidate, seconds in zip(self.candidates, self.seconds, strict=True)
        )  # fmt: skip
        return f"{self.site.kind}: {self.chosen}{' (from a plan)' if self.planned else ''}, of {', '.join(told)}"


class CostModel(Protocol):
    """Predicts the costs of candidates. Register a class with `register_cost_model`."""

    def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
        """Seconds on one core of `site.target` for each candidate; None for a candidate without a prediction."""


class Analytic:
    """The built-in model: the passes' own predictions, from operations, bytes and the target's costs."""

    def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
        """See `CostModel`."""
        return [candidate.seconds for candidate in candidates]


M = TypeVar("M", bound=type[Any])
_ANALYTIC = Analytic()
_MODELS: dict[str, CostModel] = {}
EVERY = "*"


def register_cost_model(*kinds: str) -> Callable[[M], M]:
    """Register a class (see `CostModel`) that replaces the built-in model, for these kinds of choices or for all.

    Passes then take the candidate with the smallest prediction; among equals, the one that they would take otherwise.
    """

    def add(cls: M) -> M:
        for kind in kinds or (EVERY,):
            _MODELS[kind] = cls()
        extension(cls)
        return cls

    return add


def cost_model(kind: str) -> CostModel:
    """The model that predicts the costs of candidates of a kind."""
    return _MODELS.get(kind) or _MODELS.get(EVERY) or _ANALYTIC


def has_cost_model(kind: str) -> bool:
    """Whether a registered model replaces the built-in one for a kind."""
    return cost_model(kind) is not _ANALYTIC


@dataclass
class Choices:
    """The choices of a compilation."""

    plan: Plan | None = None
    made: list[Choice] = field(default_factory=list)
    """All choices so far, in order."""
    _names: Counter[tuple[str, str]] = field(default_factory=Counter)

    def choose(
        self, kind: str, op: Any, candidates: Sequence[Candidate], default: str, *, target: Target, decisions: Decisions | None, run: str
    ) -> str:  # fmt: skip
        """The name of the candidate to take for `op`: the plan's, or else the one predicted to be the fastest.

        `default` is the pass's choice by the built-in model, which may prefer a candidate that needs less memory to one that is slightly faster.
        Raises ScheduleError if the plan's candidate does not exist here.
        """
        if self.plan is not None:
            check_machine(self.plan, target)
        site = self._site(kind, op, target)
        seconds = list(cost_model(kind).predict(site, candidates))
        if len(seconds) != len(candidates):
            raise PassError(f"the cost model of '{kind}' must predict {len(candidates)} costs for {site}, got {shown(seconds)}")
        wanted = None if self.plan is None else self.plan.choices.get(kind, {}).get(site.name)
        names = [candidate.name for candidate in candidates]
        if wanted is not None and wanted not in names:
            assert self.plan is not None
            raise ScheduleError(f"{self.plan.name}: choice {site}: expected one of {', '.join(names)} ({site.what}), got {shown(wanted)}")
        chosen = default if wanted is None else wanted
        known = [(time, name != default, name) for time, name in zip(seconds, names, strict=True) if time is not None]
        if wanted is None and known and has_cost_model(kind):
            chosen = min(known)[2]
        choice = Choice(site, tuple(candidates), tuple(seconds), chosen, wanted is not None)
        self.made.append(choice)
        if decisions is not None:
            decisions.add(run, "choice", op, True, str(choice))
        return chosen

    def plans(self, kind: str) -> bool:
        """Whether a plan decides any site of a kind."""
        return self.plan is not None and bool(self.plan.choices.get(kind))

    def copy(self) -> "Choices":
        """A copy of the choices so far, for passes that run again."""
        return Choices(self.plan, list(self.made), Counter(self._names))

    def _site(self, kind: str, op: Any, target: Target) -> Site:
        operation = op.operation
        nodes = "+".join(node_names(operation.location)) or operation.name
        self._names[kind, nodes] += 1
        number = self._names[kind, nodes]
        results = ", ".join(str(result.type) for result in operation.results)
        return Site(kind, nodes if number == 1 else f"{nodes}#{number}", f"'{operation.name}' {results}".rstrip(), target)

    def check(self) -> None:
        """Raise ScheduleError for a site of the plan at which nothing was chosen, saying where its nodes went."""
        met = {(choice.site.kind, choice.site.name) for choice in self.made}
        for kind, sites in ({} if self.plan is None else self.plan.choices).items():
            for name in sites:
                if (kind, name) not in met:
                    assert self.plan is not None
                    raise ScheduleError(f"{self.plan.name}: choice {kind}/{name}: there is no such choice; {self._where(kind, name)}")

    def _where(self, kind: str, name: str) -> str:
        """The choices that exist for the nodes of a site, or else the sites that exist, as text."""
        nodes = set(name.partition("#")[0].split("+"))
        near = [str(choice.site) for choice in self.made if nodes & set(choice.site.name.partition("#")[0].split("+"))]
        alike = [choice.site.name for choice in self.made if choice.site.kind == kind]
        if near:
            return f"choices about its nodes are {', '.join(dict.fromkeys(near))}"
        if alike:
            return f"choices of this kind are about {', '.join(alike[:8])}{', …' * (len(alike) > 8)}"
        return f"nothing of this kind is chosen; kinds are {', '.join(dict.fromkeys(choice.site.kind for choice in self.made)) or 'none'}"

    def taken(self) -> dict[str, dict[str, str]]:
        """The choices by kind and site, in the form of a plan."""
        found: dict[str, dict[str, str]] = {}
        for choice in self.made:
            found.setdefault(choice.site.kind, {})[choice.site.name] = choice.chosen
        return found


def check_machine(plan: Plan, target: Target | None) -> None:
    """Raise ScheduleError if a plan is for another machine."""
    if plan.target is not None and target is not None and plan.target["digest"] != target.digest:
        mine = f"'{target.name}' (CPU {target.cpu})"
        theirs = f"'{plan.target.get('name', 'unknown')}' (CPU {plan.target.get('cpu', 'unknown')})"
        raise ScheduleError(f"{plan.name}: the file is for the target {theirs}, and the model is compiled for {mine}; what is legal and fast differs")


def _time(seconds: float) -> str:
    """A time with its unit, in three digits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
