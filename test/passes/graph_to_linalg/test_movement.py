"""Ops that move elements, compiled, against their references."""

from typing import Any

import numpy as np
import pytest
from covering import split_by_day
from every import every
from one_op import Literal, check_op, ops_together, run_op

from stepwell.dialects.core.types import DTYPES, FLOATS, NUMERIC, TensorType, to_numpy

RNG = np.random.default_rng(14)


def values(dtype: str, *shape: int) -> np.ndarray:
    if dtype in FLOATS:
        return RNG.standard_normal(shape).astype(to_numpy(dtype))
    if dtype == "i1":
        return RNG.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(to_numpy(dtype))
    return RNG.integers(limits.min, limits.max, shape, dtype=to_numpy(dtype))


def moves(mnemonic: str, operands: list[Any], **options: Any) -> None:
    """Elements must arrive unchanged."""
    check_op(mnemonic, operands, terms=0, ulps=0, **options)


@ops_together
@every("dtype", DTYPES)
def test_every_dtype_moves(dtype: str) -> None:
    x = values(dtype, 3, 4, 2)
    moves("transpose", [x], perm=(2, 0, 1))
    moves("reshape", [x], shape=(4, 6))
    moves("slice", [x], starts=(2, 0, 1), sizes=(3, 2, 1), steps=(-1, 3, 1))
    moves("gather", [x, np.array([[-1, 0], [1, 3]])], axis=1)


