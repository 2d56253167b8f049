"""Installed distributions: what `installed` says is what `importlib.metadata` says."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from stepwell.dialects.support import installed

GROUP = "acme.plugins"


def distribution(folder: Path, version: str = "1.0") -> Path:
    """A distribution in a folder: its metadata, an entry point, and a file whose name has a comma."""
    info = folder / f"Acme_Tools-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: Acme.Tools\nVersion: {version}\n\nVersion: none\n")
    (info / "RECORD").write_text('acme/lib.so,sha256=abc,12\n"acme/a,b.txt",,\n')
    (folder / "acme").mkdir(exist_ok=True)
    for name in ("lib.so", "a,b.txt"):  # other finders than Python's own list only files that exist
        (folder / "acme" / name).write_text("")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ntools = acme.tools\n")
    return info


def test_versions_are_those_of_the_metadata() -> None:
    names = [str(found.metadata["Name"]) for found in metadata.distributions()]
    assert len(names) > 10
    other = {name: found for name in names if (found := (installed.version(name), metadata.version(name)))[0] != found[1]}
    assert other == {}
    assert installed.version("no-such-distribution") is None


def test_files_are_those_of_the_metadata() -> None:
    assert list(installed.files("cmeel-libomp")) == [Path(str(file.locate())) for file in metadata.files("cmeel-libomp") or ()]
    assert list(installed.files("no-such-distribution")) == []


@pytest.mark.parametrize("name", ["acme-tools", "Acme.Tools", "ACME__tools"])
def test_a_distribution_that_is_added_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (installed.version(name), installed.entry_points(GROUP)) == (None, [])
    info = distribution(tmp_path)
    assert installed.version(name) == "1.0"
    assert [point.value for point in installed.entry_points(GROUP)] == ["acme.tools"]
    assert list(installed.files(name)) == [tmp_path / "acme/lib.so", tmp_path / "acme/a,b.txt"]
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Acme.Tools\nVersion: 2.0\n")
    assert installed.version(name) == "2.0"


def test_a_distribution_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path / "files")
    archive = tmp_path / "acme.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for file in sorted((tmp_path / "files").rglob("*")):
            made.write(file, file.relative_to(tmp_path / "files"))
    monkeypatch.syspath_prepend(str(archive))
    assert installed.version("acme-tools") == "1.0"
    assert [point.value for point in installed.entry_points(GROUP)] == ["acme.tools"]


def test_a_distribution_that_a_finder_knows_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.PathDistribution(distribution(tmp_path))

    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(context: metadata.DistributionFinder.Context) -> list[metadata.Distribution]:
            return [found]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert [point.value for point in installed.entry_points(GROUP)] == ["acme.tools"]
