"""Operators whose results' sizes depend on data: right where the data are known, else an error that says why."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from covering import each
from every import every
from importing import Arrays, check, floats, model, node, rng
from native_checks import check_model, natively_together

import stepwell
from stepwell.dialects.core.sizes import symbol


def check_folded(single: Any, inputs: dict[str, np.ndarray], expected: list[np.ndarray], outputs: list[str], opset: int) -> None:
    """The imported model, evaluated; compiled with its inputs as constants, and without."""
    check(single, inputs, outputs=outputs, expected=expected, opset=opset)
    declared = dict(zip(outputs, expected, strict=True))
    folded, native = model([single], {}, declared, inputs, opset=opset), model([single], inputs, declared, opset=opset)

    def judge(got: Arrays) -> None:
        for name, want in declared.items():
            assert got[name].dtype == want.dtype
            np.testing.assert_array_equal(got[name].astype(np.float64), want.astype(np.float64))

    check_model(folded, {}, judge)
    check_model(native, inputs, judge)


# --- Unique


@natively_together
def test_unique_in_order() -> None:
    x = np.array([2, 1, 1, 3, 4, 3], np.float32)
    want = [np.array([1, 2, 3, 4], np.float32), np.array([1, 0, 3, 4]), np.array([1, 0, 0, 2, 3, 2]), np.array([2, 1, 2, 1])]
    check_folded(node("Unique", ["x"], ["y", "i", "j", "n"]), {"x": x}, want, ["y", "i", "j", "n"], 11)


@natively_together
def test_unique_as_they_come() -> None:
    x = np.array([[2, 1, 1], [3, 4, 3]], np.int8)
    want = [np.array([2, 1, 3, 4], np.int8), np.array([0, 1, 3, 4]), np.array([0, 1, 1, 2, 3, 2]), np.array([1, 2, 2, 1])]
    check_folded(node("Unique", ["x"], ["y", "i", "j", "n"], sorted=0), {"x": x}, want, ["y", "i", "j", "n"], 11)


@natively_together
@each({"dtype": [np.uint8, np.int64, np.float64, ml_dtypes.bfloat16, np.bool_], "axis": [0, 1, -1]})
def test_unique_slices(axis: int, dtype: Any) -> None:
    x = rng(axis + 2).integers(0, 2, (4, 3, 2)).astype(dtype)
    if axis == 1:
        x = np.concatenate([x, x[:, ::-1]], axis=1)
    y, i, j, n = np.unique(x.astype(np.int64), return_index=True, return_inverse=True, return_counts=True, axis=axis)
    want = [y.astype(dtype), i, j.reshape(-1), n]
    check_folded(node("Unique", ["x"], ["y", "i", "j", "n"], axis=axis), {"x": x}, want, ["y", "i", "j", "n"], 28)


@natively_together
def test_unique_with_nan() -> None:
    x = np.array([np.nan, 1, np.nan, -np.inf, 1], np.float32)
    want = [np.array([-np.inf, 1, np.nan], np.float32), np.array([3, 1, 0]), np.array([2, 1, 2, 0, 1]), np.array([1, 2, 2])]
    check_folded(node("Unique", ["x"], ["y", "i", "j", "n"]), {"x": x}, want, ["y", "i", "j", "n"], 11)


# --- NonMaxSuppression


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize(("most", "overlap", "least"), [(3, 0.3, 0.2), (2, 0.0, None), (10, 0.7, 0.5), (0, 0.5, None), (None, None, None)])
def test_boxes_that_are_kept(most: int | None, overlap: float | None, least: float | None, centred: int) -> None:
    low = rng(1).uniform(0, 4, (2, 9, 2))
    boxes = np.concatenate([low, rng(2).uniform(0.5, 4, (2, 9, 2)) + (0 if centred else low)], axis=-1).astype(np.float32)
    boxes[:, ::2] = boxes[:, ::2] if centred else boxes[:, ::2, [2, 3, 0, 1]]  # any two opposite corners
    scores = rng(3).uniform(0, 1, (2, 3, 9)).astype(np.float32)
    scores[:, :, 4] = 0.5  # no higher than the threshold
    scores[:, 1, 2:4] = 0.9  # of which the first wins
    inputs = {"b": boxes, "s": scores}
    names = ["b", "s"]
    for name, value in (("m", most), ("o", overlap), ("l", least)):
        names.append(name if value is not None else "")
        if value is not None:
            inputs[name] = np.array([value], np.int64 if name == "m" else np.float32)
    while not names[-1]:
        names.pop()
    single = node("NonMaxSuppression", names, center_point_box=centred)
    imported = check(single, inputs, opset=11)
    assert imported.outputs[0][1].shape == (symbol("y_0"), 3)
    if least is None and most:
        (want,) = stepwell.compile(model([single], {}, {"y": np.zeros((1, 3), np.int64)}, inputs, opset=11)).run({}).values()
        check_folded(single, inputs, [want], ["y"], 11)


# --- Compress and NonZero


@natively_together
@every("axis", [None, 0, 1, -1])
def test_compress(axis: int | None) -> None:
    x, condition = floats(3, 2, 4), np.array([True, False, True, True][: {None: 4, 0: 3, 1: 2, -1: 4}[axis]])
    want = np.compress(condition, x.ravel() if axis is None else x, axis=axis or 0)
    single = node("Compress", ["x", "c"], **({} if axis is None else {"axis": axis}))
    check_folded(single, {"x": x, "c": condition}, [want], ["y"], 11)


def test_non_zero() -> None:
    x = np.array([[1, 0, -2], [0, np.nan, 0]], np.float32)
    check_folded(node("NonZero", ["x"]), {"x": x}, [np.stack(np.nonzero(x)).astype(np.int64)], ["y"], 13)
