"""The sizes that operands ask for, against the shapes that the ops' references give."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from importing import context

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder, op_class
from stepwell.passes.graph.asked_sizes import asked_sizes

SIZES = st.integers(0, 4)
SHAPES = st.lists(SIZES, min_size=1, max_size=3).map(tuple)
FAR = st.sampled_from([-(1 << 63), -5, -1, 0, 1, 2, 5, (1 << 63) - 1])
NUMBERS = st.integers(-6, 6) | FAR


def asked(name: str, x: tuple[int, ...], result: tuple[int, ...], *vectors: np.ndarray) -> list[int]:
    """What `asked_sizes` computes for an op on an operand of that shape whose result was declared."""
    weights = WeightTable()
    b = GraphBuilder(weights)
    with context(), ir.Location.name("it"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            operands = [b.literal(np.zeros(x, np.float32)), *(b.literal(v) for v in vectors)]
            value = getattr(b, name)(*operands, result_types=[TensorType("f32", result)])
            op = defining_op(value)
            assert op is not None
            sizes = b.constant_value(asked_sizes(op, b))
    assert sizes is not None
    assert sizes.dtype == np.int64
    return [int(s) for s in sizes]


def given(name: str, x: tuple[int, ...], *vectors: np.ndarray) -> list[int]:
    return list(op_class(name).reference(np.zeros(x, np.float32), *vectors).shape)


@hypothesis.given(st.data(), SHAPES, st.sampled_from([np.int32, np.int64]))
def test_slices(data: st.DataObject, x: tuple[int, ...], dtype: type) -> None:
    axes = data.draw(st.lists(st.integers(0, len(x) - 1), unique=True))
    limits = np.iinfo(dtype)
    starts, ends, steps = (
        np.clip(np.array([data.draw(numbers) for _ in axes], np.int64), limits.min, limits.max).astype(dtype)
        for numbers in (NUMBERS, NUMBERS, NUMBERS.filter(bool))
    )
    signed = np.array([axis - len(x) * data.draw(st.booleans()) for axis in axes], dtype)
    want = given("dynamic_slice", x, starts, ends, signed, steps)
    assert asked("dynamic_slice", x, x, starts, ends, signed, steps) == want


def test_a_step_of_zero_asks_for_no_size() -> None:
    one = np.array([1])
    assert asked("dynamic_slice", (3, 4), (3, 4), one, one, one, np.array([0])) == [3, -1]


@hypothesis.given(SHAPES, st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_expansions(x: tuple[int, ...], shape: list[int]) -> None:
    try:
        want = np.broadcast_shapes(x, tuple(shape))
    except ValueError:
        return  # what is asked for then is no shape that could have been declared
    assert asked("dynamic_expand", x, want, np.array(shape)) == list(want)


@pytest.mark.parametrize(
    ("x", "shape", "declared", "sizes"),
    [
        ((2, 3, 4), [4, 6], (4, 6), [4, 6]),
        ((2, 3, 4), [-1, 6], (4, 6), [4, 6]),
        ((2, 3, 4), [6, 4], (4, 6), [6, 4]),
        ((2, 3, 4), [-1, -1], (4, 6), [-1, -1]),
        ((2, 3, 4), [-2, 6], (4, 6), [-2, 6]),
        ((2, 3, 4), [24], (24,), [24]),
        ((0, 3), [3, 0], (3, 0), [3, 0]),
    ],
)
def test_reshapes(x: tuple[int, ...], shape: list[int], declared: tuple[int, ...], sizes: list[int]) -> None:
    assert asked("dynamic_reshape", x, declared, np.array(shape)) == sizes
