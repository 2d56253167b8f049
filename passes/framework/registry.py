"""The registry of passes, the base class of a pass, and the state that the passes of a run share."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from stepwell.dialects.core.mlir import Dialect, Operation, ir
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import PipelineError, shown
from stepwell.dialects.support.extensions import extension
from stepwell.dialects.support.limits import Budget
from stepwell.dialects.support.processes import uninterrupted
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.passes.framework.choices import Candidate, Choices, SearchSpace, has_cost_model
from stepwell.passes.framework.decisions import Decisions, NoMatch
from stepwell.passes.framework.levels import find_level, level_names
from stepwell.passes.framework.upstream_names import NAMES


@dataclass
class PassState:
    """The state that the passes of one run share besides the IR: weights, target, limits, decisions."""

    weights: WeightTable = field(default_factory=WeightTable)
    target: Target | None = None
    choices: Choices = field(default_factory=Choices)
    """The choices between candidates so far, and the plan that prescribes some."""
    budget: Budget = field(default_factory=Budget)
    """The limits of the compilation, and how much of them is used up."""
    decisions: Decisions | None = None
    """Actions and refusals with their reasons; None unless requested."""
    running: str = ""
    """The name of the running pass."""
    statistics: dict[str, int] = field(default_factory=dict)

    @property
    def machine(self) -> Target:
        """The machine by which passes decide: the target, or a generic machine if none was named; for reproducible results `Target.deciding`."""
        return (self.target or GENERIC).deciding

    def count(self, what: str, amount: int = 1) -> None:
        """Add to a named statistic of this run."""
        self.statistics[what] = self.statistics.get(what, 0) + amount

    def asked(self, kind: str) -> bool:
        """Whether the candidates of a kind matter: they are prescribed, predicted by a cost model, or reported. Otherwise the default is taken."""
        return self.decisions is not None or self.choices.prescribed or self.choices.recording or has_cost_model(kind)

    def choose(
        self, kind: str, op: ir.Operation | ir.OpView, candidates: Callable[[], Sequence[Candidate]], default: str, *,
        role: str = "", space: SearchSpace | None = None, planned: bool = False, recorded: str | None = None, final: bool = False,
    ) -> str:  # fmt: skip
        """The name of the candidate to take for `op`, of those that are legal for it; see `Choices.choose`. Unless `asked`, `default` it is."""
        if not self.asked(kind):
            return default
        return self.choices.choose(
            kind, op, candidates(), default, target=self.target or GENERIC, decisions=self.decisions, run=self.running, role=role, space=space,
            planned=planned, recorded=recorded, final=final,
        )  # fmt: skip

    def decline(self, by: str, op: Any, why: NoMatch) -> None:
        """Record why a pass or pattern named `by` leaves `op` unchanged."""
        if self.decisions is not None:
            self.decisions.add(self.running, by, op, False, why.reason)

    @contextmanager
    def attempt(self, by: str, op: Any) -> Iterator[None]:
        """Around code that changes `op`, unless it raises NoMatch: then the reason is recorded, and execution continues behind the block."""
        try:
            yield
        except NoMatch as why:
            self.decline(by, op, why)

    def did(self, by: str, op: Any, what: str) -> None:
        """Record the action of a pass or pattern named `by` on `op`; call it before the op is erased."""
        if self.decisions is not None:
            self.decisions.add(self.running, by, op, True, what)


class Pass:
    """Base class of passes written in Python: a dataclass whose fields are its options and whose docstring is its manual page."""

    name: ClassVar[str]
    level: ClassVar[str]
    anchor: ClassVar[str] = "builtin.module"
    switches: ClassVar[Mapping[str, str | None]] = {}
    """Maps each switch to the options that disable it; None leaves the whole pass out."""
    relaxed: ClassVar[Sequence[str]] = ()
    """The switches that strict mode disables, because the optimisations behind them let infinities and NaN spread, or add rounding errors."""

    converts: ClassVar[Sequence[str]] = ()
    """The dialects and ops of the level `graph-opt` that the pass replaces, so that they need no lowering."""
    after: ClassVar[str | None] = None
    before: ClassVar[str | None] = None
    """The passes of the default pipeline after and before which this one runs; without either it is not part of the pipeline."""

    def run(self, op: ir.Operation, state: PassState) -> None:
        """Transform `op`, an operation of the kind that `anchor` names. Raise PassError to fail."""
        raise NotImplementedError

    @classmethod
    def options(cls) -> dict[str, "dataclasses.Field[Any]"]:
        """The options by their command-line spelling (`max-bytes` for a field `max_bytes`)."""
        return {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}

    @classmethod
    def with_options(cls, options: dict[str, str]) -> "Pass":
        """An instance with options given as text. Raises PipelineError for an unknown or ill-typed option."""
        known = cls.options()
        values = {}
        for name, text in options.items():
            if name not in known:
                raise PipelineError(f"pass '{cls.name}' has no option '{name}'; it has: {', '.join(known) or 'none'}")
            values[known[name].name] = _parse_option(cls.name, known[name], text)
        return cls(**values)


def _parse_option(pass_name: str, option: "dataclasses.Field[Any]", text: str) -> Any:
    kind = option.type if isinstance(option.type, type) else str(option.type)
    try:
        if kind in (bool, "bool"):
            return {"true": True, "1": True, "": True, "false": False, "0": False}[text.lower()]
        if kind in (int, "int"):
            return int(text, 0)
        if kind in (float, "float"):
            return float(text)
        if kind in (str, "str"):
            return text
        return tuple(part for part in re.split(r"[,\s]+", text.strip("[]{}")) if part)
    except (ValueError, KeyError):
        name = option.name.replace("_", "-")
        raise PipelineError(f"pass '{pass_name}': option '{name}' must be of type {getattr(kind, '__name__', kind)}, got '{text}'") from None


def _converted(pass_name: str, kind: Any) -> str:
    """The name of a dialect or of an op. Raises PipelineError if `kind` is neither class."""
    found = getattr(kind, "OPERATION_NAME", None) or getattr(kind, "DIALECT_NAMESPACE", None)
    if not isinstance(found, str):
        raise PipelineError(f"pass '{pass_name}': converts must list classes of dialects and ops, got {shown(kind)}")
    return found


_PASSES: dict[str, type[Pass]] = {}
_UPSTREAM = frozenset(name for names in NAMES.values() for name in names)
_FOLDERS = ("affine_to_llvm", "linalg", "schedule", "bufferize", "linalg_to_affine", "graph_to_linalg", "packed", "graph")
P = TypeVar("P", bound=type[Pass])


@dataclass_transform()
def register_pass(
    name: str, *, level: str, anchor: str = "builtin.module", optional: bool = False, switches: Mapping[str, str] | None = None,
    relaxed: Sequence[str] = (), after: str | None = None, before: str | None = None, converts: Sequence[type[Dialect] | type[Operation]] = (),
) -> Callable[[P], P]:
    """Register a pass class, which becomes a dataclass, under `name`. `level` is the level whose IR it works on; `anchor` the op it runs on.

    A pass is `optional` if the pipeline is legal without it; then its name is a switch that leaves it out. A pass that must run, or that does several
    things, lists further `switches` with the options that disable them: `{"fuse-operators": "max-ops=1"}`. `stepwell.compile(…, disable=…)` takes the
    names of switches; `strict=True` disables the `relaxed` ones (docs/numerics.md).

    `after` or `before` gives the pass a place in the default pipeline, behind or in front of the pass of that name (`fuse-operators`,
    `linalg/canonicalize`, `fold-constants#3`); with both, it comes right behind the first. `stepwell pipeline` shows it there.

    `converts` lists the classes of dialects, or of single ops, that the pass converts inside kernels (docs/kernels.md).
    """
    if level not in level_names():
        raise PipelineError(f"pass '{name}': level must be one of {', '.join(level_names())}, got '{level}'")

    def add(cls: P) -> P:
        if cls.__annotations__ and "__dataclass_fields__" not in vars(cls):  # one without options needs no methods, which take 0.2 ms to make
            cls = cast("P", dataclasses.dataclass(cls))
        known = _PASSES.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise PipelineError(f"pass '{name}' is already registered by {known.__module__}.{known.__qualname__}")
        cls.name, cls.level, cls.anchor = name, level, anchor
        cls.switches = {**({name: None} if optional else {}), **(switches or {})}
        cls.relaxed = tuple(relaxed)
        cls.after, cls.before = after, before
        cls.converts = tuple(_converted(name, kind) for kind in converts)
        if not set(cls.relaxed) <= set(cls.switches):
            raise PipelineError(f"pass '{name}': relaxed {list(relaxed)} must be switches of it: {', '.join(cls.switches) or 'it has none'}")
        _PASSES[name] = cls
        extension(cls, code_generation=find_level(level).buffers)  # it may run on each function separately, during code generation
        return cls

    return add


def passes() -> dict[str, type[Pass]]:
    """All of our passes by name, including those of plugins."""
    for folder in _FOLDERS:
        _import(folder)
    return dict(_PASSES)


def find_pass(name: str) -> type[Pass] | None:
    """Our pass of that name, or None. Imports as little as possible, because a compiler process needs few passes."""
    for folder in () if name in _UPSTREAM else _FOLDERS:
        if name in _PASSES:
            break
        _import(folder)
    return _PASSES.get(name)


def converting_pass(op_name: str) -> type[Pass] | None:
    """The pass that declares to convert ops of that name; None if none does."""
    names = (op_name, op_name.partition(".")[0])
    return next((cls for cls in _PASSES.values() if any(name in cls.converts for name in names)), None)


_imported: set[str] = set()


def _import(folder: str) -> None:
    if folder in _imported:
        return
    with uninterrupted():  # a registration cannot be repeated
        import_module(f"stepwell.passes.{folder}")
    _imported.add(folder)
