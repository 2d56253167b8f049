"""Inference of slices whose places and sizes are known only at run time."""

import pytest

from stepwell.dialects.core.sizes import assumptions, symbol
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.indexing import DynamicSliceOp, SliceOp
from stepwell.dialects.graph.state import OverwriteOp
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


def test_bounds_of_a_slice_are_vectors_of_numbers() -> None:
    x, two = TensorType("f32", (4, 5)), TensorType("i64", (2,))
    assert DynamicSliceOp.infer(x, two, two, two, two) == TensorType("f32", (None, None))
    for wrong in (TensorType("f32", (2,)), TensorType("i64", (3,)), TensorType("i64", (2, 1))):
        for place, name in enumerate(("ends", "axes", "steps"), 1):
            operands = [two] * 4
            operands[place] = wrong
            with pytest.raises(InferenceError, match=name):
                DynamicSliceOp.infer(x, *operands)
    with pytest.raises(InferenceError, match="starts"):
        DynamicSliceOp.infer(x, TensorType("f32", (2,)), two, two, two)


@pytest.mark.parametrize(("shape", "starts"), [((2, 5), [3, 0]), ((2, 5), [0, 1]), ((2, 6), [0, 0]), ((n, 5), [5 - n, 0])])
def test_what_is_written_over_lies_inside(shape: tuple[int, ...], starts: list[int]) -> None:
    x = TensorType("f32", (4, 5))
    assert OverwriteOp.infer(x, TensorType("f32", (2, 5)), starts=[2, 0]) == x
    assert OverwriteOp.infer(TensorType("f32", (None, 5)), TensorType("f32", (2, 5)), starts=[7, 0]).rank == 2
    with pytest.raises(InferenceError, match=r"must lie in operand 'x'"):
        OverwriteOp.infer(x, TensorType("f32", shape), starts=starts)


def test_sizes_of_slices_to_the_end() -> None:
    """As many as numpy gives; of a size that only the run tells, that is all that is known, wherever the slice begins."""
    for have in (0, 1, 7, None):
        for start in (0, 1, 3):
            for step in (1, 2):
                if have is None or start <= have:
                    kind = SliceOp.infer(TensorType("f32", (have, 4)), starts=(start, 1), sizes=(-1, -1), steps=(step, 1))
                    assert kind.shape == (None if have is None else len(range(start, have, step)), 3)
