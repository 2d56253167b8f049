"""Evaluate one kernel: build it with another schedule, run and time it alone and in its place in the model."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack, cast

import numpy as np

from stepwell.analysis.compare import compare
from stepwell.analysis.flops import kernel_flops
from stepwell.analysis.isolation import isolated
from stepwell.analysis.kernel_launches import KernelLaunch, kernel_launches
from stepwell.analysis.random_inputs import random_array
from stepwell.analysis.replay import Replay
from stepwell.codegen.llvm_cpu import LLVMOnCPU
from stepwell.codegen.objects import Unit
from stepwell.codegen.pool import compile_units
from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.schedule_file import Entry, ScheduleFile
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import InputError, ScheduleError, shown
from stepwell.dialects.support.properties import cached_property
from stepwell.dialects.target.cores import thread_count
from stepwell.driver.arguments import checked
from stepwell.driver.backends import DEFAULT
from stepwell.driver.lowered import Lowered
from stepwell.driver.lowering import descend, lower, read_ir
from stepwell.options import CompileFields, CompileOptions, Source
from stepwell.passes.framework.rewriting import find_function, functions
from stepwell.passes.linalg.structured import structured_ops
from stepwell.passes.schedule.assign_schedules import schedules_of
from stepwell.passes.schedule.kernel_digest import kernel_digest
from stepwell.passes.schedule.nest import Nest
from stepwell.runtime.buffers import pack_arena
from stepwell.runtime.infos import TensorInfo

LEVEL = "scheduled"
Schedule: TypeAlias = "Mapping[int, Nest | Mapping[str, Any]] | ScheduleFile"
"""For structured ops of a kernel, by their places in it, a schedule or the values of some knobs; or a file that names the kernel."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a model."""

    name: str
    digest: str
    """The digest of what it computes, by which schedule files name it."""
    nodes: tuple[str, ...]
    """The ONNX nodes that it computes, over all its launches."""
    launches: int
    """How often a run of the model calls it."""
    ops: Mapping[int, Entry]
    """Its structured ops by their places: kind, sizes, the knobs of the schedule that was chosen, and what is legal."""
    flops: int | None
    """Operations of one launch as the network states them; None if not known."""


@dataclass(frozen=True)
class Evaluation:
    """What a kernel takes with a schedule, in seconds: one number for each time it was run."""

    kernel: Kernel
    alone: tuple[float, ...]
    """One launch, run again and again on data of the model: what it reads is in the caches. Empty where that was not asked for."""
    in_place: tuple[float, ...]
    """All launches of the kernel in a run of the model, each with the caches as its neighbours leave them. Empty where that was not asked for."""
    whole: tuple[float, ...]
    """All launches of all kernels in these runs."""
    error: float
    """The largest difference from the results with the schedule that was chosen, over their largest magnitude. 0 is the same, bit by bit."""

    @property
    def alone_seconds(self) -> float | None:
        """The median."""
        return statistics.median(self.alone) if self.alone else None

    @property
    def in_place_seconds(self) -> float | None:
        """The median."""
        return statistics.median(self.in_place) if self.in_place else None


@dataclass(frozen=True)
class _Native:
    """A module as native code: its kernel launches, the object of each function, and the workspace they need."""

    launches: list[KernelLaunch]
    objects: dict[str, bytes]
    workspace_bytes: int


