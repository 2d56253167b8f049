"""Random operands and attributes for tests of graph ops: what they are drawn with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stepwell.dialects.core.types import NUMERIC, UNSIGNED, TensorType, from_numpy, is_float, to_numpy


@dataclass
class Case:
    """Operands by field (a list for a variadic one) and attributes of one op."""

    operands: list[Any]
    attributes: dict[str, Any]


class Random:
    """Draws from hypothesis, so that failures shrink, and array contents from a seed. What it draws is small and tame; see `Sweep`."""

    least = 1
    """The smallest size of a dimension in ops of which ONNX's implementations refuse empty operands."""

    def __init__(self, draw: Callable[[Any], Any], dtypes: Sequence[str] = NUMERIC) -> None:
        """`dtypes` are the element types that `dtype` chooses from."""
        self.draw = draw
        self.dtypes = dtypes
        self.generator = np.random.default_rng(self.draw(st.integers(0, 2**32 - 1)))

    def begin(self) -> None:
        """Begin with another case."""

    # --- single values

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def boolean(self) -> bool:
        return bool(self.choice([False, True]))

    def choice(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def integers(self, count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.integer(low, high) for _ in range(count))

    def permutation(self, count: int) -> tuple[int, ...]:
        """The numbers below `count` in any order."""
        return tuple(self.draw(st.permutations(range(count))))

    def real(self, *options: float) -> float:
        """One of the numbers, as the f32 that ONNX's attributes are."""
        return float(np.float32(self.choice(options)))

    def dtype(self) -> str:
        """The element type of what the op computes on: one that its `infer` takes."""
        return str(self.choice(self.dtypes))

    # --- shapes

    def rank(self, low: int, high: int) -> int:
        """How many dimensions an operand has."""
        return self.integer(low, high)

    def size(self, least: int = 0, most: int = 5) -> int:
        """The size of a dimension, from `least` on; `most` keeps it small, and is not what the op bounds it by."""
        return self.integer(least, most)

    def sizes(self, count: int, least: int = 0, most: int = 5) -> tuple[int, ...]:
        return tuple(self.size(least, most) for _ in range(count))

    def shape(self, low: int = 0, high: int = 4, least: int = 0, most: int = 5) -> tuple[int, ...]:
        return self.sizes(self.rank(low, high), least, most)

    def axes(self, rank: int) -> tuple[int, ...]:
        """Some of the axes of a tensor, in any order."""
        return tuple(a for a in self.permutation(rank) if self.boolean())

    def broadcastable(self, count: int = 2, least: int = 0) -> list[tuple[int, ...]]:
        """Shapes that broadcast against each other, of ranks that may differ."""
        full = self.shape(0, 4, least)
        return [tuple(1 if self.integer(0, 3) == 0 else d for d in full[self.integer(0, len(full)) :]) for _ in range(count)]

    # --- contents

    def array(self, dtype: str, shape: tuple[int, ...], low: float = -4, high: float = 4) -> np.ndarray:
        """An operand for which every value of its type has a meaning; drawn between the bounds."""
        return self.within(dtype, shape, low, high)

    def within(self, dtype: str, shape: tuple[int, ...], low: float = -4, high: float = 4) -> np.ndarray:
        """Values between the bounds: random floats, or integers as far as the type has them."""
        if dtype == "i1":
            return np.asarray(self.generator.integers(0, 2, shape).astype(bool))
        if is_float(dtype):
            return np.asarray(self.generator.uniform(low, high, shape)).astype(to_numpy(dtype))
        bottom = max(int(low), 0) if dtype in UNSIGNED else int(low)
        return np.asarray(self.generator.integers(bottom, max(int(high), bottom) + 1, shape)).astype(to_numpy(dtype))

    def any_value(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """Every value that the type has, with the peculiar ones more often: the ends of integers; NaN, infinities, zeros of either sign."""
        if dtype == "i1":
            return self.within(dtype, shape)
        if is_float(dtype):
            return with_some(self.generator, self.within(dtype, shape), [np.nan, np.inf, -np.inf, 0.0, -0.0])
        info = np.iinfo(to_numpy(dtype))
        values = np.asarray(self.generator.integers(info.min, info.max, shape, dtype=to_numpy(dtype), endpoint=True))
        return with_some(self.generator, values, [info.min, info.max, 0, 1])


def with_some(generator: np.random.Generator, array: np.ndarray, values: Sequence[Any]) -> np.ndarray:
    """The array with about a third of its elements replaced by the `values`."""
    chosen = np.asarray(generator.choice(np.array(values, array.dtype), array.shape))
    return np.asarray(np.where(generator.random(array.shape) < 0.3, chosen, array))


def type_of_array(array: np.ndarray) -> TensorType:
    """The light type of an array."""
    return TensorType(from_numpy(array.dtype), array.shape)


def loosened(r: Random, operand: TensorType) -> TensorType:
    """The type with some dimensions made dynamic."""
    return operand.with_shape(tuple(None if r.boolean() else d for d in operand.shape))
