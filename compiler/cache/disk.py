"""The cache on disk: entries by key in one folder, safe with several processes at once, checked when read, bounded in size."""

import os
import secrets
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.support.digests import Buffer, digest_of, key_of, new_digest
from stepwell.dialects.support.errors import CodegenError, InputError, shown
from stepwell.dialects.support.files import distrusted, open_plain, read_into
from stepwell.dialects.support.numbers import whole_number

KINDS = ("models", "weights", "objects", "histograms")
DEFAULT_BYTES = 8 << 30
_FORMATS = ("v1", "v2")  # of all releases; the current one is last
_MAGIC = b"stepwel2"
_FOOTER_BYTES = len(_MAGIC) + 32
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class Entry:
    """One file of the cache."""

    kind: str
    path: Path
    size: int
    used: float
    """The time of its last use, in seconds since the epoch."""


class Kept:
    """An entry that was just written. Its content can be read once, even if the entry has been removed since."""

    def __init__(self, key: str, descriptor: int, size: int, digest: bytes) -> None:
        self.key = key
        self.nbytes = size
        self._descriptor = descriptor
        self._digest = digest
        self._close = weakref.finalize(self, os.close, descriptor)

    def read(self) -> np.ndarray:
        """The content, copied to memory. Raises CodegenError if the file was changed."""
        content = aligned_empty(self.nbytes)
        read = os.lseek(self._descriptor, 0, os.SEEK_SET) + read_into(self._descriptor, content)
        self._close()
        if read < self.nbytes or digest_of(content.data) != self._digest:
            raise CodegenError(f"entry {self.key} of the cache was changed by somebody just after it was written; compile the model again")
        content.flags.writeable = False
        return content


