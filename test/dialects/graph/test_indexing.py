"""Inference of slices whose places and sizes are known only at run time."""

import pytest

from stepwell.dialects.core.sizes import assumptions, symbol
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.indexing import SliceOp
from stepwell.dialects.support.errors import InferenceError

k, n = symbol("k"), symbol("n")


@pytest.mark.parametrize(
    ("have", "start", "size", "assumed"),
    [(9, k, 4, ["k + 4 <= 9"]), (9, 2, k, ["k + 2 <= 9"]), (n, k, 4, ["k + 4 <= n"]), (n, 0, n, []), (n + 3, k, k, ["2*k <= n + 3"])],
)
def test_a_slice_is_assumed_to_fit(have: object, start: object, size: object, assumed: list[str]) -> None:
    with assumptions() as found:
        made = SliceOp.infer(TensorType("f32", (have,)), starts=[start], sizes=[size], steps=[1])  # type: ignore[arg-type]
    assert made.shape == (size,)
    assert list(map(str, found)) == assumed


def test_a_slice_that_never_fits() -> None:
    with pytest.raises(InferenceError, match="leaves operand 'x'"):
        SliceOp.infer(TensorType("f32", (n,)), starts=[n], sizes=[2], steps=[1])


def test_steps_are_assumed_to_stay_inside() -> None:
    with assumptions() as found:
        SliceOp.infer(TensorType("f32", (9,)), starts=[k], sizes=[2], steps=[2])
    assert [str(one) for one in found] == ["k + 3 <= 9"]
    with assumptions() as found:
        SliceOp.infer(TensorType("f32", (9,)), starts=[8], sizes=[k], steps=[-2])
    assert [str(one) for one in found] == ["-2*k + 10 >= 0"]
