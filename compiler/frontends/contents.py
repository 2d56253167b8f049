"""Reads the bytes of models and of files beside them."""

import os
from pathlib import Path

from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.support.errors import InputError, ModelError, shown
from stepwell.dialects.support.files import open_plain, read_into


def content_of(source: object) -> memoryview:
    """The bytes of a source that is a path or a bytes-like object; they never change afterwards. Raises like `read_file`."""
    if isinstance(source, Path):
        return read_file(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return memoryview(bytes(source))  # no copy for `bytes`
    raise InputError(f"source: expected a path or bytes, got {shown(source)}")


def read_file(path: Path) -> memoryview:
    """The content of a plain file, copied to memory: writing to the file or truncating it later does not change a model that was read.

    Raises ModelError if it cannot be read, is empty, or changes meanwhile.
    """
    try:
        file = open_plain(path)
        try:
            content = aligned_empty(os.fstat(file).st_size)
            if read_into(file, content) < len(content) or read_into(file, bytearray(1)):
                raise ModelError(f"{path.name} was written to while it was read")
        finally:
            os.close(file)
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ModelError(f"{path.name} cannot be read: its name has a zero byte in it") from None
    if len(content) == 0:
        raise ModelError(f"{path.name} is empty")
    return content.data.toreadonly()
