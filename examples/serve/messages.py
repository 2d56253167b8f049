"""The messages of the Open Inference Protocol (KServe v2) over HTTP: arrays from the body of a request, and the body of a response from arrays.

The protocol is https://github.com/kserve/open-inference-protocol; tensors are JSON, or binary by its extension `binary_tensor_data`.
"""

import itertools
import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from stepwell import BundledModel, TensorInfo

DATATYPES = {"bool": "BOOL", "bfloat16": "BF16", "float16": "FP16", "float32": "FP32", "float64": "FP64"} | {
    f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""The protocol's name of each of numpy's types."""
ELEMENTS: Mapping[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}
"""The types of elements in JSON, by the kind of numpy's type. bfloat16 is of another kind: it is sent as binary data only."""
Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class ProtocolError(ValueError):
    """A request that the protocol or the model does not allow. Its text is for the client."""


class Message(BaseModel):
    """An object in JSON. Fields that the protocol leaves to others are ignored; those of type None would change the meaning, and are refused."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


class InputParameters(Message):
    """`parameters` of an input."""

    binary_data_size: Count | None = None
    shared_memory_region: None = None


class Input(Message):
    """A tensor of a request."""

    name: str
    shape: list[Count] = Field(max_length=16)
    datatype: str
    data: list[object] | None = None
    parameters: InputParameters = InputParameters()


class OutputParameters(Message):
    """`parameters` of an output that is asked for."""

    binary_data: bool | None = None
    classification: None = None
    shared_memory_region: None = None


class Output(Message):
    """An output that is asked for."""

    name: str
    parameters: OutputParameters = OutputParameters()


class Parameters(Message):
    """`parameters` of a request."""

    timeout: Count | None = None
    binary_data_output: bool = False
    sequence_id: None = None


class Body(Message):
    """The JSON of a request."""

    id: str | None = None
    inputs: list[Input]
    outputs: list[Output] | None = None
    parameters: Parameters = Parameters()


@dataclass(frozen=True)
class InferenceRequest:
    """A request, checked against the model."""

    id: str | None
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, bool]
    """The names of the outputs that are asked for, in order, and whether each is sent as binary data."""
    timeout: float | None
    """Seconds; None if the request sets none."""


def read_request(body: bytes | bytearray, header_length: str | None, model: BundledModel, max_json: int) -> InferenceRequest:
    """The request in a body. Binary tensors share its memory: nothing is allocated by the sizes that a request states.

    `header_length` is the header Inference-Header-Content-Length: how many bytes of the body are JSON, before the binary tensors; all if None. More
    than `max_json` are refused, since no other Python runs while JSON is read. Raises ProtocolError.
    """
    if header_length is not None and not (re.fullmatch("[0-9]{1,18}", header_length) and int(header_length) <= len(body)):
        raise ProtocolError(f"Inference-Header-Content-Length: expected at most the {len(body)} bytes of the body, got {shown(header_length)}")
    offset = len(body) if header_length is None else int(header_length)
    if offset > max_json:
        raise ProtocolError(f"expected at most {max_json} bytes of JSON, got {offset}: send tensors as binary data")
    try:
        message = Body.model_validate_json(body[:offset])
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ProtocolError(f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}") from None
    infos = {info.name: info for info in model.inputs}
    inputs: dict[str, np.ndarray] = {}
    for tensor in message.inputs:
        info = infos.get(tensor.name)
        if info is None or tensor.name in inputs:
            raise ProtocolError(f"inputs: expected {', '.join(infos)}, each once, got {shown(tensor.name)}{' twice' if info else ''}")
        size = tensor.parameters.binary_data_size
        inputs[tensor.name] = read_tensor(info, tensor, memoryview(body)[offset : offset + (size or 0)])
        offset += size or 0
    if offset != len(body):
        raise ProtocolError(f"expected {offset} bytes, by the length of the JSON and each binary_data_size, got {len(body)}")
    if missing := infos.keys() - inputs:
        raise ProtocolError(f"inputs: expected {', '.join(infos)}, got no {', '.join(sorted(missing))}")
    timeout = message.parameters.timeout
    return InferenceRequest(message.id, inputs, read_outputs(message, model), timeout / 1e6 if timeout else None)


def read_outputs(message: Body, model: BundledModel) -> dict[str, bool]:
    """The outputs that a request asks for, and whether each is binary. Raises ProtocolError."""
    types = {info.name: info.dtype.name for info in model.outputs}
    found: dict[str, bool] = {}
    for output in message.outputs or [Output(name=name) for name in types]:
        if output.name not in types or output.name in found:
            raise ProtocolError(f"outputs: expected some of {', '.join(types)}, each once, got {shown(output.name)}")
        binary = output.parameters.binary_data
        found[output.name] = message.parameters.binary_data_output if binary is None else binary
        if types[output.name] == "bfloat16" and not found[output.name]:
            raise ProtocolError(f"output '{output.name}': expected binary_data, since JSON has no BF16")
    return found


def read_tensor(info: TensorInfo, tensor: Input, binary: memoryview) -> np.ndarray:
    """The array of an input, from JSON or from the bytes that its size leaves it. Raises ProtocolError."""
    what, datatype = f"input '{info.name}'", DATATYPES[info.dtype.name]
    if tensor.datatype != datatype or not info.fits(tensor.shape):
        raise ProtocolError(f"{what}: expected {datatype} {metadata_shape(info)}, got {shown(tensor.datatype)} {tensor.shape}")
    count, size = math.prod(tensor.shape), tensor.parameters.binary_data_size
    if (size is None) == (tensor.data is None):
        raise ProtocolError(f"{what}: expected either data or binary_data_size")
    if tensor.data is not None:
        return read_elements(what, info.dtype, tensor.shape, tensor.data)
    if not count * info.dtype.itemsize == size == len(binary):
        raise ProtocolError(f"{what}: expected {count * info.dtype.itemsize} bytes, got a binary_data_size of {size} and {len(binary)} bytes")
    return np.ndarray(tensor.shape, info.dtype, binary)


def read_elements(what: str, dtype: np.dtype, shape: Sequence[int], data: list[object]) -> np.ndarray:
    """The array in lists, which are nested as its dimensions or flat. Raises ProtocolError."""
    flat, depth = data, 1
    while flat and isinstance(flat[0], list):
        rows = [row for row in flat if isinstance(row, list)]
        if len(rows) != len(flat) or depth >= len(shape) or {len(row) for row in rows} != {shape[depth]}:
            raise ProtocolError(f"{what}: expected lists nested as {list(shape)}, or one of all elements")
        flat, depth = list(itertools.chain.from_iterable(rows)), depth + 1
    if len(flat) != math.prod(shape):
        raise ProtocolError(f"{what}: expected {math.prod(shape)} elements, got {len(flat)}")
    if odd := {type(element) for element in flat} - ELEMENTS.get(dtype.kind, set()):
        raise ProtocolError(f"{what}: expected {DATATYPES[dtype.name]} in JSON, got {', '.join(sorted(kind.__name__ for kind in odd))}")
    try:
        with np.errstate(over="ignore"):  # a number beyond the largest is rounded to infinity, as everywhere
            return np.array(flat, dtype).reshape(shape)
    except OverflowError as error:
        raise ProtocolError(f"{what}: {error}") from None


def write_response(model: str, version: str, request: InferenceRequest, results: Mapping[str, np.ndarray]) -> tuple[bytes, int | None]:
    """The body of a response, and how many of its bytes are JSON if binary tensors follow."""
    outputs: list[dict[str, object]] = []
    binary = []
    for name, is_binary in request.outputs.items():
        array = results[name]
        written = {"name": name, "datatype": DATATYPES[array.dtype.name], "shape": list(array.shape)}
        if is_binary:
            binary.append(array.tobytes())
            outputs.append(written | {"parameters": {"binary_data_size": array.nbytes}})
        else:
            outputs.append(written | {"data": array.ravel().tolist()})
    message = {"model_name": model, "model_version": version, "outputs": outputs} | ({} if request.id is None else {"id": request.id})
    head = to_json(message, inf_nan_mode="constants")
    return head + b"".join(binary), len(head) if binary else None


def metadata(info: TensorInfo) -> dict[str, object]:
    """The description of an input or output."""
    return {"name": info.name, "datatype": DATATYPES[info.dtype.name], "shape": metadata_shape(info)}


def metadata_shape(info: TensorInfo) -> list[int]:
    """Sizes, with -1 for a free one."""
    return [size if isinstance(size, int) else -1 for size in info.shape]


def shown(text: str) -> str:
    """Text of a request for an error: short, in quotes, without control characters."""
    return reprlib.repr(text)
