"""Workspaces of a program for all sizes: reused, bounded, and let go by the rule that docs/sizes.md states."""


import weakref
from functools import partial

import numpy as np
import pytest
from together import together

from stepwell.dialects.support.buffers import address
from stepwell.runtime import workspaces as module
from stepwell.runtime.workspaces import IDLE_CALLS, IDLE_SECONDS, KEPT, RESERVED, ROOM, Workspaces


def used(pool: Workspaces, size: int, times: int = 1) -> np.ndarray:
    """Take and give back so many times; the last one taken."""
    for _ in range(times):
        taken = pool.sized(size).pop()
        assert taken.nbytes >= size
        pool.sized(size).append(taken)
    return taken


def test_one_is_reused_for_smaller_sizes_and_grown_for_larger_ones() -> None:
    pool = Workspaces()
    first = used(pool, 100_000)
    assert used(pool, 60_000) is first
    assert used(pool, 100_000) is first
    larger = used(pool, 900_000)
    assert larger is not first
    assert used(pool, 900_001) is larger  # a little more is there at once
    assert used(pool, 90_000) is first  # the smallest that is enough


def test_a_large_one_grows_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Workspaces()
    first = used(pool, RESERVED)
    first[:] = 7
    grown = used(pool, 2 * RESERVED)
    assert address(grown) == address(first)
    assert (grown[:RESERVED] == 7).all()
    assert pool.sizes == [grown.nbytes]
    assert used(pool, ROOM * RESERVED) is not grown
    assert len(pool.sizes) == 1
    beyond = used(pool, 9 * RESERVED)  # there is no room for that much
    assert address(beyond) != address(first)
    assert sorted(pool.sizes) == sorted({ROOM * RESERVED, beyond.nbytes})


def test_without_room_to_grow_there_is_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(size: int) -> np.ndarray:
        if size > 3 * RESERVED:
            raise OSError("no more than that")
        return np.empty(size, np.uint8)

    monkeypatch.setattr(module, "aligned_empty", limited)
    pool = Workspaces()
    assert used(pool, RESERVED).nbytes == RESERVED
    assert used(pool, 3 * RESERVED).nbytes == 3 * RESERVED
    with pytest.raises(MemoryError, match="no more than that"):
        pool.sized(4 * RESERVED).pop()
    assert len(pool.sizes) == 2


def test_an_idle_one_goes_after_calls_that_needed_less() -> None:
    pool = Workspaces()
    large = used(pool, 1 << 20)
    used(pool, 1000)
    assert large.nbytes in pool.sizes
    for _ in range(IDLE_CALLS - 2):
        used(pool, 1000)
    assert large.nbytes in pool.sizes
    used(pool, 1000)
    assert large.nbytes not in pool.sizes


def test_a_call_that_needs_it_starts_the_count_again() -> None:
    pool = Workspaces()
    large = used(pool, 1 << 20)
    for _ in range(3):
        used(pool, 1000, IDLE_CALLS - 2)
        used(pool, 1 << 20)
    assert large.nbytes in pool.sizes


def test_an_idle_one_goes_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    pool = Workspaces()
    large = used(pool, 1 << 20)
    now[0] += IDLE_SECONDS - 1
    used(pool, 1000)
    assert large.nbytes in pool.sizes
    now[0] += 2
    used(pool, 1000)
    assert large.nbytes not in pool.sizes


def test_a_bounded_number_is_kept() -> None:
    pool = Workspaces()
    taken = [pool.sized(5000).pop() for _ in range(3 * KEPT)]
    assert len({id(memory) for memory in taken}) == 3 * KEPT
    for memory in taken:
        pool.sized(5000).append(memory)
    assert len(pool.sized(5000)) == KEPT


def test_from_several_threads_no_two_have_the_same() -> None:
    pool = Workspaces()

    def work(number: int) -> None:
        for turn in range(200):
            size = 1000 * (1 + (number + turn) % 7)
            taken = pool.sized(size).pop()
            taken[:size] = number
            assert (taken[:size] == number).all()
            pool.sized(size).append(taken)

    together(*(partial(work, i) for i in range(4)))
    assert len(pool.sizes) <= KEPT


def test_one_that_is_never_given_back_is_let_go() -> None:
    """As what the handler of a signal raises may leave it."""
    pool = Workspaces()
    gone = pool.sized(RESERVED).pop()
    memory = weakref.ref(pool._out[id(gone)][1].room)
    del gone
    used(pool, 100)
    assert memory() is None
    assert pool._out == {}
