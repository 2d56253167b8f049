"""Files of arrays, .npy and .npz: read lazily and within limits, and written under names that any program can read."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from stepwell.dialects.support.errors import InputError, ResourceError, StepwellError
from stepwell.dialects.support.limits import Limits, over
from stepwell.dialects.support.names import file_names, printable

_PART = 1 << 24  # bytes read at a time


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an .npz file by name, each of which is read when it is accessed.

    Opening one, and reading from it, raises InputError for a damaged file, or one of another kind; LimitError for an array larger than
    `limits.value_bytes`, and ResourceError for one that does not fit in memory, before it is unpacked.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        from zipfile import ZipFile  # imported here, because it loads every kind of compression

        self.path, self.limits = path, limits or Limits()
        with readable(path, ".npz file"), ZipFile(path) as file:
            self._members = {printable(name.removesuffix(".npy")): name for name in file.namelist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> np.ndarray:
        return self.rows(name, None)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array, without reading it. Raises KeyError if there is none."""
        with self._opened(name) as (stream, _):
            return _header(stream)[0]

    def rows(self, name: str, count: int | None) -> np.ndarray:
        """The first `count` entries of an array along its first axis, or all of it. Raises KeyError if there is none."""
        with self._opened(name) as (stream, size):
            return _read(f"{self.path}: the array '{printable(name)}'", stream, size, count, self.limits)

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[IO[bytes], int]]:
        """A stream of a member of the archive, and its stated number of bytes."""
        from zipfile import ZipFile

        member = self._members[name]
        with readable(self.path, ".npz file"), ZipFile(self.path) as file, file.open(member) as stream:
            yield stream, file.getinfo(member).file_size


def read_npy(path: Path, limits: Limits | None = None) -> np.ndarray:
    """The array of an .npy file. Raises like `Archive`."""
    with readable(path, ".npy file"), path.open("rb") as file:
        size = path.stat().st_size
        if file.read(2) == b"PK":
            raise InputError(f"{path}: expected one array, got an archive")
        file.seek(0)
        return _read(f"{path}: the array", file, size, None, limits or Limits())


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> tuple[bytes, dict[str, str]]:
    """An .npz file of arrays, and the name of each in it: its own, unless a file cannot have that name (`file_names`)."""
    from zipfile import ZipFile

    names, buffer = file_names(arrays, folders=True), BytesIO()
    with ZipFile(buffer, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{names[name]}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue(), names


@contextmanager
def readable(path: Path, what: str) -> Iterator[None]:
    """Convert the exceptions of the libraries that read a file, of which each has its own kinds, to an InputError."""
    try:
        yield
    except StepwellError:
        raise
    except Exception as error:
        said = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())[:300]
        raise InputError(f"{path}: not a readable {what}: {printable(said) or type(error).__name__}") from None


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is stored in Fortran order, and dtype. Raises ValueError if it is not an array of numbers."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(stream)
    if version not in readers:
        raise ValueError(f"an array of version {version[0]}.{version[1]} of the format; expected {' or '.join(f'{a}.{b}' for a, b in readers)}")
    shape, by_columns, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects (allow_pickle), which are not read")
    if any(size < 0 for size in shape):
        raise ValueError(f"an array of the shape {list(shape)}")
    return shape, by_columns, dtype


def _read(what: str, stream: IO[bytes], size: int, count: int | None, limits: Limits) -> np.ndarray:
    """An array, or its first `count` entries, from a stream that has `size` bytes in total."""
    shape, by_columns, dtype = _header(stream)
    stored = prod(shape) * dtype.itemsize
    if stored > size:
        raise ValueError(f"it lacks data: an array of {dtype} and shape {list(shape)} takes {stored} bytes, and there are {size}")
    if count is not None and shape and not by_columns:
        shape = (min(count, shape[0]), *shape[1:])
    needed = prod(shape) * dtype.itemsize
    if needed > limits.value_bytes:
        raise over(what, "value_bytes", needed, limits)
    try:
        array = np.empty(shape, dtype, order="F" if by_columns else "C")
    except MemoryError:
        raise ResourceError(f"{what} takes {needed} bytes, more memory than there is") from None
    memory = array.reshape(-1, order="A").view(np.uint8).data if needed else memoryview(b"")
    done = 0
    while done < needed:
        part = stream.read(min(_PART, needed - done))
        if not part:
            raise ValueError(f"it ends after {done} of {needed} bytes of data")
        memory[done : done + len(part)] = part
        done += len(part)
    if needed == stored:
        stream.read(1)  # the checksum is compared only at the end
    return array if count is None else array[:count]
