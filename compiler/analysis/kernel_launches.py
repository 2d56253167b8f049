"""Kernel launches: the calls in @main at level affine, with their ONNX nodes and the placement of their operands."""

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Operand:
    """The placement of a launch's operand: an argument of @main, an offset and a size in bytes; and its type, as `2x3xf32`."""

    argument: int
    offset: int
    size: int
    type: str

    @staticmethod
    def from_memref(argument: int, offset: int, memref_type: Any) -> "Operand":
        """The operand of type `memref_type` at byte `offset` of an argument."""
        text = "x".join(map(str, [*memref_type.shape, memref_type.element_type]))
        return Operand(argument, offset, memref_bytes(memref_type), text)

    @property
    def end(self) -> int:
        """The end of its bytes (exclusive)."""
        return self.offset + self.size

    def overlaps(self, other: "Operand") -> bool:
        """Whether the two share memory."""
        return self.argument == other.argument and self.offset < other.end and other.offset < self.end


@dataclass(frozen=True)
class KernelLaunch:
    """One launch: the kernel, the ONNX nodes it computes, its inputs, its outputs, its scratch if any."""

    kernel: str
    nodes: tuple[str, ...]
    sources: tuple[Operand, ...]
    destinations: tuple[Operand, ...]
    """One for each result of the kernel."""
    scratch: Operand | None
    carried: tuple[Operand, ...] = ()
    """The buffers that a loop keeps for its iterations or carries between them: it reads one and writes the other, in turn."""
    unplaced: int = 0
    """The number of operands whose placement or size is known only at run time."""
    is_region: bool = False
    """Whether this is not a kernel but the function of a branch or of a loop's body; the scratch is its workspace."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All operands, in the order of the kernel's arguments."""
        return (*self.sources, *self.destinations, *([] if self.scratch is None else [self.scratch]))


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
    return [Operand.from_memref(*place, value.type) for place in places.places_of(value)] if value.type.has_static_shape else []


def callee(op: ir.Operation) -> str:
    """The name of the function called by `op`."""
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value
