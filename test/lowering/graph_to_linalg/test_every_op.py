"""Every op of the dialect that has a lowering, on random operands of every element type."""

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_op import check_op, reference
from op_cases import cases, with_cases

from stepwell.dialects.graph import op_classes, winograd
from stepwell.dialects.graph.windows import padded
from stepwell.passes.graph_to_linalg.lowerings import conversions

# What is not lowered by itself, and why.
STRUCTURAL = {
    "parameter": "pack-weights gives it its place", "fused": "outline-kernels makes a function of it", "yield": "ends a region",
    "if": "control flow is not compiled yet", "loop": "control flow is not compiled yet",
}  # fmt: skip
SUMS = ("conv", "conv_transpose", "col2im", "matmul", "reduce_sum", "cumsum", "avg_pool", "resize")
LOWERED = sorted(set(op_classes()) - set(STRUCTURAL))


def test_every_op_has_a_lowering() -> None:
    known = {c.root.removeprefix("graph.") for c in conversions()}
    assert known - {"parameter"} == set(LOWERED)
    assert set(LOWERED) <= set(with_cases())


def wide(x: Any) -> Any:
    return np.abs(x.astype(np.float64)) if x.dtype.kind != "b" else x


def roundings(mnemonic: str, operands: list[Any], attributes: dict[str, Any]) -> dict[str, Any]:
    """How much the compiled result may differ: in units of what is summed for sums, else of the result."""
    if mnemonic in SUMS:
        terms = max(math.prod(o.shape) for o in operands) if mnemonic != "resize" else 32
        return {"scale": reference(mnemonic, [wide(o) for o in operands], **attributes)[0] if mnemonic != "resize" else 200.0, "terms": terms}
    if mnemonic == "winograd_conv":
        # Its transforms subtract: what is summed is what comes out where every number is positive.
        positive = [np.abs(m) for m in winograd.matrices(attributes["tile"])]
        with mock.patch.object(winograd, "matrices", return_value=positive):
            scale = reference(mnemonic, [wide(o) for o in operands], **attributes)[0]
        return {"scale": scale, "terms": math.prod(operands[0].shape[1::3]) + 6 * len(positive[0][0])}
    if mnemonic in ("scatter_elements", "scatter_nd", "reduce_prod"):
        return {"terms": math.prod(operands[0].shape) + math.prod(operands[-1].shape), "scale": reference_scale(mnemonic, operands, attributes)}
    if mnemonic == "batch_norm":
        return {"scale": 16 * max(wide(o).max(initial=1) for o in operands), "terms": 8}
    return {"terms": 8, "ulps": 4, "scale": 16.0 if mnemonic == "range" else None}


def reference_scale(mnemonic: str, operands: list[Any], attributes: dict[str, Any]) -> Any:
    """The largest that what is combined on the way to a result can be."""
    places = [o if o.dtype.kind == "i" and n == 1 else wide(o) for n, o in enumerate(operands)]
    if attributes.get("reduction") in ("max", "min"):
        return None
    return reference(mnemonic, places, **attributes)[0]


@pytest.mark.parametrize("mnemonic", LOWERED)
def test_on_random_operands(mnemonic: str) -> None:
    @settings(max_examples=8)
    @given(st.data())
    def run(data: Any) -> None:
        case = data.draw(cases(mnemonic))
        operands, attributes = list(case.operands), dict(case.attributes)
        if mnemonic == "conv":  # as make-padding-explicit does
            spatial = len(attributes["strides"])
            operands[0] = padded(operands[0], attributes["pads"][:spatial], attributes["pads"][spatial:], 0)
            attributes["pads"] = (0,) * 2 * spatial
        bounds = roundings(mnemonic, operands, attributes)
        check_op(mnemonic, operands, **bounds, **attributes)

    run()
