"""Each way that TopK, ArgMax and ArgMin are computed, native: every way of TopK against a stable sort, over types, ties, NaN and zeros."""

import numpy as np
from covering import pairs, split_by_day
from importing import model, node
from native_checks import Arrays, check_model, natively_together

FLOATS, INTEGERS = (np.float32, np.float16, np.float64), (np.int8, np.uint8, np.int32, np.int64, np.uint64)
# Shape, k, axis: several rows side by side, along an inner and the last axis; kept in order by insertion, with and without whole blocks;
# picked by the greatest of blocks, and by all codes; sorted whole, by short and by long digits; a single place; rows in pieces, on threads.
WAYS = [
    ((3, 90, 20), 7, 1), ((20, 100), 8, 1), ((40, 3), 2, 0), ((3, 1000), 5, 1), ((2, 30), 20, 1), ((2, 300), 32, 1),
    ((2, 6000), 40, 1), ((2, 257), 100, 1), ((2, 700), 700, 1), ((1, 3000), 2500, 1), ((3, 4000), 1, 1), ((5, 30, 3), 1, 1),
    ((3, 11, 1000), 5, 2), ((300, 7, 17), 30, 0),
]  # fmt: skip


def ordered(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """The indices of the first `k` elements by a stable sort; NaN is the greatest."""
    if largest:
        x = np.flip(x, axis)
        return np.take(np.flip(x.shape[axis] - 1 - np.argsort(x, axis=axis, kind="stable"), axis), np.arange(k), axis=axis)
    return np.take(np.argsort(x, axis=axis, kind="stable"), np.arange(k), axis=axis)


def drawn(dtype: type, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Elements of which few are equal (`spread`), many (`ties`, with special values), or all."""
    rng = np.random.default_rng(len(shape) + len(kind))
    if dtype in FLOATS:
        x = rng.standard_normal(shape).astype(dtype)
        if kind == "ties":
            x = np.round(x * 2).astype(dtype) / np.array(2, dtype)
            for step, value in ((7, np.nan), (5, -np.inf), (9, -0.0), (11, 0.0), (13, np.inf)):
                x.flat[::step] = value
    else:
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, size=shape, dtype=dtype, endpoint=True)
        if kind == "ties":
            x = x % np.array(5, dtype)
            x.flat[::7], x.flat[::9] = limits.min, limits.max
    return np.full_like(x, x.flat[0]) if kind == "equal" else x


# All for f32 with ties, a tenth for each other type and kind by day.
DATA = [(np.float32, "ties"), *((d, "ties") for d in (*FLOATS[1:], *INTEGERS)), (np.float32, "spread"), (np.float32, "equal"), (np.int64, "spread")]
EVERY = [(i, j, largest) for i in range(len(DATA)) for j in range(len(WAYS)) for largest in (0, 1)]
CASES = {
    day: [(*DATA[i], largest, WAYS[j]) for i, j, largest in EVERY if (i == 0 or (i + 2 * j + largest) % 10 == 0) == day] for day in (True, False)
}


@natively_together
@split_by_day(("dtype", "kind", "largest", "way"), CASES[True], CASES[False])
def test_top_k(dtype: type, kind: str, largest: int, way: tuple[tuple[int, ...], int, int]) -> None:
    shape, k, axis = way
    x = drawn(dtype, shape, kind)
    places = ordered(x, k, axis, bool(largest)).astype(np.int64)
    found = np.take_along_axis(x, places, axis)
    top = node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest)
    proto = model([top], {"x": x}, {"v": found, "i": places}, {"k": np.array([k])}, opset=24)

    def judge(got: Arrays) -> None:
        np.testing.assert_array_equal(got["i"], places)
        np.testing.assert_array_equal(got["v"], found)
        assert np.array_equal(np.signbit(got["v"]), np.signbit(found))

    check_model(proto, {"x": x}, judge)


@natively_together
@pairs({
    "axis": [0, 1, 2],
    "last": [0, 1],
    "operator": ["ArgMax", "ArgMin"],
    ("dtype", "kind"): [(np.float32, "ties"), (np.float32, "equal"), (np.float16, "ties"), (np.int8, "ties"), (np.uint64, "spread")],
})
def test_arg(dtype: type, kind: str, operator: str, last: int, axis: int) -> None:
    x = drawn(dtype, (5, 70, 37), kind)
    x[1:3] = np.nan_to_num(x[1:3], nan=1.0, posinf=2.0, neginf=-2.0)
    if dtype != np.uint64:
        x[3] = -np.inf if dtype in FLOATS else np.iinfo(dtype).min
    search = np.argmax if operator == "ArgMax" else np.argmin
    found = x.shape[axis] - 1 - search(np.flip(x, axis), axis=axis) if last else search(x, axis=axis)
    found = np.asarray(found, np.int64)
    proto = model([node(operator, ["x"], ["y"], axis=axis, keepdims=0, select_last_index=last)], {"x": x}, {"y": found}, {}, opset=21)
    check_model(proto, {"x": x}, lambda got: np.testing.assert_array_equal(got["y"], found))
