"""The pass that allows each weight its own address."""

import bisect
from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.kernel_info import REGION_MEMORY, KernelInfo
from stepwell.dialects.core.mlir import arith, ir, known_index, memref
from stepwell.dialects.core.module_info import ModuleInfo, ValueInfo
from stepwell.dialects.core.size_table import gives_status
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import program_functions

_PASSED_ON = ("func.call", "memref.cast", "memref.reinterpret_cast")  # to outlined functions, which use the same table


@register_pass("locate-weights", level="affine")
class LocateWeights(Pass):
    """Read the address of each weight from a table, so that the programs of a model can share their common weights.

    rewrite: memref.view %weights[c]  ->  memref.view %weights[d + (c - offset)]     with d the entry of the weight in the table at %weights

    Before this pass all weights lie in one arena, at the offsets of `stepwell.arena`. After it, `%weights` points to a table of i64: for each of
    these offsets, in ascending order, the distance from the table to the weight, in bytes. The module gets `stepwell.located`; one without weights is
    left unchanged.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        info = ModuleInfo(op)
        starts = info.weight_offsets
        if not starts or info.located:
            return
        for function in program_functions(op):
            if not gives_status(function.sym_name.value):  # such a function reads no weights
                _locate(function, starts)
        info.located = True
        state.count("located weights", len(starts))


def _locate(function: ir.OpView, starts: Sequence[int]) -> None:
    """Let a function of the program find its weights, which begin at the offsets `starts`, through the table."""
    block = function.regions[0].blocks[0]
    weights = block.arguments[_weights_argument(function)]
    users = [use.owner.operation for use in weights.uses]
    if all(user.name in _PASSED_ON for user in users):
        return
    with ir.InsertionPoint.at_block_begin(block), function.location:
        table = memref.ViewOp(ir.MemRefType.get([len(starts)], ir.IntegerType.get_signless(64)), weights, constant(0), []).result

    def place(offset: int) -> ir.Value:
        """The distance from the table to the byte at an offset of the arena, built at the insertion point."""
        number = bisect.bisect_right(starts, offset) - 1
        if number < 0:
            where = f"@{function.sym_name.value} at {function.location} reads byte {offset} of the weights"
            raise PassError(f"{where}, where '{ModuleInfo.arena.name}' has none")
        entry = arith.IndexCastOp(ir.IndexType.get(), memref.LoadOp(table, [constant(number)]).result).result
        inside = offset - starts[number]
        return arith.AddIOp(entry, constant(inside)).result if inside else entry

    for user in users:
        if user.name == "memref.view":
            offset = known_index(user.operands[1])
            if offset is None:
                raise PassError(f"@{function.sym_name.value} at {user.location} reads weights at an offset that is not a constant")
            with ir.InsertionPoint(user), user.location:
                user.operands[1] = place(offset)
        elif user.name == "memref.extract_aligned_pointer_as_index":
            _locate_addresses(user, place)
        elif user.name not in _PASSED_ON:
            raise PassError(f"@{function.sym_name.value} at {user.location}: '{user.name}' of the weights is not expected")


def _locate_addresses(pointer: ir.Operation, place: Any) -> None:
    """Replace the arena's address, plus an optional offset, by the address of the weight there."""
    for use in list(pointer.results[0].uses):
        user, number = use.owner.operation, use.operand_number
        other = known_index(user.operands[1 - number]) if user.name == "arith.addi" else None
        with ir.InsertionPoint(user), user.location:
            if other is not None:
                user.operands[1 - number] = place(other)
            else:
                user.operands[number] = arith.AddIOp(pointer.results[0], place(0)).result


def _weights_argument(function: ir.OpView) -> int:
    """The argument of a function of the program that points to the weights."""
    if KernelInfo(function).is_region:
        return len(function.arguments) - REGION_MEMORY
    sizes = [value.byte_count for value in ValueInfo.arguments(function)]
    found = next((number for number, size in enumerate(sizes) if size is not None), None)
    if found is None:
        raise PassError(f"@{function.sym_name.value} at {function.location} has no argument with '{ValueInfo.byte_count.name}', which weights are")
    return found
