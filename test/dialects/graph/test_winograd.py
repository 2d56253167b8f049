"""Winograd convolutions: what they mean, and how far their rounding takes them from it."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.graph import BlockedConvOp, WinogradConvOp
from stepwell.dialects.graph.winograd import matrices, transformed_filters
from stepwell.passes.graph.layout.use_winograd import ERRORS

RNG = np.random.default_rng(17)


@pytest.mark.parametrize("tile", [2, 4])
def test_the_matrices_filter_one_row(tile):
    a_t, g, b_t = matrices(tile)
    d, taps = RNG.standard_normal(tile + 2), RNG.standard_normal(3)
    want = [d[i : i + 3] @ taps for i in range(tile)]
    np.testing.assert_allclose(a_t @ ((g @ taps) * (b_t @ d)), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("tile", [2, 4])
def test_it_is_the_direct_convolution(tile, group):
    x, w = RNG.standard_normal((2, 3, 10, 14, 4)), RNG.standard_normal((6, 3 // group, 3, 3, 4, 5))
    want = BlockedConvOp.reference(x, w, strides=(1, 1), dilations=(1, 1), group=group)
    for filters, transformed in ((transformed_filters(w, tile), True), (w, False)):
        got = WinogradConvOp.reference(x, filters, tile=tile, group=group, transformed=transformed)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def convolution(x, w, group):
    """A model of one convolution with padding 1."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], group=group)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x.shape), ("y", (x.shape[0], w.shape[0], *x.shape[2:])))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


ROWS = [
    (1, 64, 32, 19, 28, 1, 4), (1, 256, 64, 28, 28, 1, 4), (1, 512, 64, 6, 6, 1, 2), (1, 160, 320, 7, 7, 1, 2),
    (2, 192, 96, 13, 13, 2, 4), (1, 96, 144, 30, 19, 3, 4), (1, 768, 256, 6, 6, 2, 2),
    (1, 512, 256, 28, 24, 1, 4), (2, 304, 512, 17, 28, 1, 4),
]  # fmt: skip
STORED_PLAIN = 512 * 256  # filters times channels, from which on filters are transformed when the kernel runs


@pytest.mark.parametrize(("images", "channels", "filters", "height", "width", "group", "tile"), ROWS)
def test_compiled_error_stays_within_the_stated_bound(images, channels, filters, height, width, group, tile):
    x = RNG.standard_normal((images, channels, height, width)).astype(np.float32)
    w = (RNG.standard_normal((filters, channels // group, 3, 3)) / np.sqrt(9 * channels // group)).astype(np.float32)
    model = stepwell.compile(convolution(x, w, group), threads=2)
    transformed = "false" if filters * channels // group >= STORED_PLAIN and group == 1 else "true"
    assert f"group = {group} : i64, tile = {tile} : i64, transformed = {transformed}" in model.ir("graph-opt")
    got = next(iter(model.run({"x": x}).values()))
    alone = stepwell.compile(convolution(x, w, group), threads=1)
    assert np.array_equal(got, next(iter(alone.run({"x": x}).values())))
    image = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3)).reshape(images, group, -1, height, width, 3, 3)
    filters_of_groups = w.astype(np.float64).reshape(group, -1, *w.shape[1:])
    want = np.einsum("ngchwyz,gfcyz->ngfhw", view, filters_of_groups, optimize=True).reshape(got.shape)
    assert np.abs(got - want).max() / np.abs(want).max() < ERRORS[tile]