class KernelBench:
    """A model, taken to the level scheduled once, whose kernels can be built and timed with other schedules.

    `inputs` are those of the runs by name, random ones where it is None. `threads` bounds the cores (default: all that the process may use).
    `options`, or their fields as keywords, say how to compile, as in `stepwell.compile`. Raises what `lower` raises, and InputError for
    a backend other than the one for native code.

    Nothing else should run on the machine. The first evaluation compiles the whole model, later ones compile what differs.
    """

    @checked
    def __init__(
        self, source: Source, *, inputs: Mapping[str, np.ndarray] | None = None, threads: int | None = None, options: CompileOptions | None = None,
        **given: Unpack[CompileFields],
    ) -> None:  # fmt: skip
        options = CompileOptions.of(options, given, "KernelBench")
        if options.backend != DEFAULT:
            raise InputError(f"backend: kernels are timed in native code, expected '{DEFAULT}', got '{options.backend}'")
        self.threads = thread_count(threads)
        self._lowered = lower(source, LEVEL, options=options)
        self._below = replace(self._lowered.options, shapes=None, values=None, schedule=None)
        self._objects: dict[Unit, bytes] = {}
        infos = [TensorInfo.of(name, kind, self._lowered.info.any_integers) for name, kind in self._lowered.info.inputs]
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
        """A kernel by its name, its digest, or an ONNX node that it alone computes. Raises InputError for what says none, or several."""
        kernels = self.kernels
        found = [k for k in kernels.values() if name in (k.name, k.digest)] or [k for k in kernels.values() if name in k.nodes]
        if len(found) != 1:
            several = f"'{name}' is computed by {', '.join(k.name for k in found)}" if found else f"there is no kernel or node {shown(name)}"
            raise InputError(f"{several}; the kernels are: {', '.join(kernels)}")
        return found[0]

    def evaluate(
        self, kernel: str, schedule: "Schedule | None" = None, *, repeats: int = 20, alone: bool = True, in_place: bool = True
    ) -> Evaluation:
        """Build a kernel with a schedule (default: the one that was chosen), run it, and time it `repeats` times.

        `alone` builds a module of nothing but the kernel, which takes a fraction of the time; `in_place` builds the whole model anew, since a
        schedule may change the memory that a kernel needs beside its operands. Raises InputError, and ScheduleError naming kernel, op and
        knob for what is not legal.
        """
        chosen = self.kernel(kernel)
        texts = {"alone": self._text(chosen, schedule, only=True)} if alone else {}
        texts |= {"in place": self._text(chosen, schedule, only=False)} if in_place else {}
        if not texts:
            raise InputError("expected a kernel to be run alone, in its place, or both")
        seconds_alone, seconds_in_place, whole, errors = [], [], [], [0.0]
        if alone:
            operands, expected = self._operands(chosen)
            native = self._native(self._read(texts["alone"], WeightTable()), only=chosen.name)
            replay = self._replay(native, operands, [np.zeros_like(array) for array in expected], np.empty(0, np.uint8))
            replay.run()
            errors.append(_error(replay.outputs, expected))
            seconds_alone = replay.alone(0, repeats)
        if in_place:
            native = self._native(self._read(texts["in place"], self._lowered.weights))
            replay = self._replay(native, self._inputs, self._empty_outputs(), self._arena)
            replay.run()
            errors.append(_error(replay.outputs, self._reference.outputs))
            samples, _ = replay.times(repeats)
            own = [times for launch, times in zip(replay.launches, samples, strict=True) if launch.kernel == chosen.name]
            seconds_in_place, whole = [sum(rounds) for rounds in zip(*own, strict=True)], [sum(rounds) for rounds in zip(*samples, strict=True)]
        return Evaluation(chosen, tuple(seconds_alone), tuple(seconds_in_place), tuple(whole), max(errors))

    @cached_property
    def _chosen(self) -> _Native:
        """The whole model with the schedules that were chosen."""
        return self._native(self._read(self._lowered.text(), self._lowered.weights))

    @cached_property
    def _arena(self) -> np.ndarray:
        info = self._lowered.info
        return pack_arena(self._lowered.weights, info.arena, info.weights_bytes)

    @cached_property
    def _reference(self) -> Replay:
        """A run of the whole model with the schedules that were chosen."""
        replay = self._replay(self._chosen, self._inputs, self._empty_outputs(), self._arena)
        replay.run()
        return replay

    def _empty_outputs(self) -> list[np.ndarray]:
        infos = [TensorInfo.of(name, kind) for name, kind in self._lowered.info.outputs]
        hidden = widths(self._lowered.info.checks)
        return [*(np.zeros(cast(tuple[int, ...], info.shape), info.dtype) for info in infos), *(np.zeros(n, np.uint64) for n in hidden)]

    def _replay(self, native: _Native, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], weights: np.ndarray) -> Replay:
        return Replay(
            native.launches, native.objects, inputs=inputs, outputs=outputs, weights=weights, workspace_bytes=native.workspace_bytes,
            threads=self.threads,
        )  # fmt: skip

    def _operands(self, kernel: Kernel) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What the first launch of a kernel reads in the model, and what it gives there, in memory of their own."""
        inputs, outputs = self._lowered_types(kernel)
        replay = self._replay(self._chosen, self._inputs, self._empty_outputs(), self._arena)
        first = next(i for i, launch in enumerate(replay.launches) if launch.kernel == kernel.name)
        launch = replay.launches[first]
        replay.run(0, first)
        read = [_copy(replay.bytes(source), info) for source, info in zip(launch.sources, inputs, strict=True)]
        replay.run(first, first + 1)
        return read, [_copy(replay.bytes(target), info) for target, info in zip(launch.destinations, outputs, strict=True)]

    def _lowered_types(self, kernel: Kernel) -> tuple[list[TensorInfo], list[TensorInfo]]:
        module = self._read(self._text(kernel, None, only=True), WeightTable())
        inputs, outputs = ([TensorInfo.of(name, kind) for name, kind in side] for side in (module.info.inputs, module.info.outputs))
        return inputs, outputs

    def _text(self, kernel: Kernel, schedule: "Schedule | None", *, only: bool) -> str:
        """The model, or a module of one kernel `only`, with a schedule in the place of that kernel's."""
        copy = self._read(self._lowered.text(), self._lowered.weights)
        module = copy.module
        with module.context, module.operation.location:
            _replace(find_function(module.operation, kernel.name).operation, kernel, schedule or {}, copy)
            if only:
                isolated(module, kernel.name)
        return copy.text()

    def _read(self, text: str, weights: WeightTable) -> Lowered:
        return read_ir(text, LEVEL, weights, options=self._below)

    def _native(self, lowered: Lowered, only: str | None = None) -> _Native:
        """Code for a module at level scheduled: of each function that is not there yet, or of one `only`."""
        descend(lowered, LLVMOnCPU.levels[0], keep=False)
        with lowered.module.context:
            launches = kernel_launches(lowered.module.operation)
        workspace = lowered.info.workspace_bytes
        units = [unit for unit in LLVMOnCPU().units(lowered) if only in (None, unit.name)]
        new = [unit for unit in units if unit not in self._objects]
        made = compile_units(new)
        self._objects.update((unit, made[unit.name]) for unit in new)
        return _Native(launches, {unit.name: self._objects[unit] for unit in units}, workspace)


