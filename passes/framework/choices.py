"""Decisions of passes as data: candidates at named sites, their predicted costs, the plan's wishes, and the results."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol, TypeVar

from stepwell.dialects.core.locations import node_names
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import PassError, ScheduleError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.decisions import Decisions
from stepwell.passes.framework.recorded import Recorded, Taken

MOST_SHOWN = 16
"""The largest number of candidates that the report of a choice lists, the fastest ones."""
CHANGES_BITS = "may change the order of sums, which reproducible results do not allow"
"""The reason for which a candidate is refused."""
MOST_STEPS = 8
"""The largest number of steps of a search with a registered cost model, from a candidate to the fastest one next to it."""


@dataclass(frozen=True)
class Candidate:
    """One of the alternatives between which a pass chooses."""

    name: str
    """Its name in plans, the same in every model, such as `F(4, 3)`."""
    seconds: float | None = None
    """Predicted seconds on one core of the target, for the part that differs between the candidates; None without a prediction."""
    features: Mapping[str, float] = field(default_factory=dict)
    """Quantities from which a cost model may predict instead, such as `operations` and `bytes`."""
    arithmetic: str | None = None
    """A text for all that may change the bits of a result, such as the order of sums: candidates of a site with equal texts compute equal bits.

    None if that is unknown; then every other candidate may compute other bits.
    """

    def has_bits_of(self, other: "Candidate") -> bool:
        """Whether it computes the same bits as another candidate of its site."""
        return self.name == other.name or (self.arithmetic is not None and self.arithmetic == other.arithmetic)


@dataclass(frozen=True)
class Site:
    """A place where a pass chooses."""

    kind: str
    """The kind of choice, such as `winograd`."""
    name: str
    """The ONNX nodes that the op implements, joined by `+`, and after a `:` its role where a choice is about one of several ops that implement them.

    `#2` marks the second site of the same kind, nodes and role.
    """
    what: str
    """The op, and the type of its result."""
    target: Target

    @property
    def nodes(self) -> list[str]:
        """The ONNX nodes in its name."""
        return _nodes_of(self.name)

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
    recorded: bool = False
    """Whether tuning records decided it."""

    def __str__(self) -> str:
        found = list(zip(self.candidates, self.seconds, strict=True))
        if len(found) > MOST_SHOWN:
            found.sort(key=lambda one: (one[0].name != self.chosen, inf if one[1] is None else one[1]))
        told = [one.name if seconds is None else f"{one.name} {time_text(seconds)}" for one, seconds in found[:MOST_SHOWN]]
        more = f" and {len(found) - len(told)} slower ones" if len(found) > len(told) else ""
        source = " (from a plan)" if self.planned else " (from tuning records)" if self.recorded else ""
        return f"{self.site}: {self.chosen}{source}, of {', '.join(told)}{more}"


class SearchSpace(Protocol):
    """The candidates of a site that has more of them than can be listed."""

    def named(self, name: str) -> Candidate:
        """The candidate of that name. Raises ScheduleError if it is not legal."""

    def near(self, name: str) -> Sequence[Candidate]:
        """The candidates next to the one of that name, where a search goes on."""


def _keeps_bits(one: Candidate, usual: Candidate, *, final: bool) -> bool:
    """Whether a candidate surely gives reproducible results: later decisions could follow another one, and change the order of sums."""
    return one.name == usual.name or (final and one.has_bits_of(usual))


@dataclass(frozen=True)
class _OfSameBits:
    """The candidates of a search space that give reproducible results."""

    space: SearchSpace
    usual: Candidate
    final: bool

    def named(self, name: str) -> Candidate:
        """See `SearchSpace`. Raises ScheduleError for a candidate that may change the bits too."""
        found = self.space.named(name)
        if not _keeps_bits(found, self.usual, final=self.final):
            raise ScheduleError(f"{shown(name)} {CHANGES_BITS}")
        return found

    def near(self, name: str) -> Sequence[Candidate]:
        """See `SearchSpace`."""
        return [one for one in self.space.near(name) if _keeps_bits(one, self.usual, final=self.final)]


class CostModel(Protocol):
    """Predicts the costs of candidates. Register a class with `register_cost_model`."""

    def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
        """Seconds on one core of `site.target` for each candidate; None for a candidate without a prediction."""


M = TypeVar("M", bound=type[Any])
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


def cost_model(kind: str) -> CostModel | None:
    """The registered model that predicts the costs of candidates of a kind; None if the passes predict them, by the target's costs."""
    return _MODELS.get(kind) or _MODELS.get(EVERY)


