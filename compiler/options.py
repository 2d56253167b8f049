"""How a model is compiled: one object that everything takes, and its key."""

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from stepwell.arguments import check_argument, wrong
from stepwell.cache.fingerprint import described
from stepwell.dialects.core.dtypes import plain_booleans
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.support.digests import digest_of
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.limits import Limits
from stepwell.dialects.target.description import Target
from stepwell.pipelines.routes import DEFAULT, find_route

if TYPE_CHECKING:
    from stepwell.pipelines.pipeline import Pipeline

LIBM = "expand-math"  # the switch that is off for functions from libm
Shapes: TypeAlias = Mapping[str, Sequence[int | None] | Sequence[Sequence[int | None]] | None]
Source: TypeAlias = object
"""A model: anything that a registered front end accepts, such as the path of an ONNX file, its bytes, or an onnx.ModelProto."""
PipelineSource: TypeAlias = "str | os.PathLike[str] | Pipeline"
PlanSource: TypeAlias = "str | os.PathLike[str] | Plan"


class CompileFields(TypedDict, total=False):
    """The fields of `CompileOptions`, as keyword arguments of whatever takes one."""

    target: str | Target | None
    backend: str
    shapes: Shapes | None
    values: Mapping[str, np.ndarray] | None
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
    plan: "PlanSource | None"
    schedule: "PlanSource | None"
    limits: Limits | None


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """How a model is compiled: all that its code depends on beside the model itself.

    Raises InputError (PipelineError, ScheduleError for what these files hold) naming the field that is wrong.
    """

    target: str | Target | None = None
    """The machine to compile for: its name, or its description. By default that which IR is for, and else the host."""
    backend: str = DEFAULT
    """What makes code and runs it, by name (docs/backends.md)."""
    shapes: Shapes | None = None
    """Sizes for inputs with free dimensions, by name; None leaves one free. For an input that is a sequence a list of such, one for each element;
    None for an optional that holds nothing."""
    values: Mapping[str, np.ndarray] | None = None
    """Values of inputs, by name, which become constants and are no inputs any more: axes, sizes and the like, which code is made for."""
    specialise: str = "auto"
    """Of a model with free dimensions: "always" makes code for each combination of sizes, "never" makes code for all sizes, "auto" makes code for
    all sizes and, in the background, code for those that come often; where none can be for all, it is "always"."""
    size_hints: Mapping[str, int] | None = None
    """About how large free dimensions are, by their symbols: what code for all sizes is chosen by where it cannot suit all of them alike."""
    same_names: bool = True
    """Whether free dimensions of one name have one size. Otherwise each is a size of its own: a call whose sizes contradict the names is run so."""
    same_data_sizes: bool = True
    """Whether sizes that only data tell are one size where values of them are broadcast. Otherwise each may be 1: a run in which one is is run so."""
    bind: Mapping[str, str] | None = None
    """Inputs, each with the output that the next call takes for it, by name: what `bind` of a model compiles for; `lower` shows its IR."""
    pipeline: "PipelineSource | None" = None
    """The passes to go through (docs/pipelines.md): a Pipeline, its text or its file; by default that of the target."""
    disable: Sequence[str] = ()
    """What to switch off, by name, to see what it is worth: `stepwell pipeline` shows what can be."""
    libm: bool = False
    """Whether exp, tanh and the like come from the system's libm, element by element, and not from our own vector code."""
    strict: bool = False
    """Whether to avoid algorithms that let infinities and NaN spread, or that round more than the direct one (docs/numerics.md)."""
    precision: str = "f32"
    """What convolutions and matrix products with known weights are stored in: "f32", as the model has it, or "bf16" (docs/numerics.md)."""
    keep_f32: Sequence[str] = ()
    """Nodes that stay in f32 under such a precision: names, or patterns such as "*/attention/*"."""
    plan: "PlanSource | None" = None
    """Choices between algorithms, layouts and the like, and schedules for kernels, in the place of those that would be taken (docs/plans.md)."""
    schedule: "PlanSource | None" = None
    """The same, by the name that it had when files of it held schedules alone."""
    limits: Limits = field(default_factory=Limits)
    """What the model may cost before it runs, and the memory of a run (docs/reference/limits.md)."""

    def __post_init__(self) -> None:
        if self.limits is None:  # the default ones
            object.__setattr__(self, "limits", Limits())
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None or entry.default is not None:
                check_argument(entry.name, value)
        backend = find_route(self.backend)
        backend.check_target(self.machine)
        if self.schedule is not None and self.plan is not None:
            raise InputError("schedule: expected none beside a plan, which holds schedules too")
        given = self.plan if self.schedule is None else self.schedule
        plan = None if given is None else Plan.of(given)
        if plan is not None and plan.kernels and not any(level.scheduled for level in backend.path.levels):
            raise InputError(f"schedule: expected none for backend '{self.backend}': no level of {backend.path} has schedules")
        # Files are read now, so that the compiled content is the one in the key.
        normal: dict[str, Any] = {"disable": _names(self.disable), "keep_f32": _names(self.keep_f32)}
        if self.shapes is not None:
            normal["shapes"] = {name: _plain(shape) for name, shape in self.shapes.items()}
        if self.values is not None:
            normal["values"] = Values(self.values)
        if self.size_hints is not None:
            normal["size_hints"] = {name: operator.index(size) for name, size in self.size_hints.items()}
        if self.bind is not None:
            normal["bind"] = dict(self.bind)
        normal["plan"], normal["schedule"] = plan, None
        if self.pipeline is not None:
            from stepwell.pipelines.pipeline import Pipeline  # here, because it loads the passes

            normal["pipeline"] = Pipeline.of(self.pipeline, self.machine, self.backend)
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def of(options: "CompileOptions | None", given: Mapping[str, Any], function: str) -> "CompileOptions":
        """`options`, or the default ones, with the fields that were `given` to a function. Raises TypeError, as Python, for an unknown one."""
        known = [f.name for f in fields(CompileOptions)]
        for name in given:
            if name not in known:
                raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        if options is not None and not isinstance(options, CompileOptions):
            raise wrong("options", "a stepwell.CompileOptions", options)
        return CompileOptions(**given) if options is None else replace(options, **given) if given else options

    def key(self) -> str:
        """What compiled code depends on of this, as text: made of every field there is."""
        return repr([(f.name, canonical(self.machine if f.name == "target" else getattr(self, f.name))) for f in fields(self)])

    @property
    def machine(self) -> str | Target:
        """The machine to compile for where nothing else says one."""
        return "host" if self.target is None else self.target

    @property
    def chosen(self) -> Plan | None:
        """The plan that was given, by either name."""
        return None if self.plan is None else Plan.of(self.plan)

    def passes(self) -> "Pipeline":
        """The pipeline with switches turned off as asked. Raises InputError for a switch that it does not have."""
        from stepwell.pipelines.pipeline import Pipeline  # here, because it loads the passes

        pipeline = Pipeline.default(self.machine, self.backend) if self.pipeline is None else Pipeline.of(self.pipeline, backend=self.backend)
        names = (*self.disable, *((LIBM,) if self.libm and LIBM not in self.disable else ()))
        pipeline = pipeline.without((*names, *(pipeline.relaxed() if self.strict else ())))
        return pipeline if self.precision == "f32" else pipeline.with_precision(self.precision, self.keep_f32)


class Values(Mapping[str, np.ndarray]):
    """Arrays by name that never change, equal if their bytes are."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        copies = {name: np.array(array, order="C") for name, array in arrays.items()}
        self._arrays = {name: plain_booleans(array) if array.dtype == np.bool_ else array for name, array in copies.items()}
        for array in self._arrays.values():
            array.flags.writeable = False

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def key(self) -> list[tuple[str, str, tuple[int, ...], str]]:
        """What they are, as plain data."""
        return sorted((name, a.dtype.name, a.shape, digest_of(a.tobytes()).hex()) for name, a in self._arrays.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(tuple(self.key()))


def canonical(value: Any) -> Any:
    """A value as plain data whose `repr` is the same for the same value. Raises TypeError for one of a kind that is not known here."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Target):
        return described(value)
    if isinstance(value, (Limits, Values)):
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
