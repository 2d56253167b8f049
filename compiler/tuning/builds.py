"""The requests of builds: a kernel with other schedules, or a whole network with another plan, compiled in a process of their own."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np

from stepwell.analysis.isolation import isolated
from stepwell.analysis.kernel_launches import kernel_launches
from stepwell.backends.llvm_cpu.backend import LLVMOnCPU, objects_of
from stepwell.backends.llvm_cpu.pool import compile_in_process
from stepwell.cache.disk import chosen_cache
from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.plan_file import Plan
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import ScheduleError, UnsupportedError
from stepwell.driver.lowering import descend, lower, read_ir
from stepwell.options import CompileOptions
from stepwell.passes.framework.rewriting import find_function, functions
from stepwell.passes.linalg.structured import structured_ops
from stepwell.passes.schedule.candidates import parse_schedule
from stepwell.pipelines.lowered import Lowered
from stepwell.runtime.buffers import arena_places, pack_arena
from stepwell.signature import TensorInfo
from stepwell.tuning.blobs import Blob, put
from stepwell.tuning.device import Built
from stepwell.tuning.program import KernelCode, Program

SCHEDULED = "scheduled"
Inputs: TypeAlias = tuple[tuple[Blob, tuple[int, ...], str], ...]
"""The data of inputs, as `Program.inputs` has them."""
Put: TypeAlias = Callable[[np.ndarray], Blob]
"""Stores large data."""
_ALIASING = "arg_attrs"
"""The attribute of a kernel with what the planner of memory promises about its arguments."""


@dataclass(frozen=True)
class IsolatedKernel:
    """A kernel of a network, in a module of its own, as text."""

    name: str
    text: str
    """The module at level scheduled."""
    promises: str
    """The promises of the network about the memory of its arguments, as the text of an attribute; empty for none."""


@dataclass(frozen=True)
class KernelBuild:
    """A request to compile a kernel with other schedules for some of its structured ops, by index."""

    kernel: IsolatedKernel
    schedules: Mapping[int, str]
    """By the index of a structured op, its schedule as text (`schedule_text`)."""
    options: CompileOptions

    def answer(self) -> Built:
        """Compile it, in the process that received the request. Raises ScheduleError for an illegal schedule, and the errors of code generation."""
        compile_in_process()
        start = time.perf_counter()
        code = compiled_kernel(self.kernel, self.schedules, self.options)
        return Built(code.digest, code, time.perf_counter() - start)


@dataclass(frozen=True)
class NetworkBuild:
    """A request to compile a whole network with a plan."""

    source: str | bytes | Blob
    """The path of the model, or its content."""
    options: CompileOptions
    plan: Plan
    inputs: Inputs
    """Like the field of `Program`."""

    def answer(self) -> Built:
        """Compile it, in the process that received the request. Raises the errors of `stepwell.compile`."""
        compile_in_process()
        start = time.perf_counter()
        source = self.source.array().tobytes() if isinstance(self.source, Blob) else self.source
        lowered = lower(source, SCHEDULED, options=replace(self.options, plan=self.plan))
        program = program_of(lowered, self.inputs, put)
        return Built(program.digest, program, time.perf_counter() - start)


def compiled_kernel(kernel: IsolatedKernel, schedules: Mapping[int, str], options: CompileOptions) -> KernelCode:
    """The code of a kernel with these schedules. Raises ScheduleError, and the errors of code generation."""
    lowered = read_ir(kernel.text, SCHEDULED, WeightTable(), name=kernel.name, options=below(options))
    with lowered.module.context, lowered.module.operation.location:
        ops = structured_ops(find_function(lowered.module.operation, kernel.name).operation)
        for place, text in schedules.items():
            if not 0 <= place < len(ops):
                raise ScheduleError(f"kernel '{kernel.name}': there is no op {place}, it has {len(ops)} structured ops, counted from 0")
            try:
                ScheduleInfo(ops[place].operation).nest = parse_schedule(text, ops[place], lowered.target)
            except ScheduleError as error:
                raise ScheduleError(f"kernel '{kernel.name}', op {place} ({ops[place].kind}): {error.args[0]}") from None
    descend(lowered, LLVMOnCPU.code_levels[0], keep=False)
    with lowered.module.context:
        [launch] = kernel_launches(lowered.module.operation)
        _promise(find_function(lowered.module.operation, kernel.name).operation, kernel.promises)
    [unit] = [unit for unit in LLVMOnCPU().units(lowered) if unit.name == kernel.name]
    objects, _ = objects_of([unit], lowered.target, chosen_cache(True))
    return KernelCode(kernel.name, objects[kernel.name], None if launch.scratch is None else launch.scratch.size)


def isolated_kernels(lowered: Lowered) -> dict[str, IsolatedKernel]:
    """The kernels of a network at level scheduled by name, without what the network promises about their memory."""
    with lowered.module.context, lowered.module.operation.location:
        names = [function.sym_name.value for function in functions(lowered.module.operation)]
        return {name: IsolatedKernel(name, isolated(lowered.module, name), "") for name in names if name != "main"}


def promises(lowered: Lowered) -> dict[str, str]:
    """The promises of a network at level affine about the memory of each kernel's arguments, by the kernel's name."""
    found = {}
    for function in functions(lowered.module.operation):
        attributes = function.operation.attributes
        found[function.sym_name.value] = str(attributes[_ALIASING]) if _ALIASING in attributes else ""
    return found


def program_of(lowered: Lowered, inputs: Inputs, put: Put) -> Program:
    """A network at level scheduled or affine, compiled; its module is consumed. `put` stores its weights.

    Raises UnsupportedError for a network whose `@main` is more than a list of calls.
    """
    level = LLVMOnCPU.code_levels[0]
    if lowered.level != level:
        descend(lowered, level, keep=False)
    with lowered.module.context:
        launches = kernel_launches(lowered.module.operation)
    info, places = lowered.info, arena_places(lowered.weights, lowered.info.arena)
    infos = [TensorInfo.from_type(name, kind) for name, kind in info.outputs]
    if info.symbols or not all(one.is_static for one in infos):
        raise UnsupportedError("tuning a network with dynamic sizes is not supported: give the sizes of its inputs with shapes")
    outputs = [(cast(tuple[int, ...], one.shape), str(one.dtype)) for one in infos]
    hidden = [((count,), "uint64") for count in widths(info.checks)]
    units = LLVMOnCPU().units(lowered)
    objects, _ = objects_of(units, lowered.target, chosen_cache(True))
    weights = put(pack_arena(lowered.weights, info.arena, info.weights_bytes))
    return Program(
        tuple(launches), objects, inputs, (*outputs, *hidden), weights, tuple(places) if info.located else (), info.workspace_bytes
    )  # fmt: skip


def below(options: CompileOptions) -> CompileOptions:
    """The options for IR at level scheduled, which has its own sizes and schedules."""
    return replace(options, shapes=None, values=None, size_hints=None, plan=None, schedule=None)


def stored_inputs(infos: Sequence[TensorInfo], arrays: Mapping[str, np.ndarray], put: Put) -> Inputs:
    """The data of inputs as `Program` has them."""
    return tuple((put(arrays[info.name]), arrays[info.name].shape, str(arrays[info.name].dtype)) for info in infos)


def _promise(kernel: ir.Operation, text: str) -> None:
    """Replace what an isolated kernel's module promises about its memory by what its network does."""
    if text:
        kernel.attributes[_ALIASING] = ir.Attribute.parse(text)
    elif _ALIASING in kernel.attributes:
        del kernel.attributes[_ALIASING]
