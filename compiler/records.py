"""Records: dataclasses as JSON and back, by the types of their fields. Data that is read names no classes and no code.

A field may be a number, a text, a member of a `StrEnum`, a numpy dtype, an array, a size (`int | Size`), another record, a tuple, a sequence, a
mapping from texts, or a union whose members look different in JSON. Reading is strict: a record of another class, with other fields or with a value
of a wrong type raises a RecordError that names the position. Infinities and NaN are written as Python's `json` writes them.
"""

import base64
import binascii
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepwell.dialects.core.dtypes import from_numpy, to_numpy
from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.errors import ElementTypeError, InputError, StepwellError, shown
from stepwell.signature import STRING, is_string

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    R = TypeVar("R", bound=DataclassInstance)
else:
    R = TypeVar("R")

FORMAT = 2
"""The version of the encoding of fields as JSON, and of what code demands of its caller; the fields are part of each record's schema."""
APART: Mapping[str, Any] = {"record": False}
"""The metadata of a field that is stored elsewhere: in a record that was read, it has its default."""
_KINDS = {type(None): "null", bool: "boolean", int: "integer", float: "float", str: "text", list: "list", dict: "object"}


class RecordError(InputError):
    """Data that was read is not a record of the expected kind: it has another version, is damaged or was made by hand."""


@dataclass(frozen=True)
class _Codec:
    """The conversion of values of one type to JSON and back."""

    schema: str
    kind: str
    """Its kind in JSON: a value of `_KINDS`."""
    name: str
    """Its name in errors."""
    accepts: Callable[[Any], bool]
    """Whether a value is of this type."""
    encode: Callable[[Any], Any]
    """Converts a value of this type to JSON."""
    read: Callable[[Any], Any]
    """Reads a JSON value of that kind. Raises RecordError."""

    def write(self, value: Any) -> Any:
        """A value as JSON. Raises TypeError for one that is not of this type."""
        if not self.accepts(value):
            raise TypeError(f"expected {self.name}, got {value!r}")
        return self.encode(value)


def write(record: "DataclassInstance") -> bytes:
    """A record as JSON. Raises TypeError for a value that is not of its field's type."""
    kind = type(record)
    return json.dumps({"record": kind.__name__, "schema": schema(kind), "fields": _codec(kind).write(record)}).encode()


def read(data: bytes, *kinds: type[R]) -> R:
    """The record in `data`, whose class is one of `kinds`. Raises RecordError."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"expected a record as JSON: {error}") from None
    if not isinstance(found, dict) or found.keys() != {"record", "schema", "fields"}:
        raise RecordError(f"expected an object of 'record', 'schema' and 'fields', got {shown(found)}")
    kind = next((kind for kind in kinds if kind.__name__ == found["record"]), None)
    if kind is None:
        raise RecordError(f"expected a record of {' or '.join(kind.__name__ for kind in kinds)}, got one of {shown(found['record'])}")
    if found["schema"] != schema(kind):
        raise RecordError(f"{kind.__name__}: the record has other fields than this version of Stepwell writes")
    return _read(_codec(kind), found["fields"], kind.__name__)


def to_json(record: "DataclassInstance") -> dict[str, object]:
    """The fields of a record as JSON, without its class and schema. Raises TypeError for a value that is not of its field's type."""
    return dict(_codec(type(record)).write(record))


def from_json(kind: type[R], given: object, where: str) -> R:
    """The record of a class with the fields `given`, a value of JSON; `where` names it in errors. Raises RecordError."""
    return _read(_codec(kind), given, where)


@cache
def schema(kind: type) -> str:
    """A digest of a record's fields, including those of nested records, and of the encoding."""
    return key_of(str(FORMAT), _codec(kind).schema)[:16]


def _read(codec: _Codec, value: Any, where: str | int) -> Any:
    if _KINDS[type(value)] != codec.kind and codec.kind != "union":
        raise RecordError(f"{where}: expected {codec.schema if codec.kind != 'object' else 'an object'}, got {shown(value)}")
    try:
        return codec.read(value)
    except StepwellError as error:  # for errors that types, sizes and records raise themselves
        raise RecordError(f"{where}: {error.args[0]}") from None


