"""The values that a call gives for the inputs of a model: checked, and converted to the arrays that code takes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from stepwell.dialects.core.dtypes import plain_booleans
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.names import printable_keys
from stepwell.signature import OPTIONAL, SEQUENCE, TensorInfo, shape_text

V = TypeVar("V")


def count_error(infos: Sequence[TensorInfo], arrays: Sequence[Any]) -> InputError:
    """The error for a call with more or fewer values than inputs."""
    return InputError(f"expected {len(infos)} inputs ({', '.join(info.name for info in infos) or 'none'}), got {len(arrays)}")


def by_name(given: Mapping[str, V], names: Sequence[str], kind: str = "input") -> Mapping[str, V]:
    """Values with the names that are used here. Raises InputError unless there is one for each of `names`."""
    found = printable_keys(given) if isinstance(given, Mapping) else given
    if not isinstance(found, Mapping) or set(found) != set(names):
        raise names_error(found, names, kind)
    return found


def names_error(given: Any, names: Sequence[str], kind: str, *, some: bool = False) -> InputError:
    """The error for missing or unknown names in `given`."""
    if not isinstance(given, Mapping):
        return InputError(f"expected {kind}s by name, as a dict, got {class_text(given)}")
    missing = [] if some else [name for name in names if name not in given]
    extra = [str(name) for name in given if name not in names]
    parts = [f"missing {kind} '{name}'" for name in missing] + [f"unknown {kind} '{name}'" for name in extra]
    return InputError(f"{', '.join(parts)}; the model's {kind}s: {', '.join(names) or 'none'}")


def fitted(info: TensorInfo, value: Any) -> Any:
    """The value for an input as an array of its dtype; for a sequence a list of arrays, for an optional perhaps None. Raises InputError."""
    what = f"input '{info.name}'"
    if not info.form:
        return as_tensor(what, info, value)
    if value is None and OPTIONAL in info.form:
        return None
    if SEQUENCE not in info.form:
        return _element(what, info, value)
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{what}: expected {info}, a list of arrays, got {class_text(value)}")
    return [_element(f"{what}, element {i}", info, array) for i, array in enumerate(value)]


def _element(what: str, info: TensorInfo, value: Any) -> np.ndarray:
    """An array in a sequence or an optional, which has their element type."""
    tensor = replace(info, form=())
    array = as_tensor(what, tensor, value)
    if not tensor.fits(array.shape):
        raise InputError(f"{what}: expected {tensor}, got shape {shape_text(array.shape)}")
    return array


def as_tensor(what: str, info: TensorInfo, value: Any) -> np.ndarray:
    """`value` as an array of the dtype of `info`, of any shape. Raises InputError if it is no array, or of another dtype."""
    return as_dtype(what, info, as_array(what, info, value))


def as_array(what: str, info: TensorInfo, value: Any) -> np.ndarray:
    """`value` if it is an array or one of numpy's scalars. Lists and the like are rejected: their dtype would be a guess."""
    if not isinstance(value, (np.ndarray, np.generic)):
        raise InputError(f"{what}: expected an array {info}, got {class_text(value)}")
    return np.asarray(value)


def as_dtype(what: str, info: TensorInfo, array: np.ndarray) -> np.ndarray:
    """`array` in the machine's byte order, booleans as bytes of 0 or 1. Raises InputError if its dtype is not that of `info`."""
    if array.dtype.newbyteorder("=") != info.dtype:
        raise InputError(f"{what}: expected {info}, got dtype {array.dtype.name}")
    if array.dtype == np.bool_:
        return plain_booleans(array)
    # Byte order, like strides, is only how the array is stored.
    return array.astype(info.dtype, copy=False)


def class_text(value: Any) -> str:
    """`a list`, or None."""
    return "None" if value is None else f"a {type(value).__name__}"
