"""ONNX's rotary embedding against ONNX's own evaluator: every layout of input and tables, partial rotation, native code with free sizes."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from every import every
from importing import Arrays, floats, model, node
from native_checks import check_model, natively_together
from onnx.reference import ReferenceEvaluator

import stepwell
from stepwell.dialects.support.errors import ModelError

B, H, S = 2, 3, 5
POSITIONS = np.array([[0, 4, 2, 10, 1], [3, 3, 8, 9, 5]])


def cases(size: int, pairs: int, by_position: bool, flat: bool, dtype: Any) -> dict[str, np.ndarray]:
    x = floats(B, S, H * size, dtype=dtype) if flat else floats(B, H, S, size, dtype=dtype)
    angles = floats(*((11,) if by_position else (B, S)), pairs, seed=1)
    tables = {"x": x, "c": np.cos(angles).astype(dtype), "s": np.sin(angles).astype(dtype)}
    return {**tables, "p": POSITIONS} if by_position else tables


def rotary(inputs: dict[str, np.ndarray], **attributes: Any) -> onnx.NodeProto:
    return node("RotaryEmbedding", list(inputs), ["y"], **attributes)


@natively_together
@every("flat", [False, True])
@every("by_position", [False, True])
@every("interleaved", [0, 1])
@every(("size", "pairs"), [(8, 4), (64, 32), (50, 18), (64, 16)])
def test_rotary_embedding(size: int, pairs: int, interleaved: int, by_position: bool, flat: bool) -> None:
    """Short and long heads, whole and partly turned; long ones are computed in one kernel, which reads through slices."""
    inputs = cases(size, pairs, by_position, flat, np.float32)
    part = {"rotary_embedding_dim": 2 * pairs} if 2 * pairs < size else {}
    made = model([rotary(inputs, interleaved=interleaved, **part, **({"num_heads": H} if flat else {}))], inputs, {"y": inputs["x"]}, opset=23)
    [want] = ReferenceEvaluator(made).run(None, inputs)

    def judge(got: Arrays) -> None:
        assert got["y"].shape == want.shape
        np.testing.assert_allclose(got["y"], want, rtol=1e-6, atol=1e-6)

    check_model(made, inputs, judge, threads=(1, 2))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types(dtype: Any) -> None:
    inputs = cases(64, 32, True, True, dtype)
    made = model([rotary(inputs, num_heads=H)], inputs, {"y": inputs["x"]}, opset=23)
    wide = {name: a if a.dtype == np.int64 else a.astype(np.float32) for name, a in inputs.items()}
    [want] = ReferenceEvaluator(model([rotary(inputs, num_heads=H)], wide, {"y": wide["x"]}, opset=23)).run(None, wide)
    got = stepwell.compile(made).run(inputs)["y"]
    np.testing.assert_allclose(got.astype(np.float32), want, atol=4 * float(ml_dtypes.finfo(dtype).eps) * np.abs(want).max())


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"x": floats(B, S, 24)}, {}, "num_heads"),
        ({"x": floats(B, S, 25)}, {"num_heads": H}, "25"),
        ({"c": floats(B, S, 4), "s": floats(B, S, 4)}, {}, "rank 2 with position_ids"),
        ({}, {"rotary_embedding_dim": 4}, "2 columns"),
        ({"s": floats(11, 3)}, {}, "do not fit"),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, np.ndarray], attributes: dict[str, Any], message: str) -> None:
    inputs = {**cases(8, 4, True, False, np.float32), **changed}
    with pytest.raises(ModelError, match=message):
        stepwell.compile(model([rotary(inputs, **attributes)], inputs, {"y": inputs["x"]}, opset=23))
