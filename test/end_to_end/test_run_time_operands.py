"""Operators whose axes, diagonals, rates and modes are inputs that are known only at run time, though the size of the result is known."""

from typing import Any

import numpy as np
import pytest
from covering import pairs
from every import every
from importing import check_native, floats, model, node
from native_checks import natively_together
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.dialects.support.errors import IndexRangeError

FAR = (1 << 63) - 1


def by_reference(single: Any, inputs: dict[str, np.ndarray], opset: int) -> list[np.ndarray]:
    """What ONNX's own evaluator gives, whose operators are newer than ONNX Runtime's."""
    proto = model([single], inputs, dict.fromkeys(single.output, inputs["x"]), opset=opset)
    return [np.asarray(a) for a in ReferenceEvaluator(proto).run(None, inputs)]


# --- Trilu


@natively_together
@every("upper", [0, 1])
@every("k", [0, 1, -2, 5, -5, FAR, -FAR - 1])
def test_triangle(k: int, upper: int) -> None:
    x = floats(2, 3, 5)
    want = np.triu(x, np.clip(k, -9, 9)) if upper else np.tril(x, np.clip(k, -9, 9))
    check_native(node("Trilu", ["x", "k"], upper=upper), {"x": x, "k": np.array(k)}, expected=[want])


@natively_together
@every("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64])
def test_triangle_of_any_type(dtype: Any) -> None:
    x = (np.arange(12).reshape(4, 3) + 1).astype(dtype)
    check_native(node("Trilu", ["x", "k"], upper=0), {"x": x, "k": np.array([1])}, expected=[np.tril(x, 1)])


# --- running sums and products


@natively_together
@pairs({
    ("name", "opset"): [("CumSum", 14), ("CumProd", 26)],
    "axis": [0, 1, 2, -1, -3],
    ("exclusive", "reverse"): [(0, 0), (0, 1), (1, 0), (1, 1)],
})
def test_scan_along_an_axis(name: str, opset: int, axis: int, exclusive: int, reverse: int) -> None:
    inputs = {"x": floats(3, 5, 19), "axis": np.array(axis, np.int32)}
    single = node(name, ["x", "axis"], exclusive=exclusive, reverse=reverse)
    check_native(single, inputs, expected=by_reference(single, inputs, opset), opset=opset)


@natively_together
@every("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float64])
def test_scan_of_any_type(dtype: Any) -> None:
    x = (np.arange(1, 41) % 7 - (np.dtype(dtype).kind != "u")).reshape(10, 4).astype(dtype)
    wide = np.float64 if np.dtype(dtype).kind == "f" else dtype
    for name, fold in (("CumSum", np.add), ("CumProd", np.multiply)):
        want = fold.accumulate(x, axis=0, dtype=wide).astype(dtype)
        check_native(node(name, ["x", "axis"]), {"x": x, "axis": np.array([0])}, expected=[want], opset=26)


@pytest.mark.parametrize("threads", [1, 2])
def test_scan_of_many_rows(threads: int) -> None:
    x = floats(257, 3, 131)
    for axis in range(3):
        proto = model([node("CumSum", ["x", "axis"])], {"x": x, "axis": np.array(axis)}, {"y": x})
        (got,) = stepwell.compile(proto, threads=threads).run({"x": x, "axis": np.array(axis)}).values()
        np.testing.assert_allclose(got, np.cumsum(x, axis, np.float64), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_that_is_not_there_is_an_error(shape: tuple[int, ...], axis: int) -> None:
    x, far = floats(*shape), axis if axis != -3 else -1 - len(shape)
    compiled = stepwell.compile(model([node("CumSum", ["x", "axis"])], {"x": x, "axis": np.array(0)}, {"y": x}))
    with pytest.raises(IndexRangeError, match=f"the_cumsum.*index {far} is out of range"):
        compiled.run({"x": x, "axis": np.array(far)})
    np.testing.assert_allclose(compiled.run({"x": x, "axis": np.array(-1)})["y"], np.cumsum(x, -1), rtol=1e-5, atol=1e-6)


# --- transforms


@natively_together
@every("axis", [0, 1, 2, -2, -4])
@every("inverse", [0, 1])
def test_transform_along_an_axis(axis: int, inverse: int) -> None:
    x = floats(3, 4, 5, 2)
    wide = x[..., 0] + 1j * x[..., 1]
    made = (np.fft.ifft if inverse else np.fft.fft)(wide, axis=axis if axis >= 0 else axis + 1)
    want = np.stack([made.real, made.imag], -1).astype(np.float32)
    check_native(node("DFT", ["x", "", "axis"], inverse=inverse), {"x": x, "axis": np.array(axis)}, expected=[want], opset=20)


def test_a_transform_along_the_parts_of_its_numbers_is_an_error() -> None:
    x = floats(3, 4, 2)
    compiled = stepwell.compile(model([node("DFT", ["x", "", "axis"])], {"x": x, "axis": np.array(0)}, {"y": x}, opset=20))
    for axis in (2, -1):
        with pytest.raises(IndexRangeError, match="the_dft"):
            compiled.run({"x": x, "axis": np.array(axis)})


def test_a_transform_whose_size_depends_on_the_axis() -> None:
    """Code is made for each axis."""
    x = floats(3, 4, 1)
    proto = model([node("DFT", ["x", "", "axis"], onesided=1)], {"x": x, "axis": np.array(0)}, {"y": x}, opset=20)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    compiled = stepwell.compile(proto)
    for axis in (0, 1, -2):
        made = np.fft.rfft(x[..., 0], axis=axis if axis >= 0 else axis + 1)
        (got,) = compiled.run({"x": x, "axis": np.array(axis)}).values()
        np.testing.assert_allclose(got, np.stack([made.real, made.imag], -1), rtol=1e-5, atol=1e-5)


# --- dropout


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dropout_in_training_and_outside(dtype: Any) -> None:
    x = (np.abs(floats(64, 61)) + 1).astype(dtype)
    nodes = [node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=3)]
    inputs = {"x": x, "ratio": np.array(0.25, np.float32), "training": np.array(True)}
    compiled = stepwell.compile(model(nodes, inputs, {"y": x, "mask": x > 0}, opset=13))
    y, mask = compiled.run(inputs).values()
    assert 0.72 < mask.mean() < 0.78
    np.testing.assert_array_equal(y == 0, ~mask)
    np.testing.assert_allclose(y[mask].astype(np.float64), x[mask].astype(np.float64) / 0.75, rtol=2 * float(np.finfo(dtype).eps))
    for ratio, training in ((0.25, False), (0.0, True)):
        y, mask = compiled.run({**inputs, "ratio": np.array(ratio, np.float32), "training": np.array(training)}).values()
        np.testing.assert_array_equal(y, x)
        assert mask.all()
    y, mask = compiled.run({**inputs, "ratio": np.array(1.0, np.float32)}).values()
    assert not mask.any()
    assert not y.any()
