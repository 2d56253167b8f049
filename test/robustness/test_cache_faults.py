"""The cache among faults: what lies in place of an entry, who else may write there, files that change, full disks, killed processes."""

import errno
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_server import started
from robustness_programs import X, check, network

import stepwell
from stepwell.backends.llvm_cpu import pool
from stepwell.cache import disk
from stepwell.cache.disk import Cache, Kept
from stepwell.dialects.support.errors import CodegenError, InputError

KEY, OTHER = "aa11", "bb22"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Cache]:
    """A cache with one entry. A test that waits for anybody fails."""
    disk._note.cache_clear()
    store = Cache(tmp_path / "cache")
    assert store.put("objects", KEY, b"code")
    signal.alarm(30)
    yield store
    signal.alarm(0)


def entry(store: Cache, kind: str = "objects", key: str = KEY) -> Path:
    return store.folder / "v2" / kind / key[:2] / key[2:]


def saved(path: Path, seed: int = 0, *, external: bool = False) -> Path:
    path.parent.mkdir(exist_ok=True)
    options = {"save_as_external_data": True, "location": f"{path.stem}.bin", "size_threshold": 0} if external else {}
    onnx.save_model(network(seed), path, **options)
    return path


# --- what lies there


def make_fifo(path: Path, elsewhere: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path, elsewhere: Path) -> None:
    place = os.open(path.parent, os.O_RDONLY)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{place}/{path.name}")
    os.close(place)


def make_link(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def make_device(path: Path, elsewhere: Path) -> None:
    path.symlink_to("/dev/zero")


def make_loop(path: Path, elsewhere: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_link, make_device, make_loop])
def test_only_plain_files_are_entries(store: Cache, tmp_path: Path, make: object) -> None:
    path = entry(store)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    make(path, elsewhere)  # type: ignore[operator]
    assert store.get("objects", KEY) is None
    assert not os.path.lexists(path)
    assert elsewhere.exists()
    make(path, elsewhere)  # type: ignore[operator]
    assert store.put("objects", KEY, b"again")
    assert store.get("objects", KEY) == b"again"
    assert elsewhere.read_bytes().startswith(b"code")


def test_a_folder_in_place_of_an_entry_is_told(store: Cache) -> None:
    entry(store).unlink()
    (entry(store) / "inside").mkdir(parents=True)
    assert store.get("objects", KEY) is None
    with pytest.warns(UserWarning, match="cannot be written to"):
        assert not store.put("objects", KEY, b"again")
    assert store.entries() == []


@pytest.mark.parametrize("level", [1, 2, 3])
def test_links_inside_of_the_cache_are_not_followed(store: Cache, tmp_path: Path, level: int) -> None:
    """Not even where they lead to what would be a valid entry."""
    parts = entry(store).relative_to(store.folder).parts[:level]
    inside = store.folder.joinpath(*parts)
    inside.rename(tmp_path / "moved")
    inside.symlink_to(tmp_path / "moved")
    assert store.get("objects", KEY) is None
    with pytest.warns(UserWarning, match="cannot be written to"):
        assert not store.put("objects", KEY, b"again")
    assert store.trim() == 0
    assert len([path for path in (tmp_path / "moved").rglob("*") if path.is_file()]) == 1, "nothing was taken away, nothing was added"


def test_the_folder_itself_may_be_a_link(store: Cache, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.folder)
    assert Cache(tmp_path / "link").get("objects", KEY) == b"code"


def test_a_valid_entry_under_another_name_or_kind_is_none(store: Cache) -> None:
    for kind, key in (("objects", OTHER), ("models", KEY)):
        place = entry(store, kind, key)
        place.parent.mkdir(parents=True, mode=0o700)
        shutil.copy(entry(store), place)
        assert store.get(kind, key) is None
        assert not place.exists()
    assert store.get("objects", KEY) == b"code"


def test_entries_are_read_only_files(store: Cache) -> None:
    assert stat.S_IMODE(entry(store).stat().st_mode) == 0o400


# --- who may write there


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(store: Cache, level: int, mode: int) -> None:
    parts = entry(store).relative_to(store.folder).parts[:level]
    store.folder.joinpath(*parts).chmod(mode)
    with pytest.warns(UserWarning, match="is not used: others may write to .*chmod go-w"):
        assert store.get("objects", KEY) is None
    disk._note.cache_clear()
    with pytest.warns(UserWarning, match="is not used: others may write"):
        assert not store.put("objects", KEY, b"again")
    store.folder.joinpath(*parts).chmod(0o700)
    assert store.get("objects", KEY) == b"code"


