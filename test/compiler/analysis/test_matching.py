"""Where the values of two runs part: the first op from which on nothing is as it was."""

import numpy as np
import pytest

from stepwell.analysis.matching import Values, first_departure
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.interpreter.evaluate import evaluate

X = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
ONE, TWO = "(tensor<4x4xf32>) -> tensor<4x4xf32>", "(tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>"
TAIL = f'%y = "graph.exp"(%t) : {ONE}'


def values(body: str) -> Values:
    text = f"func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{ {body} return %y : tensor<4x4xf32> }}"
    found = Values()
    module = parse_module(text, make_context())
    found.module = module  # type: ignore[attr-defined]  # ops live as long as their module
    evaluate(module, WeightTable(), {"input0": X}, found)
    return found


def departure(before: str, after: str) -> str | None:
    one, other = values(before), values(after)
    op = first_departure(one, other)
    return None if op is None else op.name


def transposed(perm: str, name: str = "t", of: str = "x") -> str:
    return f'%{name} = "graph.transpose"(%{of}) {{perm = array<i64: {perm}>}} : {ONE}\n'


def test_the_first_op_that_gives_something_else() -> None:
    relu, wrong = (f'%r = "graph.{op}"(%x) : {ONE}\n%t = "graph.neg"(%r) : {ONE}\n' for op in ("relu", "abs"))
    assert departure(relu + TAIL, relu + TAIL) is None
    assert departure(relu + TAIL, wrong + TAIL) == "graph.abs"


def test_elements_in_another_order_are_not_the_same_where_the_shape_is() -> None:
    assert departure(transposed("1, 0") + TAIL, transposed("0, 1") + TAIL) == "graph.transpose"


def test_another_layout_of_a_value_is_that_value() -> None:
    tall = '%t0 = "graph.reshape"(%x) {shape = array<i64: 16, 1>} : (tensor<4x4xf32>) -> tensor<16x1xf32>\n'
    tall += '%t1 = "graph.pad"(%t0) {low = array<i64: 0, 0>, high = array<i64: 3, 0>, mode = "constant", value = 0.0 : f64}'
    tall += " : (tensor<16x1xf32>) -> tensor<19x1xf32>\n"
    neg = f'%t = "graph.neg"(%x) : {ONE}\n'
    assert departure(f'%u = "graph.abs"(%x) : {ONE}\n%t = "graph.neg"(%u) : {ONE}\n' + TAIL, tall + neg + TAIL) is not None
    same = f'%v = "graph.transpose"(%x) {{perm = array<i64: 0, 1>}} : {ONE}\n'
    assert departure(same + neg + TAIL, tall + neg + TAIL) is None


@pytest.mark.parametrize(("error", "found"), [(0.0, None), (1e-2, "graph.mul"), (1e-4, "graph.exp")])
def test_what_a_pass_makes_for_itself_is_right_if_what_follows_is(error: float, found: str | None) -> None:
    """Of a small error, the op that shows it most is found: what tells it from rounding."""

    def scaled(by: float) -> str:
        numbers = (
            f'%{name} = "graph.constant"() {{value = dense<{x}> : tensor<4x4xf32>}} : () -> tensor<4x4xf32>\n'
            for name, x in (("c", by), ("h", 0.5))
        )
        return "".join(numbers) + f'%d = "graph.mul"(%x, %c) : {TWO}\n%t = "graph.mul"(%d, %h) : {TWO}\n'

    plain = f'%t = "graph.transpose"(%x) {{perm = array<i64: 0, 1>}} : {ONE}\n'
    assert departure(plain + TAIL, scaled(2.0 + error) + TAIL) == found
