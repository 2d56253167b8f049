"""Files that appear whole or not at all, and files that are read."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from stepwell.dialects.support.files import read_into, replacing, write_atomically


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_who_may_read_a_file_is_the_umasks_to_say(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_the_umask_is_left_alone_for_other_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.umask", None)
    write_atomically(tmp_path / ("n" * 255), b"bytes")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"bytes"


def test_what_ends_badly_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def fail() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"file": "old"}
    with pytest.raises(FileNotFoundError, match=r"its folder does not exist: .*nowhere"):
        write_atomically(tmp_path / "nowhere" / "file", "text")


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("missing", [0, 1, 20_000_000])
def test_a_large_file_is_read_by_several_threads(tmp_path: Path, start: int, missing: int) -> None:
    content = np.random.default_rng(missing).integers(0, 256, 70_000_001, np.uint8)
    (tmp_path / "file").write_bytes(content.tobytes())
    buffer = np.zeros(len(content) - start + missing, np.uint8)
    file = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        os.lseek(file, start, os.SEEK_SET)
        assert read_into(file, buffer) == len(content) - start
        assert read_into(file, bytearray(1)) == 0
    finally:
        os.close(file)
    assert (buffer[: len(content) - start] == content[start:]).all()
    assert not buffer[len(content) - start :].any()
