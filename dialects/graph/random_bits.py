"""Pseudorandom numbers as an operation without operands, with the same result in each run."""

from collections.abc import Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.base import GraphOp, InferredTypes, Pure, Result, Sizes
from stepwell.dialects.graph.inference import expect_at_least

STEP = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio, made odd
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = 31


class RandomBitsOp(GraphOp, name="random_bits", traits=[Pure]):
    """64 random bits for each element of a tensor of this `shape`; the same `seed` gives the same bits.

    The i-th element is the i-th number of the generator SplitMix64 that starts at the seed (G. Steele, D. Lea, C. Flood, "Fast splittable
    pseudorandom number generators", OOPSLA 2014); each can be computed without the previous ones.
    """

    result: Result
    seed: ir.IntegerAttr
    shape: Sizes

    @staticmethod
    def infer(*, seed: int, shape: Sequence[int | Size]) -> InferredTypes:
        expect_at_least("shape", shape, 0)
        return TensorType("ui64", tuple(shape))

    @staticmethod
    def reference(*, seed: int, shape: Sequence[int]) -> np.ndarray:
        count = int(np.prod(shape, dtype=np.int64))
        state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(STEP) + np.uint64(seed % (1 << 64))
        for shift, factor in ROUNDS:
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        return (state ^ (state >> np.uint64(LAST_SHIFT))).reshape(tuple(shape))

    @staticmethod
    def flops(*, result: TensorType, seed: int, shape: Sequence[int]) -> int:
        return 8 * result.elements
