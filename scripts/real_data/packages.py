"""Files inside installed packages, found without importing them: some need system libraries only to be imported."""

import importlib.util
from pathlib import Path

from stepwell.dialects.support.errors import InputError

__all__ = ["file_of"]


def file_of(package: str, pattern: str) -> Path:
    """The one file of an installed package that a glob pattern finds, relative to the package's folder.

    Raises InputError if the package is not installed, or has no such file or several.
    """
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"{package} is not installed: pip install '.[real-data]'")
    folder = Path(found.submodule_search_locations[0])
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise InputError(f"{package}: expected one file {pattern} in {folder}, got {len(files)}")
    return files[0]