@cache
def _codec(kind: Any) -> _Codec:
    """The codec for a type. Raises TypeError for a type that cannot be written."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if is_dataclass(kind):
        return _of_fields(typing.cast(type, kind))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _of_texts(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _of_members([_codec(member) for member in arguments])
    if origin is tuple and arguments[-1:] != (...,):
        return _of_places([_codec(entry) for entry in arguments])
    if origin in (tuple, list, Sequence):
        return _of_entries(_codec(arguments[0]), tuple if origin is tuple else list)
    if origin in (dict, Mapping) and arguments[0] is str:
        return _of_names(_codec(arguments[1]))
    raise TypeError(f"no record can hold a {kind}")


def _of_fields(kind: type) -> _Codec:
    hints = typing.get_type_hints(kind)
    codecs = {field.name: _codec(hints[field.name]) for field in fields(kind) if field.metadata.get("record", True)}

    def write(record: Any) -> Any:
        return {name: codec.write(getattr(record, name)) for name, codec in codecs.items()}

    def read(given: dict[str, Any]) -> Any:
        if given.keys() != codecs.keys():
            raise RecordError(f"expected the fields {', '.join(codecs)}, got {', '.join(given) or 'none'}")
        return kind(**{name: _read(codec, given[name], name) for name, codec in codecs.items()})

    text = f"{kind.__name__}({', '.join(f'{name}: {codec.schema}' for name, codec in codecs.items())})"
    return _Codec(text, "object", kind.__name__, lambda value: type(value) is kind, write, read)


def _of_members(members: Sequence[_Codec]) -> _Codec:
    by_kind = {member.kind: member for member in members}
    text = " | ".join(member.schema for member in members)
    if len(by_kind) < len(members) or "union" in by_kind:
        raise TypeError(f"members of the union {text} look alike in JSON")

    def write(value: Any) -> Any:
        return next(member for member in members if member.accepts(value)).write(value)

    def read(value: Any) -> Any:
        member = by_kind.get(_KINDS[type(value)])
        if member is None:
            raise RecordError(f"expected {text}, got {shown(value)}")
        return member.read(value)

    return _Codec(text, "union", text, lambda value: any(member.accepts(value) for member in members), write, read)


def _of_texts(kind: type[StrEnum]) -> _Codec:
    texts = [member.value for member in kind]

    def read(text: str) -> StrEnum:
        if text not in texts:
            raise RecordError(f"expected one of {', '.join(texts)}, got {shown(text)}")
        return kind(text)

    return _Codec(f"{kind.__name__}({', '.join(texts)})", "text", kind.__name__, lambda value: type(value) is kind, lambda value: value.value, read)


def _of_places(entries: Sequence[_Codec]) -> _Codec:
    def write(values: Any) -> Any:
        return [entry.write(value) for entry, value in zip(entries, values, strict=True)]

    def read(values: list[Any]) -> Any:
        if len(values) != len(entries):
            raise RecordError(f"expected {len(entries)} entries, got {len(values)}")
        return tuple(_read(entry, value, place) for place, (entry, value) in enumerate(zip(entries, values, strict=True)))

    return _Codec(f"({', '.join(entry.schema for entry in entries)})", "list", "a sequence", _is_sequence, write, read)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _of_entries(entry: _Codec, made: type) -> _Codec:
    def write(values: Any) -> Any:
        return [entry.write(value) for value in values]

    def read(values: list[Any]) -> Any:
        return made(_read(entry, value, place) for place, value in enumerate(values))

    return _Codec(f"[{entry.schema}]", "list", "a sequence", _is_sequence, write, read)


def _of_names(entry: _Codec) -> _Codec:
    def accepts(value: Any) -> bool:
        return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)

    def write(values: Any) -> Any:
        return {name: entry.write(value) for name, value in values.items()}

    def read(values: dict[str, Any]) -> Any:
        return {name: _read(entry, value, name) for name, value in values.items()}

    return _Codec(f"{{{entry.schema}}}", "object", "a mapping from texts", accepts, write, read)


def _scalar(kind: type, name: str, json_kind: type, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> _Codec:
    plain = kind in _KINDS  # True is not an integer here

    def accepts(value: Any) -> bool:
        return type(value) is kind if plain else isinstance(value, kind)

    return _Codec(name, _KINDS[json_kind], name, accepts, write, read)


def _dtype_name(dtype: np.dtype) -> str:
    return "string" if is_string(dtype) else from_numpy(dtype)


def _read_dtype(name: str) -> np.dtype:
    try:
        return STRING if name == "string" else to_numpy(name)
    except ElementTypeError:
        raise RecordError(f"expected an element type, got {shown(name)}") from None


def _array_record(array: np.ndarray) -> dict[str, Any]:
    """The elements of an array: texts unchanged, numbers as the base64 encoding of their bytes, in order, little-endian."""
    little = array if is_string(array.dtype) else np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    elements = array.reshape(-1).tolist() if is_string(array.dtype) else base64.b64encode(little.tobytes()).decode("ascii")
    return {"dtype": _dtype_name(array.dtype), "shape": list(array.shape), "elements": elements}


def _read_array(given: dict[str, Any]) -> np.ndarray:
    if given.keys() != {"dtype", "shape", "elements"}:
        raise RecordError(f"expected an array of 'dtype', 'shape' and 'elements', got {', '.join(given) or 'none'}")
    dtype = _read(_codec(np.dtype), given["dtype"], "dtype")
    shape = _read(_codec(tuple[int, ...]), given["shape"], "shape")
    if is_string(dtype):
        texts = _read(_codec(list[str]), given["elements"], "elements")
        array = np.empty(len(texts), dtype)
        array[:] = texts
    else:
        try:
            data = base64.b64decode(_read(_codec(str), given["elements"], "elements"), validate=True)
            array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
        except (binascii.Error, ValueError) as error:
            raise RecordError(f"elements: {error}") from None
    if any(size < 0 for size in shape) or array.size != int(np.prod(shape, dtype=object)):
        raise RecordError(f"expected as many elements as the shape {list(shape)} has, got {array.size}")
    return array.reshape(shape)


def _read_size(text: str) -> Size:
    size = parse(text)
    if not isinstance(size, Size):
        raise RecordError(f"expected a size with symbols, got {shown(text)}")
    return size


_SCALARS: dict[Any, _Codec] = {
    **{kind: _scalar(kind, name, kind, lambda value: value, lambda value: value) for kind, name in _KINDS.items() if kind not in (list, dict)},
    np.dtype: _scalar(np.dtype, "element type", str, _dtype_name, _read_dtype),
    np.ndarray: _scalar(np.ndarray, "array", dict, _array_record, _read_array),
    Size: _scalar(Size, "size", str, str, _read_size),
}
