"""Digests of ONNX models that are messages in memory. Loads neither onnx nor protocol buffers before there is such a message."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepwell.dialects.support.digests import digest_of, key_of


def message_digest(message: Any) -> bytes:
    """The digest of a ModelProto."""
    data = serialized(message)
    return digest_of(data) if data is not None else key_of(*_message_parts(message)).encode()


def serialized(message: Any) -> bytes | None:
    """The bytes of a protocol buffer message; None above the limit of 2 GB."""
    from google.protobuf.message import EncodeError  # the caller has loaded it to create a message

    try:
        return bytes(message.SerializeToString(deterministic=True))
    except (ValueError, EncodeError):
        return None


def _message_parts(message: Any) -> Iterator[bytes | str]:
    """The content that distinguishes a large message: its fields by name; those that are messages are serialised one by one if possible."""
    for descriptor, value in message.ListFields():
        elements = value if hasattr(value, "extend") else [value]
        yield f"{descriptor.name} {len(elements)}"
        if hasattr(elements[0], "ListFields"):
            for element in elements:
                data = serialized(element)
                if data is not None:
                    yield data
                else:
                    yield from _message_parts(element)
        elif isinstance(elements[0], (bytes, str)):
            yield from elements
        else:
            yield np.asarray(elements).tobytes()
