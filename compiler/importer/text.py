"""Text in protocol buffer messages: it must be UTF-8, which the parser does not check for this version of the format."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from onnx import TensorProto

from stepwell.dialects.errors import ModelError


def check_text(message: Any) -> None:
    """Raise ModelError if a text field of the message or of one inside it is not UTF-8 (protobuf then gives its bytes)."""
    if isinstance(message, TensorProto):  # whose other fields are data
        texts: list[Any] = [("name", message.name)]
    else:
        texts = []
        for descriptor, value in message.ListFields():
            values = value if descriptor.is_repeated else [value]
            if descriptor.type == FieldDescriptor.TYPE_STRING:
                texts += [(descriptor.name, text) for text in values]
            elif descriptor.type == FieldDescriptor.TYPE_MESSAGE:
                for inner in values:
                    check_text(inner)
    for field, text in texts:
        if isinstance(text, bytes):
            raise ModelError(f"the field '{field}' of {type(message).__name__} is not UTF-8 text: {text[:60]!r}")