def has_cost_model(kind: str) -> bool:
    """Whether a registered model replaces the built-in one for a kind."""
    return cost_model(kind) is not None


@dataclass
class Choices:
    """The choices of a compilation."""

    plan: Plan | None = None
    made: list[Choice] = field(default_factory=list)
    """All choices so far, in order."""
    recorded: Recorded | None = None
    """The decisions of tuning records, for sites about which the plan says nothing."""
    recording: bool = False
    """Whether all choices are recorded, although nothing asks for them: for tuning."""
    _names: Counter[tuple[str, str]] = field(default_factory=Counter)

    def choose(
        self, kind: str, op: Any, candidates: Sequence[Candidate], default: str, *, target: Target, decisions: Decisions | None, run: str,
        role: str = "", space: SearchSpace | None = None, planned: bool = False, recorded: str | None = None, final: bool = False,
    ) -> str:  # fmt: skip
        """The name of the candidate to take for `op`: the plan's, or else that of tuning records, or else the one predicted to be the fastest.

        `default` is the pass's choice by the built-in model, which may prefer a candidate that needs less memory to one that is slightly faster.
        With a `space`, a plan may name any of its candidates, and a registered model searches it, from the fastest of `candidates` on. `planned` says
        that a plan demands the default in another way, `recorded` names the candidate that the records demand in another way. `final` says that no
        later decision depends on this one. Raises ScheduleError if the plan's candidate does not exist here.

        For reproducible results only candidates count that surely keep the bits: the default, and if the choice is `final` those with its arithmetic.
        """
        if self.plan is not None:
            check_machine(self.plan, target)
        site = self._site(kind, op, target, role)
        found = list(candidates)
        if target.reproducible:
            usual = next(one for one in found if one.name == default)
            found = [one for one in found if _keeps_bits(one, usual, final=final)]
            space = None if space is None else _OfSameBits(space, usual, final)
        seconds = _predicted(site, found)
        wanted = None if self.plan is None else self.plan.choices.get(kind, {}).get(site.name)
        chosen, kept = default, None
        if wanted is not None:
            chosen = _wanted(wanted, site, found, seconds, space, self._where_from(site))
            if planned and chosen != default:
                raise ScheduleError(f"{self._where_from(site)}: it is given twice, as {shown(wanted)} and under 'kernels' as {shown(default)}")
        elif not planned and (kept := self._kept(site, found, seconds, space, recorded)) is not None:
            chosen = kept
        elif not planned and has_cost_model(kind):
            chosen = _fastest(site, found, seconds, default, space)
        choice = Choice(site, tuple(found), tuple(seconds), chosen, planned or wanted is not None, kept is not None)
        self.made.append(choice)
        if decisions is not None:
            decisions.add(run, "choice", op, True, str(choice))
        return chosen

    def _kept(
        self, site: Site, found: list[Candidate], seconds: list[float | None], space: SearchSpace | None, recorded: str | None
    ) -> str | None:  # fmt: skip
        """The name of the candidate that tuning records demand; None if they say nothing, or if that candidate does not exist here."""
        if self.recorded is None:
            return None
        wanted, name = recorded or self.recorded.choice(site.kind, site.name), f"choice {site}"
        if wanted is None:
            return None
        try:
            chosen = _wanted(wanted, site, found, seconds, space, name)
        except ScheduleError as error:
            self.recorded.ignore(name, str(error.args[0]).removeprefix(f"{name}: "))
            return None
        if recorded is None:
            self.recorded.take(Taken(site.kind, site.name, wanted, site.what))
        return chosen

    def _where_from(self, site: Site) -> str:
        return f"{'plan' if self.plan is None else self.plan.name}: choice {site}"

    @property
    def prescribed(self) -> bool:
        """Whether there is a plan, given or recorded."""
        return self.plan is not None or (self.recorded is not None and self.recorded.plan is not None)

    def plans(self, kind: str) -> bool:
        """Whether a plan, given or recorded, decides any site of a kind."""
        plans = (self.plan, None if self.recorded is None else self.recorded.plan)
        return any(plan is not None and plan.choices.get(kind) for plan in plans)

    def in_use(self, target: Target) -> Plan | None:
        """The plan that makes the same code without tuning records; None if neither a plan nor records decided anything."""
        return self.plan if self.recorded is None else self.recorded.merged(self.plan, target)

    def copy(self) -> "Choices":
        """A copy of the choices so far, for passes that run again."""
        recorded = None if self.recorded is None else self.recorded.copy()
        return Choices(self.plan, list(self.made), recorded, self.recording, Counter(self._names))

    def _site(self, kind: str, op: Any, target: Target, role: str) -> Site:
        operation = op.operation
        nodes = "+".join(node_names(operation.location)) or operation.name
        nodes += f":{role}" if role else ""
        self._names[kind, nodes] += 1
        number = self._names[kind, nodes]
        results = ", ".join(str(result.type) for result in operation.results)
        return Site(kind, nodes if number == 1 else f"{nodes}#{number}", f"'{operation.name}' {results}".rstrip(), target)

    def check(self) -> None:
        """Raise ScheduleError for a site of the plan at which nothing was chosen, saying where its nodes went.

        Such entries of a recorded plan are noted as ignored; beside a given plan they are none, since it may have moved them.
        """
        met = {(choice.site.kind, choice.site.name) for choice in self.made}
        if self.recorded is not None and self.plan is None:
            self.recorded.check(met)
        for kind, sites in ({} if self.plan is None else self.plan.choices).items():
            for name in sites:
                if (kind, name) not in met:
                    assert self.plan is not None
                    raise ScheduleError(f"{self.plan.name}: choice {kind}/{name}: there is no such choice; {self._where(kind, name)}")

    def _where(self, kind: str, name: str) -> str:
        """The choices that exist for the nodes of a site, or else the sites that exist, as text."""
        nodes = set(_nodes_of(name))
        near = [str(choice.site) for choice in self.made if nodes & set(choice.site.nodes)]
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


