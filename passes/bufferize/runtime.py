"""Calls of the runtime from compiled code: of functions in a struct that the table leads to (`dialects/core/runtime_interface.py`)."""

from stepwell.dialects.core.llvm_ops import call_address, element_address, load, pointer
from stepwell.dialects.core.mlir import arith, ir, memref
from stepwell.dialects.core.runtime_interface import ANSWER, FUNCTIONS, RUNTIME, VERSION
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.passes.bufferize.size_arithmetic import as_i64, compare, constant as i64_constant

_CMP = arith.CmpIPredicate


def is_given(table: ir.Value) -> ir.Value:
    """Whether the table holds the address of a runtime."""
    return compare(_CMP.ne, _entry(table, RUNTIME), i64_constant(0))


def is_of_version(table: ir.Value) -> ir.Value:
    """Whether the runtime, which is there, has the version that the code was made for."""
    return compare(_CMP.eq, load(ir.IntegerType.get_signless(64), _runtime(table)), i64_constant(VERSION))


def enter(table: ir.Value, segment: int) -> ir.Value:
    """Have the runtime take memory for a segment; not 0 if the run goes on."""
    return _ask("enter", table, i64_constant(segment))


def poll(table: ir.Value, number: ir.Value) -> ir.Value:
    """Ask the runtime before round `number` of a loop: the round before which to ask again, or 0 if the run must end."""
    return _ask("poll", table, number)


def keep(table: ir.Value, record: ir.Value) -> ir.Value:
    """Tell the runtime which boxes the values of the `record` at an address may hold; it lets go of the others that were made since its mark.

    Not 0 if the run goes on. The record has a count, a mark (-1 at first) and, so many times, the address of a carried value and its number of rows.
    """
    return _ask("keep", table, record)


def _ask(name: str, table: ir.Value, number: ir.Value) -> ir.Value:
    """The answer of a function, which it writes to the table: where an interrupt comes first, nothing is written."""
    memref.StoreOp(i64_constant(0), table, [_place(table, ANSWER)])
    runtime = _runtime(table)
    functions = element_address(runtime, ir.IntegerType.get_signless(64), 1)  # behind the version: addresses may be smaller
    function = load(runtime.type, element_address(functions, runtime.type, FUNCTIONS.index(name)))
    address = as_i64(memref.ExtractAlignedPointerAsIndexOp(table).result)
    call_address(function, [runtime, pointer(address), number])
    return _entry(table, ANSWER)


def _runtime(table: ir.Value) -> ir.Value:
    return pointer(_entry(table, RUNTIME))


def _entry(table: ir.Value, number: int) -> ir.Value:
    return memref.LoadOp(table, [_place(table, number)]).result


def _place(table: ir.Value, number: int) -> ir.Value:
    """The index of an entry that is counted from the end."""
    return constant(table.type.shape[0] + number)
