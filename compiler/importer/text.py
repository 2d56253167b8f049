"""Checks that text in protocol buffer messages is UTF-8; the parser does not, for this version of the format."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from onnx import TensorProto

from stepwell.dialects.support.errors import ModelError


def check_text(message: Any) -> None:
    """Raise ModelError if a text field of the message, or of a message inside it, is not UTF-8 (protobuf then returns bytes)."""
    waiting = [message]
    while waiting:
        current = waiting.pop()
        texts: list[Any] = []
        if isinstance(current, TensorProto):  # its other fields are data
            texts.append(("name", current.name))
        else:
            for descriptor, value in current.ListFields():
                values = value if descriptor.is_repeated else [value]
                if descriptor.type == FieldDescriptor.TYPE_STRING:
                    texts += [(descriptor.name, text) for text in values]
                elif descriptor.type == FieldDescriptor.TYPE_MESSAGE:
                    waiting += values
        for field, text in texts:
            if isinstance(text, bytes):
                raise ModelError(f"the field '{field}' of {type(current).__name__} is not UTF-8 text: {text[:60]!r}")
