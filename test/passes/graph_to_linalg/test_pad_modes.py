"""Padding that copies elements, natively, against numpy: longer than the operand, cutting, of one element, the last dimension and others."""

import numpy as np
from covering import pairs
from importing import model, node, rng
from native_checks import check_model, natively_together

CASES = [
    ((3, 5), (2, 3, 4, 2)), ((2, 3, 4), (0, 1, 3, 1, 0, 3)), ((7,), (3, 6)), ((4, 6), (-1, 2, 0, -3)), ((4, 6), (1, -2, 0, -3)),
    ((2, 9), (0, 0, 1, 0)), ((3, 37), (0, 5, 0, 40)), ((2, 3, 70), (1, 2, 9, 0, 2, 60)), ((1, 1), (1, 2, 3, 1)), ((5, 4), (0, 9, 0, 13)),
    ((4, 6), (0, -5, 0, 2)), ((2, 40), (0, 39, 0, 39)), ((2, 40), (0, 40, 0, 40)), ((2, 40), (0, 41, 0, 90)),
]  # fmt: skip


@natively_together
@pairs({"dtype": [np.float32, np.uint8, np.bool_], "mode": ["reflect", "edge", "wrap"], ("shape", "pads"): CASES})
def test_as_numpy_pads(shape: tuple[int, ...], pads: tuple[int, ...], mode: str, dtype: type) -> None:
    x = (rng(3).normal(size=shape) * 50).astype(np.int8).astype(dtype)
    low, high = pads[: len(shape)], pads[len(shape) :]
    kept = x[tuple(slice(max(0, -a), s - max(0, -c)) for a, c, s in zip(low, high, shape, strict=True))]
    want = np.pad(kept, [(max(a, 0), max(c, 0)) for a, c in zip(low, high, strict=True)], mode=mode)
    proto = model([node("Pad", ["x", "p"], mode=mode)], {"x": x}, {"y": want}, {"p": np.array(pads)}, opset=19)
    check_model(proto, {"x": x}, lambda got: np.testing.assert_array_equal(got["y"], want))
