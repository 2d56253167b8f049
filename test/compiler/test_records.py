"""Records: everything that the cache keeps comes back as it was, and what is no record is told."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from stepwell.backends.artifact import Artifact
from stepwell.border.border import Border
from stepwell.dialects.core.dtypes import ELEMENT_TYPES, to_numpy
from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.sizes import Size, symbol
from stepwell.driver.artifact import ExternalFiles, Signature
from stepwell.records import RecordError, from_json, read, to_json, write
from stepwell.runtime.general import General
from stepwell.runtime.late_sizes import LateSizes
from stepwell.signature import STRING, OutputGroup, TensorInfo

N, M = symbol("n"), symbol("m")
ARRAYS = [
    np.array([[0.1, -np.inf, np.nan]], np.float32), np.array(7), np.array([], bool), np.array([True, False]), np.arange(6)[::2],
    np.array([1.5, -2], ml_dtypes.bfloat16), np.array(["a", "", "é"], object), np.empty((0, 2), object), np.array([1, 3], ml_dtypes.uint4),
    np.array([258], ">i4"),
]  # fmt: skip
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    type(None): st.none(), bool: st.booleans(), int: st.integers(), float: st.floats(), str: st.text(max_size=5),
    np.dtype: st.sampled_from([STRING, *map(to_numpy, ELEMENT_TYPES)]), np.ndarray: st.sampled_from(ARRAYS),
    Size: st.sampled_from([N, 2 * N + 1, N // 4 * M]),
}  # fmt: skip


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of the type of a field."""
    if kind in PLAIN:
        return PLAIN[kind]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        stored = [field.name for field in dataclasses.fields(kind) if field.metadata.get("record", True)]
        return st.builds(typing.cast(type, kind), **{name: values(hints[name]) for name in stored})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(member) for member in arguments])
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values, arguments))
    if origin is Mapping:
        return st.dictionaries(PLAIN[str], values(arguments[1]), max_size=2)
    assert origin in (tuple, Sequence)
    return st.lists(values(arguments[0]), max_size=2).map(tuple if origin is tuple else list)


def same(a: Any, b: Any) -> bool:
    """Whether two values are of equal types and hold the same."""
    if isinstance(a, np.ndarray):
        native = a.astype(a.dtype.newbyteorder("="))
        return (native.dtype, a.shape) == (b.dtype, b.shape) and (a.tolist() == b.tolist() if a.dtype == STRING else native.tobytes() == b.tobytes())
    if type(a) is not type(b) and not isinstance(a, (np.dtype, Size)):
        return False
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b or (a != a and b != b))


@pytest.mark.parametrize("kind", [Artifact, Signature, ExternalFiles, Border, LateSizes, General, OutputGroup, IndexCheck])
@settings(max_examples=20)
@given(data=st.data())
def test_records_come_back_as_they_were(kind: type, data: st.DataObject) -> None:
    record = data.draw(values(kind))
    assert same(record, read(write(record), ExternalFiles, *({kind} - {ExternalFiles})))


INFO = TensorInfo("x", (2, "n", None), np.dtype(np.float32))


