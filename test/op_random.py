"""Random operands and attributes for tests of graph ops: what they are drawn with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stepwell.dialects.types import UNSIGNED, TensorType, from_numpy, is_float, to_numpy


@dataclass
class Case:
    """Operands by field (a list for a variadic one) and attributes of one op."""

    operands: list[Any]
    attributes: dict[str, Any]


class Random:
    """Draws from hypothesis, so that failures shrink, and array contents from a seed."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def boolean(self) -> bool:
        return bool(self.draw(st.booleans()))

    def choice(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def integers(self, count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.integer(low, high) for _ in range(count))

    def shape(self, low: int = 0, high: int = 4, least: int = 0, most: int = 5) -> tuple[int, ...]:
        return self.integers(self.integer(low, high), least, most)

    def array(self, dtype: str, shape: tuple[int, ...], low: float = -4, high: float = 4) -> np.ndarray:
        """Values between the bounds: random floats, or integers as far as the type has them."""
        if dtype == "i1":
            return np.asarray(self.generator.integers(0, 2, shape).astype(bool))
        if is_float(dtype):
            return np.asarray(self.generator.uniform(low, high, shape)).astype(to_numpy(dtype))
        bottom = max(int(low), 0) if dtype in UNSIGNED else int(low)
        return np.asarray(self.generator.integers(bottom, max(int(high), bottom) + 1, shape)).astype(to_numpy(dtype))

    def any_bits(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """Every value that an integer type has, with its ends more often."""
        info = np.iinfo(to_numpy(dtype))
        values = self.generator.integers(info.min, info.max, shape, dtype=to_numpy(dtype), endpoint=True)
        ends = self.generator.choice(np.array([info.min, info.max, 0, 1], to_numpy(dtype)), shape)
        return np.asarray(np.where(self.generator.random(shape) < 0.3, ends, values))

    def permutation(self, count: int) -> tuple[int, ...]:
        """The numbers below `count` in any order."""
        return tuple(self.draw(st.permutations(range(count))))

    def real(self, *options: float) -> float:
        """One of the numbers, as the f32 that ONNX's attributes are."""
        return float(np.float32(self.choice(options)))

    def broadcastable(self, least: int = 0) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Two shapes that broadcast against each other, of ranks that may differ."""
        full = self.shape(0, 4, least)
        sides = []
        for _ in range(2):
            kept = full[self.integer(0, len(full)) :]
            sides.append(tuple(1 if self.integer(0, 3) == 0 else d for d in kept))
        return sides[0], sides[1]


def type_of_array(array: np.ndarray) -> TensorType:
    """The light type of an array."""
    return TensorType(from_numpy(array.dtype), array.shape)


def loosened(r: Random, operand: TensorType) -> TensorType:
    """The type with some dimensions made dynamic."""
    return operand.with_shape(tuple(None if r.boolean() else d for d in operand.shape))
