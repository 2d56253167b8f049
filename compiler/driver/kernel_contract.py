"""Verifies the contract of kernels at each level (docs/kernels.md), since plugins and users write kernels too."""

from collections.abc import Iterator, Sequence
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import ir, ops_below, registered_dialects
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import UNSIGNED, TensorType
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import InferenceError
from stepwell.passes.framework.levels import Level, find_level
from stepwell.passes.framework.registry import converting_pass
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg.structured import STRUCTURED

SHOWN = 8  # the largest number of problems in one message
_DIALECTS = ("linalg", "tensor", "arith", "math", "scf", "memref", "bufferization", "sched", "ub")
_LINALG = (*STRUCTURED, "linalg.yield", "linalg.index")
_END = "func.return"


def kernel_problems(module: ir.Operation, level: str) -> list[str]:
    """The violations in the kernels of a module at `level`, a line each, naming kernel, op and node.

    On tensors it checks ops; on buffers, and in loops, only signatures, since a walk would take too long.
    """
    record = find_level(level)
    if not record.outlined or not record.checked:
        return []
    kernels = [function for function in functions(module) if KernelInfo(function).is_kernel]
    return [f"kernel @{kernel.sym_name.value}{problem}" for kernel in kernels for problem in _problems(kernel, record)]


def summed_up(problems: list[str]) -> str:
    """One message with the first problems and the number of others."""
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    return "; ".join([*problems[:SHOWN], *more])


def _problems(kernel: ir.OpView, level: Level) -> Iterator[str]:
    blocks = list(kernel.regions[0].blocks)
    ends = [block.operations[len(block.operations) - 1].operation.name for block in blocks if len(block.operations)]
    if len(blocks) != 1 or ends != [_END]:
        yield f" must be one block that ends in {_END}"
    elif level.buffers:
        yield from _memory_signature(kernel)
    else:
        signature = list(_tensor_signature(kernel, level))
        yield from signature
        destinations = set() if signature else set(list(kernel.arguments)[len(kernel.arguments) - len(kernel.type.results) :])
        ours = {dialect.DIALECT_NAMESPACE for dialect in registered_dialects()}
        for op in ops_below(kernel.operation):
            problem = _op_problem(op, level, destinations, ours)
            if problem is not None:
                yield f": '{op.name}' of {nodes_text(op.location)} {problem}"


def _tensor_signature(kernel: ir.OpView, level: Level) -> Iterator[str]:
    """Problems with the types of a kernel in destination-passing style on tensors."""
    inputs, results = list(kernel.type.inputs), list(kernel.type.results)
    named = KernelInfo(kernel).sizes
    for number, kind in enumerate(inputs):
        if isinstance(kind, ir.IndexType):  # a size
            continue
        try:
            found = TensorType.from_mlir(kind)
        except InferenceError as error:
            yield f": argument {number}: {error.args[0]}"
            return
        if None in found.shape and not _is_named(kind, number, named):
            yield f": argument {number} must have a static shape, or one whose sizes have names, got {kind}"
        if level.arena and found.dtype in UNSIGNED:
            yield f": argument {number} must be signless, got {kind}: at level {level.name} ops say whether an integer has a sign, types do not"
    if not results:
        yield " must return at least one tensor"
    elif inputs[len(inputs) - len(results) :] != results or len(inputs) < len(results):
        kinds = ", ".join(map(str, results))
        yield f" must take a destination for each result behind its inputs: its last arguments must be ({kinds}), its type is {kernel.type}"


def _is_named(kind: Any, number: int, named: Sequence[Sequence[Dim]]) -> bool:
    """Whether a kernel names the dynamic dimensions of an argument."""
    free = list(kind.shape).count(ir.ShapedType.get_dynamic_size())
    return number < len(named) and len(named[number]) == free and None not in named[number]


def _memory_signature(kernel: ir.OpView) -> Iterator[str]:
    """Problems with the types of a kernel on memory."""
    inputs, info = list(kernel.type.inputs), KernelInfo(kernel)
    if len(kernel.type.results):
        yield f" must return nothing, it returns {', '.join(map(str, kernel.type.results))}"
    for number, kind in enumerate(inputs):
        if isinstance(kind, ir.IndexType):
            continue
        scratch = info.scratch_bytes is not None and number == len(inputs) - 1
        if not isinstance(kind, ir.MemRefType) or not (kind.has_static_shape or scratch or _is_named(kind, number, info.sizes)):
            yield f": argument {number} must be a memref of static shape, or one whose sizes have names, got {kind}"
    if info.first_destination(len(inputs)) < 0:
        yield f" has {len(inputs)} arguments, fewer than its {info.results} destinations and its scratch"


def _op_problem(op: ir.Operation, level: Level, destinations: set[ir.Value], ours: set[str]) -> str | None:
    """The reason for which an op must not be in a kernel at `level`; None if it may."""
    dialect = op.name.partition(".")[0]
    if op.name == _END or dialect in level.dialects or (dialect in _DIALECTS and dialect != "linalg"):
        return None
    if dialect == "linalg":
        if op.name not in _LINALG:
            return "has no schedules and no loops: write it as linalg.generic (pass linalg-generalize-named-ops)"
        if level.scheduled and op.name in STRUCTURED and not ScheduleInfo(op).is_scheduled:
            return f"has no schedule: the attribute '{ScheduleInfo.nest.name}' is missing (pass assign-schedules)"
        return None
    if dialect not in ours:
        return f"must not be in a kernel at level {level.name}"
    if not level.arena:
        return _graph_problem(op, destinations)
    passes = converting_pass(op.name)
    if passes is not None:
        return f"is left at level {level.name}, although pass '{passes.name}' says that it converts it: does the pass have a place in the pipeline?"
    return f"is left at level {level.name}: it needs a lowering, or a pass on level linalg that converts it"


def _graph_problem(op: ir.Operation, destinations: set[ir.Value]) -> str | None:
    """The problem with a graph op, or an op of a plugin's dialect, in a kernel at level graph-opt, or None."""
    if op.name == "graph.parameter":
        return "must not be in a kernel: weights are arguments of it"
    if isinstance(op.opview, GraphOp):
        if len(op.regions):
            return "has regions and cannot be in a kernel"
        if any(value in destinations for value in op.operands):
            return "reads a destination, which holds nothing: the kernel's last arguments are where its results go"
    return None
