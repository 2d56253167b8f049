"""Element types as values: what their numpy dtypes say of them, which hold which, and what may be registered."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from stepwell.dialects.core import dtypes
from stepwell.dialects.core.dtypes import ELEMENT_TYPES, ElementKind, ElementType, dtype_info, from_numpy, register_element_type, to_numpy
from stepwell.dialects.core.mlir import make_context
from stepwell.dialects.core.types import dtype_of, element_type
from stepwell.dialects.support.errors import ElementTypeError

SHORT = [info for info in ELEMENT_TYPES.values() if info.bits <= 8]
E3M4 = ElementType("f8E3M4", ElementKind.FLOAT, 8, np.dtype(ml_dtypes.float8_e3m4), "f32")
E4M3 = ElementType("f8E4M3", ElementKind.FLOAT, 8, np.dtype(ml_dtypes.float8_e4m3), "f32")


def values(info: ElementType) -> np.ndarray:
    """All of a type of at most 8 bits, in f64."""
    if info.kind is ElementKind.BOOLEAN:
        return np.array([0.0, 1.0])
    codes = np.arange(1 << info.bits, dtype=np.uint8)
    if info.bits < 8 and info.is_integer:
        return np.arange(info.limits[0], info.limits[1] + 1).astype(np.float64)
    return codes.view(info.numpy).astype(np.float64)


@pytest.mark.parametrize("info", SHORT, ids=str)
def test_a_type_holds_those_whose_values_it_converts_exactly(info: ElementType) -> None:
    numbers = values(info)
    for other in ELEMENT_TYPES.values():
        if other.kind is ElementKind.BOOLEAN or (info.is_float and not other.is_float):
            continue
        with np.errstate(all="ignore"):
            back = numbers.astype(other.numpy).astype(np.float64)
        exact = bool((np.isnan(numbers) | (back == numbers)).all())
        if not other.is_float and numbers.min() < 0 and other.is_unsigned:
            exact = False
        if np.isnan(numbers).any() and not np.isnan(np.array(np.nan, np.float32).astype(other.numpy).astype(np.float32)):
            continue  # floats without NaN hold no other float's
        assert other.holds(info) == exact, other


def test_facts_are_those_of_the_dtype() -> None:
    assert {name: dtype_info(name).limits for name in ("i4", "ui2", "f8E4M3FN", "i1")} == {
        "i4": (-8, 7), "ui2": (0, 3), "f8E4M3FN": (-448.0, 448.0), "i1": (0, 1),
    }  # fmt: skip
    assert [dtype_info(name).precision for name in ("f16", "bf16", "f32", "f64", "f8E5M2", "ui8", "i8")] == [11, 8, 24, 53, 3, 8, 7]
    assert [name for name, info in ELEMENT_TYPES.items() if info.is_float and not info.has_infinity] == [
        "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E8M0FNU", "f4E2M1FN",
    ]  # fmt: skip
    assert {info.storage for info in ELEMENT_TYPES.values() if info.is_compact} == {"i8"}
    assert [dtype_info(name).storage for name in ("ui32", "i1", "bf16")] == ["i32", "i1", "bf16"]


def test_names_are_those_of_mlir_and_numpy() -> None:
    with make_context():
        assert [dtype_of(element_type(name)) for name in ELEMENT_TYPES] == [*ELEMENT_TYPES]
    assert [from_numpy(to_numpy(name)) for name in ELEMENT_TYPES] == [*ELEMENT_TYPES]
    for wrong in ("f8", "i3", np.dtype(object), np.dtype(np.complex64)):
        with pytest.raises(ElementTypeError, match=r"is not supported; supported: i1, .*f8E4M3FN"):
            dtype_info(wrong)


def test_a_type_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "ELEMENT_TYPES", dict(ELEMENT_TYPES))
    monkeypatch.setattr(dtypes, "_FROM_NUMPY", dict(dtypes._FROM_NUMPY))
    assert register_element_type(E3M4) is register_element_type(E3M4)
    assert dtype_info("f8E3M4").is_emulated
    wrong = {
        replace(E3M4, compute="f16"): "there is f8E3M4 already",
        replace(E4M3, compute="i32"): "compute must be None or f16 or bf16 or f32 or f64; got i32",
        replace(E4M3, kind=ElementKind.SIGNED): "expected a float of at most 8 bits or an integer of fewer",
        replace(E3M4, numpy=E4M3.numpy): "there is f8E3M4 already, of numpy's float8_e3m4",
        replace(E3M4, name="f8E3M4B"): "there is f8E3M4 already, of numpy's float8_e3m4",
        ElementType("tf32", ElementKind.FLOAT, 19, np.dtype(np.longdouble), "f32"): "expected a float of at most 8 bits or an integer of fewer",
    }
    for entry, message in wrong.items():
        with pytest.raises(ElementTypeError, match=message):
            register_element_type(entry)
