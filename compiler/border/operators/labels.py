"""Tables from strings to numbers and back: LabelEncoder and CategoryMapper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.border.registry import NUMBER, Group, Kind, Prepared, border_operator
from stepwell.dialects.support.errors import InputError, ModelError
from stepwell.signature import STRING, is_string, type_name

ML = "ai.onnx.ml"
_NAN = "NaN"  # stands for every NaN in tables of floats, whose keys are never strings


def looked_up(x: np.ndarray, table: Mapping[Any, Any], default: Any, dtype: np.dtype) -> np.ndarray:
    """The table's entry for each element, or the default."""
    given = x.reshape(-1).tolist()
    if x.dtype.kind == "f":
        given = [_NAN if value != value else value for value in given]
    out = np.empty(len(given), dtype)
    out[:] = [table.get(value, default) for value in given]
    return out.reshape(x.shape)


def mapper(keys: np.ndarray, values: np.ndarray, default: Any) -> Prepared:
    """An operator that looks each element up; of equal keys the last one counts, and NaN equals NaN."""
    listed = keys.reshape(-1).tolist()
    if keys.dtype.kind == "f":
        listed = [_NAN if key != key else key for key in listed]
    table = dict(zip(listed, values.reshape(-1).tolist(), strict=True))

    def run(x: np.ndarray) -> np.ndarray:
        if x.dtype != keys.dtype:
            raise InputError(f"expected elements of type {type_name(keys.dtype)}, got {type_name(x.dtype)}")
        return looked_up(x, table, default, values.dtype)

    def infer(x: Kind) -> Kind:
        if x.dtype not in (keys.dtype, NUMBER) or (x.dtype == NUMBER and is_string(keys.dtype)):
            raise ModelError(f"its keys are of type {type_name(keys.dtype)}, its input is not")
        return Kind(values.dtype, x.shape)

    return Prepared(run, infer)


def two_ways(classes: np.ndarray, numbers: np.ndarray, default_int64: int, default_string: str) -> Prepared:
    """An operator that maps strings to numbers and numbers to strings, depending on its input."""
    there, back = mapper(classes, numbers, default_int64), mapper(numbers, classes, default_string)
    return Prepared(
        lambda x: (there if is_string(x.dtype) else back).run(x),
        lambda x: (there if is_string(x.dtype) else back).infer(x),
    )


def strings(values: Sequence[str]) -> np.ndarray:
    """An array of strings."""
    out = np.empty(len(values), STRING)
    out[:] = values
    return out


@border_operator("LabelEncoder", since=1, domain=ML, of_strings=True)
def label_encoder_1(*, classes_strings: Sequence[str] = (), default_int64: int = -1, default_string: str = "_Unused") -> Prepared:
    return two_ways(strings(classes_strings), np.arange(len(classes_strings)), default_int64, default_string)


@border_operator("CategoryMapper", since=1, domain=ML, of_strings=True)
def category_mapper(
    *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), default_int64: int = -1, default_string: str = "_Unused"
) -> Prepared:
    if len(cats_int64s) != len(cats_strings) or not cats_strings:
        raise ModelError(f"it must have as many cats_int64s as cats_strings, one or more; got {len(cats_int64s)} and {len(cats_strings)}")
    return two_ways(strings(cats_strings), np.array(cats_int64s, np.int64), default_int64, default_string)


def _has_strings(attributes: Mapping[str, Any]) -> bool:
    tables = (attributes.get(f"{what}_{kind}") for what in ("keys", "values") for kind in ("strings", "tensor"))
    return any(isinstance(table, tuple) or (isinstance(table, np.ndarray) and is_string(table.dtype)) for table in tables)


@dataclass(frozen=True)
class LabelTable(Group):
    """The attributes of a LabelEncoder: keys, and the values that replace them."""

    default_float: float = -0.0
    default_int64: int = -1
    default_string: str = "_Unused"
    default_tensor: np.ndarray | None = None
    keys_floats: Sequence[float] = ()
    keys_int64s: Sequence[int] = ()
    keys_strings: Sequence[str] = ()
    keys_tensor: np.ndarray | None = None
    values_floats: Sequence[float] = ()
    values_int64s: Sequence[int] = ()
    values_strings: Sequence[str] = ()
    values_tensor: np.ndarray | None = None

    def arrays(self) -> tuple[np.ndarray, np.ndarray, Any]:
        """The keys, their values, and the value of everything else. Raises ModelError if they do not fit together."""
        keys = only_list("keys", self.keys_floats, self.keys_int64s, self.keys_strings, self.keys_tensor)
        values = only_list("values", self.values_floats, self.values_int64s, self.values_strings, self.values_tensor)
        if len(keys) != len(values) or not len(keys):
            raise ModelError(f"it must have as many keys as values, one or more; got {len(keys)} and {len(values)}")
        default: Any = self.default_string if is_string(values.dtype) else self.default_float if values.dtype.kind == "f" else self.default_int64
        if self.default_tensor is not None:
            if self.default_tensor.size != 1 or is_string(self.default_tensor.dtype) != is_string(values.dtype):
                raise ModelError("default_tensor must have one element, of the type of the values")
            default = self.default_tensor.reshape(-1).tolist()[0]
        return keys, values, default


@border_operator("LabelEncoder", since=2, domain=ML, of_strings=_has_strings)
def label_encoder(*, table: LabelTable) -> Prepared:
    return mapper(*table.arrays())


def only_list(what: str, floats: Sequence[float], ints: Sequence[int], texts: Sequence[str], tensor: np.ndarray | None) -> np.ndarray:
    """Keys or values, which are given in one of four ways. Raises ModelError for several."""
    given = [np.array(floats, np.float32)] * bool(floats) + [np.array(ints, np.int64)] * bool(ints) + [strings(texts)] * bool(texts)
    given += [] if tensor is None else [tensor.reshape(-1)]
    if len(given) != 1:
        raise ModelError(f"it must have {what} of one kind, got {len(given)}")
    return given[0]
