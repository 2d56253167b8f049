"""Aligned buffers and the weight arena."""

import numpy as np
import pytest

from stepwell.dialects.errors import ModelError
from stepwell.native.buffers import ALIGNMENT, address, aligned_empty, pack_arena


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000, 1 << 20])
def test_buffers_are_aligned_and_of_the_size_asked_for(size: int) -> None:
    for _ in range(5):
        buffer = aligned_empty(size)
        assert buffer.nbytes == size
        assert address(buffer) % ALIGNMENT == 0
        buffer[:] = 7


def test_arena_holds_each_weight_densely_at_its_offset() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 5), np.float32), rng.integers(0, 9, (2, 3, 4)), np.array(2.5, np.float16)
    weights = {"a": a.T, "b": b[:, ::-1], "c": c, "empty": np.zeros((0, 4), np.float32), "unused": a}
    arena = pack_arena(weights, {"b": 0, "a": 192, "c": 256, "empty": 320}, 320)
    assert address(arena) % ALIGNMENT == 0
    np.testing.assert_array_equal(arena[192:252].view(np.float32).reshape(5, 3), a.T)
    np.testing.assert_array_equal(arena[:192].view(np.int64).reshape(2, 3, 4), b[:, ::-1])
    assert arena[256:258].view(np.float16)[0] == 2.5
    assert not arena[252:256].any()
    assert not arena.flags.writeable


def test_arena_refuses_what_does_not_fit() -> None:
    weights = {"w": np.zeros(4, np.float32)}
    with pytest.raises(ModelError, match="'w': 16 bytes at offset 8 do not fit into an arena of 16 bytes"):
        pack_arena(weights, {"w": 8}, 16)
    with pytest.raises(ModelError, match="'w': 16 bytes at offset -4"):
        pack_arena(weights, {"w": -4}, 64)
    with pytest.raises(ModelError, match="'v': expected in the weight table"):
        pack_arena(weights, {"v": 0}, 64)
