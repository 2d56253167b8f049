"""Python values go to attributes and come back as they were."""

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from every import every
from hypothesis import given, settings, strategies as st

from stepwell.dialects.core.attributes import to_attribute, to_python
from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.core.types import DTYPES, FLOATS, from_numpy, is_float, to_numpy
from stepwell.dialects.support.errors import InferenceError, StepwellError


@pytest.fixture(autouse=True, scope="module")
def context() -> Iterator[ir.Context]:
    with make_context() as made, ir.Location.unknown():
        yield made


@every(
    "value",
    [
        True, False, 0, -1, 2**63 - 1, -(2**63), 0.0, 0.1, -1e300, math.inf, -math.inf, "", "edge", 'a "quoted" näme\n',
        (), (1, -2, 3), (False, True), (0.5, -1.0), ("a", (1, 2)),
    ],
)  # fmt: skip
def test_round_trip(value: Any) -> None:
    back = to_python(to_attribute(value))
    assert back == value
    assert type(back) is type(value)


def test_kinds_that_values_leave_open() -> None:
    assert isinstance(to_attribute((), ir.DenseI64ArrayAttr), ir.DenseI64ArrayAttr)
    assert to_python(to_attribute((), ir.DenseI64ArrayAttr)) == ()
    assert isinstance(to_attribute(1, ir.FloatAttr), ir.FloatAttr)
    assert to_python(to_attribute("bf16", ir.TypeAttr)) == "bf16"
    assert isinstance(to_attribute(False), ir.BoolAttr)
    assert isinstance(to_attribute(np.int32(3)), ir.IntegerAttr)
    assert math.isnan(to_python(to_attribute(math.nan)))
    assert math.copysign(1, to_python(to_attribute(-0.0))) == -1
    assert to_python(to_attribute({"a": 1, "b": (2.0,)})) == {"a": 1, "b": (2.0,)}


def test_refusals() -> None:
    with pytest.raises(StepwellError, match="no attribute for a value of type complex"):
        to_attribute(1j)
    with pytest.raises(InferenceError, match="element type f8 is not supported"):
        to_attribute("f8", ir.TypeAttr)
    with pytest.raises(InferenceError, match="of a kind that no field has"):
        to_python(ir.UnitAttr.get())
    with pytest.raises(InferenceError, match="is not supported"):
        to_python(ir.Attribute.parse("dense<1> : tensor<2xi4>"))
    with pytest.raises(InferenceError, match="is not supported"):
        to_attribute(np.array(["a"]))


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=40)
@given(shape=st.lists(st.integers(0, 4), max_size=3), seed=st.integers(0, 2**32 - 1), splat=st.booleans())
def test_arrays_keep_every_bit(dtype: str, shape: list[int], seed: int, splat: bool) -> None:
    generator = np.random.default_rng(seed)
    numpy_dtype = to_numpy(dtype)
    bits = generator.bytes(numpy_dtype.itemsize * int(np.prod(shape, dtype=int)))
    array = np.frombuffer(bits, np.uint8).reshape(*shape, numpy_dtype.itemsize)
    array = np.asarray(array[..., 0] % 2 == 1) if dtype == "i1" else np.ascontiguousarray(array).view(numpy_dtype).reshape(shape)
    if splat and array.size:
        array = np.full(shape, array.flat[0])
    back = to_python(to_attribute(array))
    assert back.dtype == numpy_dtype
    assert back.shape == array.shape
    if is_float(dtype):  # which NaN it is does not matter
        array, back = (np.where(np.isnan(a), np.zeros((), numpy_dtype), a) for a in (array, back))
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_floats(dtype: str) -> None:
    info = ml_dtypes.finfo(to_numpy(dtype))
    values = [0.0, -0.0, np.nan, np.inf, -np.inf, float(info.max), float(info.tiny), float(info.smallest_subnormal), 1 / 3]
    for array in (np.array(values).astype(to_numpy(dtype)), *(np.array(v).astype(to_numpy(dtype)) for v in values)):
        back = to_python(to_attribute(array))
        np.testing.assert_array_equal(back.astype(np.float64), array.astype(np.float64))
        np.testing.assert_array_equal(np.signbit(back), np.signbit(array))


def test_arrays_through_text() -> None:
    """What a file keeps is the text: small arrays as decimals, large ones as bytes."""
    for dtype in DTYPES:
        for size in (3, 500):
            array = np.random.default_rng(size).normal(0, 9, size).astype(to_numpy(dtype))
            text = str(to_attribute(array))
            np.testing.assert_array_equal(to_python(ir.Attribute.parse(text)), array)


def test_arrays_in_any_order_of_memory() -> None:
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for view in (array.T, array[::-1, :, ::2], np.asfortranarray(array), array.astype(">i4")):
        back = to_python(to_attribute(view))
        np.testing.assert_array_equal(back, view)
        assert from_numpy(back.dtype) == "i32"
