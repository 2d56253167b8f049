"""Maxima over windows that are found along one dimension after the other, compiled, against their reference."""

import numpy as np
from covering import pairs
from one_op import check_op, ops_together

from stepwell.dialects.core.types import FLOATS, to_numpy

RNG = np.random.default_rng(29)
# Sizes, kernel, strides, pads, dilations: windows that overlap, lie apart, hang over every side, and are cut by several borders at once.
WINDOWS = [
    ((20, 19), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((23, 37), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((9, 50), (4, 3), (3, 1), (3, 0, 1, 2), (1, 2)),
    ((17, 6), (3, 4), (1, 3), (0, 3, 2, 0), (2, 1)),
    ((6, 8, 36), (2, 2, 2), (2, 2, 2), (0, 0, 0, 0, 0, 0), (1, 1, 1)),
    ((5, 7, 9), (3, 2, 3), (1, 2, 2), (1, 1, 0, 2, 0, 1), (1, 1, 1)),
]


@ops_together
@pairs({"ceil_mode": [False, True], "dtype": ["f32", "f64", "f16", "bf16", "i8", "ui8", "i64"], "case": WINDOWS})
def test_max_pool(case: tuple[tuple[int, ...], ...], dtype: str, ceil_mode: bool) -> None:
    sizes, kernel, strides, pads, dilations = case
    x = 50 * RNG.standard_normal((2, 3, *sizes))
    x = np.abs(x) if dtype.startswith("u") else x
    x = x.astype(to_numpy(dtype))
    if dtype in FLOATS:
        x[RNG.random(x.shape) < 0.5] = -np.inf  # whole windows of what padding holds
        x[RNG.random(x.shape) < 0.02] = np.nan
    window = {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    check_op("max_pool", [x], **window, ceil_mode=ceil_mode, terms=0, ulps=0)


def test_windows_outside_of_the_image_hold_the_least_value() -> None:
    x = RNG.standard_normal((1, 2, 4, 5)).astype(np.float32)
    check_op("max_pool", [x], kernel=(3, 3), strides=(1, 1), pads=(4, 0, 0, 5), dilations=(1, 1), ceil_mode=False, terms=0, ulps=0)
