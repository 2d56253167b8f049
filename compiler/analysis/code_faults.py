"""Compare each launch of a compiled model with the interpretation of the IR above, and find the pass that made one wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepwell.analysis.compare import OutputCheck, compare
from stepwell.analysis.interpretation import interpret_module
from stepwell.analysis.isolation import isolated
from stepwell.analysis.kernel_launches import callee
from stepwell.analysis.launches import KernelLaunch, Operand
from stepwell.analysis.matching import Entry, Values
from stepwell.analysis.model_replay import replay_of
from stepwell.analysis.replay import Replay
from stepwell.backends.llvm_cpu.backend import LLVMOnCPU
from stepwell.dialects.core.mlir import ops_below
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.interpreter import signless
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import InputError, StepwellError
from stepwell.driver.build import build
from stepwell.driver.lowering import descend, read_ir
from stepwell.options import CompileOptions
from stepwell.passes.framework.pipeline import Step
from stepwell.passes.framework.registry import find_pass
from stepwell.passes.framework.runner import PassRunner
from stepwell.pipelines.lowered import Lowered
from stepwell.pipelines.pipeline import Pipeline
from stepwell.pipelines.routes import DEFAULT
from stepwell.pipelines.stages import Stage

Arrays = Mapping[str, np.ndarray]
FUSED, SCHEDULE, VERSIONS = ScheduleInfo.fused.name, ScheduleInfo.nest.name, ScheduleInfo.versions.name
BUFFERIZE, LOOPS = "bufferize", "lower-to-affine"
SCHEDULES = "func.func(assign-schedules)"
PLAIN_LOOPS = "func.func(convert-linalg-to-affine-loops)"
"""Upstream's lowering of structured ops, which ignores schedules and computes scalar by scalar."""


@dataclass(frozen=True)
class Fault:
    """The first kernel launch whose code disagrees with the IR."""

    launch: KernelLaunch
    outputs: Sequence[OutputCheck]
    stage: str
    step: str
    """The pass."""
    note: str


def bisect_code(lowered: Lowered, inputs: Arrays, *, threads: int | None = None, tolerance: float | None = None) -> Fault | None:
    """Compile a model at the last level that can be interpreted (its module is consumed), and compare each launch with the interpretation.

    Launches run in order on one workspace; operands are compared before each, results after it. Returns the first difference, or None.
    """
    values = Values()
    expected = interpret_module(lowered.module, lowered, inputs, values)
    text = lowered.text()
    meant = [entry for entry in values.entries if entry.op.name == "func.call"]
    names = [callee(entry.op) for entry in meant]
    if lowered.options.backend != DEFAULT:
        text = f"the IR is right at all levels that can be interpreted, and code is searched for backend '{DEFAULT}' only"
        raise InputError(f"{text}, not for '{lowered.options.backend}'")
    descend(lowered, LLVMOnCPU.code_levels[0])
    model = build(lowered, threads=threads, cache=False)
    replay = replay_of(model, inputs, threads)
    rest = iter(range(len(meant)))
    for place, launch in enumerate(replay.launches):
        index = next((i for i in rest if names[i] == launch.kernel), None) if launch.kernel in names else None
        if index is None:  # a copy, which bufferisation made
            replay.run(place, place + 1)
            continue
        entry = meant[index]
        sources = _compared(replay, launch.sources, entry.operands, "operand", tolerance)
        if not all(check.ok for check in sources):
            note = "what it reads is not what was computed: memory is shared by what lives at once"
            return Fault(launch, sources, *_place(lowered, BUFFERIZE), note)
        replay.run(place, place + 1)
        results = _compared(replay, launch.destinations, entry.results, "result", tolerance)
        if not all(check.ok for check in results):
            return Fault(launch, results, *_blame(lowered, _alone(lowered, text, launch.kernel), entry, tolerance))
    outputs = compare(model.run(dict(inputs)), expected, tolerance)
    if all(check.ok for check in outputs):
        return None
    return Fault(replay.launches[-1], outputs, *_place(lowered, BUFFERIZE), "each kernel gives what it should, but not the model")


def _read(replay: Replay, operand: Operand, like: Any) -> np.ndarray:
    """The current content of an operand."""
    return replay.bytes(operand).copy().view(like.dtype).reshape(like.shape)


def _compared(replay: Replay, operands: Sequence[Operand], arrays: Sequence[Any], what: str, tolerance: float | None) -> list[OutputCheck]:
    pairs = {f"{what} {i}": (operand, np.asarray(array)) for i, (operand, array) in enumerate(zip(operands, arrays, strict=False))}
    return compare({name: _read(replay, *pair) for name, pair in pairs.items()}, {name: array for name, (_, array) in pairs.items()}, tolerance)


