"""Transposition of small matrices in registers."""

from collections.abc import Sequence

from stepwell.dialects.core.mlir import ir, vector
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.target.numbers import SHUFFLED_BITS


def transposed(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a matrix whose rows are vectors; there are no more columns than rows, and both counts are powers of two.

    n columns of n elements take n log2(n) shuffles of two registers: first of single elements, within parts of `SHUFFLED_BITS`, then of such parts.
    Each of them is one instruction with AVX2, AVX-512 and NEON.
    """
    kind = ir.VectorType(rows[0].type)
    columns = kind.shape[0]
    if columns < len(rows):
        blocks = [transposed(rows[low : low + columns]) for low in range(0, len(rows), columns)]
        return [_joined([block[c] for block in blocks]) for c in range(columns)]
    part = min(columns, SHUFFLED_BITS // element_bits(kind.element_type))
    groups = [_interleaved(rows[low : low + part], part) for low in range(0, columns, part)]
    dealt = [_dealt([group[row] for group in groups], part) for row in range(part)]
    return [column for place in zip(*dealt, strict=True) for column in place]


def _joined(parts: Sequence[ir.Value]) -> ir.Value:
    """Concatenate a power of two of vectors."""
    found = list(parts)
    while len(found) > 1:
        size = 2 * ir.VectorType(found[0].type).shape[0]
        found = [_shuffle(a, b, range(size)) for a, b in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def _interleaved(rows: Sequence[ir.Value], part: int) -> list[ir.Value]:
    """Transpose the adjacent `part` x `part` matrices in rows of several parts."""
    found, half = list(rows), len(rows) // 2
    size = ir.VectorType(rows[0].type).shape[0]
    lows = [low + i + which for low in range(0, size, part) for i in range(part // 2) for which in (0, size)]
    highs = [place + part // 2 for place in lows]
    for _ in range(part.bit_length() - 1):
        pairs = list(zip(found[:half], found[half:], strict=True))
        found = [_shuffle(a, b, mask) for a, b in pairs for mask in (lows, highs)]
    return found


def _dealt(rows: Sequence[ir.Value], part: int) -> list[ir.Value]:
    """Transpose a matrix whose elements are runs of `part` elements."""
    found, count = list(rows), len(rows)
    evens, odds = ([(2 * i + odd) * part + k for i in range(count) for k in range(part)] for odd in (0, 1))
    for _ in range(count.bit_length() - 1):
        pairs = list(zip(found[::2], found[1::2], strict=True))
        found = [_shuffle(a, b, mask) for mask in (evens, odds) for a, b in pairs]
    return found


def _shuffle(a: ir.Value, b: ir.Value, mask: Sequence[int]) -> ir.Value:
    return vector.ShuffleOp(a, b, list(mask)).result
