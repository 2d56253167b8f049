"""packed.bordered_conv means what packed.conv does, and cuts positions into stretches that leave out nothing but zeros."""

import numpy as np
import pytest

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.borders import Border, Stretch
from stepwell.dialects.packed import BorderedConvOp, PackedConvOp
from stepwell.dialects.support.errors import InferenceError

RANDOM = np.random.default_rng(29)
WINDOW = {"strides": (1, 2), "dilations": (3, 1)}


def reaching(border: Border, position: int) -> set[int]:
    """The taps that read the inside from a position, one by one."""
    places = ((tap, position * border.stride + tap * border.dilation) for tap in range(border.taps))
    return {tap for tap, place in places if border.before <= place < border.before + border.inside}


def test_stretches_keep_every_tap_that_reaches_the_inside():
    left_out = 0
    for _ in range(400):
        before, inside, after, taps, stride, dilation = (int(n) for n in RANDOM.integers([0, 0, 0, 1, 1, 1], [9, 9, 9, 7, 4, 5]))
        room = before + inside + after - dilation * (taps - 1) - 1
        if room < 0:
            continue
        border = Border(before, inside, room // stride + 1, taps, stride, dilation)
        stretches = border.stretches()
        assert [p for s in stretches for p in range(s.low, s.high)] == list(range(border.positions))
        for s in stretches:
            wanted = [reaching(border, p) for p in range(s.low, s.high)]
            assert set().union(*wanted) <= set(range(s.first, s.end))
            assert 0 <= s.first < s.end <= taps
            left_out += taps - s.taps
        assert border.reached == pytest.approx(sum(len(reaching(border, p)) for p in range(border.positions)) / (border.positions * taps))
        assert sum(s.cost for s in stretches) <= border.reaching(0, border.positions).cost
    assert left_out > 100


def test_stretches_of_a_dilated_window():
    assert Border(12, 33, 33, 3, 1, 12).stretches() == [Stretch(0, 12, 1, 3), Stretch(12, 21, 0, 3), Stretch(21, 33, 0, 2)]
    assert Border(36, 33, 33, 3, 1, 36).stretches() == [Stretch(0, 33, 1, 2)]  # only the tap in the middle ever reaches the image
    assert Border(1, 56, 56, 3, 1, 1).stretches() == [Stretch(0, 56, 0, 3)]  # two positions are not worth loops of their own
    assert Border(4, 0, 3, 2, 1, 1).stretches() == [Stretch(0, 3, 0, 1)]  # nothing but zeros: one tap reads them


@pytest.mark.parametrize("zeros", [(0, 0, 0, 0), (4, 3, 2, 3), (9, 0, 0, 8)])
def test_as_packed_conv(zeros):
    x, w = RANDOM.standard_normal((2, 3, 11, 10, 4)), RANDOM.standard_normal((2, 3, 3, 4, 4, 5))
    inside = np.zeros_like(x)
    where = (slice(None), slice(None), slice(zeros[0], 11 - zeros[2]), slice(zeros[1], 10 - zeros[3]))
    inside[where] = x[where]
    got = BorderedConvOp.reference(inside, w, zeros=zeros, group=1, **WINDOW)
    np.testing.assert_allclose(got, PackedConvOp.reference(inside, w, group=1, **WINDOW), rtol=1e-12, atol=1e-12)
    assert BorderedConvOp.infer(TensorType("f64", x.shape), TensorType("f64", w.shape), zeros=zeros, group=1, **WINDOW).shape == got.shape


@pytest.mark.parametrize(
    ("zeros", "message"),
    [((1, 1, 1), "'zeros'"), ((1, 1, -1, 1), "'zeros'"), ((6, 1, 6, 1), r"spatial dimension 0 of operand 'x' .* has no room for 6 and 6 zeros")],
)
def test_borders_that_do_not_fit(zeros, message):
    with pytest.raises(InferenceError, match=message):
        BorderedConvOp.infer(TensorType("f32", (1, 3, 11, 10, 4)), TensorType("f32", (2, 3, 3, 4, 4, 5)), zeros=zeros, group=1, **WINDOW)
