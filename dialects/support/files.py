"""Atomic writes of files, reads with typed errors, and reads that never block on pipes."""

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from stepwell.dialects.support.errors import InputError, StepwellError, shown

_READ_TOGETHER = 1 << 24  # bytes that one thread reads at a time


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write to, which replaces `path` if the block succeeds, and is removed if it fails.

    Raises OSError, naming `path`, if its folder does not exist or cannot be written to.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", str(target))
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.tmp")
    try:
        # Not by mkstemp, which lets only the owner read: the umask decides that here, and other threads rely on it.
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None
    try:
        yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write a file atomically; anything but a regular file (a pipe, /dev/stdout) is written to directly. Raises OSError."""
    content = data.encode() if isinstance(data, str) else data
    target = Path(path)
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def read_utf8(path: str | os.PathLike[str], argument: str, expected: str, error: type[StepwellError]) -> str:
    """The text of the file that an argument names; `expected` describes its content.

    Raises `error` if the file cannot be read or is not UTF-8, InputError if the path is invalid.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise error(f"{path}: expected {expected} in UTF-8") from None
    except OSError as failure:
        raise error(f"{path}: {failure.strerror}") from None
    except ValueError:
        raise InputError(f"{argument}: expected the path of a file, got {shown(path)}") from None


def nameless_file() -> IO[bytes]:
    """A temporary file to write and read back, deleted when it is closed: in memory if possible, since disks may be full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stepwell"), "w+b")
    return tempfile.TemporaryFile()


def open_plain(path: str | os.PathLike[str], *, dir_fd: int | None = None, links: bool = True) -> int:
    """A descriptor for reading a plain file; `links` says whether the last part of the path may be a symbolic link.

    Raises OSError, also for anything but a plain file, such as a pipe, which would block.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW), dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file", os.fspath(path))
    return descriptor


def distrusted(status: os.stat_result, path: str | os.PathLike[str]) -> str | None:
    """The reason for not trusting a file or folder: another user, except the superuser, owns it or may write to it. None if there is none."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"{os.fspath(path)} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {os.fspath(path)} (chmod go-w, if only you have written to it)"
    return None


def read_into(descriptor: int, buffer: Any) -> int:
    """Fill a buffer from a file, from its current position; returns the number of bytes. Raises OSError.

    Several threads read a large file together: most of the time is spent on page faults of the fresh memory.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < 2 * _READ_TOGETHER:
        return _read_part(descriptor, view, None)
    from concurrent.futures import ThreadPoolExecutor  # imported here, because most reads are small

    start = os.lseek(descriptor, 0, os.SEEK_CUR)
    offsets = range(0, len(view), _READ_TOGETHER)
    parts = [view[offset : offset + _READ_TOGETHER] for offset in offsets]
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as readers:
        counts = list(readers.map(lambda offset, part: _read_part(descriptor, part, start + offset), offsets, parts))
    done = next((offset + count for offset, part, count in zip(offsets, parts, counts, strict=True) if count < len(part)), len(view))
    os.lseek(descriptor, start + done, os.SEEK_SET)
    return done


def _read_part(descriptor: int, view: memoryview, offset: int | None) -> int:
    """Fill `view` from `offset` on, or from the file's position; returns the number of bytes."""
    done = 0
    while done < len(view):
        rest = [view[done:]]
        count = os.readv(descriptor, rest) if offset is None else os.preadv(descriptor, rest, offset + done)
        if count == 0:
            break
        done += count
    return done
