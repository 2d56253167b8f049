"""The file of the tuning database: opening it, transactions, and what happens if it is damaged, locked, full or read-only."""

import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from stepwell.database.schema import VERSION, create, in_memory, is_sound, kind_of_file
from stepwell.dialects.support.errors import RecordWarning, warn_caller
from stepwell.dialects.support.files import distrusted
from stepwell.dialects.support.names import printable
from stepwell.dialects.support.processes import Lock

R = TypeVar("R")
BUSY_SECONDS = 10.0
"""How long SQLite waits for the transaction of another process."""
_TRIES = 3
"""The number of times that a transaction is tried; it fails only if a process is stopped in the middle of one, or the file is replaced."""
_BESIDE = ("-wal", "-shm")
"""Endings of the files that SQLite keeps beside a database."""
_NOT_WRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}
_inherited: list[sqlite3.Connection] = []  # of the parent of a forked process: closing them here would release the parent's locks


class DamagedRecord(ValueError):
    """A row of the database has a value that nobody wrote there."""


class _Damaged(Exception):
    """The file is no database of ours, but was one."""


@dataclass(frozen=True)
class _Opened:
    """A connection to the file."""

    connection: sqlite3.Connection
    identity: tuple[int, int]
    """Device and number of the file: another process may set a damaged file aside and begin a new one."""
    process: int
    is_snapshot: bool
    """Whether SQLite can neither lock the file nor see changes of it, because the folder is read-only."""


