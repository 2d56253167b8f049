"""Emission of the innermost block of a contraction by an intrinsic: the rearrangement of its operands, and its calls."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, vector
from stepwell.dialects.core.vectors import joined, part
from stepwell.passes.linalg_to_affine.scalar_body import as_vector
from stepwell.passes.linalg_to_affine.values import extended
from stepwell.passes.schedule.intrinsics import Use


def emit_block(use: Use, acc: ir.Value, sides: Sequence[Sequence[ir.Value]]) -> ir.Value:
    """The accumulators `acc` (a vector of a multiple of the intrinsic's lanes) plus one block of products.

    Each side is a list of vectors: one for each call of the intrinsic, or one for all calls.
    """
    lanes = use.intrinsic.lanes
    count = acc.type.shape[0] // lanes
    sums = [use.intrinsic.emit(part(acc, i, lanes), *(side[i % len(side)] for side in sides)) for i in range(count)]
    return joined(sums)


def neighbours(use: Use, side: int, values: Sequence[ir.Value]) -> list[ir.Value]:
    """An operand whose lanes lie along a parallel dimension, from its values at `depth` neighbouring iterations of the reduction dimension.

    Vectors are interleaved, so that each lane has its neighbours side by side. Scalars are the same for all lanes.
    """
    chosen, first = use.intrinsic, values[0]
    if not isinstance(first.type, ir.VectorType):
        return everywhere(use, side, vector.FromElementsOp(ir.VectorType.get([chosen.depth], first.type), list(values)).result)
    count = first.type.shape[0] // chosen.lanes
    numbers = [as_bits(use, side, v) for v in values]
    return [widened(use, side, interleaved([part(v, i, chosen.lanes) for v in numbers])) for i in range(count)]


def everywhere(use: Use, side: int, group: ir.Value) -> list[ir.Value]:
    """An operand that is the same for all lanes: a vector of its `depth` neighbours, repeated in every lane."""
    chosen = use.intrinsic
    bits = int(chosen.operands[side][1:])
    together = ir.IntegerType.get_signless(bits * chosen.depth)
    scalar = vector.extract(vector.bitcast(ir.VectorType.get([1], together), widened(use, side, group)), [], [0])
    lanes = vector.broadcast(ir.VectorType.get([chosen.lanes], together), scalar)
    return [vector.bitcast(ir.VectorType.get([chosen.lanes * chosen.depth], ir.IntegerType.get_signless(bits)), lanes)]


def along(use: Use, side: int, value: ir.Value, width: int) -> list[ir.Value]:
    """An operand whose elements lie along the reduction dimension itself: `width` successive ones, or one that is the same for all lanes."""
    step = use.intrinsic.lanes * use.intrinsic.depth
    whole = as_bits(use, side, as_vector(value, width))
    return [widened(use, side, part(whole, i, step)) for i in range(width // step)]


def as_bits(use: Use, side: int, value: ir.Value) -> ir.Value:
    """A vector of integers unchanged; floats as their bits, before any shuffle: LLVM has shuffles of bf16 that it cannot lower."""
    if isinstance(value.type.element_type, ir.IntegerType):
        return value
    return vector.bitcast(ir.VectorType.get(value.type.shape, operand_element(use, side)), value)


def operand_element(use: Use, side: int) -> ir.Type:
    """The element type of an operand."""
    return ir.IntegerType.get_signless(int(use.intrinsic.operands[side][1:]))


def widened(use: Use, side: int, value: ir.Value) -> ir.Value:
    """A vector converted to the element type of an operand; floats as their bits."""
    return extended(as_bits(use, side, value), operand_element(use, side), use.signed[side])


def interleaved(values: Sequence[ir.Value]) -> ir.Value:
    """Interleave vectors of equal length, a power of two of them: the first elements of all, then the second ones, and so on."""
    if len(values) == 1:
        return values[0]
    even, odd = interleaved(values[0::2]), interleaved(values[1::2])
    return vector.interleave(even, odd)
