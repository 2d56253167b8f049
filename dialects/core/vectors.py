"""Slices and concatenations of one-dimensional vectors."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, vector


def part(value: ir.Value, index: int, length: int) -> ir.Value:
    """Part number `index` of a vector divided into parts of `length` elements."""
    if value.type.shape[0] == length:
        return value
    kind = ir.VectorType.get([length], value.type.element_type)
    i64 = [ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n) for n in (index * length, length, 1)]
    return vector.ExtractStridedSliceOp(kind, value, *(ir.ArrayAttr.get([n]) for n in i64)).result


def joined(parts: Sequence[ir.Value]) -> ir.Value:
    """The concatenation of a power of two of vectors of equal length."""
    pieces = list(parts)
    while len(pieces) > 1:
        pieces = [concatenated(a, b) for a, b in zip(pieces[0::2], pieces[1::2], strict=True)]
    return pieces[0]


def concatenated(a: ir.Value, b: ir.Value) -> ir.Value:
    """The concatenation of two vectors of equal length."""
    length = a.type.shape[0]
    mask = ir.DenseI64ArrayAttr.get(list(range(2 * length)))
    return vector.ShuffleOp(a, b, mask).result
