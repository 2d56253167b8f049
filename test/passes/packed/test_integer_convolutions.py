"""Convolutions of bytes, natively: exact for every window, zero point and instruction, with weights that are known and that are not."""

from typing import Any

import numpy as np
from covering import each
from every import every
from integer_convolutions import convolved, draw, model
from native_checks import check_model, natively_together

import stepwell


@natively_together
@each({
    ("known", "kinds"): [(known, kinds) for kinds in ((np.uint8, np.int8), (np.int8, np.uint8)) for known in (True, False)],
    ("shape", "filters", "attributes"): [
        ((2, 17, 7, 6), (5, 17, 1, 1), {}),
        ((1, 3, 9, 8), (17, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 16, 7, 6), (33, 16, 3, 2), {"pads": [1, 0, 2, 1]}),
        ((2, 20, 9, 8), (7, 20, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 3], "dilations": [2, 1]}),
        ((1, 19, 11), (4, 19, 3), {"strides": [2]}),
        ((1, 16, 4, 5, 3), (6, 16, 2, 2, 2), {"pads": [0, 1, 0, 1, 0, 0]}),
        ((1, 32, 6, 7), (24, 16, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
        ((1, 12, 6, 7), (18, 2, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    ],
})
def test_convolutions(shape: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], kinds: tuple[Any, Any], known: bool) -> None:
    x, w, zeros = draw(kinds[0], *shape), draw(kinds[1], *filters), {"a": draw(kinds[0]), "b": draw(kinds[1])}
    want = convolved(x.astype(np.float64) - zeros["a"], w.astype(np.float64) - zeros["b"], attributes)
    inputs, weights = ({"x": x}, {"w": w, **zeros}) if known else ({"x": x, "w": w}, zeros)
    made = model(inputs, weights, ["x", "w", "a", "b"], attributes)
    for target in ("host", "x86-64-v2"):
        check_model(made, inputs, lambda got: np.testing.assert_array_equal(got["y"], want), threads=[2], target=target)
    kernels = stepwell.lower(made, "graph-opt", target="x86-64-v3").text()
    assert ('"packed.conv"' in kernels) == known


@natively_together
@every("case", ["zero point of an input", "zero points of filters"])
def test_zero_points_that_are_not_one_known_number(case: str) -> None:
    x, w = draw(np.uint8, 1, 32, 6, 7), draw(np.int8, 8, 32, 3, 3)
    b = np.arange(-3, 5, dtype=np.int8) if case == "zero points of filters" else draw(np.int8)
    attributes = {"pads": [1, 1, 1, 1]}
    inputs, weights = {"x": x}, {"w": w, "a": np.asarray(np.uint8(113)), "b": np.asarray(b)}
    if case == "zero point of an input":
        inputs["a"] = weights.pop("a")
    want = convolved(x.astype(np.float64) - 113, w.astype(np.float64) - b.reshape(-1, 1, 1, 1), attributes)
    made = model(inputs, weights, ["x", "w", "a", "b"], attributes)
    for target in ("host", "x86-64-v2"):
        check_model(made, inputs, lambda got: np.testing.assert_array_equal(got["y"], want), target=target)
