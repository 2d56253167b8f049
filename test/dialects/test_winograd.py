"""Winograd convolutions: what they mean, and how far their rounding takes them from it."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.graph import BlockedConvOp, WinogradConvOp
from stepwell.dialects.graph.winograd import matrices, transformed_filters
from stepwell.passes.graph.use_winograd import ERRORS

RNG = np.random.default_rng(17)


@pytest.mark.parametrize("tile", [2, 4])
def test_the_matrices_filter_one_row(tile):
    a_t, g, b_t = matrices(tile)
    d, taps = RNG.standard_normal(tile + 2), RNG.standard_normal(3)
    want = [d[i : i + 3] @ taps for i in range(tile)]
    np.testing.assert_allclose(a_t @ ((g @ taps) * (b_t @ d)), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tile", [2, 4])
def test_it_is_the_direct_convolution(tile):
    x, w = RNG.standard_normal((2, 3, 10, 14, 4)), RNG.standard_normal((2, 3, 3, 3, 4, 5))
    want = BlockedConvOp.reference(x, w, strides=(1, 1), dilations=(1, 1), group=1)
    got = WinogradConvOp.reference(x, transformed_filters(w, tile), tile=tile)
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def convolution(x, w):
    """A model of one convolution with padding 1."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x.shape), ("y", (x.shape[0], w.shape[0], *x.shape[2:])))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


ROWS = [(64, 32, 13, 22, 4), (256, 64, 28, 28, 4), (512, 64, 6, 6, 2), (160, 320, 7, 7, 2)]


@pytest.mark.parametrize(("channels", "filters", "height", "width", "tile"), ROWS)
def test_compiled_error_stays_within_the_stated_bound(channels, filters, height, width, tile):
    x = RNG.standard_normal((1, channels, height, width)).astype(np.float32)
    w = (RNG.standard_normal((filters, channels, 3, 3)) / np.sqrt(9 * channels)).astype(np.float32)
    model = stepwell.compile(convolution(x, w), threads=2)
    assert f"tile = {tile} : i64" in model.ir("graph-opt")
    got = next(iter(model.run({"x": x}).values()))
    image = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))
    want = np.einsum("nchwyz,fcyz->nfhw", view, w.astype(np.float64), optimize=True)
    assert np.abs(got - want).max() / np.abs(want).max() < ERRORS[tile]