def test_a_folder_of_somebody_else_is_not_used(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fstat

    def of_another(descriptor: int) -> os.stat_result:
        status = list(real(descriptor))
        status[stat.ST_UID] = os.geteuid() + 1
        return os.stat_result(status)

    monkeypatch.setattr("stepwell.cache.disk.os.fstat", of_another)
    with pytest.warns(UserWarning, match="is not used: .* belongs to another user"):
        assert store.get("objects", KEY) is None
    assert not store.put("objects", OTHER, b"more")
    assert store.entries() == []
    assert "belongs to another user" in str(store.refused())
    with pytest.raises(InputError, match="belongs to another user"):
        store.clear()
    monkeypatch.undo()
    assert store.refused() is None
    assert store.clear() == (1, entry_bytes(b"code"))


def entry_bytes(data: bytes) -> int:
    return len(data) + disk._FOOTER_BYTES


def test_a_users_folder_goes_on_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEPWELL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert disk.cache_folder().is_absolute()
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *a, **k: Path("~/.cache/stepwell"))  # a user that the system does not know
    assert disk.cache_folder().is_absolute()
    assert disk.cache_folder().name == f"stepwell-{os.geteuid()}"


# --- files that change


def test_weights_that_are_overwritten_or_cut_change_no_model(cache_folder: Path, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx")
    for _ in range(2):  # compiled, and found
        model = stepwell.compile(path, threads=1)
        (weights,) = [file for file in (cache_folder / "v2" / "weights").rglob("*") if file.is_file()]
        weights.chmod(0o600)
        with weights.open("r+b") as file:
            file.write(bytes(4096))
            file.truncate(100)
        check(model(X)[0], 0)
        weights.unlink()


@pytest.mark.parametrize("external", [False, True])
def test_a_models_file_that_is_overwritten_or_cut_changes_nothing(tmp_path: Path, external: bool) -> None:
    path = saved(tmp_path / "net.onnx", 3, external=external)
    lowered = stepwell.lower(path, "affine")
    with path.with_suffix(".bin" if external else ".onnx").open("r+b") as file:
        file.write(bytes(4096))
        file.truncate(100)
    check(stepwell.build(lowered, threads=1)(X)[0], 3)


@pytest.mark.parametrize("external", [False, True])
def test_what_changes_while_it_is_compiled_is_not_kept_under_its_old_name(cache_folder: Path, tmp_path: Path, external: bool) -> None:
    """And the other way round: each content has its own result."""
    paths = [saved(tmp_path / str(seed) / "net.onnx", seed, external=external) for seed in (1, 2)]
    files = [path.with_suffix(".bin" if external else ".onnx") for path in paths]
    old, status = files[0].read_bytes(), files[0].stat()

    def overwrite(level: str, seconds: float) -> None:
        if level == "linalg":
            files[0].write_bytes(files[1].read_bytes())
            os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))  # as if the clock were coarse

    check(stepwell.compile(paths[0], threads=1, on_level=overwrite)(X)[0], 1)
    check(stepwell.compile(paths[0], threads=1)(X)[0], 2)
    files[0].write_bytes(old)
    check(stepwell.compile(paths[0], threads=1)(X)[0], 1)


def test_an_entry_that_is_changed_before_it_is_read_back_is_told(store: Cache) -> None:
    for damage in (b"x", b"longer than it was"):
        kept = store.put_chunks("weights", [b"some", b"bytes"], 9)
        assert isinstance(kept, Kept)
        path = entry(store, "weights", kept.key)
        path.chmod(0o600)
        path.write_bytes(damage)
        with pytest.raises(CodegenError, match="was changed by somebody"):
            kept.read()
    kept = store.put_chunks("weights", [b"some", b"bytes"], 9)
    assert kept is not None
    shutil.rmtree(store.folder)
    assert kept.read().tobytes() == b"somebytes", "what has gone away is still there for who has it open"


