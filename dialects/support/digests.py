"""Digests of content, and keys made of them: BLAKE3, which is fast on large data (it uses all cores) and safe against forgery."""

import os
from pathlib import Path
from typing import TypeAlias

from blake3 import blake3

from stepwell.dialects.support.files import open_plain, read_into

Buffer: TypeAlias = bytes | memoryview
_PARALLEL_BYTES = 1 << 20  # smaller data are done before other threads have started
_LEAST_BLOCK_BYTES, _BLOCK_BYTES = 1 << 18, 16 << 20


def key_of(*parts: str | bytes) -> str:
    """A key made of `parts`: equal only for equal parts in the same order."""
    digest = blake3()
    for part in parts:
        data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def digest_of(data: Buffer) -> bytes:
    """The digest of some bytes."""
    return new_digest(len(data)).update(data).digest()


def file_digest(path: Path) -> bytes | None:
    """The digest of a plain file's content, read in pieces; None if it cannot be read or is empty."""
    import numpy as np  # imported here, because keys do not need it

    try:
        with open(open_plain(path), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            digest, total = new_digest(size), 0
            block = np.empty(min(max(size // 8, _LEAST_BLOCK_BYTES), _BLOCK_BYTES), np.uint8)  # small: fresh memory takes longer than reading
            while count := read_into(file.fileno(), block):
                digest.update(block[:count].data)
                total += count
    except (OSError, ValueError):  # ValueError: a path with a zero byte
        return None
    return digest.digest() if total else None


def new_digest(size: int) -> blake3:
    """A digest to be fed with about `size` bytes, piece by piece."""
    return blake3(max_threads=blake3.AUTO if size > _PARALLEL_BYTES else 1)
