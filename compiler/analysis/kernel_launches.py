"""Kernel launches: the calls in @main at level affine, with their ONNX nodes and the placement of their operands."""

from typing import Any

from stepwell.analysis.launches import KernelLaunch, Operand
from stepwell.analysis.places import Places, in_order
from stepwell.dialects.core.kernel_info import REGION_MEMORY, KernelInfo
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import IRError
from stepwell.passes.bufferize.kernels import memref_bytes
from stepwell.passes.framework.rewriting import find_function, functions

_PLAIN = (
    "func.call", "memref.view", "memref.reinterpret_cast", "memref.cast", "memref.collapse_shape", "memref.expand_shape",
    "builtin.unrealized_conversion_cast", "arith.constant", "func.return",
)  # fmt: skip


def kernel_launches(module: ir.Operation) -> list[KernelLaunch]:
    """The launches in @main, in order. Raises IRError if @main is anything but a list of calls on views of its arguments."""
    main = find_function(module, "main")
    for operation in main.regions[0].blocks[0].operations:
        op = operation.operation
        if op.name not in _PLAIN:
            raise IRError(f"@main is expected to be a list of calls on views, but it has '{op.name}'")
    launches = launches_of(module, main)
    if any(launch.unplaced for launch in launches):
        raise IRError("@main has a view at an offset that is not a constant")
    return launches


def launches_of(module: ir.Operation, function: Any) -> list[KernelLaunch]:
    """The launches in a function, and the calls of functions of regions, in the order of a run that executes all of them."""
    called = {f.sym_name.value: f for f in functions(module) if KernelInfo(f).is_kernel or KernelInfo(f).is_region}
    places, launches = Places(function), []
    stored: set[Any] = set()
    for op in in_order(function):
        if op.name == "memref.store":
            stored.update(places.places_of(op.operands[1]))
        if op.name != "func.call" or callee(op) not in called:  # of the runtime, or of what completes the table of sizes
            continue
        name = callee(op)
        info = KernelInfo(called[name])
        operands, memory = (list(op.operands)[:-REGION_MEMORY], list(op.operands)[-REGION_MEMORY:]) if info.is_region else (list(op.operands), [])
        found = [_operands(places, value) for value in operands]
        if info.is_region:
            writes = written(module, called[name])
            is_written = [index in writes for index in range(len(operands))]
            scratch = _operands(places, memory[1]) if memref_bytes(memory[1].type) > 1 else []
        else:
            scratch = found.pop() if info.scratch_bytes is not None else []
            is_written = [index >= len(found) - info.results for index in range(len(found))]
        fixed = [(one[0], writes) for one, writes in zip(found, is_written, strict=True) if len(one) == 1]
        kept = [operand for operand, writes in fixed if not writes and (operand.argument, operand.offset) in stored]
        carried = [*kept, *(operand for one in found if len(one) > 1 for operand in one)]
        sources = tuple(operand for operand, writes in fixed if not writes and operand not in kept)
        destinations = tuple(operand for operand, writes in fixed if writes)
        launches.append(KernelLaunch(
            name, tuple(node_names(op.location)), sources, destinations, scratch[0] if scratch else None,
            tuple(dict.fromkeys(carried)), sum(not one for one in found), info.is_region,
        ))  # fmt: skip
    return launches


def written(module: ir.Operation, function: Any) -> set[int]:
    """The arguments of a function that its launches write."""
    return {operand.argument for launch in launches_of(module, function) for operand in (*launch.destinations, *launch.carried)}


def _operands(places: Places, value: Any) -> list[Operand]:
    """The possible placements of a memref; empty if the placement or the size is known only at run time."""
    return [placed_operand(*place, value.type) for place in places.places_of(value)] if value.type.has_static_shape else []


def placed_operand(argument: int, offset: int, memref_type: Any) -> Operand:
    """The operand of type `memref_type` at byte `offset` of an argument."""
    text = "x".join(map(str, [*memref_type.shape, memref_type.element_type]))
    return Operand(argument, offset, memref_bytes(memref_type), text)


def callee(op: ir.Operation) -> str:
    """The name of the function called by `op`."""
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value
