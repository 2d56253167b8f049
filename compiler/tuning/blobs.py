"""Large data of requests, such as weights: files named by a digest of their content, which processes map into memory instead of receiving copies."""

import copyreg
import io
import mmap
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.dialects.support.errors import ResourceError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Blob:
    """Some bytes, by content. A request that contains one is small; the process that answers it reads the bytes from its own store."""

    digest: str
    """The BLAKE3 digest in hexadecimal digits."""
    size: int
    """The number of bytes."""

    def array(self) -> "np.ndarray":
        """The bytes from this process's store, as `BlobStore.array` returns them. Raises ResourceError."""
        return _store().array(self)


@dataclass(frozen=True)
class Parcel:
    """A request or an answer on its way between processes and machines."""

    data: bytes
    """It as a pickle: those who pass it on need not know its class."""
    blobs: tuple[Blob, ...]
    """The blobs that it contains, which the store of the machine must have."""


class BlobStore:
    """A folder of blobs. Several processes may write to it at once: all write the same content under the same name."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, blob: Blob) -> Path:
        """The file of a blob, whether it exists or not."""
        return self.folder / blob.digest

    def has(self, blob: Blob) -> bool:
        """Whether the store has a blob. Files are complete, because they are renamed after they were written."""
        return blob.size == 0 or self.path(blob).is_file()

    def put(self, data: "bytes | memoryview | np.ndarray") -> Blob:
        """Store some bytes, or those of an array in the order of its elements. Raises ResourceError if they cannot be written."""
        import numpy as np  # imported here, like the digests, because a process that measures imports little

        from stepwell.dialects.support.digests import digest_of
        from stepwell.dialects.support.files import replacing

        content = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data).cast("B")
        blob = Blob(digest_of(content).hex(), len(content))
        if not self.has(blob):
            try:
                with replacing(self.path(blob)) as temporary:
                    temporary.write_bytes(content)
            except OSError as error:
                raise ResourceError(f"{self.folder}: {len(content)} bytes of data of a request cannot be stored: {error.strerror or error}") from None
        return blob

    def array(self, blob: Blob) -> "np.ndarray":
        """The bytes, mapped into memory: read-only, at the beginning of a page. Raises ResourceError if the store lacks them."""
        import numpy as np

        if blob.size == 0:
            return np.frombuffer(b"", np.uint8)  # read-only, like others
        path = self.path(blob)
        try:
            with open(path, "rb") as file:
                return np.frombuffer(mmap.mmap(file.fileno(), blob.size, access=mmap.ACCESS_READ), np.uint8)
        except (OSError, ValueError) as error:  # ValueError: the file is shorter
            raise ResourceError(f"{path}: expected {blob.size} bytes of data of a request: {error}") from None

    def receive(self, blob: Blob, data: "bytes | np.ndarray") -> None:
        """Store a blob that came from another machine. Raises ResourceError if its content does not match or cannot be written."""
        got = self.put(data)
        if got != blob:
            raise ResourceError(f"blob {blob.digest}: expected the {blob.size} bytes with that digest, got {got.size} bytes with another one")


_current: list[BlobStore] = []
"""The store of this process, at most one."""


def use_store(folder: str | os.PathLike[str]) -> None:
    """Make a folder the store from which this process reads blobs."""
    _current[:] = [BlobStore(folder)]


def put(data: "bytes | memoryview | np.ndarray") -> Blob:
    """Store a part of an answer, in a process that answers a request; the blob belongs into the answer. Raises ResourceError."""
    return _store().put(data)


def _store() -> BlobStore:
    if not _current:
        raise ResourceError("this process has no store of blobs: only processes of an executor have one")
    return _current[0]


def pack(value: object) -> Parcel:
    """A value, to be sent. Raises what `pickle` raises."""
    found: dict[Blob, None] = {}

    def reduce(blob: Blob) -> tuple[type[Blob], tuple[str, int]]:
        found[blob] = None
        return Blob, (blob.digest, blob.size)

    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = {**copyreg.dispatch_table, Blob: reduce}
    pickler.dump(value)
    return Parcel(stream.getvalue(), tuple(found))
