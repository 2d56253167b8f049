"""Calls of the runtime from compiled code (see `compiler/runtime/late_sizes.py`)."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import arith, cf, func, ir, memref
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.passes.framework.rewriting import functions

ENTER, POLL, KEEP = "stepwell_enter", "stepwell_poll", "stepwell_keep"


def enter(module: ir.Operation, table: ir.Value, segment: int, rest: ir.Block, end: ir.Block) -> None:
    """Have the runtime look at the numbers of a segment in the table. Goes on with the block `rest`, or with `end` if it refuses."""
    i64 = ir.IntegerType.get_signless(64)
    answer = _ask(module, ENTER, table, arith.ConstantOp(i64, ir.IntegerAttr.get(i64, segment)).result)
    refused = arith.ConstantOp(i64, ir.IntegerAttr.get(i64, 0)).result
    cf.CondBranchOp(arith.CmpIOp(arith.CmpIPredicate.ne, answer, refused).result, [], [], rest, end)


def poll(module: ir.Operation, table: ir.Value, number: ir.Value) -> ir.Value:
    """Ask the runtime before round `number` of a loop: the round before which to ask again, or 0 if the run must end."""
    return _ask(module, POLL, table, number)


def keep(module: ir.Operation, table: ir.Value, record: ir.Value, rest: ir.Block, arguments: Sequence[ir.Value], end: ir.Block) -> None:
    """Tell the runtime which boxes the values of the `record` at an address may hold; it lets go of the others that were made since its mark.

    Goes on with the block `rest`, which takes these arguments, or with `end` if it refuses. The record has a count, a mark (-1 at first) and,
    so many times, the address of a carried value and its number of rows.
    """
    refused = arith.ConstantOp(ir.IntegerType.get_signless(64), ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)).result
    answer = _ask(module, KEEP, table, record)
    cf.CondBranchOp(arith.CmpIOp(arith.CmpIPredicate.ne, answer, refused).result, list(arguments), [], rest, end)


def _ask(module: ir.Operation, name: str, table: ir.Value, number: ir.Value) -> ir.Value:
    """The runtime's answer, which it writes to the last entry of the table: where an interrupt comes first, nothing is written."""
    i64 = ir.IntegerType.get_signless(64)
    _declare(module, name, [table.type, i64], [])
    place = constant(table.type.shape[0] - 1)
    memref.StoreOp(arith.ConstantOp(i64, ir.IntegerAttr.get(i64, 0)).result, table, [place])
    func.CallOp([], name, [table, number])
    return memref.LoadOp(table, [place]).result


def _declare(module: ir.Operation, name: str, inputs: list[Any], results: list[Any]) -> None:
    if all(function.sym_name.value != name for function in functions(module)):
        with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), module.location:
            func.FuncOp(name, ir.FunctionType.get(inputs, results), visibility="private")