class Cache:
    """Entries of several kinds by key (hexadecimal digits) in a folder, at most `limit` bytes in total.

    A file is written under another name and then renamed, so entries are always complete. It ends in a digest of its kind, key and content; a file
    that does not match (a disk or machine failed, somebody edited or moved it) is removed and counts as missing. Content is copied to memory, so
    later changes of the file do not matter. Processes need no lock: the last rename wins, and all write the same. A read-only folder can still be
    read.

    Entries are executed as code, so a folder that another user (except the superuser) owns or may write to is neither read nor written, links in it
    are not followed, and only plain files are opened.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = DEFAULT_BYTES) -> None:
        self.folder = Path(folder)
        self.limit = limit

    def get(self, kind: str, key: str) -> bytes | None:
        """The content of an entry, or None if it is missing or damaged."""
        content = self.read(kind, key)
        return None if content is None else content.tobytes()

    def read(self, kind: str, key: str) -> np.ndarray | None:
        """The content of an entry as read-only bytes, aligned as compiled code requires for weights. Otherwise like `get`."""
        try:
            folder = self._open_folder((_FORMATS[-1], kind, key[:2]))
        except OSError as error:
            if isinstance(error, _Refused):
                _note(f"the cache in {self.folder} is not used: {error}")
            return None
        try:
            return _read(folder, kind, key)
        finally:
            os.close(folder)

    def put(self, kind: str, key: str, data: bytes) -> bool:
        """Store an entry; returns whether that succeeded."""
        return self._write(kind, key, [data], len(data)) is not None

    def put_chunks(self, kind: str, chunks: Iterable[Buffer], size: int) -> Kept | None:
        """Store an entry of `size` bytes whose key is the digest of its content; None if that fails."""
        return self._write(kind, None, chunks, size)

    def entries(self) -> list[Entry]:
        """All entries, the least recently used first."""
        found = [Entry(kind, path, size, used) for kind in KINDS for path, size, used in self._files(_FORMATS[-1], kind)]
        return sorted(found, key=lambda entry: entry.used)

    def trim(self) -> int:
        """Remove the least recently used entries until the rest fits the limit; returns the number removed."""
        entries = self.entries()
        excess = sum(entry.size for entry in entries) - self.limit
        removed = 0
        for entry in entries:
            if excess <= 0:
                break
            self._remove(entry.path)
            excess -= entry.size
            removed += 1
        for path, _, used in list(self._files(_FORMATS[-1], "new")):
            if used < time.time() - _ABANDONED_SECONDS:  # left by a process that was killed
                self._remove(path)
        return removed

    def clear(self) -> tuple[int, int]:
        """Remove everything, including entries of other releases; returns the numbers of entries and of bytes.

        Raises OSError if something cannot be removed, InputError if the folder must not be used.
        """
        refused = self.refused()
        if refused:
            raise InputError(f"the cache in {self.folder} is not used: {refused}")
        files = [file for layout in _FORMATS for file in self._files(layout)]
        for path, _, _ in files:
            with suppress(FileNotFoundError):
                self._remove(path, loudly=True)
        return len(files), sum(size for _, size, _ in files)

    def refused(self) -> str | None:
        """The reason for not using the folder or one in it; None if it may be used."""
        for names in ((), _FORMATS[-1:], *((_FORMATS[-1], kind) for kind in (*KINDS, "new"))):
            try:
                os.close(self._open_folder(names))
            except _Refused as error:
                return str(error)
            except OSError:
                pass  # it does not exist, or cannot be opened
        return None

    def _open_folder(self, names: Iterable[str], *, make: bool = False) -> int:
        """A descriptor of the folder at path `names`. Raises OSError, including _Refused."""
        if make:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        inside = _checked(os.open(self.folder, _FOLDER_FLAGS), self.folder)
        path = self.folder
        for name in names:
            outside, path = inside, path / name
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=outside)
                inside = _checked(os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=outside), path)
            finally:
                os.close(outside)
        return inside

    def _files(self, *names: str) -> Iterator[tuple[Path, int, float]]:
        """The files below a folder, with size and time of last use; skips files that disappear meanwhile."""
        try:
            top = self._open_folder(names)
        except OSError:
            return
        try:
            for folder, _, files, descriptor in os.fwalk(".", dir_fd=top):
                for name in files:
                    with suppress(OSError):
                        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                        yield Path(self.folder, *names, folder, name), status.st_size, status.st_mtime
        finally:
            os.close(top)

    def _remove(self, path: Path, *, loudly: bool = False) -> None:
        """Remove a file. Only if `loudly`, raises an error on failure (it is gone, or permission is missing)."""
        try:
            folder = self._open_folder(path.relative_to(self.folder).parts[:-1])
            try:
                os.unlink(path.name, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError:
            if loudly:
                raise

    def _write(self, kind: str, key: str | None, chunks: Iterable[Buffer], size: int) -> Kept | None:
        """Write an entry, under the digest of its content if it has no key. Disk failures are warnings, not errors."""
        if size > self.limit:
            return None
        opened: list[int] = []
        temporary = f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            new = self._open_folder((_FORMATS[-1], "new"), make=True)
            opened.append(new)
            file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=new)
            opened.append(file)
            digest = new_digest(size)
            for chunk in chunks:
                _write_all(file, chunk)
                digest.update(chunk)
            key = key or digest.hexdigest()
            _write_all(file, _footer(kind, key, digest.digest()))
            os.fchmod(file, 0o400)  # nobody may write to it from now on
            folder = self._open_folder((_FORMATS[-1], kind, key[:2]), make=True)
            opened.append(folder)
            os.replace(temporary, key[2:], src_dir_fd=new, dst_dir_fd=folder)
            temporary = ""
            return Kept(key, os.dup(file), size, digest.digest())
        except _Refused as error:
            _note(f"the cache in {self.folder} is not used: {error}")
            return None
        except OSError as error:
            _note(f"the cache in {self.folder} cannot be written to ({error.strerror or error}): what is compiled now is not kept")
            return None
        finally:
            if temporary and opened:
                _unlink(temporary, opened[0])
            for descriptor in opened:
                os.close(descriptor)


_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class _Refused(OSError):
    """A folder in which another user might have placed code."""


def _checked(descriptor: int, folder: Path) -> int:
    """Check that no other user may write to an open folder; returns its descriptor, or closes it and raises _Refused."""
    reason = distrusted(os.fstat(descriptor), folder)
    if reason is not None:
        os.close(descriptor)
        raise _Refused(reason)
    return descriptor


def _read(folder: int, kind: str, key: str) -> np.ndarray | None:
    """Read an entry in its folder and mark it as used. If its digest does not match, remove it and return None."""
    name = key[2:]
    try:
        file = open_plain(name, dir_fd=folder, links=False)
    except FileNotFoundError:
        return None
    except OSError:
        _unlink(name, folder)
        return None
    try:
        size = os.fstat(file).st_size
        if size >= _FOOTER_BYTES:
            content = aligned_empty(size)
            if read_into(file, content) == size:
                footer, content = content[-_FOOTER_BYTES:].tobytes(), content[:-_FOOTER_BYTES]
                if footer == _footer(kind, key, digest_of(content.data)):
                    with suppress(OSError):  # another user's file, or a read-only medium
                        os.utime(file)
                    content.flags.writeable = False
                    return content
    except OSError:  # the medium has failed
        return None
    finally:
        os.close(file)
    _unlink(name, folder)
    return None


def _footer(kind: str, key: str, digest: bytes) -> bytes:
    return _MAGIC + bytes.fromhex(key_of(kind, key, digest))


def _write_all(descriptor: int, chunk: Buffer) -> None:
    rest = memoryview(chunk).cast("B")
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]


def _unlink(name: str, folder: int) -> None:
    with suppress(OSError):  # it is gone, is a folder, or permission is missing
        os.unlink(name, dir_fd=folder)


def user_cache() -> Cache:
    """The cache that the environment describes.

    STEPWELL_CACHE_DIR is its folder (default: the user's folder for caches),
    STEPWELL_CACHE_BYTES its limit. Raises InputError if that is not a number.
    """
    text = os.environ.get("STEPWELL_CACHE_BYTES", "")
    limit = whole_number(text) if text else DEFAULT_BYTES
    if limit is None:
        raise InputError(f"STEPWELL_CACHE_BYTES: expected a number of bytes, got {shown(text)}")
    return Cache(cache_folder(), limit)


def chosen_cache(wanted: bool) -> Cache | None:
    """The cache that the environment describes, if it is `wanted` and not switched off there. Raises InputError for bad values."""
    return user_cache() if wanted and not is_switched_off() else None


def is_switched_off() -> bool:
    """Whether the environment switches the cache off. Raises InputError if the variable is neither 0 nor 1."""
    text = os.environ.get("STEPWELL_CACHE") or "1"
    if text not in ("0", "1"):
        raise InputError(f"STEPWELL_CACHE: expected 0 or 1, got {shown(text)} (STEPWELL_CACHE_DIR sets the folder)")
    return text == "0"


def cache_folder() -> Path:
    """The path of the cache folder, whether it exists or not."""
    chosen = os.environ.get("STEPWELL_CACHE_DIR")
    if chosen:
        try:
            return Path(chosen).expanduser().absolute()
        except RuntimeError:
            raise InputError(f"STEPWELL_CACHE_DIR: the home folder in '{chosen}' is not known") from None
    from platformdirs import user_cache_path  # not needed if the folder is given

    path = user_cache_path("stepwell", appauthor=False)
    # A user without a home has no cache folder.
    return path if path.is_absolute() else Path(tempfile.gettempdir()).absolute() / f"stepwell-{os.geteuid()}"


@cache
def _note(text: str) -> None:
    warnings.warn(text, stacklevel=3)
