"""Files that appear whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write to, which takes the place of `path` when the block ends well, and vanishes when it does not.

    Raises OSError, naming `path`, if its folder does not exist or cannot be written to.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", str(target))
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes it for its owner alone
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write a file whole; what is no regular file (a pipe, /dev/stdout) is written to as it is. Raises OSError."""
    content = data.encode() if isinstance(data, str) else data
    target = Path(path)
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    with replacing(target) as temporary:
        temporary.write_bytes(content)
