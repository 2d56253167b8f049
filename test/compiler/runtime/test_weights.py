"""The weights of several programs: what they have in common is in memory once, and goes with the last of them."""

import ctypes
import gc
import mmap

import numpy as np
import pytest

from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.runtime.buffers import arena_places, can_give_back, give_back, pack_arena
from stepwell.runtime.weights import WeightPool, Weights, beyond, unshared

LARGE, SMALL = 300 << 10, 600  # elements of i32, and bytes
RNG = np.random.default_rng(5)
A, B, C, D = (RNG.integers(0, 1 << 30, LARGE, np.int32) for _ in range(4))
TINY = RNG.integers(0, 255, SMALL, np.uint8)
EDGE = 4 * mmap.PAGESIZE
"""What may stay in pages that a weight does not fill, in bytes."""
sharing = pytest.mark.skipif(not can_give_back(aligned_empty(4 << 20)), reason="this system takes no pages back")


def program(pool: WeightPool, *arrays: np.ndarray) -> tuple[Weights, list[int]]:
    """The weights of a program that has these arrays, and their offsets."""
    table, offsets, end = WeightTable(), dict[str, int](), 0
    for number, array in enumerate(arrays):
        table.add(f"w{number}", array)
        offsets[f"w{number}"] = end
        end = -(-(end + array.nbytes) // 64) * 64
    return pool.place(pack_arena(table, offsets, end), arena_places(table, offsets)), list(offsets.values())


def read(weights: Weights, *arrays: np.ndarray) -> None:
    """Read each weight where the table says that it lies, as compiled code does."""
    table = weights.table()
    for entry, array in zip(table.tolist(), arrays, strict=True):
        found = np.ctypeslib.as_array((ctypes.c_uint8 * array.nbytes).from_address(address(table) + entry))
        np.testing.assert_array_equal(found, array.view(np.uint8))


@sharing
def test_what_two_programs_have_in_common_is_there_once_and_goes_with_the_last() -> None:
    pool = WeightPool()
    first, _ = program(pool, A, TINY, B)
    assert (pool.held_bytes, first.own_bytes) == (first.nbytes, first.nbytes)
    second, _ = program(pool, B, C, TINY, A)  # in another order
    read(first, A, TINY, B)
    read(second, B, C, TINY, A)
    assert second.own_bytes == second.nbytes - A.nbytes - B.nbytes
    assert first.own_bytes == first.nbytes - A.nbytes - B.nbytes
    assert first.nbytes + C.nbytes <= pool.held_bytes <= first.nbytes + C.nbytes + SMALL + 64 + EDGE
    assert beyond([second], first) == second.own_bytes
    arena = second.arena()
    np.testing.assert_array_equal(arena[: B.nbytes], B.view(np.uint8))
    assert not arena.flags.writeable
    del first, arena
    gc.collect()
    read(second, B, C, TINY, A)
    assert second.own_bytes == second.nbytes
    del second
    gc.collect()
    assert pool.held_bytes == 0


@sharing
def test_those_of_three_programs_count_once_beside_the_first() -> None:
    pool = WeightPool()
    base, _ = program(pool, A, TINY)
    second, _ = program(pool, A, B)
    third, _ = program(pool, B, C, A)
    gaps = second.nbytes + third.nbytes - 2 * (A.nbytes + B.nbytes) - C.nbytes
    assert beyond([second, third, third], base) == B.nbytes + C.nbytes + gaps
    assert beyond([second], None) == second.nbytes
    assert third.own_bytes - C.nbytes < 64
    before = pool.held_bytes
    del third
    gc.collect()
    assert C.nbytes - EDGE <= before - pool.held_bytes <= C.nbytes + EDGE
    read(second, A, B)


@sharing
def test_a_part_of_a_program_goes_when_nobody_reads_it_any_more() -> None:
    pool = WeightPool()
    first, _ = program(pool, A, B)
    second, _ = program(pool, B)
    del first
    gc.collect()
    assert pool.held_bytes <= B.nbytes + EDGE
    read(second, B)


def test_equal_bytes_alone_are_shared() -> None:
    pool = WeightPool()
    other = A.copy()
    other[-1] += 1
    first, _ = program(pool, A)
    second, _ = program(pool, other)
    read(first, A)
    read(second, other)
    assert second.own_bytes == second.nbytes


def test_small_arenas_and_those_that_are_not_placed_by_a_pool_keep_their_own() -> None:
    pool = WeightPool()
    few = A[:2000]
    first, second = program(pool, few)[0], program(pool, few)[0]
    assert pool.held_bytes == 2 * few.nbytes == first.own_bytes + second.own_bytes
    memory = pack_arena(WeightTable({"w": A}), {"w": 0}, A.nbytes)
    alone = [unshared(memory, [(0, A.nbytes)]) for _ in range(2)]
    read(alone[0], A)
    del alone[0]
    gc.collect()
    read(alone[0], A)
    assert alone[0].arena() is memory


@sharing
def test_whole_pages_alone_are_given_back() -> None:
    memory = aligned_empty(2 << 20)
    memory[:] = 7
    page = mmap.PAGESIZE
    assert give_back(memory[10 : page - 1]) == 0
    assert give_back(memory[page - 1 : 3 * page + 1]) == 2 * page
    assert not memory[page : 3 * page].any()
    assert (memory[:page] == 7).all()
    assert (memory[3 * page :] == 7).all()
    assert give_back(np.ones(100, np.uint8)) == 0
