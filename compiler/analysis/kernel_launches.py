"""Kernel launches: the calls in @main at level affine, with the ONNX nodes they compute and where their operands lie."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.support.errors import IRError
from stepwell.passes.bufferize.kernels import memref_bytes
from stepwell.passes.framework.rewriting import find_function, functions

_SAME_ADDRESS = ("memref.reinterpret_cast", "memref.cast", "memref.collapse_shape", "memref.expand_shape", "builtin.unrealized_conversion_cast")


@dataclass(frozen=True)
class Operand:
    """Where an operand of a launch lies: in which argument of @main, at which byte, how many bytes; and its type, as `2x3xf32`."""

    argument: int
    offset: int
    size: int
    type: str

    @staticmethod
    def of(argument: int, offset: int, memref_type: Any) -> "Operand":
        """The operand of type `memref_type` at byte `offset` of an argument."""
        text = "x".join(map(str, [*memref_type.shape, memref_type.element_type]))
        return Operand(argument, offset, memref_bytes(memref_type), text)

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.size

    def overlaps(self, other: "Operand") -> bool:
        """Whether the two share memory."""
        return self.argument == other.argument and self.offset < other.end and other.offset < self.end


@dataclass(frozen=True)
class KernelLaunch:
    """One launch: the kernel, the ONNX nodes it computes, what it reads, what it writes, its scratch if any."""

    kernel: str
    nodes: tuple[str, ...]
    sources: tuple[Operand, ...]
    destinations: tuple[Operand, ...]
    """One for each result of the kernel."""
    scratch: Operand | None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All of them, in the order of the kernel's arguments."""
        return (*self.sources, *self.destinations, *([] if self.scratch is None else [self.scratch]))


def kernel_launches(module: ir.Operation) -> list[KernelLaunch]:
    """The launches in @main, in order. Raises IRError if @main is anything but a list of calls on views of its arguments."""
    kernels = {f.sym_name.value: f for f in functions(module)}
    places: dict[Any, tuple[int, int]] = {}
    launches = []
    block = find_function(module, "main").regions[0].blocks[0]
    places |= {argument: (i, 0) for i, argument in enumerate(block.arguments)}
    for operation in block.operations:
        op = operation.operation
        if op.name == "func.call":
            kernel = callee(op)
            operands = [Operand.of(*places[v], v.type) for v in op.operands]
            info = KernelInfo(kernels[kernel])
            scratch = operands.pop() if info.scratch_bytes is not None else None
            first = len(operands) - info.results
            launches.append(KernelLaunch(kernel, tuple(node_names(op.location)), tuple(operands[:first]), tuple(operands[first:]), scratch))
        elif op.name == "memref.view":
            argument, offset = places[op.operands[0]]
            places[op.results[0]] = (argument, offset + _constant(op.operands[1]))
        elif op.name in _SAME_ADDRESS:
            if op.name == "memref.reinterpret_cast" and list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])) != [0]:
                raise IRError(f"@main has a view whose offset is not known: {op}")
            places[op.results[0]] = places[op.operands[0]]
        elif op.name not in ("arith.constant", "func.return"):
            raise IRError(f"@main is expected to be a list of calls on views, but it has '{op.name}'")
    return launches


def callee(op: ir.Operation) -> str:
    """The name of the function that `op`, a call, calls."""
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value


def _constant(value: Any) -> int:
    op = value.owner
    if op.name != "arith.constant":
        raise IRError(f"@main has a view at an offset that is not a constant: {op}")
    return int(ir.IntegerAttr(op.attributes["value"]).value)
