"""What attributes are that a node does not give: ONNX's defaults, which are f32 whatever the data are."""

import numpy as np
import pytest
from importing import floats, model, node, run
from onnx import AttributeProto, defs, helper

from stepwell.importer import Rule, all_rules

RULES = [rule for rule in all_rules() if rule.numbers and rule.domain == ""]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.name}-{r.since}")
def test_the_numbers_of_a_rule_are_those_of_the_schema(rule: Rule) -> None:
    schema = defs.get_schema(rule.name, rule.since)
    for name, number in rule.numbers.items():
        default = schema.attributes[name].default_value
        if default.type == AttributeProto.FLOAT and np.isfinite(number):  # Clip has no bound where ONNX has the largest f32
            assert number == helper.get_attribute_value(default), name


@pytest.mark.parametrize(("op", "attribute", "value"), [("LeakyRelu", "alpha", 0.01), ("HardSigmoid", "alpha", 0.2), ("LpNormalization", "axis", -1)])
def test_a_default_is_what_would_be_given(op: str, attribute: str, value: float) -> None:
    x = floats(3, 5, dtype=np.float64)
    results = [run(model([node(op, ["x"], **given)], {"x": x}, {"y": x}), {"x": x})["y"] for given in ({}, {attribute: value})]
    np.testing.assert_array_equal(*results)


def test_f64_is_scaled_by_the_f32_that_onnx_has() -> None:
    x = floats(3, 5, dtype=np.float64)
    got = run(model([node("LeakyRelu", ["x"])], {"x": x}, {"y": x}), {"x": x})["y"]
    np.testing.assert_array_equal(got, np.where(x >= 0, x, x * float(np.float32(0.01))))
