"""Converts TensorProto to numpy without copies, including external data, and ONNX element types to ours."""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from stepwell.dialects.core.types import TensorType, to_numpy
from stepwell.dialects.support.errors import ModelError, UnsupportedError, shown
from stepwell.dialects.support.numbers import whole_number
from stepwell.frontends.contents import read_file
from stepwell.signature import STRING

DTYPES: dict[int, str] = {
    TensorProto.BOOL: "i1",
    TensorProto.INT8: "i8", TensorProto.INT16: "i16", TensorProto.INT32: "i32", TensorProto.INT64: "i64",
    TensorProto.UINT8: "ui8", TensorProto.UINT16: "ui16", TensorProto.UINT32: "ui32", TensorProto.UINT64: "ui64",
    TensorProto.FLOAT16: "f16", TensorProto.BFLOAT16: "bf16", TensorProto.FLOAT: "f32", TensorProto.DOUBLE: "f64",
    TensorProto.FLOAT8E4M3FN: "f8E4M3FN", TensorProto.FLOAT8E4M3FNUZ: "f8E4M3FNUZ", TensorProto.FLOAT8E5M2: "f8E5M2",
    TensorProto.FLOAT8E5M2FNUZ: "f8E5M2FNUZ", TensorProto.FLOAT8E8M0: "f8E8M0FNU", TensorProto.FLOAT4E2M1: "f4E2M1FN",
    TensorProto.INT4: "i4", TensorProto.UINT4: "ui4", TensorProto.INT2: "i2", TensorProto.UINT2: "ui2",
}  # fmt: skip
PACKED: dict[int, int] = {TensorProto.FLOAT4E2M1: 2, TensorProto.INT4: 2, TensorProto.UINT4: 2, TensorProto.INT2: 4, TensorProto.UINT2: 4}
"""The number of elements of a type that share a byte in a model's file, the first one in its lowest bits."""
MAX_TENSOR_BYTES = 1 << 34  # no weight of a model may be larger
SUPPORTED_DTYPES = "bool, 2- to 64-bit integers, float4e2m1, float8 of all kinds, float16, bfloat16, float, double"


def dtype_name(elem_type: int) -> str:
    """ONNX's name of an element type, for messages."""
    return str(TensorProto.DataType.Name(elem_type)).lower() if elem_type in TensorProto.DataType.values() else f"number {elem_type}"


def our_dtype(elem_type: int) -> str:
    """Our name for an ONNX element type. Raises UnsupportedError if we do not support it."""
    if elem_type not in DTYPES:
        raise UnsupportedError(f"element type {dtype_name(elem_type)} is not supported; supported: {SUPPORTED_DTYPES}")
    return DTYPES[elem_type]


def onnx_tensor_type(proto: onnx.TypeProto) -> TensorType | None:
    """Our type for an ONNX tensor type, or None if that is unranked or its element type is not supported."""
    tensor = proto.tensor_type
    if proto.WhichOneof("value") != "tensor_type" or tensor.elem_type not in DTYPES or not tensor.HasField("shape"):
        return None
    sizes = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim)
    return TensorType(DTYPES[tensor.elem_type], sizes)


def dim_names(value: onnx.ValueInfoProto) -> list[str]:
    """The names of a tensor's dimensions, "" for those without one."""
    return [dim.dim_param for dim in value.type.tensor_type.shape.dim]


def checked_size(name: str, dtype: str, dims: Any) -> int:
    """The size in bytes of a dense tensor. Raises ModelError if a dimension is negative or the size is absurdly large."""
    size = to_numpy(dtype).itemsize
    for dim in dims:
        if dim < 0:
            raise ModelError(f"tensor '{name}' has the negative dimension {dim} in its shape {list(dims)}")
        size *= dim
    if max(dims, default=0) > MAX_TENSOR_BYTES or size > MAX_TENSOR_BYTES:
        raise ModelError(f"tensor '{name}' of shape {list(dims)} would take {size} bytes; at most {MAX_TENSOR_BYTES} are accepted")
    return size


def data_bytes(tensor: TensorProto) -> int:
    """The number of bytes of a tensor in memory; 0 if its type or shape is invalid, which reading it will report."""
    if tensor.data_type not in DTYPES or any(dim < 0 for dim in tensor.dims):
        return 0
    return int(np.prod([to_numpy(DTYPES[tensor.data_type]).itemsize, *tensor.dims], dtype=object))


def view_raw(name: str, elem_type: int, dims: Any, raw: Any) -> np.ndarray:
    """An array that is a view of the bytes-like `raw`. Raises ModelError if its length does not fit the type."""
    dtype = our_dtype(elem_type)
    count = checked_size(name, dtype, dims)
    size = packed_size(elem_type, count)
    if len(raw) != size:
        raise ModelError(f"tensor '{name}' ({dtype_name(elem_type)}, shape {list(dims)}) takes {size} bytes, but its data has {len(raw)}")
    if size == 0:
        return np.empty(tuple(dims), to_numpy(dtype))
    if dtype == "i1":  # any nonzero byte is true, but numpy requires a 1
        return np.asarray(np.frombuffer(raw, dtype=np.uint8) != 0).reshape(tuple(dims))
    if elem_type in PACKED:
        return unpacked(np.frombuffer(raw, dtype=np.uint8), PACKED[elem_type], count).view(to_numpy(dtype)).reshape(tuple(dims))
    return np.frombuffer(raw, dtype=to_numpy(dtype)).reshape(tuple(dims))


