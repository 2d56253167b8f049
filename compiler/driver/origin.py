"""The origin of a compiled model, as digests: it is read again later, when the caller may have changed the object or replaced the file."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from stepwell.dialects.support.errors import ModelError
from stepwell.dialects.support.processes import Lock
from stepwell.frontends.base import Summary
from stepwell.frontends.registry import checked_result, find_frontend, normal
from stepwell.options import Source


class Origin:
    """The source of a model, and the digests of the first read, which all later reads must match.

    Digests are kept rather than a copy, because a model may be as large as half the memory. They cover the bytes that were read, so the modification
    time of a file does not matter.
    """

    def __init__(self, source: Source) -> None:
        self.front_end = find_frontend(source)
        source = normal(source)
        self.source: Source = source.absolute() if isinstance(source, Path) else source  # since the program may change its folder
        self._digest: bytes | None = None
        self._files: dict[Path, bytes] = {}
        self._lock = Lock()

    @property
    def folder(self) -> Path | None:
        """The folder of the model's file and its external data, if it has one."""
        return self.source.parent if isinstance(self.source, Path) else None

    @property
    def is_object(self) -> bool:
        """Whether it is an object of the caller's. It is read part by part, and unchanged if its digests before and after are equal."""
        return not isinstance(self.source, (Path, bytes, bytearray, memoryview))

    def digest(self) -> bytes | None:
        """The current digest of the source; None if it cannot be read."""
        made = partial(self.front_end.digest, self.source)
        return checked_result(self.front_end, "digest", made, "bytes or None", lambda digest: digest is None or isinstance(digest, bytes))

    def portable(self) -> str | bytes | None:
        """An equal source for another process; None if there is none."""
        made = partial(self.front_end.portable, self.source)
        fits = (str, bytes, type(None))
        return checked_result(self.front_end, "portable", made, "a path, bytes or None", lambda made: isinstance(made, fits))

    def summary(self) -> Summary:
        """The description of the model in its own terms. Raises ModelError if it cannot be read."""
        made = partial(self.front_end.summary, self.source)
        return checked_result(self.front_end, "summary", made, "a Summary", lambda made: isinstance(made, Summary))

    def check(self, digest: bytes | None, files: Mapping[Path, bytes]) -> None:
        """Record the digests of the model itself and of external data files. Raises ModelError if they differ from previous ones."""
        with self._lock:
            if self._digest is None:
                self._digest = digest
            elif digest != self._digest:
                raise ModelError(f"{self._name} has changed since the model was compiled; compile it again")
            for path, found in files.items():
                if self._files.setdefault(path, found) != found:
                    raise ModelError(f"{path}: the file, which has weights, has changed since the model was compiled; compile it again")

    @property
    def _name(self) -> str:
        return f"{self.source}: the file" if isinstance(self.source, Path) else f"the {type(self.source).__name__}"
