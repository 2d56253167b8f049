"""Seeded random data for the inputs of models."""

import numpy as np

from stepwell.dialects.support.errors import InputError
from stepwell.runtime.infos import TensorInfo


def random_array(info: TensorInfo, seed: int, index: int) -> np.ndarray:
    """Seeded random data for an input: standard normal, for integers 0 to 9, for booleans either. Each input gets its own.

    Raises InputError for an input with free dimensions.
    """
    sizes = [size for size in info.shape if isinstance(size, int)]
    if len(sizes) != len(info.shape):
        raise InputError(f"input '{info.name}' {info} has free dimensions: expected data for it, or its shape")
    generator = np.random.default_rng([seed, index])
    if info.dtype.kind == "b":
        return generator.random(sizes) < 0.5
    if info.dtype.kind in "iu":
        return generator.integers(0, 10, sizes).astype(info.dtype)
    return generator.standard_normal(sizes).astype(info.dtype)
