"""Ops on channel-blocked images mean what their plain forms mean."""

import numpy as np
import pytest

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph import AvgPoolOp, ConvOp, LrnOp, MaxPoolOp
from stepwell.dialects.graph.windows import blocked, unblocked
from stepwell.dialects.packed import PackedConvOp, PackedDepthwiseConvOp, PackedLrnOp, RelayoutOp
from stepwell.dialects.support.errors import InferenceError

WINDOW = {"strides": (2, 1), "dilations": (1, 2)}
RNG = np.random.default_rng(11)


def test_blocking_and_back():
    x = RNG.standard_normal((2, 12, 3, 5))
    assert blocked(x, 4).shape == (2, 3, 3, 5, 4)
    np.testing.assert_array_equal(blocked(x, 4)[1, 2, 1, 3], x[1, 8:12, 1, 3])
    np.testing.assert_array_equal(unblocked(blocked(x, 4)), x)


@pytest.mark.parametrize("block", [None, 2])
def test_convolution(block):
    x, w = RNG.standard_normal((2, 6, 7, 8)), RNG.standard_normal((12, 6, 3, 2))
    want = blocked(ConvOp.reference(x, w, pads=(0, 0, 0, 0), group=1, **WINDOW), 4)
    filters = w.reshape(3, 4, 6, 3, 2)
    if block is None:
        got = PackedConvOp.reference(x, np.moveaxis(filters, 1, -1), group=1, **WINDOW)
    else:
        filters = filters.reshape(3, 4, 3, 2, 3, 2)  # (M / b, b, C / a, a, taps…)
        got = PackedConvOp.reference(blocked(x, 2), filters.transpose(0, 2, 4, 5, 3, 1), group=1, **WINDOW)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


def grouped(sets, side_by_side, blocks, lanes, filters):
    """A grouped convolution of plain data, and the same on blocked data whose blocks end in one lane that nobody may read."""
    group = sets * side_by_side
    channels = blocks * lanes
    x, w = RNG.standard_normal((2, group * channels, 7, 8)), RNG.standard_normal((group * filters, channels, 3, 2))
    plain = ConvOp.reference(x, w, pads=(0, 0, 0, 0), group=group, **WINDOW)
    # Channels of a set: those of its groups, each dealt out to the blocks of the set.
    parts = x.reshape(2, sets, side_by_side, blocks, lanes, 7, 8).transpose(0, 1, 3, 5, 6, 2, 4).reshape(2, sets * blocks, 7, 8, -1)
    spoiled = np.full((*parts.shape[:-1], 1), np.nan)
    packed = w.reshape(group, filters, blocks, lanes, 3, 2).transpose(0, 2, 4, 5, 3, 1)
    return plain, np.concatenate([parts, spoiled], axis=-1), packed, group


@pytest.mark.parametrize("sharing", [(3, 1), (1, 3), (2, 2)])
def test_groups(sharing):
    plain, x, w, group = grouped(*sharing, blocks=2, lanes=3, filters=4)
    got = PackedConvOp.reference(x, w, group=group, **WINDOW)
    np.testing.assert_allclose(got, blocked(plain, 4), rtol=1e-13, atol=1e-13)
    inferred = PackedConvOp.infer(TensorType("f64", x.shape), TensorType("f64", w.shape), group=group, **WINDOW)
    assert inferred.shape == got.shape


@pytest.mark.parametrize(
    ("x", "w", "group", "message"),
    [
        ((1, 4, 7, 8, 3), (4, 2, 3, 2, 3, 4), 3, "must divide the blocks of filters"),
        ((1, 4, 7, 8, 3), (6, 3, 3, 2, 3, 4), 2, "must divide the blocks of operand 'x'"),
        ((1, 4, 7, 8, 3), (6, 1, 3, 2, 3, 4), 2, "must divide the blocks of operand 'x'"),
        ((1, 4, 7, 8, 3), (4, 4, 3, 2, 2, 4), 2, "reads 2 x 2 lanes"),
        ((1, 4, 7, 8, 3), (4, 4, 3, 2, 4, 4), 1, "reads 1 x 4 lanes"),
        ((1, 4, 7, 8), (4, 4, 3, 2, 4), 2, "must be 1 where operand 'x'"),
    ],
)
def test_groups_that_do_not_fit(x, w, group, message):
    with pytest.raises(InferenceError, match=message):
        PackedConvOp.infer(TensorType("f32", x), TensorType("f32", w), group=group, **WINDOW)


