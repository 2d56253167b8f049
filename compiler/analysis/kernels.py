"""Evaluate one kernel: build it with another schedule, run and time it alone and within the model."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack, cast

import numpy as np

from stepwell.analysis.compare import compare
from stepwell.analysis.flops import kernel_flops
from stepwell.analysis.isolation import isolated
from stepwell.analysis.kernel_launches import kernel_launches
from stepwell.analysis.kernel_timing import SAME, Timing, alone as time_alone, in_place as time_in_place, take_turns
from stepwell.analysis.launches import KernelLaunch
from stepwell.analysis.load import BUSY, ForeignLoad
from stepwell.analysis.random_inputs import random_array
from stepwell.analysis.replay import Replay
from stepwell.arguments import checked
from stepwell.backends.llvm_cpu.backend import LLVMOnCPU
from stepwell.backends.llvm_cpu.objects import Unit
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.plan_file import Entry, Plan
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import BusyWarning, InputError, ScheduleError, shown, warn_caller
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.cores import thread_count
from stepwell.driver.lowering import descend, lower, read_ir
from stepwell.options import CompileFields, CompileOptions, Source
from stepwell.passes.framework.rewriting import find_function, functions
from stepwell.passes.linalg.structured import structured_ops
from stepwell.passes.schedule.assign_schedules import schedules_of
from stepwell.passes.schedule.effects import clamped, offered
from stepwell.passes.schedule.kernel_digest import kernel_digest
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.space import Value
from stepwell.pipelines.lowered import Lowered
from stepwell.pipelines.routes import DEFAULT
from stepwell.runtime.buffers import pack_arena
from stepwell.signature import TensorInfo

LEVEL = "scheduled"
Schedule: TypeAlias = "Mapping[int, Nest | Mapping[str, Any]] | Plan"
"""For structured ops of a kernel, by index, a schedule or the values of some knobs; or a file that names the kernel."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a model."""

    name: str
    digest: str
    """The digest of its computation, by which schedule files name it."""
    nodes: tuple[str, ...]
    """The ONNX nodes that it computes, over all its launches."""
    launches: int
    """The number of its launches in a run of the model."""
    ops: Mapping[int, Entry]
    """Its structured ops by index: kind, sizes, the knobs of the chosen schedule, and the legal values."""
    flops: int | None
    """Operations of one launch as the network defines them; None if unknown."""


