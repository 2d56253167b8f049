"""How a model is compiled: one object that all functions take, and its key.

Each field states everything about an option once. The checks, the flags of the commands, their help and docs/reference/options.md are generated from
it, so this module loads without numpy.
"""

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from stepwell import checks
from stepwell.checks import Check, wrong
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.limits import Limits
from stepwell.dialects.target.description import Target
from stepwell.pipelines.routes import DEFAULT, find_route

if TYPE_CHECKING:
    import numpy as np

    from stepwell.pipelines.pipeline import Pipeline

SPECIALISE = ("auto", "always", "never")
PRECISIONS = ("f32", "bf16")
TUNING = ("auto",)
LIBM = "expand-math"  # the switch that is off when functions come from libm
SHAPE_SYNTAX = "in 1x3x32..1024x? (or {32..1024}) one size is of a range, and one stays free"
LIMIT_SYNTAX = f"K, M, G, T stand for powers of 1024: {', '.join(name for name, _ in Limits().items())}"
Shapes: TypeAlias = Mapping[str, Sequence[int | None] | Sequence[Sequence[int | None]] | None]
Source: TypeAlias = object
"""A model: anything that a registered front end accepts, such as the path of an ONNX file, its bytes, or an onnx.ModelProto."""
PipelineSource: TypeAlias = "str | os.PathLike[str] | Pipeline"
PlanSource: TypeAlias = "str | os.PathLike[str] | Plan"


class CompileFields(TypedDict, total=False):
    """The fields of `CompileOptions` as keyword arguments."""

    target: str | Target | None
    backend: str
    shapes: Shapes | None
    values: "Mapping[str, np.ndarray] | None"
    specialise: str
    size_hints: Mapping[str, int] | None
    same_names: bool
    same_data_sizes: bool
    bind: Mapping[str, str] | None
    pipeline: "PipelineSource | None"
    disable: Sequence[str]
    libm: bool
    strict: bool
    precision: str
    keep_f32: Sequence[str]
    reproducible: bool
    plan: "PlanSource | None"
    schedule: "PlanSource | None"
    tuning: str | None
    limits: Limits | None


@dataclass(frozen=True)
class Flag:
    """The flag of the commands that sets an option."""

    name: str
    metavar: str | None = None
    """The placeholder of the value in help; None for a switch, or if there are `choices`."""
    choices: Sequence[str] = ()
    repeated: bool = False
    other_name: str | None = None
    syntax: str = ""
    """An addition to the help about the syntax of values."""
    goes_with_ir: bool = True
    """Whether the option has an effect if a command starts from IR, which has its own sizes."""

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return self.metavar is None and not self.choices

    @property
    def attribute(self) -> str:
        """Its attribute in the result of argparse."""
        return self.name[2:].replace("-", "_")


@dataclass(frozen=True)
class About:
    """Everything about an option besides its type and default, from which its check, its flag and its help are made."""

    words: str
    """Its description, for help and docs: a noun phrase, followed by the effects."""
    check: Check
    flag: Flag | str
    """Its flag, or why there is none."""
    in_python: str = ""
    """An addition to the docs about values that commands do not take."""


def about(name: str) -> About:
    """The description of an option."""
    return CompileOptions.__dataclass_fields__[name].metadata[_ABOUT]


def default_of(name: str) -> Any:
    """The default of an option; None if it is created anew each time."""
    default = CompileOptions.__dataclass_fields__[name].default
    return None if default is MISSING else default


@cache
def flags() -> dict[str, Flag]:
    """The flags of the commands, by the options that they set."""
    every = ((entry.name, about(entry.name).flag) for entry in fields(CompileOptions))
    return {name: flag for name, flag in every if isinstance(flag, Flag)}


_ABOUT = "about"


