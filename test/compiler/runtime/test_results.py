"""Memory of large results is used again once no array on it is left, whatever kept it and wherever it was let go."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

from stepwell.runtime.results import IDLE_CALLS, KEPT, LARGE, Results

F32 = np.dtype(np.float32)
SHAPE = (LARGE // 4, 2)


def place(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def made(results: Results) -> np.ndarray:
    results.begin()
    return results.empty(SHAPE, F32)


def test_a_block_is_used_again_when_its_array_is_gone() -> None:
    results = Results()
    first = made(results)
    assert (first.shape, first.dtype, first.flags.writeable, first.flags.c_contiguous) == (SHAPE, F32, True, True)
    first[:] = 3
    where = place(first)
    second = made(results)
    assert place(second) != where
    del first
    assert place(made(results)) == where
    assert place(results.empty((LARGE,), np.dtype(np.uint8))) == where  # a smaller one
    np.testing.assert_array_equal(second[:0], np.empty((0, 2), F32))


@pytest.mark.parametrize("held", ["view", "buffer", "dlpack", "cycle", "base"])
def test_whatever_refers_to_it_keeps_it(held: str) -> None:
    results = Results()
    array = made(results)
    array[0] = (1, 2)
    where = place(array)
    cycle: list[Any] = [array]
    cycle.append(cycle)
    keep: Any = {"view": array[:1, ::2].T, "buffer": memoryview(array), "dlpack": np.from_dlpack(array), "cycle": cycle, "base": array.base}[held]
    del array, cycle
    gc.collect()
    others = [made(results) for _ in range(3)]
    assert where not in map(place, others)
    if held != "base":
        assert np.asarray(keep[0] if held == "cycle" else keep).reshape(-1)[0] == 1
    del keep, others
    gc.collect()
    assert len(results._blocks) == KEPT


def test_an_array_may_be_let_go_in_another_thread() -> None:
    results = Results()
    box = [made(results)]
    where = place(box[0])
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert place(made(results)) == where


def test_memory_that_no_call_uses_is_let_go() -> None:
    results = Results()
    made(results)
    for _ in range(IDLE_CALLS):
        results.begin()
    assert len(results._blocks) == 1
    results.begin()
    assert results._blocks == []
    assert results.empty((8,), F32).base is None  # small ones are not kept
    assert results._blocks == []
