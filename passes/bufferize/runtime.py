"""Calls of the runtime from compiled code (see `compiler/runtime/late_sizes.py`)."""

from typing import Any

from stepwell.dialects.core.mlir import arith, cf, func, ir
from stepwell.passes.framework.rewriting import functions

ENTER = "stepwell_enter"


def enter(module: ir.Operation, table: ir.Value, segment: int, rest: ir.Block, end: ir.Block) -> None:
    """Have the runtime look at the numbers of a segment in the table. Goes on with the block `rest`, or with `end` if it refuses."""
    i64 = ir.IntegerType.get_signless(64)
    _declare(module, ENTER, [table.type, i64], [i64])
    number = arith.ConstantOp(i64, ir.IntegerAttr.get(i64, segment)).result
    answer = func.CallOp([i64], ENTER, [table, number]).results[0]
    refused = arith.ConstantOp(i64, ir.IntegerAttr.get(i64, 0)).result
    cf.CondBranchOp(arith.CmpIOp(arith.CmpIPredicate.ne, answer, refused).result, [], [], rest, end)


def _declare(module: ir.Operation, name: str, inputs: list[Any], results: list[Any]) -> None:
    if all(function.sym_name.value != name for function in functions(module)):
        with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), module.location:
            func.FuncOp(name, ir.FunctionType.get(inputs, results), visibility="private")