def test_the_cache_goes_away_while_it_is_in_use(cache_folder: Path, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx")
    for level in ("graph", "linalg", "affine", "llvm", "obj"):

        def take_away(reached: str, seconds: float, level: str = level) -> None:
            if reached == level:
                shutil.rmtree(cache_folder, ignore_errors=True)

        check(stepwell.compile(path, threads=1, on_level=take_away)(X)[0], 0)
        shutil.rmtree(cache_folder, ignore_errors=True)


# --- processes


@pytest.mark.parametrize("room", [0, 10, 9000])
def test_a_full_disk_leaves_a_note_and_nothing_else(cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    write, written = os.write, 0

    def limited(descriptor: int, data: memoryview) -> int:
        nonlocal written
        if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(cache_folder)):
            return write(descriptor, data)
        if written >= room:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = write(descriptor, data[: room - written])  # as much as there is room for, like the system's
        written += count
        return count

    monkeypatch.setattr("os.write", limited)
    path = saved(tmp_path / "net.onnx")
    with pytest.warns(UserWarning, match="cannot be written to .No space left on device"):
        check(stepwell.compile(path, threads=1)(X)[0], 0)
    assert written == room
    assert not list((cache_folder / "v2" / "new").iterdir())
    monkeypatch.undo()


def test_no_folder_for_temporary_files_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    pool.shut_down()
    check(stepwell.compile(network(0), threads=1, cache=False)(X)[0], 0)


def test_eight_processes_on_one_cache(cache_folder: Path, tmp_path: Path) -> None:
    paths = [str(saved(tmp_path / f"{seed}.onnx", seed)) for seed in range(2)]
    script = f"from robustness_programs import compile_files\nprint(*compile_files({paths!r}, [0, 1]))"
    processes = [python(script) for _ in range(8)]
    for process in processes:
        out, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")
        assert set(out.split()) <= {"graph", "cache"}
    last = python(script)
    assert last.communicate(timeout=120) == ("cache cache\n", "")
    assert not list((cache_folder / "v2" / "new").iterdir())


@pytest.mark.parametrize("round_", range(int(os.environ.get("STEPWELL_TEST_ROUNDS", "2"))))
def test_killed_at_any_moment(cache_folder: Path, tmp_path: Path, round_: int) -> None:
    """Whatever a killed process leaves, the next one computes what is right, and keeps it."""
    path = str(saved(tmp_path / "net.onnx"))
    script = f"from robustness_programs import compile_files\nprint('begin', flush=True)\nprint(*compile_files([{path!r}], [0]))"
    delays = random.Random(round_)
    for _ in range(2):
        process = python(script)
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        time.sleep(delays.uniform(0, 0.8))
        process.kill()
        process.communicate()
    assert python(script).communicate(timeout=120)[1] == ""
    assert python(script).communicate(timeout=120) == ("begin\ncache\n", "")
    for left in (cache_folder / "v2" / "new").iterdir():
        os.utime(left, (1, 1))
    Cache(cache_folder).trim()
    assert not list((cache_folder / "v2" / "new").iterdir())


@pytest.mark.parametrize("locale", ["C", "tr_TR.UTF-8"])
def test_other_locales_and_no_home(tmp_path: Path, locale: str) -> None:
    path = str(saved(tmp_path / "İstanbul ü" / "net.onnx", external=True))
    environment = {"LC_ALL": locale, "LANG": locale, "STEPWELL_CACHE": "1", "STEPWELL_CACHE_DIR": str(tmp_path / "ü"), "HOME": ""}
    script = f"""
import locale, contextlib
with contextlib.suppress(locale.Error):  # one that the machine does not have
    locale.setlocale(locale.LC_ALL, "")
from robustness_programs import compile_files
print(*compile_files([{path!r}, {path!r}], [0, 0]))
"""
    assert python(script, **environment).communicate(timeout=120) == ("graph cache\n", "")


def python(script: str, **environment: str) -> "subprocess.Popen[str]":
    paths = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}\n"
    return subprocess.Popen(
        started([sys.executable, "-c", paths + script]), env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_content_is_aligned_and_read_only(store: Cache) -> None:
    data = np.random.default_rng(1).integers(0, 256, 3 << 20, np.uint8)
    kept = store.put_chunks("weights", [data[:1000].data, data[1000:].data], data.nbytes)
    assert kept is not None
    for content in (store.read("weights", kept.key), kept.read()):
        assert content is not None
        assert content.__array_interface__["data"] == (content.__array_interface__["data"][0] // 64 * 64, True)
        assert np.array_equal(content, data)
