"""Layouts of blocked channels: what convolutions give, what groups find, and how one becomes another."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.packed import RelayoutOp
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.packed.channel_layouts import FILLING, for_readers, groups_of, in_order, natural, stretches, take, used_lanes
from stepwell.passes.packed.channel_readers import readers

RNG = np.random.default_rng(5)


def shuffled(channels: int, group: int) -> np.ndarray:
    """For each channel of a convolution in `group` groups, the group of the next one that reads it after ShuffleNet's shuffle."""
    places = np.arange(channels).reshape(group, -1).T.ravel()
    return (np.arange(channels) // (channels // group))[np.argsort(places)]


def checked(lanes: np.ndarray, channels: int, group: int) -> np.ndarray:
    """`lanes` itself: every channel is there once, and the blocks fall into equal parts for the groups."""
    np.testing.assert_array_equal(np.sort(lanes[lanes >= 0]), np.arange(channels))
    owners = np.where(lanes >= 0, lanes // (channels // group), np.arange(len(lanes))[:, None] * group // len(lanes))
    np.testing.assert_array_equal(owners, np.broadcast_to(np.arange(len(lanes))[:, None] * group // len(lanes), lanes.shape))
    return lanes


@pytest.mark.parametrize(
    ("channels", "group", "block", "shape"),
    [(24, 1, 16, (2, 16)), (256, 2, 16, (16, 16)), (112, 4, 16, (4, 32)), (136, 4, 16, (4, 40)), (136, 4, 8, (4, 36)), (6, 2, 1, (6, 1))],
)
def test_groups_get_whole_blocks_or_one_each(channels, group, block, shape):
    lanes = checked(natural(channels, group, block), channels, group)
    assert lanes.shape == shape
    found = groups_of(lanes, group)
    assert found is not None
    np.testing.assert_array_equal(np.sort(found[found >= 0].reshape(group, -1)), np.arange(channels).reshape(group, -1))


@pytest.mark.parametrize(("channels", "group", "width"), [(112, 4, 32), (272, 4, 72), (544, 4, 136), (136, 4, 40)])
def test_a_shuffle_leaves_each_group_its_channels_side_by_side(channels, group, width):
    readers = shuffled(channels, group)
    lanes = checked(for_readers(channels, group, 16, readers), channels, group)
    assert lanes.shape == (group, width)
    places = np.argsort(readers, kind="stable")  # as after the shuffle: the readers' channels count on from each other
    after = np.where(lanes == FILLING, FILLING, np.argsort(places)[lanes])
    found = groups_of(after, group)
    assert found is not None
    assert found.shape == (group, group, -(-channels // group**2))
    for g, mine in enumerate(found):
        np.testing.assert_array_equal(np.sort(mine[mine >= 0]), np.arange(channels).reshape(group, -1)[g])


def test_readers_in_whole_blocks_keep_blocks():
    readers = np.tile([0, 1], 32)
    lanes = for_readers(64, 1, 16, readers)
    assert lanes.shape == (4, 16)
    np.testing.assert_array_equal(readers[lanes], np.repeat([0, 1], 2)[:, None] + np.zeros((1, 16), int))


@pytest.mark.parametrize(
    ("group", "readers", "reason"),
    [
        (1, [0] * 31 + [1], "would take 64 lanes in the place of 32"),
        (2, [0] * 8 + [1] * 8 + [0] * 16, "read by different numbers"),
        (2, [0] * 16 + [1] * 16, "each of its groups is read by one"),
    ],
)
def test_readers_may_get_no_layout_of_their_own(group, readers, reason):
    with pytest.raises(NoMatch, match=reason):
        for_readers(32, group, 8, np.array(readers))


@pytest.mark.parametrize("lanes", [[[0, 1, 2, 3]], [[0, 1], [3, 2]], [[0, 1, FILLING], [FILLING, 2, 3]]], ids=str)
def test_two_groups_in_stretches(lanes):
    assert groups_of(np.array(lanes), 2) is not None


@pytest.mark.parametrize("lanes", [[[0, 2, 1, 3]], [[0, 2], [1, 3], [4, 5]], [[0, 1, 2], [3, 4, 5]]], ids=str)
def test_groups_that_share_stretches_find_nothing(lanes):
    assert groups_of(np.array(lanes), 2 if np.max(lanes) < 4 else 3) is None


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 3))
def test_used_lanes_are_those_of_in_order(channels, used, filling):
    lanes = in_order(channels, used, used + filling)
    assert np.array_equal(in_order(channels, used_lanes(lanes) or 0, lanes.shape[1]), lanes)
    assert used_lanes(lanes[:, ::-1]) is None or lanes.shape[1] == 1


@given(st.data())
def test_stretches_lead_from_one_layout_to_another(data):
    def layout(channels):
        width = data.draw(st.integers(1, 4))
        size = channels + data.draw(st.integers(0, 4))
        lanes = np.full(size + -size % width, FILLING)
        lanes[data.draw(st.permutations(range(lanes.size)))[:channels]] = np.arange(channels)
        return lanes.reshape(-1, width)

    counts = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    sources, target = [layout(n) for n in counts], layout(sum(counts))
    images = [RNG.standard_normal((2, n, 3)) for n in counts]
    blocked = [np.moveaxis(take(x, 1, s), 2, -1) + np.where(s == FILLING, np.nan, 0)[:, None] for x, s in zip(images, sources, strict=True)]
    starts, sizes = stretches(sources, target)
    got = RelayoutOp.reference(blocked, starts=starts, sizes=sizes, block=target.shape[1])
    np.testing.assert_array_equal(got, np.moveaxis(take(np.concatenate(images, axis=1), 1, target), 2, -1))


def test_who_reads_channels_is_followed_through_what_joins_them() -> None:
    text = """
    func.func @main(%a: tensor<1x2x4x4xf32>, %b: tensor<1x4x4x4xf32>, %w: tensor<6x3x1x1xf32>) -> tensor<1x6x4x4xf32> {
      %0 = "graph.relu"(%a) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
      %1 = "graph.relu"(%b) : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
      %2 = "graph.concat"(%0, %1) {axis = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x6x4x4xf32>
      %3 = "graph.conv"(%2, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64}
        : (tensor<1x6x4x4xf32>, tensor<6x3x1x1xf32>) -> tensor<1x6x4x4xf32>
      return %3 : tensor<1x6x4x4xf32>
    }"""
    module = parse_module(text, make_context())
    main: Any = module.body.operations[0]
    found = readers([op.operation for op in main.regions[0].blocks[0].operations])
    assert [None if groups is None else groups.tolist() for groups in found] == [[0, 0], [0, 1, 1, 1], [0, 0, 0, 1, 1, 1], None, None]