def test_relayout():
    x, y = RNG.standard_normal((2, 3, 5, 4)), RNG.standard_normal((2, 1, 5, 2))
    got = RelayoutOp.reference([x, y], starts=(10, -1, 0), sizes=(4, 1, 1), block=3)
    lanes = np.concatenate([unblocked(x), unblocked(y)], axis=1)
    np.testing.assert_array_equal(got, blocked(np.concatenate([lanes[:, 10:14], 0 * lanes[:, :1], lanes[:, :1]], axis=1), 3))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"starts": (0, 4), "sizes": (4, 3), "block": 4}, "must divide the 7 lanes"),
        ({"starts": (0, 9), "sizes": (4, 4), "block": 4}, "12 lanes, but lane 12 is read"),
        ({"starts": (0, -2), "sizes": (4, 4), "block": 4}, "must be -1 or more"),
        ({"starts": (0,), "sizes": (4, 4), "block": 4}, "one for each stretch"),
    ],
)
def test_relayout_that_does_not_fit(attributes, message):
    with pytest.raises(InferenceError, match=message):
        RelayoutOp.infer([TensorType("f32", (2, 3, 5, 4))], **attributes)


@pytest.mark.parametrize("other", [(1, 3, 5, 4), (2, 3, 6, 4), (2, 3, 5, 5, 4)])
def test_relayout_of_images_that_differ(other: tuple[int, ...]):
    with pytest.raises(InferenceError, match="operand 1 must have the element type, images and positions of operand 0"):
        RelayoutOp.infer([TensorType("f32", (2, 3, 5, 4)), TensorType("f32", other)], starts=(0,), sizes=(4,), block=4)


def test_lanes_of_nothing_are_zeros():
    assert RelayoutOp.infer([TensorType("f32", (1, 0, 5, 4))], starts=(-1,), sizes=(8,), block=4).shape == (1, 2, 5, 4)


def test_depthwise_convolution():
    x, w = RNG.standard_normal((2, 6, 7, 8)), RNG.standard_normal((6, 1, 3, 2))
    want = blocked(ConvOp.reference(x, w, pads=(0, 0, 0, 0), group=6, **WINDOW), 3)
    got = PackedDepthwiseConvOp.reference(blocked(x, 3), np.moveaxis(w.reshape(2, 3, 3, 2), 1, -1), **WINDOW)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("op", "more"), [(MaxPoolOp, {}), (AvgPoolOp, {"count_include_pad": False})])
def test_pooling(op, more):
    x = RNG.standard_normal((2, 6, 7, 8))
    attributes = {"kernel": (3, 2), "pads": (1, 0, 1, 1), "ceil_mode": True, **WINDOW, **more}
    got = op.reference(blocked(x, 3), **attributes)
    np.testing.assert_allclose(got, blocked(op.reference(x, **attributes), 3), rtol=1e-13)
    assert op.infer(TensorType("f64", (2, 2, 7, 8, 3)), **attributes).shape == got.shape


LRN = {"size": 4, "alpha": 0.5, "beta": 0.75, "bias": 0.0}


@pytest.mark.parametrize("channels", [9, 10, 12])
def test_normalisation_over_neighbouring_channels(channels):
    x = RNG.standard_normal((2, 12, 3, 5))
    want = np.zeros_like(x)
    want[:, :channels] = LrnOp.reference(x[:, :channels], **LRN)
    x[:, channels:] = np.nan
    got = PackedLrnOp.reference(blocked(x, 4), channels=channels, **LRN)
    np.testing.assert_array_equal(got, blocked(want, 4))


@pytest.mark.parametrize("channels", [0, 8, 13])
def test_normalisation_of_channels_that_end_elsewhere(channels):
    with pytest.raises(InferenceError, match="must end in the last block"):
        PackedLrnOp.infer(TensorType("f32", (2, 3, 5, 4)), channels=channels, **LRN)


def test_images_without_elements() -> None:
    attributes = {"kernel": (1,), "strides": (1,), "pads": (0, 0), "dilations": (1,), "ceil_mode": False}
    for shape in ((0, 3, 4, 2), (2, 0, 4, 2), (2, 3, 0, 2)):
        assert MaxPoolOp.reference(np.zeros(shape, np.float32), **attributes).shape == shape
