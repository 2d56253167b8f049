"""graph.pixel_shuffle against ONNX's DepthToSpace, and against its definition."""

import itertools
import math

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph import PixelShuffleOp
from stepwell.dialects.graph.windows import blocked, unblocked
from stepwell.dialects.support.errors import InferenceError

RANDOM = np.random.default_rng(23)


@pytest.mark.parametrize(("mode", "group"), [("DCR", 1), ("CRD", 5)])
def test_as_depth_to_space(mode: str, group: int) -> None:
    x = RANDOM.standard_normal((2, 45, 4, 3)).astype(np.float32)
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=3, mode=mode)]
    net = helper.make_graph(nodes, "g", [value("x", 1, x.shape)], [value("y", 1, None)])
    (want,) = ReferenceEvaluator(helper.make_model(net)).run(None, {"x": x})
    got = PixelShuffleOp.reference(x, strides=(3, 3), offsets=(0, 0), sizes=(12, 9), group=group)
    np.testing.assert_array_equal(got, want)


def test_by_its_definition() -> None:
    strides, offsets, sizes, group = (2, 3), (1, 2), (6, 9), 2
    x = RANDOM.standard_normal((2, group * 6 * 4, 4, 4)).astype(np.float32)
    want = np.empty((2, group * 4, *sizes), np.float32)
    for g, c, row, column in itertools.product(range(group), range(4), *map(range, sizes)):
        i, j = row + offsets[0], column + offsets[1]
        phase = i % 2 * 3 + j % 3
        want[:, g * 4 + c, row, column] = x[:, (g * 6 + phase) * 4 + c, i // 2, j // 3]
    attributes = {"strides": strides, "offsets": offsets, "sizes": sizes, "group": group}
    assert PixelShuffleOp.infer(TensorType("f32", x.shape), **attributes).shape == want.shape
    np.testing.assert_array_equal(PixelShuffleOp.reference(x, **attributes), want)
    np.testing.assert_array_equal(unblocked(PixelShuffleOp.reference(blocked(x, 2), **attributes)), want)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": (5,)}, "divide into 1 groups of 5 phases"),
        ({"group": 4}, "divide into 4 groups of 2 phases"),
        ({"sizes": (9,)}, "gives 8 positions, 9 are asked for"),
        ({"offsets": (1,)}, "gives 8 positions, 9 are asked for"),
        ({"sizes": (8, 1)}, "'sizes'"),
        ({"strides": (2, 1, 1, 1), "offsets": (0,) * 4, "sizes": (1,) * 4}, "must have rank 6 or more"),
        ({"strides": (), "offsets": (), "sizes": ()}, "0 spatial dimensions"),
    ],
)
def test_what_does_not_fit(attributes: dict, message: str) -> None:
    given = {"strides": (2,), "offsets": (0,), "sizes": (8,), "group": 1, **attributes}
    with pytest.raises(InferenceError, match=message):
        PixelShuffleOp.infer(TensorType("f32", (1, 12, 4, 3)), **given)


def test_sizes_that_are_not_known() -> None:
    attributes = {"strides": (2, 2), "offsets": (0, 1), "sizes": (6, 5), "group": 1}
    assert PixelShuffleOp.infer(TensorType("f32", (None, None, 3, None)), **attributes).shape == (None, None, 6, 5)
    assert math.prod(PixelShuffleOp.infer(TensorType("f32", (0, 8, 3, 3)), **attributes).static_shape) == 0
