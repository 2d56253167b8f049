"""Attributes that a node does not give have ONNX's defaults, which are f32 whatever the data are; test_rule_schemas.py compares them all."""

import numpy as np
import pytest
from importing import floats, model, node, run


@pytest.mark.parametrize(("op", "attribute", "value"), [("LeakyRelu", "alpha", 0.01), ("HardSigmoid", "alpha", 0.2), ("LpNormalization", "axis", -1)])
def test_a_default_is_what_would_be_given(op: str, attribute: str, value: float) -> None:
    x = floats(3, 5, dtype=np.float64)
    results = [run(model([node(op, ["x"], **given)], {"x": x}, {"y": x}), {"x": x})["y"] for given in ({}, {attribute: value})]
    np.testing.assert_array_equal(*results)


def test_f64_is_scaled_by_the_f32_that_onnx_has() -> None:
    x = floats(3, 5, dtype=np.float64)
    got = run(model([node("LeakyRelu", ["x"])], {"x": x}, {"y": x}), {"x": x})["y"]
    np.testing.assert_array_equal(got, np.where(x >= 0, x, x * float(np.float32(0.01))))
