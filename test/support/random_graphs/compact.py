"""Numbers of the element types that are only stored: floats and integers of 8 bits and fewer."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from stepwell.dialects.core.dtypes import FLOATS, to_numpy

SMALL_FLOATS = ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f4E2M1FN")
EXPONENTS = "f8E8M0FNU"
LARGEST = 500.0  # of floats in graphs that are tame


def is_float(dtype: str) -> bool:
    """Whether it is a float that ONNX's operators compute with."""
    return dtype in FLOATS


def numbers(generator: np.random.Generator, dtype: str, shape: Sequence[int], special: bool) -> np.ndarray:
    """Any numbers of a type; what is not finite only if `special`, and exponents near 1 if not."""
    kind = to_numpy(dtype)
    if dtype == EXPONENTS:
        return generator.integers(*((0, 256) if special else (120, 135)), shape).astype(np.uint8).view(kind)
    if dtype not in SMALL_FLOATS:
        ends = ml_dtypes.iinfo(kind)
        return np.asarray(generator.integers(ends.min, ends.max, shape, endpoint=True)).astype(kind)
    array = np.asarray(generator.integers(0, 16 if dtype == "f4E2M1FN" else 256, shape)).astype(np.uint8).view(kind)
    wide = array.astype(np.float32)
    return array if special else np.where(np.isfinite(wide) & (np.abs(wide) < LARGEST), array, np.zeros_like(array))
