"""The cache on disk: entries by key in one folder, safe with several processes at once, checked when read, bounded in size."""

import os
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TypeAlias

import numpy as np
from blake3 import blake3

from stepwell.dialects.errors import InputError

Buffer: TypeAlias = bytes | memoryview | mmap
KINDS = ("models", "weights", "objects")
DEFAULT_BYTES = 8 << 30
_FORMAT = "v1"
# After the payload, so that the payload begins where the file does: aligned to a page, as what is memory-mapped must be.
_MAGIC = b"stepwel1"
_FOOTER_BYTES = len(_MAGIC) + 32
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class Entry:
    """One file of the cache."""

    kind: str
    path: Path
    size: int
    used: float
    """When it was last used, in seconds since the epoch."""


class Cache:
    """Entries of several kinds by key (hexadecimal digits) in a folder, at most `limit` bytes of them.

    A file is written under another name and then renamed, so that what is there is whole; it ends in the digest of its content, and
    one that does not fit (the disk or the machine failed, somebody edited it) is taken away and counts as not there. Processes need
    no lock: whoever renames last wins, and both have written the same. A folder that cannot be written to is read all the same.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = DEFAULT_BYTES) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self._root = self.folder / _FORMAT

    def get(self, kind: str, key: str) -> bytes | None:
        """The content of an entry, or None if there is none (any more) or it is damaged."""
        with self._opened(kind, key) as data:
            return None if data is None else bytes(data)

    def map(self, kind: str, key: str, *, check: bool = True) -> np.ndarray | None:
        """The content of an entry as read-only bytes that lie in the file itself: processes share them. As `get` otherwise.

        `check` is whether to compare its digest: not needed for what was written a moment ago.
        """
        with self._opened(kind, key, check=check) as data:
            return None if data is None else np.frombuffer(data, np.uint8)

    def put(self, kind: str, key: str, data: bytes) -> bool:
        """Keep an entry; returns whether that was possible."""
        return self._write(kind, key, [data], len(data)) is not None

    def put_chunks(self, kind: str, chunks: Iterable[Buffer], size: int) -> str | None:
        """Keep an entry of `size` bytes whose key is the digest of its content; returns the key, or None if it cannot be kept."""
        return self._write(kind, None, chunks, size)

    def entries(self) -> list[Entry]:
        """Everything that is kept, the least recently used first."""
        found = [entry for kind in KINDS for entry in _files(kind, self._root / kind)]
        return sorted(found, key=lambda entry: entry.used)

    def trim(self) -> int:
        """Take the least recently used entries away until the rest is within the limit; returns how many went."""
        entries = self.entries()
        excess = sum(entry.size for entry in entries) - self.limit
        removed = 0
        for entry in entries:
            if excess <= 0:
                break
            _remove(entry.path)
            excess -= entry.size
            removed += 1
        for left in _files("", self._root / "new"):
            if left.used < time.time() - _ABANDONED_SECONDS:  # by a process that was killed
                _remove(left.path)
        return removed

    def clear(self) -> tuple[int, int]:
        """Take everything away; returns the number of entries and of bytes. Raises OSError if something cannot be removed."""
        entries = [*self.entries(), *_files("", self._root / "new")]
        for entry in entries:
            entry.path.unlink(missing_ok=True)
        return len(entries), sum(entry.size for entry in entries)

    def _path(self, kind: str, key: str) -> Path:
        return self._root / kind / key[:2] / key[2:]

    @contextmanager
    def _opened(self, kind: str, key: str, *, check: bool = True) -> Iterator[memoryview | None]:
        path = self._path(kind, key)
        try:
            with path.open("rb") as file:
                data = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
        except (OSError, ValueError):  # there is none, or an empty one, which cannot be mapped
            yield None
            return
        content, footer = data[:-_FOOTER_BYTES], bytes(data[-_FOOTER_BYTES:])
        if check and footer != _MAGIC + digest_of(content):
            _remove(path)
            yield None
            return
        with suppress(OSError):  # somebody else's, or on a medium that is only read
            os.utime(path)
        yield content

    def _write(self, kind: str, key: str | None, chunks: Iterable[Buffer], size: int) -> str | None:
        """Write an entry, under the digest of its content if it has no key. What goes wrong on disk is told and is no error."""
        if size > self.limit:
            return None
        new = self._root / "new"
        temporary: Path | None = None
        try:
            # What is in here is run as code: nobody else may write to it.
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.mkdir(mode=0o700, exist_ok=True)
            new.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=new, delete=False) as file:
                temporary = Path(file.name)
                digest = blake3(max_threads=_threads(size))
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                file.write(_MAGIC + digest.digest())
            key = key or digest.hexdigest()
            path = self._path(kind, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, path)
        except OSError as error:
            _note(f"the cache in {self.folder} cannot be written to ({error.strerror or error}): what is compiled now is not kept")
            key = None
        finally:
            if temporary is not None:
                _remove(temporary)
        return key


def user_cache() -> Cache:
    """The cache that the environment describes.

    STEPWELL_CACHE_DIR is its folder (default: the user's folder for caches),
    STEPWELL_CACHE_BYTES its limit. Raises InputError if that is no number.
    """
    return Cache(cache_folder(), _limit())


def is_switched_off() -> bool:
    """Whether the environment says that no cache is to be used."""
    return os.environ.get("STEPWELL_CACHE") == "0"


def cache_folder() -> Path:
    """The folder of the cache, whether it is there or not."""
    chosen = os.environ.get("STEPWELL_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path  # not needed where the folder is given

    return user_cache_path("stepwell", appauthor=False)


def _limit() -> int:
    text = os.environ.get("STEPWELL_CACHE_BYTES", "")
    if not text:
        return DEFAULT_BYTES
    if not text.isdecimal():
        raise InputError(f"STEPWELL_CACHE_BYTES: expected a number of bytes, got '{text}'")
    return int(text)


def key_of(*parts: str | bytes) -> str:
    """A key made of `parts`: the same for the same parts in the same order only."""
    digest = blake3()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def digest_of(data: Buffer) -> bytes:
    """The digest of some bytes: BLAKE3, which is fast on large ones (it takes all cores) and safe against forgery."""
    return blake3(data, max_threads=_threads(len(data))).digest()


def _threads(size: int) -> int:
    return blake3.AUTO if size > 1 << 20 else 1


def _files(kind: str, folder: Path) -> Iterator[Entry]:
    """The files in `folder` and in its folders; those that go away meanwhile are left out."""
    try:
        with os.scandir(folder) as found:
            inside = list(found)
    except OSError:
        return
    for item in inside:
        if item.is_dir(follow_symlinks=False):
            yield from _files(kind, Path(item.path))
        else:
            with suppress(OSError):
                status = item.stat(follow_symlinks=False)
                yield Entry(kind, Path(item.path), status.st_size, status.st_mtime)


def _remove(path: Path) -> None:
    with suppress(OSError):  # it is gone, or we may not
        path.unlink()


@cache
def _note(text: str) -> None:
    warnings.warn(text, stacklevel=3)
