"""Text in protocol buffer messages: it must be UTF-8, which the parser does not check for this version of the format."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from onnx import TensorProto

from stepwell.dialects.support.errors import ModelError


def check_text(message: Any) -> None:
    """Raise ModelError if a text field of the message or of one inside it is not UTF-8 (protobuf then gives its bytes)."""
    waiting = [message]
    while waiting:
        current = waiting.pop()
        texts: list[Any] = []
        if isinstance(current, TensorProto):  # whose other fields are data
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