@ops_together
@every(
    ("old", "new"),
    [((2, 3, 4), (4, 6)), ((6, 4), (2, 3, 1, 4)), ((1, 1), ()), ((), (1, 1, 1)), ((2, 1, 3), (1, 6)), ((2, 3), (2, 1, 3, 1)), ((0, 3), (3, 0, 2)),
     ((4, 1, 3, 3), (2, 2, 3, 3)), ((5,), (5,))],
)  # fmt: skip
def test_reshape(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    moves("reshape", [values("f32", *old)], shape=new)


@ops_together
def test_reshape_with_dynamic_dimensions() -> None:
    x = values("f32", 2, 3, 4)
    types = [TensorType("f32", (None, 3, None))]
    moves("reshape", [x], shape=(-1, 6), types=types)
    moves("reshape", [x], shape=(2, 12), types=types)
    moves("dynamic_reshape", [x, np.array([3, -1, 2])])
    moves("dynamic_reshape", [x, np.array([3, -1, 2], np.int32)], types=[*types, TensorType("i32", (3,))])
    moves("dynamic_reshape", [x, np.array([6, 4])], result_types=[TensorType("f32", (6, 4))])


@ops_together
def test_expand_and_tile() -> None:
    moves("expand", [values("f32", 2, 1)], shape=(3, 2, 4))
    moves("expand", [values("f32", 1, 3, 1)], shape=(2, -1, 5), types=[TensorType("f32", (1, None, 1))])
    moves("dynamic_expand", [values("f32", 3, 1), np.array([2, 1, 4])])
    moves("dynamic_expand", [values("f32", 3, 1), np.array([4])], types=[TensorType("f32", (None, 1)), TensorType("i64", (1,))])
    for repeats in [(2, 3, 1), (1, 1, 1), (1, 0, 2)]:
        moves("tile", [values("i8", 2, 3, 2)], repeats=repeats)


@ops_together
@every("axis", [0, 1, 2])
def test_concat(axis: int) -> None:
    for sizes in [(2, 3), (1, 4), (0, 2)]:
        x, y = (values("f32", *[n if i == axis else 3 for i in range(3)]) for n in sizes)
        moves("concat", [[x, y]], axis=axis)
        unknown = TensorType("f32", tuple(None if i == axis else 3 for i in range(3)))
        moves("concat", [[x, y]], axis=axis, types=[[unknown, TensorType("f32", y.shape)]])
        moves("concat", [[x, y]], axis=axis, types=[[TensorType("f32", (None, None, None)), unknown]])


@ops_together
@every("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode: str) -> None:
    for low, high in [((1, 2, 0), (3, 0, 0)), ((9, 0, 5), (8, 7, 0)), ((0, 0, 0), (0, 0, 0))]:
        moves("pad", [values("f32", 4, 3, 1)], low=low, high=high, mode=mode, value=1.5)
    moves("pad", [values("ui8", 4, 3)], low=(0, 2), high=(1, 1), mode=mode, value=200.0)
    moves("pad", [values("f32", 4, 3)], low=(0, 2), high=(0, 1), mode=mode, value=-np.inf, types=[TensorType("f32", (None, 3))])


@ops_together
@every(
    ("starts", "sizes", "steps"), [((0, 1), (5, 5), (1, 1)), ((4, 5), (3, 2), (-2, -3)), ((1, 0), (0, 6), (1, 1)), ((0, 2), (1, 1), (4, -1))]
)
def test_slice(starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> None:
    moves("slice", [values("f32", 5, 6)], starts=starts, sizes=sizes, steps=steps)


@ops_together
def test_slice_to_an_unknown_end() -> None:
    x, types = values("f32", 7, 6), [TensorType("f32", (None, 6))]
    moves("slice", [x], starts=(2, 1), sizes=(-1, 2), steps=(2, 3), types=types)
    moves("slice", [x], starts=(9, 1), sizes=(-1, 2), steps=(1, 1), types=types)


@ops_together
@every(("start", "end", "step"), [(1, 6, 2), (-1, -100, -2), (100, 2, -1), (3, 2**62, 1), (5, 2, 1), (-100, 4, 1)])
def test_dynamic_slice(start: int, end: int, step: int) -> None:
    axes = np.array([-2, 1])
    for given in (axes, Literal(axes)):
        moves("dynamic_slice", [values("f32", 7, 4), np.array([start, 1]), np.array([end, 3]), given, np.array([step, 1])])


@ops_together
@every("kind", [np.int32, np.int64])
def test_gathers(kind: Any) -> None:
    x = values("f32", 3, 5, 2)
    moves("gather", [x, RNG.integers(-5, 5, (2, 4)).astype(kind)], axis=1)
    moves("gather", [x, np.array(-2, kind)], axis=2)
    moves("gather", [x, Literal(np.array(1, kind))], axis=0)
    moves("gather_elements", [x, RNG.integers(-5, 5, (2, 6, 2)).astype(kind)], axis=1)
    moves("gather_nd", [x, np.stack([RNG.integers(-3, 3, (4, 2)), RNG.integers(-5, 5, (4, 2))], -1).astype(kind)], batch_dims=0)
    moves("gather_nd", [x, RNG.integers(-5, 5, (3, 4, 1)).astype(kind)], batch_dims=1)
    moves("gather_nd", [x, RNG.integers(-2, 2, (3, 5, 1)).astype(kind)], batch_dims=2)


def test_indices_out_of_range_stay_inside() -> None:
    x = values("f32", 4)
    (result,) = run_op("gather", [x, np.array([-100, 100, 4, -5, 2**62, -(2**63), -4])], axis=0)
    np.testing.assert_array_equal(result, x[[3, 3, 3, 3, 3, 3, 0]])


@ops_together
@every("reduction", ["none", "add", "mul", "max", "min"])
@every("dtype", ["f32", "f16", "i32", "ui8"])
def test_scatters(dtype: str, reduction: str) -> None:
    x, updates = values(dtype, 3, 5, 2), values(dtype, 3, 2, 2)
    places = np.argsort(RNG.random((3, 5, 2)), axis=1)[:, :2] - 5  # distinct
    if reduction != "none":
        places[0] = 3  # an index twice
    check_op("scatter_elements", [x, places, updates], axis=1, reduction=reduction, from_start=False, terms=2)
    check_op("scatter_elements", [x, places % 5, updates], axis=1, reduction=reduction, from_start=True, terms=2)
    vectors = np.array([[[0, 1], [-1, -2]], [[1, 4], [2, 0]]]) if reduction == "none" else np.array([[[0, 1], [-1, -2]], [[0, 1], [2, 0]]])
    check_op("scatter_nd", [x, vectors, values(dtype, 2, 2, 2)], reduction=reduction, terms=2)


def test_scatter_of_booleans() -> None:
    check_op("scatter_elements", [values("i1", 4), np.array([2, 0]), values("i1", 2)], axis=0, reduction="none", from_start=False)


def test_scattered_indices_from_the_start_stay_inside() -> None:
    x, updates = values("f32", 5), values("f32", 2)
    (result,) = run_op("scatter_elements", [x, np.array([-1, 9]), updates], axis=0, reduction="none", from_start=True)
    np.testing.assert_array_equal(result, [*x[:4], updates[1]])


@pytest.mark.parametrize("dtype", ["f32", "i1", "ui8", "bf16"])
def test_places_of_what_is_not_zero(dtype: str) -> None:
    for shape in [(3, 4, 2), (5,), (), (0, 3)]:
        x = np.where(RNG.random(shape) < 0.5, 0, values(dtype, *shape)).astype(to_numpy(dtype))
        check_op("non_zero_places", [x])


def test_shapes_and_ranges() -> None:
    check_op("shape_of", [values("f32", 3, 4)])
    check_op("shape_of", [values("f32", 3, 4)], types=[TensorType("f32", (None, 4))])
    for dtype in ("i64", "i8", "f32", "f64"):
        for bounds in [(3, -9, -4), (0, 7, 3), (0, 6, 3), (5, 2, 1), (-3, -2, 9)]:
            check_op("range", [np.array(v, to_numpy(dtype)) for v in bounds], ulps=2)
    check_op("range", [np.array(v, np.float32) for v in (1, 3.3, 0.5)], ulps=2)
    check_op("range", [np.array(v, np.uint8) for v in (5, 250, 100)], result_types=[TensorType("ui8", (3,))])


def resizes() -> list[dict[str, Any]]:
    base = {"cubic_coefficient": -0.75, "exclude_outside": False, "antialias": False, "roi": (), "extrapolation": 0.0, "rounding": "floor"}
    cases = []
    for height, width in [(6, 8), (2, 3), (7, 5), (3, 1)]:
        sized = {**base, "sizes": (1, 2, height, width), "scales": (1.0, 1.0, height / 3, width / 4)}
        for coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"):
            for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                cases.append({**sized, "mode": "nearest", "coordinates": coordinates, "rounding": rounding})
            cases += [{**sized, "mode": mode, "coordinates": coordinates} for mode in ("linear", "cubic")]
        for mode in ("linear", "cubic"):
            cases.append({**sized, "mode": mode, "coordinates": "half_pixel", "antialias": True})
            cases.append({**sized, "mode": mode, "coordinates": "half_pixel", "exclude_outside": True})
        for mode in ("nearest", "linear"):
            roi = (0.0, 0.0, -0.2, 0.1, 1.0, 1.0, 0.9, 1.3)
            cases.append({**sized, "mode": mode, "coordinates": "tf_crop_and_resize", "roi": roi, "extrapolation": 7.5})
    return cases


RESIZED = ("f32", "f64", "bf16", "i8", "ui8", "i64")  # the others are computed as one of these, wide, and made narrow


@ops_together
@every("case", resizes())
def test_resize(case: dict[str, Any]) -> None:
    x = values("f32", 1, 2, 3, 4)
    check_op("resize", [x], terms=16, ulps=4, scale=np.float64(np.abs(x).max()) + abs(case["extrapolation"]), **case)


@ops_together
@split_by_day("dtype", RESIZED, [dtype for dtype in NUMERIC if dtype not in RESIZED])
def test_resize_dtypes(dtype: str) -> None:
    x = values(dtype, 1, 2, 3, 4) if dtype in FLOATS else RNG.integers(0, 100, (1, 2, 3, 4)).astype(to_numpy(dtype))
    for case in [c for c in resizes() if c["coordinates"] in ("asymmetric", "tf_crop_and_resize") and c["sizes"][2] == 7]:
        check_op("resize", [x], terms=16, ulps=4, scale=np.float64(np.abs(x.astype(np.float64)).max()) + 7.5, **case)


def test_resize_of_any_number_of_images() -> None:
    case = next(c for c in resizes() if c["mode"] == "linear")
    case = {**case, "sizes": (-1, 2, *case["sizes"][2:])}
    x = values("f32", 3, 2, 3, 4)
    check_op("resize", [x], terms=16, scale=np.abs(x).max(), types=[TensorType("f32", (None, 2, 3, 4))], **case)


def test_resize_does_not_spread_infinity() -> None:
    """Every second place is an element itself, beside which another is infinite."""
    case = {**resizes()[0], "sizes": (1, 2, 6, 8), "scales": (1.0, 1.0, 2.0, 2.0), "mode": "linear", "coordinates": "asymmetric"}
    x = values("f32", 1, 2, 3, 4)
    x[0, 1, 1, 1] = np.inf
    check_op("resize", [x], terms=16, ulps=4, scale=10.0, **case)


WIDTHS = ("i1", "i8", "bf16", "f32", "f64")  # an element type of each kind of bytes


@ops_together
@split_by_day("dtype", WIDTHS, [dtype for dtype in DTYPES if dtype not in WIDTHS])
@every("row", [1, 3, 8, 37])
def test_rows_are_gathered_in_vectors_and_what_is_left_of_them_one_by_one(dtype: str, row: int) -> None:
    x = values(dtype, 5, 4, row)
    moves("gather", [x, np.array([3, -1, 0, -5, 2, 2])], axis=0)
    moves("gather", [x, np.array([[-4, 3], [1, 1]])], axis=1)
    moves("gather_nd", [x, np.array([[4, -1], [-5, 0], [2, 2]])], batch_dims=0)
    moves("gather_nd", [x, np.array([[[1]], [[0]], [[-1]], [[3]], [[-4]]])], batch_dims=1)