def packed_size(elem_type: int, size: int) -> int:
    """The bytes of a tensor in a file, if it takes `size` in memory."""
    return -(-size // PACKED.get(elem_type, 1))


def unpacked(packed: np.ndarray, share: int, count: int) -> np.ndarray:
    """`count` elements, one per byte, from `packed`, which has `share` in each byte."""
    bits = 8 // share
    parts = [(packed >> np.uint8(bits * i)) & np.uint8((1 << bits) - 1) for i in range(share)]
    return np.stack(parts, axis=-1).reshape(-1)[:count].copy()


def tensor_array(tensor: TensorProto) -> np.ndarray:
    """The array of a TensorProto that holds its own data. Raises ModelError or UnsupportedError, naming the tensor."""
    dtype = our_dtype(tensor.data_type)
    if tensor.HasField("raw_data"):
        return view_raw(tensor.name, tensor.data_type, tensor.dims, tensor.raw_data)
    checked_size(tensor.name, dtype, tensor.dims)
    try:
        return np.asarray(numpy_helper.to_array(tensor)).astype(to_numpy(dtype), copy=False)
    except (ValueError, TypeError) as error:
        raise ModelError(f"tensor '{tensor.name}' ({dtype_name(tensor.data_type)}, shape {list(tensor.dims)}): {error}") from None


def string_array(tensor: TensorProto) -> np.ndarray:
    """The array of Python strings in a TensorProto of strings. Raises ModelError, naming the tensor, if its data is damaged."""
    if any(dim < 0 for dim in tensor.dims) or int(np.prod(tensor.dims, dtype=object)) != len(tensor.string_data):
        raise ModelError(f"tensor '{tensor.name}' (string, shape {list(tensor.dims)}) has {len(tensor.string_data)} elements")
    out = np.empty(len(tensor.string_data), STRING)
    try:
        out[:] = [text.decode() for text in tensor.string_data]
    except UnicodeDecodeError:
        raise ModelError(f"tensor '{tensor.name}' has a string that is not UTF-8 text") from None
    return out.reshape(tuple(tensor.dims))


@dataclass
class ExternalData:
    """Reads external tensor data inside one folder, each file once; `folder` is None if there is none to read from."""

    folder: Path | None
    files: dict[Path, memoryview] = field(default_factory=dict)
    """The content of the files read so far, by their paths in the model: links may lead elsewhere later."""
    tensors: list[TensorProto] = field(default_factory=list)
    """The files that may be read."""
    _contents: dict[Path, memoryview] = field(default_factory=dict)
    """By the resolved paths, so that each file is read once."""

    def unread(self) -> list[Path]:
        """The files that contain tensors and were not read."""
        found = set()
        for tensor in self.tensors:
            with contextlib.suppress(ModelError):  # reading it will report the error
                found.add(self._place(tensor.name, {e.key: e.value for e in tensor.external_data}.get("location", ""))[0])
        return sorted(found - self.files.keys())

    def array(self, tensor: TensorProto) -> np.ndarray:
        """The array of a tensor with external data. Raises ModelError, naming the tensor and the file."""
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        size = packed_size(tensor.data_type, checked_size(tensor.name, our_dtype(tensor.data_type), tensor.dims))
        offset = self._number(tensor.name, entries, "offset", 0)
        length = self._number(tensor.name, entries, "length", size)
        if length != size:
            raise ModelError(f"tensor '{tensor.name}' takes {size} bytes, but its external data '{location}' has the length {length}")
        if size == 0:
            return view_raw(tensor.name, tensor.data_type, tensor.dims, b"")
        data = self._read(tensor.name, location)
        if offset + length > len(data):
            span = f"bytes {offset} to {offset + length}"
            raise ModelError(f"tensor '{tensor.name}': its external data '{location}' should hold {span}, but the file has {len(data)} bytes")
        return view_raw(tensor.name, tensor.data_type, tensor.dims, data[offset : offset + length])

    def _number(self, name: str, entries: dict[str, str], key: str, default: int) -> int:
        text = entries.get(key, "")
        if not text:
            return default
        number = whole_number(text)
        if number is None:
            raise ModelError(f"tensor '{name}': the {key} of its external data must be a number of bytes, got {shown(text)}")
        return number

    def _read(self, name: str, location: str) -> memoryview:
        place, path = self._place(name, location)
        if place not in self.files:
            if path not in self._contents:
                if not path.is_file():
                    raise ModelError(f"tensor '{name}': its external data '{location}' is missing in the model's folder")
                self._contents[path] = read_file(path)
            self.files[place] = self._contents[path]
        return self.files[place]

    def _place(self, name: str, location: str) -> tuple[Path, Path]:
        """The path of a file in the model, and its resolved path. Raises ModelError unless both lie inside the folder."""
        if self.folder is None:
            raise ModelError(f"tensor '{name}' lies in the external file '{location}': import the model by its path, so that the file can be found")
        if not location or "\0" in location or os.path.isabs(location):
            raise ModelError(f"tensor '{name}': the location of external data must be a path inside the model's folder, got {location!r}")
        folder = self.folder.resolve()
        try:
            path = (folder / location).resolve()
        except (OSError, RuntimeError):  # circular links
            raise ModelError(f"tensor '{name}': its external data '{location}' cannot be resolved") from None
        if not path.is_relative_to(folder):
            raise ModelError(f"tensor '{name}': its external data '{location}' lies outside the model's folder")
        if ".." in Path(location).parts:  # its meaning depends on links
            raise ModelError(f"tensor '{name}': the location of external data must be a path without '..', got {location!r}")
        return self.folder / location, path
