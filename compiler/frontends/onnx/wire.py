"""Cuts large tensors out of a serialised ModelProto without parsing them, so that weights are never copied."""

from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.dialects.support.errors import ModelError

# Field numbers of onnx.proto, which never change.
MODEL_GRAPH, GRAPH_INITIALIZER, TENSOR_RAW_DATA = 7, 5, 9
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Field:
    """One field of a message: the start of its tag, and the start and end of its value."""

    number: int
    kind: int
    start: int
    value: int
    end: int


@dataclass(frozen=True)
class CutTensor:
    """An initializer whose `raw_data` was cut out: the rest of the TensorProto, and the offsets of the data in the file."""

    header: bytes
    start: int
    end: int


def cut_tensors(data: memoryview, least: int) -> tuple[bytes, list[CutTensor]]:
    """A serialised model without its initializers of at least `least` bytes of raw data, and those initializers.

    Everything else is unchanged. Raises ModelError if `data` is not a sequence of protocol buffer fields.
    """
    top = list(fields(data, 0, len(data)))
    graphs = [f for f in top if f.number == MODEL_GRAPH and f.kind == BYTES]
    if len(graphs) != 1:  # parts of one graph would have to be merged: leave that to the parser
        return bytes(data), []
    cut: list[CutTensor] = []
    kept: list[memoryview] = []
    for field in fields(data, graphs[0].value, graphs[0].end):
        tensor = _cut(data, field, least) if field.number == GRAPH_INITIALIZER and field.kind == BYTES and field.end - field.value >= least else None
        if tensor is None:
            kept.append(data[field.start : field.end])
        else:
            cut.append(tensor)
    graph = b"".join(kept)
    others = [data[f.start : f.end] for f in top if f is not graphs[0]]
    return b"".join([*others, _varint(MODEL_GRAPH << 3 | BYTES), _varint(len(graph)), graph]), cut


def _cut(data: memoryview, tensor: Field, least: int) -> CutTensor | None:
    """The tensor cut in two, or None if it holds no single large piece of raw data."""
    parts = list(fields(data, tensor.value, tensor.end))
    raw = [f for f in parts if f.number == TENSOR_RAW_DATA and f.kind == BYTES]
    if len(raw) != 1 or raw[0].end - raw[0].value < least:
        return None
    header = b"".join(data[f.start : f.end] for f in parts if f is not raw[0])
    return CutTensor(header, raw[0].value, raw[0].end)


def fields(data: memoryview, start: int, end: int) -> Iterator[Field]:
    """The fields of the message between two offsets. Raises ModelError if it is damaged or truncated."""
    position = start
    while position < end:
        tag, value = _read_varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            _, after = _read_varint(data, value, end)
        elif kind == FIXED64:
            after = value + 8
        elif kind == FIXED32:
            after = value + 4
        elif kind == BYTES:
            length, value = _read_varint(data, value, end)
            after = value + length
        else:
            raise ModelError(f"not an ONNX model: byte {position} starts no protocol buffer field")
        if number == 0:
            raise ModelError(f"not an ONNX model: byte {position} starts no protocol buffer field")
        if after > end:
            raise ModelError(f"the model is cut short: the field at byte {position} should end at byte {after}, the data ends at byte {end}")
        yield Field(number, kind, position, value, after)
        position = after


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """The variable-length integer at `position`, and the position after it."""
    result = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise ModelError(f"the model is cut short: it ends inside a number at byte {position}")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    raise ModelError(f"not an ONNX model: the number that ends at byte {position} is too long")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
