"""Low-bit weights: the numbers, scales and zero points of a dequantised matrix, also through ops that move it."""

from dataclasses import dataclass, replace
from functools import reduce
from math import gcd
from typing import Any

import numpy as np

from stepwell.dialects.core.dtypes import BYTES
from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import DequantizeOp, TransposeOp
from stepwell.passes.graph.matching import derived_name, moves_by_place, producer, stored

LEAST_BLOCK = 16
"""The smallest scale block, in numbers, that is stored in few bits; MatMulNBits has no smaller ones."""


@dataclass(frozen=True)
class FewBits:
    """A matrix (K, N) equal to `(numbers - zero) * scale`, with a scale and a zero point for each block of neighbours in a column."""

    numbers: np.ndarray
    """(K, N), of i8 or ui8; ui8 below 16 if `bits` is 4."""
    scale: np.ndarray
    """(K / block, N)."""
    zero: np.ndarray
    """(K / block, N), or one number; of the type of the numbers."""
    block: int
    bits: int


@dataclass(frozen=True)
class Stored:
    """The origin of such a matrix: constant numbers that are dequantised and moved. It refers to no IR, which may change."""

    numbers: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray
    dtype: str
    """The element type of the numbers, as spelled in the graph."""
    name: str
    """The base of the names for weights made from it."""
    moves: tuple[tuple[Any, dict[str, Any]], ...]
    """The ops after the dequantize op that only move elements: class and attributes."""

    def moved(self, array: np.ndarray) -> np.ndarray:
        """An array with the shape of the numbers, moved like the matrix."""
        for cls, values in self.moves:
            array = cls.reference(array, **values)
        return np.ascontiguousarray(array)

    def transposed(self) -> "Stored":
        """The transpose of the matrix."""
        return replace(self, moves=(*self.moves, (TransposeOp, {"perm": (1, 0)})))

    def floats(self) -> np.ndarray:
        """The matrix in floats."""
        return self.moved(DequantizeOp.reference(self.numbers, self.scale, self.zero_point))


def stored_numbers(value: ir.Value, weights: WeightTable) -> Stored | None:
    """The constant numbers that `value` is dequantised from; None if it is something else."""
    moves: list[tuple[Any, dict[str, Any]]] = []
    while (op := defining_op(value)) is not None and moves_by_place(op):
        moves.insert(0, (type(op.opview), op.opview.attribute_values()))
        value = op.operands[0]
    found = producer(value, "dequantize")
    arrays = [] if found is None else [stored(v, weights) for v in (found.x, found.scale, found.zero_point)]
    known = [array for array in arrays if array is not None]
    return Stored(known[0], known[1], known[2], type_of(found.x).dtype, derived_name(found.x), tuple(moves)) if len(known) == 3 else None


def few_bits(source: Stored) -> FewBits | None:
    """The matrix in few bits; None if it does not consist of bytes in blocks of at least `LEAST_BLOCK` numbers that share a scale."""
    if source.dtype not in BYTES:
        return None
    known = (source.numbers, source.scale, source.zero_point)
    numbers, scale, zero = (source.moved(np.broadcast_to(array, source.numbers.shape)) for array in known)
    changes = np.flatnonzero(((scale[1:] != scale[:-1]) | (zero[1:] != zero[:-1])).any(axis=1)) + 1
    block = reduce(gcd, map(int, changes), len(numbers))
    if block < LEAST_BLOCK:
        return None
    scale, zero = scale[::block], zero[::block]
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    bits = 4 if high - low < 16 and block % 8 == 0 and int(zero.min()) >= low and int(zero.max()) - low <= 255 else 8
    if bits == 4:
        numbers, zero = ((array.astype(np.int16) - low).astype(np.uint8) for array in (numbers, zero))
    one = bool((zero == zero.flat[0]).all())
    return FewBits(numbers, scale, np.asarray(zero.flat[0]) if one else zero, block, bits)
