"""Values of calls for inputs of a model that has a border: strings as arrays, maps as dicts."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from stepwell.dialects.support.errors import InputError, shown
from stepwell.runtime.fitting import as_array, as_dtype
from stepwell.signature import MAP, STRING, TensorInfo, is_string, shape_text, type_name


class Map(dict[Any, Any]):
    """A dict whose values have one element type."""

    dtype: np.dtype = STRING


def fitted(info: TensorInfo, value: Any) -> Any:
    """The value for an input as operators take it: strings as an array of Python objects, a dict as a `Map`. Raises InputError if it does not fit."""
    what = f"input '{info.name}'"
    if MAP in info.form:
        return _map(what, info, value)
    if info.form:  # a sequence or an optional of numbers, which compiled code checks
        return value
    array = as_array(what, info, value)
    array = as_strings(what, info, array) if is_string(info.dtype) else as_dtype(what, info, array)
    check_shape(what, info, array)
    return array


def check_shape(what: str, info: TensorInfo, array: np.ndarray) -> None:
    """Raise InputError if an array has another rank than `info`, or other sizes where these are numbers."""
    if not info.fits(array.shape):
        raise InputError(f"{what}: expected {info}, got shape {shape_text(array.shape)}")


def as_strings(what: str, info: TensorInfo, array: np.ndarray) -> np.ndarray:
    """An array of Python's strings, from one of numpy's or of bytes in UTF-8. Raises InputError for any other."""
    if array.dtype.kind in "UT":
        return array.astype(STRING)
    if array.dtype.kind not in "OS":
        raise InputError(f"{what}: expected {info}, strings as an array of type object or str, got dtype {array.dtype.name}")
    elements = array.reshape(-1).tolist()
    if all(type(element) is str for element in elements):
        return array
    out = np.empty(len(elements), STRING)
    for i, element in enumerate(elements):
        with suppress(UnicodeDecodeError):
            out[i] = element.decode() if isinstance(element, bytes) else str(element) if isinstance(element, str) else None
        if out[i] is None:
            raise InputError(f"{what}: expected {info}, got {shown(element)} as its element {i}, which is no text")
    return out.reshape(array.shape)


def _map(what: str, info: TensorInfo, value: Any) -> Map:
    if len(info.form) > 1:
        raise InputError(f"{what}: {info} is not supported; supported: maps and tensors")
    if not isinstance(value, Mapping):
        raise InputError(f"{what}: expected {info}, a dict, got a {type(value).__name__}")
    assert info.keys is not None
    kinds: dict[bool, tuple[type, ...]] = {True: (str,), False: (int, np.integer)}
    numbers = (int, float, np.integer, np.floating)
    for key, entry in value.items():
        if not isinstance(key, kinds[is_string(info.keys)]) or isinstance(key, bool):
            raise InputError(f"{what}: expected keys of type {type_name(info.keys)}, got {shown(key)}")
        if not isinstance(entry, (str,) if is_string(info.dtype) else numbers):
            raise InputError(f"{what}: expected values of type {type_name(info.dtype)}, got {shown(entry)} for {shown(key)}")
    made = Map(value)
    made.dtype = info.dtype
    return made
