"""Installed distributions: queries that every command makes, without `importlib.metadata` if possible, whose import takes 60 ms of CPU time."""

import os
import re
import stat
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_SEPARATORS = re.compile(r"[-_.]+")
_VERSION = re.compile(rb"^Version:[ \t]*(\S+)", re.MULTILINE)


def entry_points(group: str) -> "list[EntryPoint]":
    """The entry points that installed distributions declare in a group."""
    folders = _folders()
    if folders is not None and not any(group.encode() in _read(folder / "entry_points.txt") for _, folder in folders):
        return []
    from importlib import metadata

    return list(metadata.entry_points(group=group))


def version(package: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    folder = _folder(package)
    found = None if folder is None else _VERSION.search(_read(folder / "METADATA") or _read(folder / "PKG-INFO"))
    if found is not None:
        return found[1].decode()
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def files(package: str) -> Iterator[Path]:
    """The files of a distribution; none if it is not installed or does not list them."""
    folder = _folder(package)
    if folder is not None and (record := _read(folder / "RECORD")):
        for line in record.decode().splitlines():  # path, digest, size; a path with a comma is in quotes
            yield folder.parent / line.rsplit(",", 2)[0].strip('"')
        return
    from importlib import metadata

    try:
        found = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return
    yield from (Path(str(file.locate())) for file in found)


def _folder(package: str) -> Path | None:
    """The metadata of a distribution; None if it is not installed, or only `importlib.metadata` knows it."""
    wanted = _normal(package)
    return next((folder for name, folder in _folders() or () if name == wanted), None)


def _folders() -> list[tuple[str, Path]] | None:
    """The metadata of each distribution in a folder of `sys.path`, with its normalised name; None if distributions may lie elsewhere too."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return None
    found: list[tuple[str, Path]] = []
    for place in sys.path:
        try:
            status = os.stat(place or ".")
        except OSError:  # like Python, take a missing folder for an empty one
            continue
        if place.lower().endswith(".egg") or not stat.S_ISDIR(status.st_mode):
            return None
        found += _folders_in(place, status.st_mtime_ns)
    return found


@lru_cache
def _folders_in(place: str, modified: int) -> list[tuple[str, Path]]:
    """The part of `_folders` in one folder, cached until that is modified."""
    try:
        names = os.listdir(place or ".")
    except OSError:
        return []
    infos = [name for name in names if name.endswith((".dist-info", ".egg-info"))]
    return [(_normal(name.rpartition(".")[0].partition("-")[0]), Path(place, name)) for name in infos]


def _normal(name: str) -> str:
    """A name as distributions are compared: in lower case, with one kind of separator."""
    return _SEPARATORS.sub("-", name).lower()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
