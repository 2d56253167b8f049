"""Aligned buffers and the weight arena."""

from pathlib import Path

import numpy as np
import pytest
from every import every

from stepwell.dialects.core.weights import Deferred, WeightTable
from stepwell.dialects.support.buffers import ALIGNMENT, address, aligned_empty
from stepwell.dialects.support.errors import ModelError
from stepwell.runtime.buffers import arena_chunks, dense, pack_arena


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
    weights = WeightTable({"a": a.T, "b": b[:, ::-1], "c": c, "empty": np.zeros((0, 4), np.float32), "unused": a})
    arena = pack_arena(weights, {"b": 0, "a": 192, "c": 256, "empty": 320}, 320)
    assert address(arena) % ALIGNMENT == 0
    np.testing.assert_array_equal(arena[192:252].view(np.float32).reshape(5, 3), a.T)
    np.testing.assert_array_equal(arena[:192].view(np.int64).reshape(2, 3, 4), b[:, ::-1])
    assert arena[256:258].view(np.float16)[0] == 2.5
    assert not arena[252:256].any()
    assert not arena.flags.writeable


def test_arena_refuses_what_does_not_fit() -> None:
    weights = WeightTable({"w": np.zeros(4, np.float32)})
    with pytest.raises(ModelError, match="'w': 16 bytes at offset 8 do not fit into an arena of 16 bytes"):
        pack_arena(weights, {"w": 8}, 16)
    with pytest.raises(ModelError, match="'w': 16 bytes at offset -4"):
        pack_arena(weights, {"w": -4}, 64)
    with pytest.raises(ModelError, match="'v': expected in the weight table"):
        pack_arena(weights, {"v": 0}, 64)


def test_arena_refuses_weights_on_top_of_each_other() -> None:
    weights = WeightTable({"a": np.zeros(4, np.float32), "b": np.zeros(4, np.float32)})
    with pytest.raises(ModelError, match="'b' at offset 8 overlaps the one before it, which ends at 16"):
        pack_arena(weights, {"a": 0, "b": 8}, 64)


def test_chunks_in_a_row_are_the_arena() -> None:
    rng = np.random.default_rng(1)
    weights = WeightTable({"a": rng.standard_normal((7, 3)).T, "b": rng.integers(0, 255, 5, np.uint8), "none": np.zeros(0, np.float16)})
    offsets = {"b": 192, "a": 16, "none": 197}
    joined = b"".join(chunk.tobytes() for chunk in arena_chunks(weights, offsets, 300))
    assert joined == pack_arena(weights, offsets, 300).tobytes()
    assert joined[16:184] == np.ascontiguousarray(weights["a"]).tobytes()
    assert joined[192:197] == weights["b"].tobytes()
    assert not any(joined[:16] + joined[184:192] + joined[197:])


def test_weights_that_are_computed_late_are_computed_for_the_arena_and_not_kept() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    weights = WeightTable({"late": Deferred(rows.dtype, rows.shape, lambda: iter([rows[:1], rows[1:3].T.copy().T, rows[3]])), "here": rows})
    offsets = {"here": 0, "late": 64}
    arena = pack_arena(weights, offsets, 112)
    np.testing.assert_array_equal(arena[64:].view(np.float32).reshape(4, 3), rows)
    assert b"".join(chunk.tobytes() for chunk in arena_chunks(weights, offsets, 112)) == arena.tobytes()
    assert isinstance(weights.entry("late"), Deferred)


@pytest.mark.parametrize("rows", [3, 5])
def test_arena_refuses_what_was_computed_too_short_or_too_long(rows: int) -> None:
    late = Deferred(np.dtype(np.float32), (4, 3), lambda: np.ones((rows, 3), np.float32))
    with pytest.raises(ModelError, match="was computed as something else"):
        pack_arena(WeightTable({"late": late}), {"late": 0}, 48)


@every("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1), (0, 1, 2)])
@every("shape", [(1100, 90, 5), (3, 1050, 200), (33, 31, 1025)])
def test_large_transposed_arrays_are_copied_right(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    array = np.random.default_rng(2).standard_normal(shape, np.float32).transpose(order)
    copied = dense(array)
    assert copied.flags.c_contiguous
    np.testing.assert_array_equal(copied, array)
    backwards = dense(array[::-1, :, ::2])
    assert backwards.flags.c_contiguous
    np.testing.assert_array_equal(backwards, array[::-1, :, ::2])
    stretched = dense(np.broadcast_to(array[:1], array.shape))
    np.testing.assert_array_equal(stretched, np.broadcast_to(array[:1], array.shape))


def test_addresses_are_those_that_arrays_declare(tmp_path: Path) -> None:
    numbers = np.arange(24, dtype=np.int16).reshape(4, 6)
    mapped = np.memmap(tmp_path / "numbers", np.int16, "w+", shape=(5,))
    arrays = [numbers, numbers[1:, 2], numbers[::-1], numbers.T, np.array(3.0), np.empty((0, 4)), np.matrix(numbers), mapped, mapped[2:]]
    assert [address(array) for array in arrays] == [array.__array_interface__["data"][0] for array in arrays]
