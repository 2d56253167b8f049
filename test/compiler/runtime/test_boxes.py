"""The memory of boxes: what a loop's values lead to stays, by way of other boxes too; all else is let go, and taken again."""

import numpy as np

from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.dialects.support.buffers import address
from stepwell.runtime.boxes import Boxes

BASE = 1 << 20
"""Where the workspace lies that boxes count from."""


def box(place: int) -> np.ndarray:
    """A box of what lies there."""
    return np.array([place - BASE, *[0] * (BOX_ELEMENTS - 1)], np.int64)


def record(*values: np.ndarray) -> np.ndarray:
    """What compiled code says: a count and a mark, then each carried value's address and its number of boxes."""
    pairs = [number for value in values for number in (address(value), value.size // BOX_ELEMENTS)]
    return np.array([len(values), -1, *pairs], np.int64)


def started(boxes: Boxes, *values: np.ndarray) -> np.ndarray:
    """The record of a loop that has put its mark."""
    said = record(*values)
    boxes.keep(address(said), BASE)
    return said


def test_a_round_keeps_what_its_values_lead_to() -> None:
    boxes, held = Boxes(), np.zeros(BOX_ELEMENTS, np.int64)
    said = started(boxes, held)
    first, second = boxes.take(640, nested=False), boxes.take(640, nested=False)
    one = boxes.bytes // 2
    assert one >= 640
    held[:] = box(second)
    boxes.keep(address(said), BASE)
    assert boxes.bytes == one
    assert boxes.take(640, nested=False) == first  # which is free by now
    assert boxes.bytes == 2 * one


def test_what_was_there_before_the_loop_stays() -> None:
    boxes, held = Boxes(), np.zeros(BOX_ELEMENTS, np.int64)
    before = boxes.take(640, nested=False)
    said = started(boxes, held)
    assert said[1] == 1
    bytes_before = boxes.bytes
    boxes.keep(address(said), BASE)
    assert boxes.bytes == bytes_before
    boxes.take(640, nested=False)
    boxes.keep(address(said), BASE)
    assert boxes.bytes == bytes_before
    assert boxes.take(1280, nested=False) != before


def test_boxes_in_boxes_are_followed() -> None:
    boxes, held = Boxes(), np.zeros(BOX_ELEMENTS, np.int64)
    said = started(boxes, held)
    inner, other = boxes.take(640, nested=False), boxes.take(640, nested=False)
    outer = boxes.take(8 * BOX_ELEMENTS, nested=True)
    rows = boxes._blocks[outer][: 8 * BOX_ELEMENTS].view(np.int64)
    rows[:] = box(inner)
    held[:] = box(outer)
    boxes.keep(address(said), BASE)
    assert set(boxes._blocks) == {inner, outer}
    rows[:] = box(other)
    boxes.keep(address(said), BASE)
    assert set(boxes._blocks) == {outer}


def test_what_holds_no_boxes_is_not_read_as_boxes() -> None:
    boxes, held = Boxes(), np.zeros(BOX_ELEMENTS, np.int64)
    said = started(boxes, held)
    loose, plain = boxes.take(640, nested=False), boxes.take(8 * BOX_ELEMENTS, nested=False)
    boxes._blocks[plain][: 8 * BOX_ELEMENTS].view(np.int64)[:] = box(loose)  # numbers that happen to be an address
    held[:] = box(plain)
    boxes.keep(address(said), BASE)
    assert set(boxes._blocks) == {plain}
    held[:] = 0
    boxes.keep(address(said), BASE)
    again = boxes.take(8 * BOX_ELEMENTS, nested=True)
    assert again == plain  # now it may hold boxes
    boxes._blocks[again][: 8 * BOX_ELEMENTS].view(np.int64)[:] = 0
    held[:] = box(again)
    boxes.keep(address(said), BASE)
    assert set(boxes._blocks) == {again}


def test_each_carried_value_and_each_of_its_rows_counts() -> None:
    boxes, one, rows = Boxes(), np.zeros(BOX_ELEMENTS, np.int64), np.zeros(3 * BOX_ELEMENTS, np.int64)
    said = started(boxes, one, rows)
    places = [boxes.take(640, nested=False) for _ in range(5)]
    one[:] = box(places[0])
    rows[:] = np.concatenate([box(places[4]), box(places[2]), box(places[1])])
    boxes.keep(address(said), BASE)
    assert list(boxes._blocks) == [places[0], places[1], places[2], places[4]]  # still in the order in which they were taken


def test_a_free_block_serves_about_its_size() -> None:
    boxes, held = Boxes(), np.zeros(BOX_ELEMENTS, np.int64)
    said = started(boxes, held)
    block = boxes.take(80_000, nested=False)
    boxes.keep(address(said), BASE)
    assert boxes.bytes == 0
    assert boxes.take(100, nested=False) != block  # it would be wasted
    assert boxes.take(91_000, nested=False) != block  # it would be too small
    assert boxes.take(90_000, nested=False) == block  # an eighth more is there at once
    boxes.keep(address(said), BASE)
    assert boxes.take(45_000, nested=False) == block


def test_few_blocks_are_kept_free() -> None:
    boxes, held = Boxes(), np.zeros(BOX_ELEMENTS, np.int64)
    said = started(boxes, held)
    for _ in range(9):
        boxes.take(640, nested=False)
    boxes.keep(address(said), BASE)
    assert len(boxes._free) == 4


def test_a_tensor_grows_where_it_is_for_the_first_that_asks() -> None:
    boxes, held = Boxes(), np.zeros(BOX_ELEMENTS, np.int64)
    said = started(boxes, held)
    loose = boxes.take(640, nested=False)
    assert not boxes.grows(loose, 640, 700)  # it was not taken to grow
    first = boxes.grow(loose, 640, 700, nested=False)
    assert first != loose
    assert boxes.grow(first, 700, 1000, nested=False) == first
    assert boxes.grow(first, 700, 800, nested=False) != first  # others have what is behind it
    assert boxes.grow(first, 1000, 1300, nested=False) == first
    assert boxes.grow(first, 1300, 3000, nested=False) != first  # there is no room
    held[:] = box(loose)
    boxes.keep(address(said), BASE)
    assert not boxes.grows(first, 1300, 1301)  # it is free
    again = boxes.take(1300, nested=False)
    assert not boxes.grows(again, 1300, 1301)


def test_room_to_grow_is_within_what_a_run_may_hold() -> None:
    boxes = Boxes(2000)
    place = boxes.grow(0, 0, 1000, nested=False)
    assert 1000 <= boxes.bytes <= 2000
    assert boxes.grow(place, 1000, 1400, nested=False) == place


def test_many_blocks_are_looked_through_when_there_are_twice_as_many() -> None:
    boxes, rows = Boxes(), np.zeros(3000 * BOX_ELEMENTS, np.int64)
    said, looked = record(rows), []
    boxes.keep(address(said), BASE)
    for number in range(3000):
        rows[number * BOX_ELEMENTS :][:BOX_ELEMENTS] = box(boxes.take(64, nested=False))
        boxes.take(64, nested=False)  # which nothing leads to
        before = len(boxes._blocks)
        boxes.keep(address(said), BASE)
        assert len(boxes._blocks) <= 2 * (number + 1) + 130
        looked.append(len(boxes._blocks) < before)
    assert sum(looked) < 64 + 16
    boxes = Boxes(1 << 18)  # near the limit each time
    boxes.keep(address(record(rows)), BASE)
    said = record(rows)
    boxes.keep(address(said), BASE)
    for number in range(400):
        rows[number * BOX_ELEMENTS :][:BOX_ELEMENTS] = box(boxes.take(64, nested=False))
        boxes.take(16 << 10, nested=False)
        assert boxes.bytes < 1 << 18
        boxes.keep(address(said), BASE)