def _wanted(wanted: str, site: Site, found: list[Candidate], seconds: list[float | None], space: SearchSpace | None, where: str) -> str:
    """The name of the candidate that a plan demands, which is added to those found. Raises ScheduleError, which begins with `where`."""
    names = [candidate.name for candidate in found]
    if wanted in names:
        return wanted
    if space is None:
        why = f"; any other {CHANGES_BITS}" if site.target.reproducible else ""
        raise ScheduleError(f"{where}: expected one of {', '.join(names)} ({site.what}), got {shown(wanted)}{why}")
    try:
        candidate = space.named(wanted)
    except ScheduleError as error:
        raise ScheduleError(f"{where}: {error.args[0]} ({site.what})") from None
    if candidate.name not in names:
        found.append(candidate)
        seconds += _predicted(site, [candidate])
    return candidate.name


def check_machine(plan: Plan, target: Target | None) -> None:
    """Raise ScheduleError if a plan is for another machine."""
    if plan.target is not None and target is not None and plan.target["digest"] != target.digest:
        mine = f"'{target.name}' (CPU {target.cpu})"
        theirs = f"'{plan.target.get('name', 'unknown')}' (CPU {plan.target.get('cpu', 'unknown')})"
        raise ScheduleError(f"{plan.name}: the file is for the target {theirs}, and the model is compiled for {mine}; what is legal and fast differs")


def _predicted(site: Site, candidates: Sequence[Candidate]) -> list[float | None]:
    """The predictions of the site's cost model, or else of the pass. Raises PassError if their number is wrong."""
    model = cost_model(site.kind)
    seconds = [candidate.seconds for candidate in candidates] if model is None else list(model.predict(site, candidates))
    if len(seconds) != len(candidates):
        raise PassError(f"the cost model of '{site.kind}' must predict {len(candidates)} costs for {site}, got {shown(seconds)}")
    return seconds


def _fastest(site: Site, found: list[Candidate], seconds: list[float | None], default: str, space: SearchSpace | None) -> str:
    """The name of the candidate with the smallest prediction; a search of `space` adds to those found."""
    best = default
    for _ in range(1 if space is None else MOST_STEPS):
        last = best
        known = [(time, one.name != default, place) for place, (time, one) in enumerate(zip(seconds, found, strict=True)) if time is not None]
        best = found[min(known)[2]].name if known else default
        if space is None or best in (last, default):
            break
        names = {one.name for one in found}
        fresh = [one for one in space.near(best) if one.name not in names]
        seconds += _predicted(site, fresh)
        found += fresh
    return best


def _nodes_of(name: str) -> list[str]:
    """The nodes that the name of a site consists of."""
    return re.sub(r"(:[a-z]+)?(#\d+)?$", "", name).split("+")


def time_text(seconds: float) -> str:
    """A time with its unit, in three digits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
