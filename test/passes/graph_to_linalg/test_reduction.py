"""Reductions, softmax and orderings, compiled, against their references."""

import numpy as np
import pytest
from covering import each, pairs
from every import every
from one_op import Literal, check_op, ops_together, reference, run_op

from stepwell.dialects.core.types import FLOATS, TensorType, to_numpy

RNG = np.random.default_rng(12)
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "ui8", "i32", "i64", "ui64")


def values(dtype: str, *shape: int) -> np.ndarray:
    """Random data; integers small, so that sums of narrow ones still differ from place to place."""
    if dtype in FLOATS:
        return RNG.standard_normal(shape).astype(to_numpy(dtype))
    low = 0 if dtype.startswith("u") else -9
    return RNG.integers(low, 10, shape).astype(to_numpy(dtype))


@ops_together
@every("dtype", DTYPES)
@every("mnemonic", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"])
def test_reductions(mnemonic: str, dtype: str) -> None:
    x = values(dtype, 3, 5, 4)
    size = np.abs(x.astype(np.float64))
    for axes, keepdims in [((1,), False), ((2, 0), True), ((0, 1, 2), False), ((), False)]:
        scale = np.sum(size, axis=axes, keepdims=keepdims) if mnemonic == "reduce_sum" else None
        check_op(mnemonic, [x], axes=axes, keepdims=keepdims, terms=60, scale=scale)


@ops_together
@every("mnemonic", ["reduce_max", "reduce_min"])
def test_order_reductions_carry_nan_and_compare_booleans(mnemonic: str) -> None:
    x = values("f32", 4, 6)
    x[1, 2], x[2, 0] = np.nan, np.inf
    check_op(mnemonic, [x], axes=(1,), keepdims=True, terms=0, ulps=0)
    check_op(mnemonic, [RNG.integers(0, 2, (4, 3)).astype(bool)], axes=(1,), keepdims=False)
    check_op(mnemonic, [np.full((2, 3), -np.inf if mnemonic == "reduce_max" else np.inf, np.float32)], axes=(0,), keepdims=False)


@ops_together
@every("mnemonic", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"])
def test_reducing_nothing_gives_the_neutral_element(mnemonic: str) -> None:
    check_op(mnemonic, [np.zeros((3, 0), np.float32)], axes=(1,), keepdims=False)
    check_op(mnemonic, [np.zeros((3, 0), np.int32)], axes=(1,), keepdims=False)


def test_narrow_floats_are_summed_wide() -> None:
    x = np.concatenate([[2048.0], np.ones(512)]).astype(np.float16)
    (total,) = run_op("reduce_sum", [x], axes=(0,), keepdims=False)
    assert total == 2560  # in f16, 2048 + 1 is 2048


@ops_together
@every("dtype", FLOATS)
@every("axis", [0, 1, 2])
def test_softmax(axis: int, dtype: str) -> None:
    x = (5 * RNG.standard_normal((3, 6, 4))).astype(to_numpy(dtype))
    check_op("softmax", [x], axis=axis, terms=6, ulps=4)


def test_softmax_of_large_numbers() -> None:
    check_op("softmax", [np.array([[1e4, 1e4 - 1, -1e4], [-np.inf, 0.5, 2]], np.float32)], axis=1, terms=3, ulps=4)


@ops_together
@every("dtype", ["f32", "bf16", "i8", "ui8", "i64"])
@every("mnemonic", ["arg_max", "arg_min"])
def test_arg(mnemonic: str, dtype: str) -> None:
    x = np.round(values(dtype, 3, 7, 4).astype(np.float32)).astype(to_numpy(dtype))  # with ties
    for axis, keepdims, select_last in [(0, True, False), (1, False, False), (1, True, True), (2, False, True)]:
        check_op(mnemonic, [x], axis=axis, keepdims=keepdims, select_last=select_last)


@ops_together
@every("select_last", [True, False])
@every("mnemonic", ["arg_max", "arg_min"])
def test_arg_finds_nan(mnemonic: str, select_last: bool) -> None:
    x = values("f32", 4, 6)
    x[1, 2] = x[1, 4] = x[2, 0] = np.nan
    x[3] = -np.inf if mnemonic == "arg_max" else np.inf
    check_op(mnemonic, [x], axis=1, keepdims=False, select_last=select_last)


@ops_together
@every("dtype", ["f32", "f16", "i8", "ui8", "i64"])
def test_cumsum(dtype: str) -> None:
    x = values(dtype, 3, 6, 2)
    scale = np.sum(np.abs(x.astype(np.float64)), axis=1, keepdims=True)
    for exclusive in (False, True):
        for reverse in (False, True):
            check_op("cumsum", [x], axis=1, exclusive=exclusive, reverse=reverse, terms=6, scale=scale)


@ops_together
@each({"largest": [True, False], "dtype": ["f32", "f16", "i8", "ui8", "i64", "f64"]})
def test_top_k(dtype: str, largest: bool) -> None:
    x = np.round(values(dtype, 3, 7, 2).astype(np.float32)).astype(to_numpy(dtype))
    for axis, k in [(0, 2), (1, 7), (1, 1), (2, 0)]:
        shape = [k if i == axis else n for i, n in enumerate(x.shape)]
        types = [TensorType(dtype, tuple(shape)), TensorType("i64", tuple(shape))]
        check_op("top_k", [x, np.array(k)], axis=axis, largest=largest, result_types=types, terms=0, ulps=0)
        check_op("top_k", [x, np.array(k, np.int32)], axis=axis, largest=largest, terms=0, ulps=0)


@pytest.mark.parametrize("largest", [True, False])
def test_top_k_puts_nan_above_all(largest: bool) -> None:
    x = values("f64", 2, 6)
    x[0, 3] = x[0, 1] = np.nan
    values_, indices = run_op("top_k", [x, Literal(np.array(4))], axis=1, largest=largest)
    expected = reference("top_k", [x, Literal(np.array(4))], axis=1, largest=largest)
    np.testing.assert_array_equal(values_, expected[0])
    np.testing.assert_array_equal(indices, expected[1])


@ops_together
@pairs({"keepdims": [False, True], "select_last": [False, True], "dtype": DTYPES, "mnemonic": ["arg_max", "arg_min"]})
def test_places_of_extremes(mnemonic: str, dtype: str, select_last: bool, keepdims: bool) -> None:
    """Ties, infinities where a search begins, NaN, and zeros of both signs; rows that begin and end with a part of a vector."""
    x = values(dtype, 3, 5, 7, 11)
    if dtype in FLOATS:
        x = np.round(x)
        worst = -np.inf if mnemonic == "arg_max" else np.inf
        x[RNG.random(x.shape) < 0.3] = -0.0
        x[RNG.random(x.shape) < 0.3] = worst
        x[RNG.random(x.shape) < 0.1] = np.nan
        x[:, :, 2] = x[0] = worst
    for axis in range(4):
        check_op(mnemonic, [x], axis=axis, keepdims=keepdims, select_last=select_last)
