"""What ops that sum products say of these, against their references: numbers that do not vary along a sum may be taken out of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from every import every

from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.core.types import TensorType, from_numpy
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder, GraphOp, op_class
from stepwell.dialects.graph.base import ops_with
from stepwell.dialects.graph.products import SumOfProducts, changes_along_sum
from stepwell.dialects.graph.traits import SumsProducts
from stepwell.dialects.support.errors import StepwellError

PLAIN = {"strides": [2, 1], "dilations": [1, 2]}
CASES: dict[str, list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]] = {
    "matmul": [((5, 7), (7, 4), {}), ((2, 1, 5, 7), (3, 7, 4), {}), ((5, 7), (2, 7, 4), {})],
    "packed.matmul": [((2, 5, 8), (3, 8, 4), {}), ((5, 8), (3, 2, 4, 4), {})],
    "conv": [
        ((2, 6, 7, 8), (4, 6, 3, 2), {**PLAIN, "pads": [0] * 4, "group": 1}), ((2, 6, 7, 8), (9, 2, 3, 2), {**PLAIN, "pads": [0] * 4, "group": 3}),
        ((1, 6, 7, 8), (6, 1, 3, 2), {**PLAIN, "pads": [0] * 4, "group": 6}),
    ],
    "packed.conv": [
        ((2, 3, 7, 8, 4), (2, 3, 3, 2, 4, 8), {**PLAIN, "group": 1}), ((2, 3, 7, 8, 4), (2, 3, 3, 2, 2, 8, 2), {**PLAIN, "group": 1}),
        ((2, 3, 7, 8), (2, 3, 3, 2, 8), {**PLAIN, "group": 1}),
    ],
    "packed.bordered_conv": [((2, 3, 7, 8, 4), (2, 3, 3, 2, 4, 8), {**PLAIN, "group": 1, "zeros": [0] * 4})],
    "packed.depthwise_conv": [((2, 3, 7, 8, 4), (3, 3, 2, 4), PLAIN)],
}  # fmt: skip
"""The shapes of the operands, and the attributes, of instances of each such op."""


def test_there_are_cases_of_all() -> None:
    assert {cls.mnemonic() for cls in ops_with(SumsProducts) if cls.__module__.startswith("stepwell.")} == set(CASES)


def said(mnemonic: str, lhs: np.ndarray, rhs: np.ndarray, attributes: dict[str, Any]) -> SumOfProducts:
    """What an instance of an op says of its products."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            b = GraphBuilder(WeightTable())
            operands = [b.weight(name, array) for name, array in (("lhs", lhs), ("rhs", rhs))]
            found = b.create(op_class(mnemonic), operands, attributes).sum_of_products()
    assert isinstance(found, SumOfProducts)
    return found


@every("case", [(mnemonic, number) for mnemonic, cases in CASES.items() for number in range(len(cases))], ids=str)
def test_what_does_not_vary_along_a_sum_may_be_taken_out(case: tuple[str, int]) -> None:
    mnemonic, number = case
    *shapes, attributes = CASES[mnemonic][number]
    random = np.random.default_rng(number)
    lhs, rhs = (random.integers(-9, 9, shape).astype(np.float64) for shape in shapes)
    found, reference = said(mnemonic, lhs, rhs, attributes), op_class(mnemonic).reference
    whole: np.ndarray = reference(lhs, rhs, **attributes)
    assert whole.ndim == found.rank
    assert found.depth == op_class(mnemonic).flops(*(TensorType(from_numpy(a.dtype), a.shape) for a in (lhs, rhs)),
                                                   result=TensorType("f64", whole.shape), **attributes) // (2 * whole.size)  # fmt: skip
    np.testing.assert_array_equal(reference(lhs + 3, rhs, **attributes), whole + 3 * found.column_sums(rhs))
    for place, dims in enumerate((found.lhs, found.rhs)):
        operand = (lhs, rhs)[place]
        shape = [1 if dim is None else size for dim, size in zip(dims, operand.shape, strict=True)]
        scale = random.integers(1, 9, shape).astype(np.float64)
        assert not changes_along_sum(shape, dims)
        aligned = found.along_result(shape, dims)
        scaled = [operand * scale if i == place else other for i, other in enumerate((lhs, rhs))]
        np.testing.assert_array_equal(reference(*scaled, **attributes), whole * (scale if aligned is None else scale.reshape(aligned)))
        assert all(changes_along_sum([2 if i == n else 1 for i in range(len(dims))], dims) == (dim is None) for n, dim in enumerate(dims))


@every("what", ["rows", "matrices", "channels"])
def test_kinds_of_products_are_told_apart(what: str) -> None:
    found = {m: [said(m, np.zeros(x), np.zeros(w), a) for x, w, a in cases] for m, cases in CASES.items()}
    ask: dict[str, Callable[[SumOfProducts, tuple[int, ...]], object]] = {
        "rows": lambda p, x: p.rows(x), "matrices": lambda p, _: p.is_matrix_product, "channels": lambda p, _: p.by_channel,
    }  # fmt: skip
    answers = {m: [ask[what](p, case[0]) for p, case in zip(found[m], CASES[m], strict=True)] for m in CASES}
    if what == "rows":
        assert answers.pop("matmul") == [[5], [2, 1, 5], [5]]
        assert answers.pop("packed.matmul") == [[2, 5], [5]]
        assert all(answer is None for own in answers.values() for answer in own)
    elif what == "matrices":
        assert answers.pop("matmul") == [True] * 3
        assert not any(answer for own in answers.values() for answer in own)
    else:
        assert answers.pop("conv") == [False, False, True]
        assert answers.pop("packed.depthwise_conv") == [True]
        assert not any(answer for own in answers.values() for answer in own)


def test_who_states_it_says_how() -> None:
    with pytest.raises(StepwellError, match="Silent' states SumsProducts, so it must define sum_of_products"):

        class Silent(GraphOp, name="silent_product", traits=[SumsProducts]):
            pass
