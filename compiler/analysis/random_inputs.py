"""Seeded random data for the inputs of models."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from stepwell.dialects.core.dtypes import from_numpy, is_float
from stepwell.dialects.support.errors import InputError
from stepwell.signature import MAP, STRING, TensorInfo, is_string

SMALL = 10  # Indices, sizes and counts are drawn below this number, which most dimensions of models reach.
EXTREME_SHARE = 0.25  # The part of the elements that are special where extreme floats are asked for.


WORDS = ("", "a", "word", "two words", "42")
"""Random strings for inputs whose vocabulary is unknown."""


def random_value(info: TensorInfo, seed: int, index: int, words: Sequence[str] = ()) -> Any:
    """Seeded random data for an input of strings, chosen from `words`, or for a map, with some of them as keys. Raises as `random_array`."""
    generator = np.random.default_rng([seed, index])
    if MAP not in info.form:
        known = np.array(list(words or WORDS), STRING)
        return known[random_array(replace(info, dtype=np.dtype(np.uint32), any_integers=True), seed, index) % len(known)]
    keys: list[Any] = [word for word in words or WORDS if generator.random() < 0.5] if is_string(info.keys or STRING) else list(range(SMALL))
    values = generator.choice(list(WORDS), len(keys)) if is_string(info.dtype) else generator.standard_normal(len(keys)).astype(info.dtype)
    return dict(zip(keys, values.tolist(), strict=True))


def random_array(info: TensorInfo, seed: int, index: int, *, extreme: bool = False) -> np.ndarray:
    """Seeded random data for an input: standard normal, or random booleans. Each input gets its own.

    Integers come from the whole range of their type, both ends included, or are 0 to 9 if the model may read them as indices, sizes or counts. With
    `extreme`, a quarter of the floats are the ends of their type, subnormal numbers, zeros of both signs, infinities and NaN. Raises InputError for
    an input with dynamic dimensions.
    """
    sizes = [size for size in info.shape if isinstance(size, int)]
    if len(sizes) != len(info.shape):
        raise InputError(f"input '{info.name}' {info} has free dimensions: expected data for it, or its shape")
    generator = np.random.default_rng([seed, index])
    if info.dtype.kind == "b":
        return generator.random(sizes) < 0.5
    if info.dtype.kind in "iu":
        return _integers(info, sizes, generator)
    array = generator.standard_normal(sizes).astype(info.dtype)
    if extreme and is_float(from_numpy(info.dtype)):
        special = _specials(info.dtype)
        return np.where(generator.random(sizes) < EXTREME_SHARE, special[generator.integers(0, len(special), sizes)], array)
    return array


def _integers(info: TensorInfo, sizes: list[int], generator: np.random.Generator) -> np.ndarray:
    if not info.any_integers:
        return generator.integers(0, SMALL, sizes).astype(info.dtype)
    ends = np.iinfo(info.dtype)
    array = np.asarray(generator.integers(ends.min, ends.max, sizes, info.dtype, endpoint=True))
    if array.size > 1:
        array.reshape(-1)[generator.choice(array.size, 2, replace=False)] = ends.min, ends.max
    return array


def _specials(dtype: np.dtype) -> np.ndarray:
    """The extreme values of a float type, and its special values."""
    info = ml_dtypes.finfo(dtype)
    sizes = [info.max, info.max / dtype.type(2), info.smallest_normal, info.smallest_subnormal, dtype.type(0), dtype.type(np.inf)]
    return np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
