"""Builds the function that compares how far indices reach with how far they may, when @main has computed both."""

from collections.abc import Mapping, Sequence

from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.mlir import arith, func, ir, memref
from stepwell.dialects.core.size_table import CHECKS_FUNCTION, Status
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.symbolic_shapes import constant as index_constant
from stepwell.passes.bufferize.size_arithmetic import SizeArithmetic, any_of, compare, constant
from stepwell.passes.bufferize.size_function import each, first_of

_CMP = arith.CmpIPredicate


def add_checks_function(
    module: ir.Operation, checks: Sequence[IndexCheck], hidden: Sequence[ir.MemRefType], entries: int, places: Mapping[str, int],
    location: ir.Location,
) -> str:  # fmt: skip
    """Build `@checks(%hidden…, %table: memref<…xi64>) -> i64`; returns its name.

    It takes the hidden results of @main, and the table of `entries` numbers where there is one, which holds each symbol in the entry that `places`
    says. The result is a `Verdict`: the number of the first check that finds an index out of range.
    """
    i64 = ir.IntegerType.get_signless(64)
    kinds = [*hidden, *([ir.MemRefType.get([entries], i64)] if entries else [])]
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), location:
        function = func.FuncOp(CHECKS_FUNCTION, ir.FunctionType.get(kinds, [i64]), visibility="private")
        block = function.add_entry_block([location] * len(kinds))
    with ir.InsertionPoint(block), location:
        arguments = list(block.arguments)
        sizes = SizeArithmetic(lambda name: memref.LoadOp(arguments[-1], [index_constant(places[name])]).result)
        wrong = []
        for check in checks:
            codes = [_element(arguments[check.result], column) for column in range(len(check.sizes))]
            limits = [_limit(sizes, check, size) for size in check.sizes]
            wrong.append(any_of(*(compare(_CMP.uge, code, limit) for code, limit in zip(codes, limits, strict=True))))
        func.ReturnOp([first_of(each(Status.INDEX, wrong), constant(0))])
    return CHECKS_FUNCTION


def _element(memory: ir.Value, number: int) -> ir.Value:
    """An element of a hidden result, which may be a scalar."""
    return memref.LoadOp(memory, [index_constant(number)] * len(memory.type.shape)).result


def _limit(sizes: SizeArithmetic, check: IndexCheck, size: int | Size) -> ir.Value:
    """The code from which on something is wrong, as `IndexCheck.limits` says."""
    if check.compared or check.exact:
        return constant(1)
    limit = sizes.value(size if check.from_start else 2 * size)
    if isinstance(check.count, int) and check.count:
        return limit
    least = arith.SelectOp(compare(_CMP.eq, sizes.value(check.count), constant(0)), constant(1), constant(0)).result
    return arith.MaxSIOp(limit, least).result