def _replace(function: ir.Operation, kernel: Kernel, schedule: Schedule, model: Lowered) -> None:
    """Put schedules on ops of a kernel. Raises ScheduleError, naming kernel, op and knob."""
    if isinstance(schedule, ScheduleFile):
        entry = schedule.kernels.get(kernel.digest)
        if entry is None:
            raise ScheduleError(f"{schedule.name}: it has no kernel '{kernel.digest}' ({kernel.name}), only {', '.join(schedule.kernels) or 'none'}")
        schedule = {place: op.knobs for place, op in entry.ops.items()}
    ops = structured_ops(function)
    for place, wanted in schedule.items():
        where = f"kernel '{kernel.name}', op {place}"
        if type(place) is not int or not 0 <= place < len(ops):
            raise ScheduleError(f"{where}: there is no such op, it has {len(ops)} structured ops, counted from 0")
        op = ops[place]
        try:
            values = wanted.values(op) if isinstance(wanted, Nest) else {**Nest.of(op, model.target).values(op), **wanted}
            ScheduleInfo(op.operation).nest = Nest.from_values(values, op, model.target)
        except ScheduleError as error:
            raise ScheduleError(f"{where} ({op.kind}): {error.args[0]}") from None


def _fitting(info: TensorInfo, array: np.ndarray) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.shape != info.shape or array.dtype != info.dtype:
        raise InputError(f"input '{info.name}': expected {info}, got {shown(array)}")
    return np.require(array, requirements=("C", "A"))


def _copy(memory: np.ndarray, info: TensorInfo) -> np.ndarray:
    return memory.copy().view(info.dtype).reshape(info.shape)  # type: ignore[arg-type]


def _error(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    different = [(mine, other) for mine, other in zip(got, expected, strict=True) if not np.array_equal(mine, other)]
    return max((check.scale_rel for mine, other in different for check in compare({"": mine}, {"": other})), default=0.0)
