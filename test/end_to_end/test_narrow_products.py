"""Products and convolutions of f16 and bf16, compiled, in sizes from which on operands are widened before; sums are in f32, rounded once."""

import native_checks
import numpy as np
from covering import pairs
from every import running
from native_checks import Arrays, Check, natively_together
from onnx import TensorProto, helper

from stepwell.dialects.core.types import to_numpy
from stepwell.dialects.graph import ConvOp

RANDOM = np.random.default_rng(41)
TYPES = {"f16": (TensorProto.FLOAT16, 2.0**-11), "bf16": (TensorProto.BFLOAT16, 2.0**-8)}
"""ONNX's name of each, and half the distance of its numbers from 1 on."""


def check(dtype: str, op: str, x: np.ndarray, w: np.ndarray, want: np.ndarray, scale: np.ndarray, terms: int, *, given: bool, **how: object) -> None:
    """Compare with `want`, in f64: sums of so many terms of size `scale`; `given` makes `w` an input of the model."""
    kind, unit = TYPES[dtype]
    value = helper.make_tensor_value_info
    inputs = [value("x", kind, x.shape), *([value("w", kind, w.shape)] if given else [])]
    constants = [] if given else [helper.make_tensor("w", kind, w.shape, w.tobytes(), raw=True)]
    net = helper.make_graph([helper.make_node(op, ["x", "w"], ["y"], **how)], "g", inputs, [value("y", kind, want.shape)], constants)
    proto = helper.make_model(net, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)

    def judge(results: Arrays) -> None:
        got = results["y"]
        assert got.dtype == x.dtype
        assert (np.abs(got.astype(np.float64) - want) <= unit * np.abs(want) + terms * np.finfo(np.float32).eps * scale).all()

    native_checks.check(Check("-".join(running), proto, {"x": x, **({"w": w} if given else {})}, judge, threads=(1, 2)))


@natively_together
@pairs({"dtype": TYPES, "given": [False, True], "sizes": [(3, 17, 40), (40, 33, 9), (64, 100, 72), (1, 64, 80), (80, 64, 1)]})
def test_products(dtype: str, given: bool, sizes: tuple[int, int, int]) -> None:
    rows, summed, columns = sizes
    x, w = (RANDOM.standard_normal(shape).astype(to_numpy(dtype)) for shape in ((2, rows, summed), (summed, columns)))
    a, b = x.astype(np.float64), w.astype(np.float64)
    check(dtype, "MatMul", x, w, a @ b, np.abs(a) @ np.abs(b), summed, given=given)


@natively_together
@pairs({
    "dtype": TYPES,
    "given": [False, True],
    ("shape", "filters", "how"): [
        ((1, 32, 12, 12), (64, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 3, 14, 13), (32, 3, 5, 5), {"strides": [2, 2]}),
        ((1, 64, 8, 9), (64, 32, 3, 3), {"group": 2}),
        ((1, 32, 11, 11), (32, 32, 3, 3), {"pads": [8, 8, 8, 8], "dilations": [8, 8]}),
        ((1, 40, 50), (5, 40, 7), {}),
    ],
})
def test_convolutions(dtype: str, given: bool, shape: tuple[int, ...], filters: tuple[int, ...], how: dict) -> None:
    x, w = (RANDOM.standard_normal(size).astype(to_numpy(dtype)) for size in (shape, filters))
    a, b = x.astype(np.float64), w.astype(np.float64)
    spatial = len(shape) - 2
    ones = [1] * spatial
    window = {"strides": ones, "dilations": ones, "pads": [0] * 2 * spatial, "group": 1, **how}
    want, scale = ConvOp.reference(a, b, **window), ConvOp.reference(np.abs(a), np.abs(b), **window)
    check(dtype, "Conv", x, w, want, scale, w[0].size, given=given, **how)
