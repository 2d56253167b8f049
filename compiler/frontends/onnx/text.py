"""Text in protocol buffer messages: it must be UTF-8, which the parser does not check, and names must be printable."""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from onnx import TensorProto

from stepwell.dialects.support.errors import ModelError
from stepwell.dialects.support.names import plain_names

_NO_NAMES = ("doc_string", "metadata_props", "external_data")
"""Fields whose texts name nothing in the model: remarks, and paths of files."""


def has_odd_names(messages: Iterable[Any]) -> bool:
    """Whether a name in the messages, or in messages inside them, is not printable.

    Raises ModelError if a text is not UTF-8 (protobuf then returns bytes).
    """
    odd = False
    for message in messages:
        for current, field, texts, names in _texts(message):
            for text in texts:
                if isinstance(text, bytes):
                    raise ModelError(f"the field '{field}' of {type(current).__name__} is not UTF-8 text: {text[:60]!r}")
            odd = odd or (names and not all(map(str.isprintable, texts)))
    return odd


def escape_names(messages: Iterable[Any]) -> None:
    """Make all names in the messages printable, in place; equal names stay equal and different ones different."""
    found = [(message, field, texts) for whole in messages for message, field, texts, names in _texts(whole) if names]
    plain = plain_names({text for _, _, texts in found for text in texts})
    for message, field, texts in found:
        if all(map(str.isprintable, texts)):
            continue
        new = [plain.get(text, text) for text in texts]
        if isinstance(getattr(message, field), str):
            setattr(message, field, new[0])
        else:
            getattr(message, field)[:] = new


def _texts(message: Any) -> Iterator[tuple[Any, str, list[Any], bool]]:
    """The text fields of a message and of the messages inside it: message, field name, texts, and whether they are names."""
    waiting = [(message, True)]
    while waiting:
        current, names = waiting.pop()
        if isinstance(current, TensorProto):  # its other fields are data
            yield current, "name", [current.name], True
            continue
        for descriptor, value in current.ListFields():
            named = names and descriptor.name not in _NO_NAMES
            values = value if descriptor.is_repeated else [value]
            if descriptor.type == FieldDescriptor.TYPE_STRING:
                yield current, descriptor.name, list(values), named
            elif descriptor.type == FieldDescriptor.TYPE_MESSAGE:
                waiting += [(inner, named) for inner in values]
