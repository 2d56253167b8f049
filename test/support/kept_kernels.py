"""A cache for the tests of a file that compile nearly the same models again and again: each kernel is compiled once. It is gone with the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def switch_on_cache(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keep what is compiled in a folder, here and in child processes, as if no plugin had been loaded so far."""
    patch.setenv("STEPWELL_CACHE", "1")
    patch.setenv("STEPWELL_CACHE_DIR", str(folder))
    for name in ("_modules", "_generating"):  # what other tests have registered by now
        patch.setattr(f"stepwell.dialects.support.extensions.{name}", set())
    patch.setattr("stepwell.plugin_files._loaded", {})


@contextmanager
def kept_kernels(folder: Path) -> Iterator[None]:
    """Keep what is compiled in a new folder for a while. Not for tests of what makes code: a kernel that is found is not made."""
    with pytest.MonkeyPatch.context() as patch:
        switch_on_cache(patch, folder)
        yield
