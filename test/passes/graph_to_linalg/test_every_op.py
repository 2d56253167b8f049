"""Every op of the dialect that has a lowering, on random operands of every element type."""

from typing import Any

import pytest
from every import every
from hypothesis import given, settings, strategies as st
from one_op import check_within, ops_together, reference
from op_cases import cases, with_cases
from op_closeness import bound

from stepwell.dialects.graph import op_class, op_classes
from stepwell.dialects.graph.windows import padded
from stepwell.passes.graph_to_linalg.lowerings import conversions

# What is not lowered by itself, and why.
STRUCTURAL = {
    "parameter": "pack-weights gives it its place", "fused": "outline-kernels makes a function of it", "yield": "ends a region",
    **dict.fromkeys(("non_max_suppression", "non_zero", "unique"), "bind-sizes makes other ops of it"),
    "bind_sizes": "outline-kernels makes an op of the flow dialect of it", "keep": "outline-regions removes it",
    "require": "check-indices makes a check of it",
    **dict.fromkeys(("if", "loop"), "outline-regions makes a call of it"),
}  # fmt: skip
LOWERED = sorted(set(op_classes("graph", "packed")) - set(STRUCTURAL))


def test_every_op_has_a_lowering() -> None:
    roots = [op_class(c.root.removeprefix("graph.")) for c in conversions()]
    known = {cls.mnemonic() for cls in roots if cls.__module__.startswith("stepwell.")}
    assert known - {"parameter"} == set(LOWERED)
    assert set(LOWERED) <= set(with_cases())


@pytest.mark.parametrize("examples", [3, pytest.param(10, marks=pytest.mark.nightly)])
@ops_together
@every("mnemonic", LOWERED)
def test_on_random_operands(mnemonic: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.data())
    def run(data: Any) -> None:
        case = data.draw(cases(mnemonic))
        operands, attributes = list(case.operands), dict(case.attributes)
        if mnemonic == "conv":  # as make-padding-explicit does
            spatial = len(attributes["strides"])
            operands[0] = padded(operands[0], attributes["pads"][:spatial], attributes["pads"][spatial:], 0)
            attributes["pads"] = (0,) * 2 * spatial
        allowed = bound(mnemonic, operands, attributes, reference(mnemonic, operands, **attributes)[0])
        check_within(mnemonic, operands, allowed, attributes)

    run()