def _said(words: str, check: Check, flag: Flag | str, in_python: str = "") -> dict[str, About]:
    """The metadata of an option's field."""
    return {_ABOUT: About(words, check, flag, in_python)}


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """How a model is compiled: everything that its code depends on besides the model itself.

    Raises InputError (or PipelineError, ScheduleError for the contents of these files), naming the invalid field.
    """

    target: str | Target | None = field(default=None, metadata=_said(
        "the machine to compile for, by its name; by default the one recorded in the IR, otherwise the host",
        checks.target, Flag("--target", "NAME"), "it may also be a stepwell.Target, the machine's description",
    ))  # fmt: skip
    backend: str = field(default=DEFAULT, metadata=_said(
        "the backend that generates code and runs it, by its name (docs/backends.md)", checks.backend, Flag("--backend", "NAME"),
    ))  # fmt: skip
    shapes: Shapes | None = field(default=None, metadata=_said(
        "the shapes of inputs with free dimensions, by input name; for a sequence, the shape of each element",
        checks.shapes, Flag("--shape", "NAME=1x3x224x224", repeated=True, goes_with_ir=False, syntax=SHAPE_SYNTAX),
        "None stands for a dimension that stays free, and for an empty optional",
    ))  # fmt: skip
    values: "Mapping[str, np.ndarray] | None" = field(default=None, metadata=_said(
        "values of inputs, by name: they become constants for which the code is specialised (axes, sizes and the like), and are no longer inputs",
        checks.arrays, "commands take the values of all inputs from --input",
    ))  # fmt: skip
    specialise: str = field(default=SPECIALISE[0], metadata=_said(
        "whether a model with free dimensions gets one program for all sizes (never), code for each combination of sizes (always), or both (auto): "
        "that program and, in the background, code for combinations that occur often; if such a program is impossible, auto is the same as always",
        checks.one_of(*SPECIALISE), Flag("--specialise", choices=SPECIALISE, goes_with_ir=False),
    ))  # fmt: skip
    size_hints: Mapping[str, int] | None = field(default=None, metadata=_said(
        "typical values of free dimensions, by symbol: they guide choices in code for all sizes, but do not affect results",
        checks.size_hints, Flag("--size-hint", "NAME=128", repeated=True, goes_with_ir=False),
    ))  # fmt: skip
    same_names: bool = field(default=True, metadata=_said(
        "whether free dimensions with the same name have the same size; otherwise each has its own size",
        checks.flag, "a call whose sizes contradict the names is compiled without it automatically",
    ))  # fmt: skip
    same_data_sizes: bool = field(default=True, metadata=_said(
        "whether sizes that depend on data are assumed equal if their values are broadcast; otherwise each may be 1",
        checks.flag, "a run in which such a size is 1 is compiled without it automatically",
    ))  # fmt: skip
    bind: Mapping[str, str] | None = field(default=None, metadata=_said(
        "inputs, each with the output that becomes its value in the next call, by name; `lower` shows the IR with them bound",
        checks.bound_names, "`bind` of a compiled model sets it",
    ))  # fmt: skip
    pipeline: "PipelineSource | None" = field(default=None, metadata=_said(
        "the passes to run (docs/pipelines.md): a file written by `stepwell pipeline -o FILE`, or its text; omitted stages are "
        "the default ones",
        lambda name, value: None,  # `Pipeline.from_source` reports errors in more detail
        Flag("--pipeline", "FILE|TEXT"), "it may also be a stepwell.Pipeline",
    ))  # fmt: skip
    disable: Sequence[str] = field(default=(), metadata=_said(
        "switches to turn off, by name, for example to measure their effect (`stepwell pipeline` lists them)",
        checks.names, Flag("--disable", "NAME", repeated=True),
    ))  # fmt: skip
    libm: bool = field(default=False, metadata=_said(
        f"whether to call the system's libm for exp, tanh and similar functions, element by element; the same as disabling {LIBM}",
        checks.flag, Flag("--libm"),
    ))  # fmt: skip
    strict: bool = field(default=False, metadata=_said(
        "whether to exclude algorithms that let infinities and NaN spread, or that round more than the direct one (docs/numerics.md)",
        checks.flag, Flag("--strict"),
    ))  # fmt: skip
    precision: str = field(default=PRECISIONS[0], metadata=_said(
        "the type in which operands of products are stored if they are f32 in the model (docs/numerics.md)",
        checks.one_of(*PRECISIONS), Flag("--precision", choices=PRECISIONS),
    ))  # fmt: skip
    keep_f32: Sequence[str] = field(default=(), metadata=_said(
        "the nodes that stay in f32 under another precision: names, or patterns such as '*/attention/*'",
        checks.names, Flag("--keep-f32", "NODE", repeated=True),
    ))  # fmt: skip
    reproducible: bool = field(default=False, metadata=_said(
        "whether results have the same bits on every machine, for any threads and plan (docs/numerics.md#the-same-bits-on-every-machine)",
        checks.flag, Flag("--reproducible"),
    ))  # fmt: skip
    plan: "PlanSource | None" = field(default=None, metadata=_said(
        "choices between algorithms, layouts and the like, and schedules for kernels, which override the default ones (docs/plans.md): "
        "a file written by `stepwell inspect --emit-plan`",
        checks.plan, Flag("--plan", "FILE", other_name="--schedule"), "it may also be a Plan",
    ))  # fmt: skip
    schedule: "PlanSource | None" = field(default=None, metadata=_said(
        "the former name of `plan`, from the time when its files held only schedules", checks.plan, "--schedule is another name of --plan",
    ))  # fmt: skip
    tuning: str | None = field(default=None, metadata=_said(
        "whether to take what `stepwell tune` recorded on this machine (auto): the plan of this network, otherwise schedules of equal kernels; a "
        "given plan takes precedence (docs/plans.md)",
        checks.one_of(*TUNING), Flag("--tuning", choices=TUNING),
    ))  # fmt: skip
    limits: Limits = field(default_factory=Limits, metadata=_said(
        "limits on the cost of a model before it runs, and on the memory of a run (docs/reference/limits.md)",
        checks.limits, Flag("--limit", "NAME=NUMBER", repeated=True, syntax=LIMIT_SYNTAX),
    ))  # fmt: skip

    def __post_init__(self) -> None:
        if self.limits is None:  # the default limits
            object.__setattr__(self, "limits", Limits())
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None or entry.default is not None:
                about(entry.name).check(entry.name, value)
        if self.reproducible and self.libm:
            raise InputError("libm: expected False for reproducible results, as each system's libm rounds in its own way")
        if self.reproducible and self.precision != PRECISIONS[0]:
            raise InputError(f"precision: expected '{PRECISIONS[0]}' for reproducible results: products of others are summed in other orders")
        backend = find_route(self.backend)
        backend.check_target(self.machine)
        if self.schedule is not None and self.plan is not None:
            raise InputError("schedule: expected none beside a plan, which holds schedules too")
        given, able = self.plan if self.schedule is None else self.schedule, any(level.scheduled for level in backend.path.levels)
        plan = None if given is None or (self.schedule is not None and not able) else Plan.from_source(given)
        if not able and (self.schedule is not None or (plan is not None and plan.kernels)):
            raise InputError(f"schedule: expected none for backend '{self.backend}': no level of {backend.path} has schedules")
        # Files are read now, so that the content in the key is the compiled one.
        normal: dict[str, Any] = {"disable": _names(self.disable), "keep_f32": _names(self.keep_f32)}
        if self.shapes is not None:
            normal["shapes"] = {name: _plain(shape) for name, shape in self.shapes.items()}
        if self.values is not None:
            from stepwell.values import Values  # imported here, because it loads numpy

            normal["values"] = Values(self.values)
        if self.size_hints is not None:
            normal["size_hints"] = {name: operator.index(size) for name, size in self.size_hints.items()}
        if self.bind is not None:
            normal["bind"] = dict(self.bind)
        normal["plan"], normal["schedule"] = plan, None
        if self.pipeline is not None:
            from stepwell.pipelines.pipeline import Pipeline  # imported here, because it loads the passes

            normal["pipeline"] = Pipeline.from_source(self.pipeline, self.machine, self.backend)
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def combined(options: "CompileOptions | None", given: Mapping[str, Any], function: str) -> "CompileOptions":
        """`options`, or the default ones, with the fields that were `given` to a function. Raises TypeError for an unknown one, like Python."""
        known = [f.name for f in fields(CompileOptions)]
        for name in given:
            if name not in known:
                raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        if options is not None and not isinstance(options, CompileOptions):
            raise wrong("options", "a stepwell.CompileOptions", options)
        return CompileOptions(**given) if options is None else replace(options, **given) if given else options

    def key(self) -> str:
        """Everything in it that compiled code depends on, as text; made of all fields."""
        return repr([(f.name, canonical(self.machine if f.name == "target" else getattr(self, f.name))) for f in fields(self)])

    @property
    def machine(self) -> str | Target:
        """The machine to compile for unless something else names one."""
        named = "host" if self.target is None else self.target
        if not self.reproducible:
            return named
        from stepwell.dialects.target.registry import resolve  # imported here, because asking for the host loads LLVM

        return replace(resolve(named), reproducible=True)

    @property
    def chosen(self) -> Plan | None:
        """The given plan, by either name."""
        return None if self.plan is None else Plan.from_source(self.plan)

    def passes(self) -> "Pipeline":
        """The pipeline with the requested switches off. Raises InputError for a switch that it does not have."""
        from stepwell.pipelines.pipeline import Pipeline  # imported here, because it loads the passes

        given = self.pipeline
        pipeline = Pipeline.default(self.machine, self.backend) if given is None else Pipeline.from_source(given, backend=self.backend)
        names = (*self.disable, *((LIBM,) if self.libm and LIBM not in self.disable else ()))
        pipeline = pipeline.without((*names, *(pipeline.relaxed() if self.strict else ())))
        return pipeline if self.precision == "f32" else pipeline.with_precision(self.precision, self.keep_f32)


def canonical(value: Any) -> Any:
    """A value as plain data whose `repr` is the same for equal values. Raises TypeError for an unknown kind of value."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Target):
        from stepwell.cache.fingerprint import described  # imported here, because it loads numpy

        return described(value)
    if hasattr(value, "key"):  # limits and values of inputs
        return value.key()
    if isinstance(value, Mapping):
        return sorted((name, canonical(entry)) for name, entry in value.items())
    if isinstance(value, (tuple, list)):
        return [canonical(entry) for entry in value]
    text = getattr(value, "text", None)  # schedules and pipelines
    if isinstance(text, str):
        return text
    raise TypeError(f"no key can be made of a {type(value).__name__}")


def _plain(shape: Any) -> Any:
    """A shape, or those of a sequence, as tuples of Python's numbers."""
    if shape is None:
        return None
    return tuple(_plain(n) if n is None or isinstance(n, (list, tuple)) else operator.index(n) for n in shape)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InputError(f"expected a sequence of names, as in ('{names}',), got a string")
    return tuple(dict.fromkeys(names))
