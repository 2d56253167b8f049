"""What `--shape` says: sizes, ranges, free ones."""

import numpy as np
import pytest

from stepwell.cli.common import UsageError
from stepwell.cli.shapes import Range, fixed, free_sizes, parse_given, ranges_of, sized, sweep_points, usual_values
from stepwell.signature import TensorInfo

FLOAT = np.dtype(np.float32)
INPUTS = [TensorInfo("x", ("n", 3, "h", "w"), FLOAT), TensorInfo("y", ("n", "h + 1"), FLOAT), TensorInfo("z", (), FLOAT)]


def test_sizes_ranges_and_free_ones() -> None:
    given = parse_given(["x=1x3x{32..1024}x?", "a=b=7", "z="])
    assert given == parse_given(["x=1x3x32..1024x?", "a=b=7", "z="])
    assert given == {"x": (1, 3, Range(32, 1024), None), "a=b": (7,), "z": ()}
    assert fixed(["x=1x3x32..1024x?", "a=b=7", "z="]) == {"x": (1, 3, None, None), "a=b": (7,), "z": ()}
    assert fixed([]) is None


def test_shapes_of_sequences() -> None:
    """Each element is an input of its own."""
    texts = ["s=1x3,?x3", "one=2,", "o=nothing"]
    assert fixed(texts) == {"s": [(1, 3), (None, 3)], "one": [(2,)], "o": None}
    assert parse_given(texts) == {"s.0": (1, 3), "s.1": (None, 3), "one.0": (2,)}
    with pytest.raises(UsageError, match="the shape of 's' is given twice"):
        parse_given(["s=1,2", "s=nothing"])


@pytest.mark.parametrize("text", ["1x3", "x=1xbx3", "x=1x-3", "x={3..1}", "x={3..}", "x={3..4", "x=1x{3,4}", "x=1x", "x=??", "x=1x²"])
def test_what_makes_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="--shape"):
        parse_given([text])


def test_a_shape_is_given_once() -> None:
    with pytest.raises(UsageError, match="the shape of 'x' is given twice"):
        parse_given(["x=1", "x=1"])


def test_sizes_in_between_are_multiples_of_what_divides_both_ends() -> None:
    for low, high, step in ((32, 1024, 32), (1, 128, 1), (8, 8, 8), (0, 12, 12), (6, 45, 3)):
        sizes = [Range(low, high).size_at(i / 16) for i in range(17)]
        assert (sizes[0], sizes[-1]) == (low, high)
        assert sizes == sorted(sizes)
        assert all(size % step == 0 for size in sizes)
    assert Range(1, 100).middle == 10
    assert Range(32, 512).middle == 128


def test_ranges_are_of_names() -> None:
    assert ranges_of(parse_given(["x={1..4}x3x?x{8..16}", "y=?x?"]), INPUTS) == {"n": Range(1, 4), "w": Range(8, 16)}
    assert ranges_of({}, INPUTS) == {}
    with pytest.raises(UsageError, match=r"two ranges are given for 'n': \{1\.\.4\} and \{1\.\.5\}"):
        ranges_of(parse_given(["x={1..4}x3x?x?", "y={1..5}x?"]), INPUTS)
    with pytest.raises(UsageError, match=r"a range is for a free size by itself; a size of 'y' is h \+ 1"):
        ranges_of(parse_given(["y=?x{1..5}"]), INPUTS)
    assert free_sizes(INPUTS) == ["n", "h", "w"]


def test_all_sizes_of_a_sweep_grow_together() -> None:
    points = sweep_points({"n": Range(1, 2), "w": Range(8, 64)}, 4)
    assert points == [{"n": 1, "w": 8}, {"n": 1, "w": 16}, {"n": 2, "w": 32}, {"n": 2, "w": 64}]
    assert sweep_points({"n": Range(1, 2)}, 9) == [{"n": 1}, {"n": 2}]
    assert sweep_points({"n": Range(1, 2)}, 1) == [{"n": 1}]


def test_inputs_of_given_sizes() -> None:
    assert [sized(info, {"n": 2, "h": 5, "w": 7}).shape for info in INPUTS] == [(2, 3, 5, 7), (2, 6), ()]
    assert [sized(info, {"n": 2}).shape for info in INPUTS] == [(2, 3, "h", "w"), (2, "h + 1"), ()]


def test_a_free_size_that_is_asked_for_has_a_usual_value() -> None:
    assert usual_values({}, INPUTS) == {}
    assert usual_values(parse_given(["x={1..4}x3x?x{8..16}"]), INPUTS) == {"n": 2, "h": 11, "w": 8}
    assert usual_values(parse_given(["y=?x?", "x=?x3x{3..12}x?"]), INPUTS) == {"n": 11, "h": 6, "w": 11}