class Storage:
    """A database in a file that many processes may read and write at once. Reading and writing never fail because of the file:

    - A damaged file is renamed, and a new one begins.
    - If the file cannot be written to, its content is copied to memory, where new records go too; they are lost at the end of the process.
    - A file that must not be used (others may write to it; it is of a newer version or of another program) stays as it is; records are in memory.

    One RecordWarning says so. The file is created by the first transaction that writes.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.problem: str | None = None
        """Why records are not kept in the file; None as long as they are."""
        self._lock = Lock()
        self._opened: _Opened | None = None
        self._memory: sqlite3.Connection | None = None
        self._empty: sqlite3.Connection | None = None

    def read(self, query: Callable[[sqlite3.Connection], R]) -> R:
        """The result of a query."""

        def action() -> R:
            connection = self._current()
            if connection is None:  # no file yet
                connection = self._empty = self._empty or in_memory()
            return query(connection)

        return self._attempt(action)

    def write(self, change: Callable[[sqlite3.Connection], R]) -> R:
        """Make a change in a transaction; returns its result. It may be called several times, until the transaction succeeds."""
        return self._attempt(lambda: _transaction(self._current() or self._created(), change))

    def compact(self) -> None:
        """Give unused space of the file back, if no other process is at work."""
        with self._lock, suppress(sqlite3.OperationalError):
            if (connection := self._current()) is not None:
                connection.execute("VACUUM")

    def close(self) -> None:
        """Close the file. It is opened again when it is needed."""
        with self._lock:
            self._forget_file()

    def _attempt(self, action: Callable[[], R]) -> R:
        with self._lock:
            for left in reversed(range(_TRIES)):
                try:
                    return action()
                except (sqlite3.DatabaseError, DamagedRecord, _Damaged, OSError) as error:
                    self._recover(error, is_last=left == 0)
            return action()  # in memory now

    def _recover(self, error: Exception, *, is_last: bool) -> None:
        """Make another attempt possible. Raises `error` if it is not the file's fault."""
        code, opened = _code(error), self._opened
        if self._memory is not None or isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)):
            raise error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            if is_last:
                self._leave_file("another process holds it locked")
        elif code in _NOT_WRITABLE or isinstance(error, OSError):
            self._leave_file(getattr(error, "strerror", None) or str(error))
        elif code not in (None, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) and (opened is None or is_sound(opened.connection)):
            raise error
        else:  # without a code, a value or a text in it cannot be read
            self._set_aside(error)

    # --- the connection

    def _current(self) -> sqlite3.Connection | None:
        """The connection to the database as it is now; None if there is no file yet, or an empty one."""
        if self._memory is not None:
            return self._memory
        identity = _identity(self.path)
        if self._opened is not None and (self._opened.process, self._opened.identity) != (os.getpid(), identity):
            self._forget_file()
        if self._opened is None and identity is not None:
            self._open(identity)
        return self._memory or (None if self._opened is None else self._opened.connection)

    def _open(self, identity: tuple[int, int]) -> None:
        """Open the file, or decide that it must not be used. Raises sqlite3.Error, OSError or _Damaged."""
        status = self.path.stat()
        refused = distrusted(self.path.parent.stat(), self.path.parent) or distrusted(status, self.path)
        if not stat.S_ISREG(status.st_mode):
            refused = "it is no plain file"
        if refused is not None:
            self._do_without(refused)
            return
        connection, is_snapshot = _connected(self.path)
        try:
            kind, version = kind_of_file(connection)
            if kind == "damaged":
                raise _Damaged("its version is missing")
            if kind == "foreign":
                self._do_without("it is a database of another program")
            elif version > VERSION:
                self._do_without(f"a newer version of Stepwell wrote it (format {version}, this version reads {VERSION})")
            elif kind == "ours":
                self._opened = _Opened(connection, identity, os.getpid(), is_snapshot)
        finally:
            if self._opened is None:
                connection.close()

    def _created(self) -> sqlite3.Connection:
        """The connection to a file that is created with its tables. Raises sqlite3.Error or OSError."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refused = distrusted(self.path.parent.stat(), self.path.parent)
        if refused is not None:
            return self._do_without(refused)
        with _locked(self.path.parent):
            connection = _connection(self.path, "mode=rwc")
            try:
                self.path.chmod(0o600)  # SQLite gives the files beside it the same mode
                connection.execute("PRAGMA journal_mode = WAL")
                _transaction(connection, create)
            finally:
                connection.close()
        opened = self._current()
        if opened is None:
            raise OSError("it was removed while it was created")
        return opened

    def _forget_file(self) -> None:
        if self._opened is not None:
            if self._opened.process == os.getpid():
                self._opened.connection.close()
            else:
                _inherited.append(self._opened.connection)
        self._opened = None

    # --- faults

    def _do_without(self, reason: str) -> sqlite3.Connection:
        """Use an empty database in memory from now on."""
        self.problem = reason
        _note(f"the tuning records in {printable(str(self.path))} are not used, and new ones are not kept: {reason}")
        self._forget_file()
        self._memory = in_memory()
        return self._memory

    def _leave_file(self, reason: str) -> None:
        """Use a copy of the file in memory from now on."""
        self.problem = reason
        _note(f"the tuning records in {printable(str(self.path))} cannot be written to ({reason}): new ones are not kept")
        memory = in_memory()
        if self._opened is not None:
            deadline = time.monotonic() + BUSY_SECONDS

            def check_time(*_: int) -> None:
                if time.monotonic() > deadline:
                    raise TimeoutError

            try:
                self._opened.connection.backup(memory, progress=check_time)
            except (sqlite3.Error, TimeoutError):
                memory = in_memory()
        self._forget_file()
        self._memory = memory

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, unless another process did so."""
        identity = _identity(self.path) if self._opened is None else self._opened.identity
        is_snapshot = self._opened is not None and self._opened.is_snapshot
        self._forget_file()
        reason = f"it is damaged ({printable(str(error))})"
        if is_snapshot:
            self._do_without(reason)
            return
        try:
            with _locked(self.path.parent):
                if _identity(self.path) != identity:
                    return
                aside = _unused(f"{self.path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
                for ending in ("", *_BESIDE):
                    with suppress(FileNotFoundError):
                        os.rename(f"{self.path}{ending}", f"{aside}{ending}")
        except OSError:
            self._do_without(reason)
        else:
            _note(f"the tuning records in {printable(str(self.path))} are not used: {reason}. The file was renamed to {printable(aside)}")


def _code(error: Exception) -> int | None:
    """SQLite's primary code of an error; None if it does not come from SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _transaction(connection: sqlite3.Connection, change: Callable[[sqlite3.Connection], R]) -> R:
    try:
        connection.execute("BEGIN IMMEDIATE")
        result = change(connection)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.rollback()
        raise
    return result


def _connected(path: Path) -> tuple[sqlite3.Connection, bool]:
    """A connection to an existing file, and whether it is a snapshot. Raises sqlite3.Error."""
    try:
        return _connection(path, "mode=rw"), False
    except sqlite3.OperationalError as error:
        if _code(error) not in _NOT_WRITABLE:
            raise
        # SQLite cannot create its files beside the database.
        return _connection(path, "mode=ro&immutable=1"), True


def _connection(path: Path, how: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path))}?{how}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")  # a power failure may lose the last transactions, and damages nothing
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens all files now, while their names are this database's
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _unused(path: str) -> str:
    """The path, or the first of `path-2`, `path-3`, … that does not exist."""
    return next(name for name in (path, *(f"{path}-{number}" for number in range(2, 1000))) if not os.path.exists(name))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from creating or renaming the file meanwhile; goes on without if the file system has no locks, or after a while."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)


@cache
def _note(text: str) -> None:
    warn_caller(RecordWarning(text))
