"""Finds the integer inputs that may hold any number of their type because nothing reads them as indices, sizes or counts."""

from stepwell.dialects.core.mlir import ir, users
from stepwell.dialects.core.types import is_float, is_integer, to_numpy, type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.logic import CastOp
from stepwell.dialects.graph.traits import Elementwise, Fusion, KeepsAll, MovesData

ARITHMETIC = (Fusion.REDUCTION, Fusion.COMPLEX)
# bytes of an integer; larger integers that become floats are flags or counts in models, and random ones would swamp the values they are added to
LARGE = 4


def takes_any_integer(argument: ir.Value) -> bool:
    """Whether an integer argument of @main, and all values derived from it, are used only in computations.

    False for an argument that nothing reads, and wherever this is unknown.
    """
    pending, seen = [argument], {argument}
    is_read = False
    while pending:
        value = pending.pop()
        for op in users(value):
            is_read = True
            if op.name == "func.return":
                continue
            if not isinstance(op.opview, GraphOp) or not _computes(op.opview, value):
                return False
            for result in op.results:
                if is_integer(type_of(result).dtype) and result not in seen:
                    seen.add(result)
                    pending.append(result)
    return is_read


def _computes(op: GraphOp, value: ir.Value) -> bool:
    """Whether `op` only moves `value` or computes with it."""
    index = op.index_operand()
    if index is not None and index.indices == value:
        return False
    if isinstance(op, CastOp):
        return not (is_float(type_of(op.result).dtype) and to_numpy(type_of(value).dtype).itemsize >= LARGE)
    if op.has_trait(MovesData):
        return bool(op.operation.operands[0] == value)
    copies = op.has_trait(KeepsAll) or bool(op.copied_operands())
    return op.has_trait(Elementwise) or copies or op.fusion in ARITHMETIC