@dataclass(frozen=True)
class Evaluation:
    """A kernel with a schedule, timed in turns with the chosen one."""

    kernel: Kernel
    alone: Timing | None
    """One launch, run repeatedly on data of the model, with its inputs in the caches. None unless requested."""
    in_place: Timing | None
    """All launches of the kernel in a run of the model, each with the caches as its neighbours leave them. None unless requested."""
    whole: Timing | None
    """All launches of all kernels in these runs."""
    error: float
    """The largest difference from the results with the chosen schedule, relative to their largest magnitude. 0 means bit-identical."""
    clamped: Mapping[int, Mapping[str, tuple[object, object]]]
    """The requested knobs that are replaced by another value, by op index: (given value, effective value)."""
    busy: float | None
    """The number of cores that other processes kept busy during timing; None if unknown, or nothing was timed."""

    @property
    def same_code(self) -> bool:
        """Whether the code equals that of the chosen schedule, wherever it was built."""
        return all(timing.same_code for timing in (self.alone, self.in_place) if timing is not None)

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes kept the machine so busy that the timing should be repeated."""
        return self.busy is not None and self.busy > BUSY

    def __str__(self) -> str:
        named = (("alone", self.alone), ("in place", self.in_place), ("whole model", self.whole))
        lines = [f"{self.kernel.name}, error {self.error:.2g}", *(f"{name}: {timing}" for name, timing in named if timing is not None)]
        for place, values in self.clamped.items():
            lines += [f"op {place}: {name} {given} has the effect of {taken}" for name, (given, taken) in values.items()]
        lines += [f"disturbed: other processes kept {self.busy:.2f} cores busy"] if self.is_disturbed else []
        return "\n  ".join(lines)


@dataclass(frozen=True)
class _Native:
    """A module as native code: its kernel launches, the object of each function, and the workspace they need."""

    launches: list[KernelLaunch]
    objects: dict[str, bytes]
    workspace_bytes: int


@dataclass(frozen=True)
class _Alone:
    """A kernel in a module of its own: native code with the chosen schedule, and the inputs and results of its first launch in the model."""

    native: _Native
    operands: list[np.ndarray]
    expected: list[np.ndarray]


class KernelBench:
    """A model, lowered to the level scheduled once, whose kernels can be built and timed with other schedules.

    `inputs` are those of the runs by name, random ones if None. `threads` bounds the cores (default: all that the process may use). `options`, or
    their fields as keywords, determine how to compile, as in `stepwell.compile`. Raises the errors of `lower`, and InputError for a backend other
    than the one for native code.

    Nothing else should run on the machine. The first evaluation compiles the whole model, later ones compile only the differences.
    """

    @checked
    def __init__(
        self, source: Source, *, inputs: Mapping[str, np.ndarray] | None = None, threads: int | None = None, options: CompileOptions | None = None,
        **given: Unpack[CompileFields],
    ) -> None:  # fmt: skip
        options = CompileOptions.combined(options, given, "KernelBench")
        if options.backend != DEFAULT:
            raise InputError(f"backend: kernels are timed in native code, expected '{DEFAULT}', got '{options.backend}'")
        self.threads = thread_count(threads)
        self._lowered = lower(source, LEVEL, options=options, threads=self.threads)
        self._below = replace(self._lowered.options, shapes=None, values=None, plan=None, tuning=None)
        self._objects: dict[Unit, bytes] = {}
        self._known_alone: dict[str, _Alone] = {}
        infos = [TensorInfo.from_type(name, kind, self._lowered.info.any_integers) for name, kind in self._lowered.info.inputs]
        drawn = {info.name: random_array(info, 0, index) for index, info in enumerate(infos)}
        if inputs is not None and set(inputs) != set(drawn):
            raise InputError(f"inputs: expected {', '.join(drawn) or 'none'}, got {', '.join(map(str, inputs)) or 'none'}")
        self._inputs = [_fitting(info, (inputs or drawn)[info.name]) for info in infos]

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels of the model by name, in the order of the module."""
        lowered = self._lowered
        flops = kernel_flops(lowered.snapshots["graph-opt"])
        with lowered.module.context:
            chosen = schedules_of(lowered.module.operation, lowered.target).kernels
        launches: dict[str, list[KernelLaunch]] = {}
        for launch in self._chosen.launches:
            launches.setdefault(launch.kernel, []).append(launch)
        found = {}
        for function in functions(lowered.module.operation):
            name, digest = function.sym_name.value, kernel_digest(function.operation)
            if name != "main":
                own = launches.get(name, [])
                nodes = tuple(dict.fromkeys(node for launch in own for node in launch.nodes))
                ops = chosen[digest].ops if digest in chosen else {}
                found[name] = Kernel(name, digest, nodes, len(own), ops, flops.get(name))
        return found

    def kernel(self, name: str) -> Kernel:
        """A kernel by its name, its digest, or an ONNX node that only it computes. Raises InputError if there are none or several."""
        kernels = self.kernels
        found = [k for k in kernels.values() if name in (k.name, k.digest)] or [k for k in kernels.values() if name in k.nodes]
        if len(found) != 1:
            several = f"'{name}' is computed by {', '.join(k.name for k in found)}" if found else f"there is no kernel or node {shown(name)}"
            raise InputError(f"{several}; the kernels are: {', '.join(kernels)}")
        return found[0]

    def evaluate(
        self, kernel: str, schedule: "Schedule | None" = None, *, repeats: int = 10, alone: bool = True, in_place: bool = True
    ) -> Evaluation:
        """Build a kernel with a schedule (default: the chosen one), run it, and time it in `repeats` turns with the chosen one.

        `alone` builds a module of only the kernel, which takes a fraction of the time; `in_place` rebuilds the whole model, since a schedule may
        change the scratch memory that a kernel needs. A schedule with the same code as the chosen one is not timed. A warning reports if other
        processes keep the machine busy. Raises InputError, and ScheduleError naming kernel, op and knob for an illegal value.
        """
        chosen = self.kernel(kernel)
        if not alone and not in_place:
            raise InputError("expected a kernel to be run alone, in its place, or both")
        taken = self._clamped(chosen, schedule)
        sides = {only: self._sides(chosen, schedule, only=only) for wanted, only in ((alone, True), (in_place, False)) if wanted}
        timings: dict[bool, list[Timing]] = {}
        timed = {only: both for only, (*both, _) in sides.items() if both[1] is not None or schedule is None}
        load = ForeignLoad()
        with load if timed else nullcontext():
            for only, both in timed.items():
                turns = [None if one is None else time_alone(one) if only else time_in_place(one, chosen.name) for one in both]
                timings[only] = take_turns(turns[0], turns[1], repeats)  # type: ignore[arg-type]  # the kernel's own program is there
        of_kernel, of_model = timings.get(True, [SAME]), timings.get(False, [SAME, SAME])
        made = Evaluation(
            chosen, of_kernel[0] if alone else None, of_model[0] if in_place else None, of_model[1] if in_place else None,
            max(error for *_, error in sides.values()), taken, load.cores,
        )  # fmt: skip
        if made.is_disturbed:
            warn_caller(BusyWarning(f"other processes keep {made.busy:.2f} cores busy: times of kernel '{chosen.name}' are disturbed"))
        return made

    def ir(self, kernel: str, schedule: "Schedule | None" = None) -> str:
        """The kernel, in a module of its own, at the level from which code is generated, with a schedule (default: the chosen one).

        Schedules with equal text have equal code. Raises like `evaluate`.
        """
        lowered = self._copied(self.kernel(kernel), schedule, only=True)
        descend(lowered, LLVMOnCPU.code_levels[0], keep=False)
        return lowered.text()

    def offered(
        self, kernel: str, place: int, knob: str, schedule: "Schedule | None" = None, *, values: Iterable[Value] | None = None
    ) -> tuple[Value, ...]:
        """The values of an op's knob that give distinct code, with the other knobs of a schedule (default: the chosen one) unchanged.

        Considers `values`, or all legal ones; of several with the same code the first. Each is lowered, which takes some milliseconds. Raises like
        `evaluate`; illegal values are left out.
        """
        found, base = self.kernel(kernel), {} if schedule is None else schedule
        copy = self._scheduled(found, base)
        with copy.module.context:
            ops = structured_ops(find_function(copy.module.operation, found.name).operation)
            if type(place) is not int or not 0 <= place < len(ops):
                raise ScheduleError(f"kernel '{found.name}': there is no op {shown(place)}, it has {len(ops)} structured ops, counted from 0")
            nest = Nest.from_op(ops[place], copy.target)
            known = {one.name: one for one in offered(ops[place], copy.target, nest)}
            if knob not in known:
                raise ScheduleError(f"kernel '{found.name}', op {place}: there is no knob {shown(knob)}, expected {', '.join(known)}")
            given = nest.values(ops[place])
        kept: dict[str, Value] = {}
        for value in known[knob].legal if values is None else values:
            with suppress(ScheduleError):
                kept.setdefault(self.ir(found.name, {**_by_place(base, found), place: {**given, knob: value}}), value)
        return tuple(kept.values())

    def _clamped(self, kernel: Kernel, schedule: "Schedule | None") -> dict[int, dict[str, tuple[object, object]]]:
        """The knobs that a schedule sets and that are replaced by other values."""
        if not schedule:
            return {}
        copy, found = self._scheduled(kernel, schedule), {}
        with copy.module.context:
            ops = structured_ops(find_function(copy.module.operation, kernel.name).operation)
            for place, wanted in _by_place(schedule, kernel).items():
                other = clamped(Nest.from_op(ops[place], copy.target), ops[place])
                found[place] = {name: both for name, both in other.items() if isinstance(wanted, Nest) or name in wanted}
        return {place: values for place, values in found.items() if values}

    def _sides(self, kernel: Kernel, schedule: "Schedule | None", *, only: bool) -> tuple[Replay, Replay | None, float]:
        """A replay with a schedule that has run once, one with the chosen schedule if its code differs, and the difference of their results."""
        native = self._native(self._copied(kernel, schedule, only=only), only=kernel.name if only else None)
        if only:
            known = self._alone(kernel)
            outputs = [np.zeros_like(array) for array in known.expected]
            inputs, weights, before, expected = _copies(known.operands), np.empty(0, np.uint8), known.native, known.expected
        else:
            outputs = self._empty_outputs()
            inputs, weights, before, expected = self._inputs, self._arena, self._chosen, list(self._reference.outputs)
        replay = self._replay(native, inputs, outputs, weights)
        replay.run()
        error = _error(replay.outputs, expected)
        if native.objects == before.objects:
            return replay, None, error
        # It has its own memory, including operands, because a kernel may overwrite them.
        beside = self._replay(before, _copies(inputs) if only else inputs, [np.zeros_like(array) for array in outputs], weights)
        return replay, beside, error

    def _alone(self, kernel: Kernel) -> _Alone:
        if kernel.name not in self._known_alone:
            copy = self._copied(kernel, None, only=True)
            inputs, outputs = ([TensorInfo.from_type(name, kind) for name, kind in side] for side in (copy.info.inputs, copy.info.outputs))
            self._known_alone[kernel.name] = _Alone(self._native(copy, only=kernel.name), *self._operands(kernel, inputs, outputs))
        return self._known_alone[kernel.name]

    @cached_property
    def _chosen(self) -> _Native:
        """The whole model with the chosen schedules."""
        return self._native(self._read(self._lowered.text(), self._lowered.weights))

    @cached_property
    def _arena(self) -> np.ndarray:
        info = self._lowered.info
        return pack_arena(self._lowered.weights, info.arena, info.weights_bytes)

    @cached_property
    def _reference(self) -> Replay:
        """A run of the whole model with the chosen schedules."""
        replay = self._replay(self._chosen, self._inputs, self._empty_outputs(), self._arena)
        replay.run()
        return replay

    def _empty_outputs(self) -> list[np.ndarray]:
        infos = [TensorInfo.from_type(name, kind) for name, kind in self._lowered.info.outputs]
        hidden = widths(self._lowered.info.checks)
        return [*(np.zeros(cast(tuple[int, ...], info.shape), info.dtype) for info in infos), *(np.zeros(n, np.uint64) for n in hidden)]

    def _replay(self, native: _Native, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], weights: np.ndarray) -> Replay:
        return Replay(
            native.launches, native.objects, inputs=inputs, outputs=outputs, weights=weights, workspace_bytes=native.workspace_bytes,
            threads=self.threads,
        )  # fmt: skip

    def _operands(self, kernel: Kernel, inputs: list[TensorInfo], outputs: list[TensorInfo]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Copies of the inputs and results of a kernel's first launch in the model, in these types."""
        replay = self._replay(self._chosen, self._inputs, self._empty_outputs(), self._arena)
        first = next(i for i, launch in enumerate(replay.launches) if launch.kernel == kernel.name)
        launch = replay.launches[first]
        replay.run(0, first)
        read = [_copy(replay.bytes(source), info) for source, info in zip(launch.sources, inputs, strict=True)]
        replay.run(first, first + 1)
        return read, [_copy(replay.bytes(target), info) for target, info in zip(launch.destinations, outputs, strict=True)]

    def _copied(self, kernel: Kernel, schedule: "Schedule | None", *, only: bool) -> Lowered:
        """A copy of the model, or a module of `only` one kernel, with a schedule that replaces that kernel's."""
        copy = self._scheduled(kernel, schedule)
        if not only:
            return copy
        with copy.module.context, copy.module.operation.location:
            text = isolated(copy.module, kernel.name)
        return self._read(text, WeightTable())

    def _scheduled(self, kernel: Kernel, schedule: "Schedule | None") -> Lowered:
        """A copy of the model with a schedule that replaces that kernel's."""
        copy = self._read(self._lowered.text(), self._lowered.weights)
        with copy.module.context, copy.module.operation.location:
            _replace(find_function(copy.module.operation, kernel.name).operation, kernel, schedule or {}, copy)
        return copy

    def _read(self, text: str, weights: WeightTable) -> Lowered:
        return read_ir(text, LEVEL, weights, options=self._below)

    def _native(self, lowered: Lowered, only: str | None = None) -> _Native:
        """Code for a module at level scheduled: for each function without code so far, or only for the function `only`."""
        descend(lowered, LLVMOnCPU.code_levels[0], keep=False)
        with lowered.module.context:
            launches = kernel_launches(lowered.module.operation)
        workspace = lowered.info.workspace_bytes
        units = [unit for unit in LLVMOnCPU().units(lowered) if only in (None, unit.name)]
        new = [unit for unit in units if unit not in self._objects]
        made = compile_units(new)
        self._objects.update((unit, made[unit.name]) for unit in new)
        return _Native(launches, {unit.name: self._objects[unit] for unit in units}, workspace)


def _by_place(schedule: Schedule, kernel: Kernel) -> "Mapping[int, Nest | Mapping[str, Any]]":
    """The schedule, or the values of some knobs, of each op by index. Raises ScheduleError for a file that lacks the kernel."""
    if not isinstance(schedule, Plan):
        return schedule
    entry = schedule.kernels.get(kernel.digest)
    if entry is None:
        raise ScheduleError(f"{schedule.name}: it has no kernel '{kernel.digest}' ({kernel.name}), only {', '.join(schedule.kernels) or 'none'}")
    return {place: op.knobs for place, op in entry.ops.items()}


def _replace(function: ir.Operation, kernel: Kernel, schedule: Schedule, model: Lowered) -> None:
    """Put schedules on ops of a kernel. Raises ScheduleError, naming kernel, op and knob."""
    ops = structured_ops(function)
    for place, wanted in _by_place(schedule, kernel).items():
        where = f"kernel '{kernel.name}', op {place}"
        if type(place) is not int or not 0 <= place < len(ops):
            raise ScheduleError(f"{where}: there is no such op, it has {len(ops)} structured ops, counted from 0")
        op = ops[place]
        try:
            values = wanted.values(op) if isinstance(wanted, Nest) else {**Nest.from_op(op, model.target).values(op), **wanted}
            ScheduleInfo(op.operation).nest = Nest.from_values(values, op, model.target)
        except ScheduleError as error:
            raise ScheduleError(f"{where} ({op.kind}): {error.args[0]}") from None


def _fitting(info: TensorInfo, array: np.ndarray) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.shape != info.shape or array.dtype != info.dtype:
        raise InputError(f"input '{info.name}': expected {info}, got {shown(array)}")
    return np.require(array, requirements=("C", "A"))


def _copy(memory: np.ndarray, info: TensorInfo) -> np.ndarray:
    return memory.copy().view(info.dtype).reshape(info.shape)  # type: ignore[arg-type]  # its sizes are known


def _error(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    different = [(mine, other) for mine, other in zip(got, expected, strict=True) if not np.array_equal(mine, other)]
    return max((check.scale_rel for mine, other in different for check in compare({"": mine}, {"": other})), default=0.0)


def _copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [array.copy() for array in arrays]