def changed(**fields: Any) -> bytes:
    """The record of `INFO` with other fields."""
    record = json.loads(write(INFO))
    return json.dumps(record | {"fields": record["fields"] | fields}).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[", "expected a record as JSON"),
        (b"[" * 100_000, "expected a record as JSON"),
        (b"[1]", r"expected an object of 'record', 'schema' and 'fields', got \[1\]"),
        (write(Signature([], [])), "expected a record of TensorInfo, got one of 'Signature'"),
        (write(INFO).replace(b'"schema": "', b'"schema": "0'), "TensorInfo: the record has other fields than this version of Stepwell writes"),
        (changed(colour="red"), "TensorInfo: expected the fields name, shape, dtype, form, any_integers, keys, got .*colour"),
        (changed(name=3), "TensorInfo: name: expected text, got 3"),
        (changed(any_integers=1), "TensorInfo: any_integers: expected boolean, got 1"),
        (changed(shape=[2, True]), r"TensorInfo: shape: 1: expected integer \| text \| null, got True"),
        (changed(shape={}), r"TensorInfo: shape: expected \[integer \| text \| null\], got {}"),
        (changed(dtype="f7"), "TensorInfo: dtype: expected an element type, got 'f7'"),
        (changed(keys=["f32"]), r"TensorInfo: keys: expected element type \| null, got \['f32'\]"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_told(data: bytes, said: str) -> None:
    with pytest.raises(RecordError, match=said):
        read(data, TensorInfo)


@dataclasses.dataclass
class Held:
    array: np.ndarray
    pair: tuple[int, int | Size] = (1, 2)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"elements": "AAA="}, "array: elements: .*"),
        ({"elements": "é"}, "array: elements: .*"),
        ({"elements": ["a"]}, r"array: elements: expected text, got \['a'\]"),
        ({"shape": [-1, -1]}, r"array: expected as many elements as the shape \[-1, -1\] has, got 1"),
        ({"shape": [2]}, r"array: expected as many elements as the shape \[2\] has, got 1"),
        ({"dtype": "string", "elements": [1]}, "array: elements: 0: expected text, got 1"),
        ({"colour": 1}, "array: expected an array of 'dtype', 'shape' and 'elements', got .*colour"),
    ],
)
def test_what_is_no_array_is_told(fields: dict[str, Any], said: str) -> None:
    record = json.loads(write(Held(np.array([1.0], np.float32))))
    record["fields"]["array"] |= fields
    with pytest.raises(RecordError, match=f"Held: {said}"):
        read(json.dumps(record).encode(), Held)


def test_sizes_and_tuples_are_as_the_fields_say() -> None:
    record = json.loads(write(Held(np.array(1))))
    wrong: list[tuple[list[Any], str]] = [
        ([1], "expected 2 entries, got 1"), ([1, "3"], "1: expected a size with symbols, got '3'"), ([1, "n +"], "1: expected a size such"),
    ]  # fmt: skip
    for pair, said in wrong:
        record["fields"]["pair"] = pair
        with pytest.raises(RecordError, match=f"Held: pair: {said}"):
            read(json.dumps(record).encode(), Held)


@dataclasses.dataclass
class Ambiguous:
    either: int | str | Size


@dataclasses.dataclass
class Opaque:
    thing: object


def test_what_cannot_be_written_is_an_error_of_the_program() -> None:
    three: Any = 3  # of wrong types, on purpose
    half: Any = 2.5
    for record, said in (
        (Ambiguous(1), "look alike in JSON"), (Opaque(1), "no record can hold a <class 'object'>"),
        (TensorInfo(three, (), STRING), "expected text, got 3"), (TensorInfo("x", (half,), STRING), "expected integer | text | null, got 2.5"),
    ):  # fmt: skip
        with pytest.raises(TypeError) as raised:
            write(record)
        assert said in str(raised.value)


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark blue"


@dataclasses.dataclass(frozen=True)
class Painted:
    colours: tuple[Colour, ...]
    shade: float


def test_members_of_enumerations_are_texts() -> None:
    record = Painted((Colour.DARK_BLUE, Colour.RED), 0.5)
    assert to_json(record) == {"colours": ["dark blue", "red"], "shade": 0.5}
    assert from_json(Painted, to_json(record), "painted") == record == read(write(record), Painted)
    with pytest.raises(RecordError, match=r"painted: colours: 1: expected one of red, dark blue, got 'green'"):
        from_json(Painted, {"colours": ["red", "green"], "shade": 0.5}, "painted")
    with pytest.raises(RecordError, match=r"painted: expected an object, got \[\]"):
        from_json(Painted, [], "painted")
    with pytest.raises(TypeError, match="expected Colour, got 'red'"):
        to_json(Painted(("red",), 0.5))  # type: ignore[arg-type]
