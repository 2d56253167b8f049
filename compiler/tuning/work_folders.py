"""Temporary folders of executors: private, shared by the processes of a session, and removed by the next one if its processes were killed."""

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepwell.dialects.support.errors import ResourceError

_LOCK = ".lock"  # ends the name of the file beside a folder that its processes hold locked


class WorkFolder:
    """A folder of a session in the system's folder for temporary files. The last process that closes it removes it.

    Its processes hold a shared lock, which the system releases if they are killed. Whoever creates or closes a folder removes those without a holder.
    """

    def __init__(self, session: str | None = None) -> None:
        """Create or join the folder of a session, by default a new one. Raises ResourceError if that is impossible."""
        self.session = secrets.token_hex(8) if session is None else session
        root = _root()
        self.path = root / self.session
        try:
            _sweep(root)
            self._lock = _locked(root / f"{self.session}{_LOCK}", fcntl.LOCK_SH)
            self.path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ResourceError(f"{root}: a folder for temporary files cannot be created: {error.strerror or error}") from None

    def close(self) -> None:
        """Leave the folder, which is removed if no other process holds it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            with suppress(OSError):
                _sweep(self.path.parent)


@contextmanager
def alone() -> Iterator[None]:
    """Let one process of this user at a time run the block, so that measurements on one machine do not disturb each other; the others wait.

    Raises ResourceError if the lock cannot be had.
    """
    file = _root() / "measuring"
    try:
        descriptor = _locked(file, fcntl.LOCK_EX)
    except OSError as error:
        raise ResourceError(f"{file}: cannot be locked: {error.strerror or error}") from None
    try:
        yield
    finally:
        os.close(descriptor)


def _root() -> Path:
    """The folder of all sessions of this user. Raises ResourceError if another user could write to it."""
    root = Path(tempfile.gettempdir()).absolute() / f"stepwell-tuning-{os.geteuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.lstat()
    except OSError as error:
        raise ResourceError(f"{root}: cannot be created: {error.strerror or error}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ResourceError(f"{root}: expected a folder to which only this user may write; remove it, or set TMPDIR")
    return root


def _locked(file: Path, how: int) -> int:
    """A descriptor of a file, created if necessary, that holds a lock on it. Raises OSError, and BlockingIOError if `how` does not wait."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, how)
            if file.exists() and file.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BaseException:  # Ctrl-C while it waits, too
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was removed between the two steps


def _sweep(root: Path) -> None:
    """Remove the folders that no process holds. Raises OSError if the root cannot be read."""
    for file in list(root.glob(f"*{_LOCK}")):
        with suppress(OSError):  # somebody holds it, or removes it at this moment
            descriptor = _locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                folder = root / file.name.removesuffix(_LOCK)
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():  # else the next sweep tries again
                    file.unlink(missing_ok=True)
            finally:
                os.close(descriptor)