def _alone(lowered: Lowered, text: str, kernel: str) -> str:
    """A module whose @main launches one kernel, from the text of the model at the last level that can be interpreted."""
    copy = read_ir(text, lowered.path.interpretable[-1], lowered.weights, options=_by_itself(lowered))
    with copy.module.context, copy.module.operation.location:
        return isolated(copy.module, kernel)


def _by_itself(lowered: Lowered) -> CompileOptions:
    """The options for IR that is compiled differently from the model."""
    return replace(lowered.options, shapes=None, values=None, plan=None, tuning=None, pipeline=None, disable=())


def _blame(lowered: Lowered, text: str, entry: Entry, tolerance: float | None) -> tuple[str, str, str]:
    """The pass below the last interpretable level that makes a kernel's code wrong: its stage, its name, and how that was found.

    The kernel is compiled alone, each time without one pass, or with upstream's plain loops instead of ours.
    """
    stages = {level: lowered.pipeline.stage(level) for level in lowered.path.between(lowered.path.interpretable[-1], lowered.path.last)}
    whole = _is_right(lowered, text, entry, lowered.pipeline, tolerance)
    if whole:
        return *_place(lowered, BUFFERIZE), "the kernel is right by itself, and wrong where the model calls it"
    for stage, index, pipeline in _without_one(lowered.pipeline, stages):
        if _is_right(lowered, text, entry, pipeline, tolerance):
            return stage.name, stage.numbered(index), "without this pass the kernel is right"
    if any(step.name == LOOPS for stage in stages.values() for step in stage.steps):
        scheduled = (FUSED, SCHEDULE, VERSIONS)
        if FUSED in text and _is_right(lowered, text, entry, lowered.pipeline, tolerance, without=scheduled, first=SCHEDULES):
            return *_place(lowered, LOOPS), "without fused loops the kernel is right"
        if _is_right(lowered, text, entry, lowered.pipeline.replace(LOOPS, PLAIN_LOOPS), tolerance, without=scheduled):
            return *_place(lowered, LOOPS), "with plain loops in the place of its schedules the kernel is right"
    return *_place(lowered, BUFFERIZE), "no other pass could be left out or replaced such that the kernel is right"


def _without_one(pipeline: Pipeline, stages: Mapping[str, Stage]) -> Iterator[tuple[Stage, int, Pipeline]]:
    """The pipeline without one pass of these stages, for each dispensable pass: without any other, code could crash."""
    for stage in stages.values():
        for index in (i for i, step in enumerate(stage.steps) if _is_dispensable(step)):
            yield stage, index, pipeline.remove(f"{stage.name}/{stage.numbered(index)}")


def _is_dispensable(step: Step) -> bool:
    """Whether a pipeline is legal without a pass: it can be switched off, only cleans up, or is not ours."""
    cls = find_pass(step.name)
    if cls is None:
        return step.name in ("canonicalize", "cse")
    return None in cls.switches.values() or cls.__module__.partition(".")[0] != "stepwell"


def _is_right(
    lowered: Lowered, text: str, entry: Entry, pipeline: Pipeline, tolerance: float | None, *, without: Sequence[str] = (), first: str = ""
) -> bool | None:
    """Whether a kernel compiled alone through `pipeline` gives the expected results; None if it cannot be compiled that way.

    The attributes in `without` are removed from its ops, then the passes `first` are run.
    """
    try:
        alone = read_ir(text, lowered.path.interpretable[-1], WeightTable(), options=_by_itself(lowered))
        alone.pipeline = pipeline
        for op in ops_below(alone.module.operation):
            for name in without:
                if name in op.attributes:
                    del op.attributes[name]
        if first:
            PassRunner(alone.state).run(alone.module, first)
        model = build(descend(alone, LLVMOnCPU.code_levels[0]), threads=1, cache=False)
        arrays = [signless(np.asarray(a)) for a in entry.operands[: len(model.inputs)]]
        results = model(*arrays)
    except StepwellError:
        return None
    names = [info.name for info in model.outputs]
    expected = [signless(np.asarray(array)) for array in entry.results]
    return all(check.ok for check in compare(dict(zip(names, results, strict=True)), dict(zip(names, expected, strict=True)), tolerance))


def _place(lowered: Lowered, name: str) -> tuple[str, str]:
    """The stage of a pass, and its name."""
    found = next((stage.name for stage in lowered.pipeline.stages for step in stage.steps if step.name == name), LLVMOnCPU.code_levels[0])
    return found, name
