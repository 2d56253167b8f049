"""Import a model, or read its IR, and take it down from level to level."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.schedule_file import ScheduleFile
from stepwell.dialects.support.errors import InputError, ModelError
from stepwell.dialects.support.limits import Budget, Limits
from stepwell.dialects.support.processes import uninterrupted
from stepwell.dialects.target.host import Target, resolve
from stepwell.driver.arguments import checked
from stepwell.driver.levels import LEVELS, LIBM, check_disable, check_level, step, steps_between
from stepwell.driver.lowered import SIGNATURE, Lowered, check_main, derive_signature, set_signature
from stepwell.passes.framework.instrumentation import stopwatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import Instrumentation, PassRunner
from stepwell.plugins import load_installed
from stepwell.runtime.openmp import openmp as find_openmp

if TYPE_CHECKING:
    import onnx

    from stepwell.importer import ImportedModel

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto"
OnLevel = Callable[[str, float], None]
CODE_LEVELS = LEVELS[-2:]
"""Code is made from either: from the first, each function goes the rest of the way by itself, beside the others."""


@checked
def lower(
    source: Source,
    to_level: str,
    *,
    target: str | Target = "host",
    shapes: Mapping[str, Sequence[int]] | None = None,
    disable: Sequence[str] = (),
    libm: bool = False,
    strict: bool = False,
    schedule: "str | os.PathLike[str] | ScheduleFile | None" = None,
    limits: Limits | None = None,
    on_level: OnLevel | None = None,
    instrumentation: Instrumentation | None = None,
) -> Lowered:
    """Import an ONNX model and take it down to `to_level`. As `compile`, but without native code; free dimensions must be given."""
    check_level(to_level)
    disable = check_disable((*disable, LIBM) if libm else disable, strict=strict)
    imported, seconds = import_source(source, shapes, limits)
    free = [name for name, t in imported.inputs if not t.is_static]
    if free and to_level != "graph":
        raise ModelError(f"input{'s' * (len(free) > 1)} {', '.join(free)}: free dimensions must be given with shapes")
    if on_level is not None:
        on_level("graph", seconds)
    file = None if schedule is None else ScheduleFile.of(schedule)
    return descend(start(imported, resolve(target), seconds, disable, file), to_level, on_level=on_level, instrumentation=instrumentation)


@checked
def read_ir(
    text: str, level: str, weights: WeightTable, *, target: str | Target = "host", name: str = "<string>", disable: Sequence[str] = (),
    strict: bool = False, schedule: "str | os.PathLike[str] | ScheduleFile | None" = None, limits: Limits | None = None,
) -> Lowered:  # fmt: skip
    """A model from the text of its IR at `level`, perhaps edited by hand. Raises IRError if it does not parse or verify, or has no @main.

    A `schedule` is for IR above the level `scheduled`; `disable` and `strict` are about the levels that are still to come.
    """
    disable = check_disable(disable, strict=strict)
    check_level(level)
    schedules = None if schedule is None else ScheduleFile.of(schedule)
    if schedules is not None and LEVELS.index(level) >= LEVELS.index("scheduled"):
        raise InputError(f"{schedules.name}: IR at level {level} has its schedules already; edit them there")
    load_installed()
    context = make_context()
    with context, ir.Location.file(name, 1, 1):
        module = parse_module(text, context, name)
        chosen = resolve(target)
        state = PassState(weights=weights, target=chosen, schedules=schedules, budget=Budget(limits or Limits(), weights.nbytes))
        lowered = Lowered(module, level, weights, state, chosen, disable=disable)
        if any(key not in module.operation.attributes for key in SIGNATURE):
            derive_signature(module)
        if level != LEVELS[-1]:  # where each argument may be one by itself, or all are one
            check_main(lowered)
        lowered.snapshots[level] = module.operation.clone()
    return lowered


def code_level(level: str, *, watched: bool) -> str:
    """How far down a model goes as a whole before code is made of it: all the way if it is there already, or if somebody watches the passes."""
    return LEVELS[-1] if level == LEVELS[-1] or watched else CODE_LEVELS[0]


@checked
def descend(
    lowered: Lowered, to_level: str, *, keep: bool = True, on_level: OnLevel | None = None, instrumentation: Instrumentation | None = None
) -> Lowered:
    """Take a model further down, level by level; returns it. `keep` is whether it is to have a snapshot of each level."""
    runner = PassRunner(lowered.state, instrumentation=instrumentation, optimistic=True)
    with lowered.module.context, ir.Location.file("model.onnx", 1, 1):
        for level in steps_between(lowered.level, to_level):
            clock = stopwatch()
            runner.run(lowered.module, step(level, openmp=find_openmp() is not None, disable=lowered.disable), level=level)
            seconds = clock()
            lowered.level = level
            if keep:
                lowered.snapshots[level] = lowered.module.operation.clone()
            reached(lowered, level, seconds, on_level)
    return lowered


def reached(lowered: Lowered, level: str, seconds: float, on_level: OnLevel | None) -> None:
    """Note that a model has come to a level, and tell who wants to know."""
    lowered.timings[level] = seconds
    if on_level is not None:
        on_level(level, seconds)


def import_source(source: Source, shapes: Mapping[str, Sequence[int]] | None, limits: Limits | None = None) -> "tuple[ImportedModel, float]":
    """The model at level graph, and the seconds it took."""
    with uninterrupted():
        from stepwell.importer import import_model  # here, because it loads onnx, which going on from IR needs not

    load_installed()
    clock = stopwatch()
    return import_model(source, make_context(), shapes=shapes, limits=limits), clock()


def start(imported: "ImportedModel", target: Target, seconds: float, disable: tuple[str, ...], schedules: ScheduleFile | None = None) -> Lowered:
    """An imported model at the top of the stair."""
    state = PassState(weights=imported.weights, target=target, schedules=schedules, budget=imported.budget)
    lowered = Lowered(imported.module, LEVELS[0], imported.weights, state, target, {"graph": seconds}, disable=disable)
    with imported.module.context, imported.module.operation.location:
        set_signature(imported.module, imported.inputs, imported.outputs)
        lowered.snapshots["graph"] = imported.module.operation.clone()
    return lowered
