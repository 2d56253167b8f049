"""Weight tables: arrays that are there, and arrays that are computed when they are wanted."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from stepwell.dialects.core.weights import Deferred, WeightTable
from stepwell.dialects.support.errors import ModelError

ROWS = np.arange(24, dtype=np.int32).reshape(4, 3, 2)


class Made:
    """Gives ROWS in parts and counts how often."""

    def __init__(self, *ends: int) -> None:
        self.ends, self.times = ends, 0

    def __call__(self) -> Iterable[np.ndarray]:
        self.times += 1
        return np.split(ROWS, self.ends)


@pytest.mark.parametrize("ends", [(), (1,), (0, 1, 1, 3, 4)])
def test_looked_at_it_is_the_array_computed_once(ends: tuple[int, ...]) -> None:
    made = Made(*ends)
    table = WeightTable({"late": Deferred(ROWS.dtype, ROWS.shape, made)})
    assert "late" in table
    assert table.entry("late").nbytes == ROWS.nbytes
    assert made.times == 0
    np.testing.assert_array_equal(table["late"], ROWS)
    assert table["late"] is table["late"]
    assert not table["late"].flags.writeable
    assert made.times == 1


def test_in_parts_it_is_not_kept() -> None:
    made = Made(1, 2)
    table = WeightTable({"late": Deferred(ROWS.dtype, ROWS.shape, made), "here": ROWS})
    assert [part.shape[0] for part in table.parts("late")] == [1, 1, 2]
    np.testing.assert_array_equal(table.source("late")(), ROWS)
    assert isinstance(table.entry("late"), Deferred)
    assert made.times == 2
    [whole] = table.parts("here")
    np.testing.assert_array_equal(whole, ROWS)
    np.testing.assert_array_equal(table.source("here")(), ROWS)


def test_a_source_outlives_its_entry() -> None:
    table = WeightTable({"late": Deferred(ROWS.dtype, ROWS.shape, Made(2))})
    source = table.source("late")
    del table
    np.testing.assert_array_equal(source(), ROWS)


@pytest.mark.parametrize("wrong", [[ROWS[1:]], [ROWS, ROWS[:1]], [ROWS.view(np.float32)], []])
def test_what_is_computed_as_something_else_is_refused(wrong: list[np.ndarray]) -> None:
    late = Deferred(ROWS.dtype, ROWS.shape, lambda: wrong)
    with pytest.raises(ModelError, match=r"a weight of int32 and shape \[4, 3, 2\] was computed as something else"):
        late.array()
    with pytest.raises(ModelError, match="computed as something else"):
        list(late.parts())


def test_saved_it_is_an_array(tmp_path: Path) -> None:
    WeightTable({"late": Deferred(ROWS.dtype, ROWS.shape, Made(3)), "here": ROWS}).save(tmp_path / "w.safetensors")
    loaded = WeightTable.load(tmp_path / "w.safetensors")
    np.testing.assert_array_equal(loaded["late"], ROWS)
    np.testing.assert_array_equal(loaded["here"], ROWS)


def test_an_empty_array() -> None:
    late = Deferred(np.dtype(np.float32), (0, 4), list)
    assert late.array().shape == (0, 4)
