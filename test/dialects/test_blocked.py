"""Ops on channel-blocked images mean what their plain forms mean."""

import numpy as np
import pytest

from stepwell.dialects.graph import AvgPoolOp, BlockedConvOp, BlockedDepthwiseConvOp, ConvOp, MaxPoolOp
from stepwell.dialects.graph.blocked import blocked, unblocked
from stepwell.dialects.types import TensorType

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
        got = BlockedConvOp.reference(x, np.moveaxis(filters, 1, -1), **WINDOW)
    else:
        filters = filters.reshape(3, 4, 3, 2, 3, 2)  # (M / b, b, C / a, a, taps…)
        got = BlockedConvOp.reference(blocked(x, 2), filters.transpose(0, 2, 4, 5, 3, 1), **WINDOW)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


def test_depthwise_convolution():
    x, w = RNG.standard_normal((2, 6, 7, 8)), RNG.standard_normal((6, 1, 3, 2))
    want = blocked(ConvOp.reference(x, w, pads=(0, 0, 0, 0), group=6, **WINDOW), 3)
    got = BlockedDepthwiseConvOp.reference(blocked(x, 3), np.moveaxis(w.reshape(2, 3, 3, 2), 1, -1), **WINDOW)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("op", "more"), [(MaxPoolOp, {}), (AvgPoolOp, {"count_include_pad": False})])
def test_pooling(op, more):
    x = RNG.standard_normal((2, 6, 7, 8))
    attributes = {"kernel": (3, 2), "pads": (1, 0, 1, 1), "ceil_mode": True, **WINDOW, **more}
    got = op.reference(blocked(x, 3), **attributes)
    np.testing.assert_allclose(got, blocked(op.reference(x, **attributes), 3), rtol=1e-13)
    assert op.infer(TensorType("f64", (2, 2, 7, 8, 3)), **attributes).shape == got.shape
