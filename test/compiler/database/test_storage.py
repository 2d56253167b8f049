"""The file of tuning records among faults: several writers, killed ones, full disks, damage, files that must not be used."""

import os
import re
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from every import every
from processes import run_script
from recorded_tuning import PROVENANCE, candidate, decision, filled, run, samples, workload

from stepwell.database import schema, storage
from stepwell.database.database import Database
from stepwell.database.records import WorkloadInfo
from stepwell.dialects.support.errors import RecordWarning

WRITER = """
import sys
from recorded_tuning import PROVENANCE, candidate, decision, run, samples, workload
from stepwell.database.database import Database
from stepwell.database.records import WorkloadInfo
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
database = Database.opened(path)
number = database.begin(run(name), PROVENANCE)
for i in range(count):
    database.add_candidates(workload(0), WorkloadInfo("shared", name), [candidate(f"{name}={i}")], number)
    database.add_samples(workload(0), [samples(f"{name}={i}")], number)
    database.decide(workload(i % 3), decision(name), number)
    print(i, flush=True)
"""


@pytest.fixture(autouse=True)
def fresh_warnings() -> None:
    storage._note.cache_clear()


@contextmanager
def one_warning(text: str) -> Iterator[None]:
    """Check that what runs inside issues one warning, a RecordWarning that a pattern describes."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    assert [warning.category for warning in told] == [RecordWarning]
    assert re.search(text, str(told[0].message)), told[0].message


def started(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def aside(path: Path) -> list[str]:
    """The names of databases that were set aside; with each go the files that SQLite keeps beside it."""
    return sorted(file.name for file in path.parent.iterdir() if ".damaged-" in file.name and not file.name.endswith(("-wal", "-shm")))


# --- several processes, threads and forks


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    writers = [started(tmp_path / "new" / "t.sqlite", name, 40) for name in ("a", "b")]
    assert [writer.communicate(timeout=120)[1] for writer in writers] == ["", ""]
    assert [writer.returncode for writer in writers] == [0, 0]
    database = Database.opened(tmp_path / "new" / "t.sqlite")
    expected = {f"{name}={i}" for name in ("a", "b") for i in range(40)}
    assert len(database.runs()) == 2
    assert {tried.text for tried in database.candidates(workload())} == expected
    assert {taken.text for taken in database.samples(workload())} == expected
    assert len(database.samples(workload())) == 80
    assert set(database.decisions("t0", 1)) == {workload(i) for i in range(3)}


def test_a_killed_writer_loses_nothing_that_it_stored(tmp_path: Path) -> None:
    with started(tmp_path / "t.sqlite", "a", 10**6) as writer:
        assert writer.stdout is not None
        stored = [int(writer.stdout.readline()) for _ in range(25)]
        writer.send_signal(signal.SIGKILL)
        stored += [int(line) for line in writer.stdout.read().splitlines()]
    assert writer.returncode == -signal.SIGKILL
    with warnings.catch_warnings(action="error"):
        database = Database.opened(tmp_path / "t.sqlite")
        texts = [taken.text for taken in database.samples(workload())]
        assert texts[: len(stored)] == [f"a={i}" for i in stored]
        assert len(texts) <= len(stored) + 1
        assert [record.run.status for record in database.runs()] == ["running"]
        database.decide(workload(9), decision(), database.begin(run(), PROVENANCE))
    assert database.storage.read(schema.is_sound)


def test_threads_and_forks_share_an_object(tmp_path: Path) -> None:
    database = filled(tmp_path / "t.sqlite", count=1)
    number = database.begin(run(), PROVENANCE)
    threads = [threading.Thread(target=database.add_samples, args=(workload(), [samples(f"t={i}")], number)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child = os.fork()
    if child == 0:
        database.add_samples(workload(), [samples("child")], number)
        opened = database.storage._opened  # SQLite's locks do not survive a fork
        os._exit(0 if opened is not None and opened.process == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0
    database.add_samples(workload(), [samples("parent")], number)
    assert sorted(taken.text for taken in database.samples(workload())[2:]) == ["child", "parent", "t=0", "t=1", "t=2", "t=3"]


def test_a_writer_that_holds_the_file_for_good_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "BUSY_SECONDS", 0.01)
    filled(tmp_path / "t.sqlite").close()
    other = sqlite3.connect(tmp_path / "t.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    database = Database.opened(tmp_path / "t.sqlite")
    with one_warning(r"cannot be written to \(another process holds it locked\): new ones are not kept"):
        number = database.begin(run(), PROVENANCE)
        database.decide(workload(8), decision(), number)
    assert set(database.decisions("t0", 1)) == {workload(0), workload(1), workload(8)}
    other.execute("ROLLBACK")
    assert len(Database.opened(tmp_path / "t.sqlite").runs()) == 1


# --- files that cannot be written


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writes beyond a size fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_ends_writing_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    database = filled(path)
    number = database.begin(run("large"), PROVENANCE)
    with largest_file(1 << 18), one_warning("cannot be written to .*: new ones are not kept"):
        for i in range(40):
            database.add_candidates(workload(5), WorkloadInfo("n", "large"), [candidate(f"c={i}", message="x" * 20_000)], number)
        database.decide(workload(5), decision(), number)
        kept = len(Database.opened(path).candidates(workload(5)))
    assert 0 < kept < 40
    assert len(database.candidates(workload(5))) == 40
    assert set(database.decisions("t0", 1)) == {workload(0), workload(1), workload(5)}
    database.update_run(number, status="finished")
    again = Database.opened(path)
    assert again.storage.read(schema.is_sound)
    assert [tried.text for tried in again.candidates(workload(5))] == [f"c={i}" for i in range(kept)]
    assert (set(again.decisions("t0", 1)), again.storage.problem) == ({workload(0), workload(1)}, None)


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    with largest_file(100), one_warning("cannot be written to"):
        database = filled(tmp_path / "t.sqlite")
        assert set(database.decisions("t0", 1)) == {workload(0), workload(1)}
    assert filled(tmp_path / "t.sqlite").storage.problem is None


READER = """
import os, sys, warnings
from pathlib import Path
from recorded_tuning import *
from stepwell.database.database import Database
path, user = Path({path!r}), {user}
if user is not None:
    os.setgroups([]); os.setgid(user); os.setuid(user)
with warnings.catch_warnings(record=True) as told:
    database = Database.opened(path)
    print(sorted(where.content for where in database.decisions("t0", 1)), database.plan("c0", "t0", 1), len(told))
    number = database.begin(run(), PROVENANCE)
    database.decide(workload(8), decision(), number)
    print(len(database.decisions("t0", 1)), [str(warning.message) for warning in told])
"""


@pytest.mark.parametrize("what", ["folder", "file"])
def test_read_only_records_are_read(what: str) -> None:
    user = 65534 if os.geteuid() == 0 else None  # nobody: the superuser may write anywhere
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "records" / "t.sqlite"
        filled(path).close()
        before = path.read_bytes()
        path.chmod(0o644 if what == "folder" else 0o444)
        folder.chmod(0o755)
        path.parent.chmod(0o555 if what == "folder" else 0o755)
        if what == "file" and user is not None:
            os.chown(path.parent, user, -1)
        out = run_script(READER.format(path=str(path), user=user), folder).splitlines()
        assert out[0] == "['kernel0:0', 'kernel1:0'] {\"version\": 2} 0", "reading needs no warning"
        assert out[1].startswith("3 [")
        assert out[1].count("cannot be written to") == 1
        assert path.read_bytes() == before
        assert sorted(file.name for file in path.parent.iterdir() if not file.name.endswith(("-wal", "-shm"))) == ["t.sqlite"]
    finally:
        path.parent.chmod(0o755)
        shutil.rmtree(folder)


# --- damage


def no_database(path: Path) -> None:
    path.write_bytes(b"nonsense" * 1000)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6000])


def overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def without_a_table(path: Path) -> None:
    edit(path, "DROP TABLE decisions")


def without_a_version(path: Path) -> None:
    edit(path, "PRAGMA user_version = 0")


def no_json(path: Path) -> None:
    edit(path, "UPDATE candidates SET features = '{'")


def no_text(path: Path) -> None:
    edit(path, "UPDATE decisions SET text = CAST(x'ff00' AS TEXT)")


def no_state(path: Path) -> None:
    edit(path, "UPDATE candidates SET state = 'sold'")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a filled database."""
    path = tmp_path_factory.mktemp("whole") / "t.sqlite"
    filled(path).close()
    return path


@every("damage", [no_database, cut, overwritten, without_a_table, without_a_version, no_json, no_text, no_state])
def test_a_damaged_file_is_set_aside(damage: object, whole: Path, tmp_path: Path) -> None:
    assert callable(damage)
    path = Path(shutil.copy(whole, tmp_path))
    damage(path)
    inode, database = path.stat().st_ino, Database.opened(path)
    with one_warning(r"not used: it is damaged \(.*\)\. The file was renamed to .*/t\.sqlite\.damaged-\d{8}-\d{6}$"):
        found = (database.decisions("t0", 1), database.candidates(workload()), database.decision(workload(1)), database.runs())
    assert (found[1], found[3]) == ([], [])
    (name,) = aside(path)
    assert (tmp_path / name).stat().st_ino == inode
    number = database.begin(run(), PROVENANCE)
    database.decide(workload(4), decision(), number)
    assert (list(Database.opened(path).decisions("t0", 1)), database.storage.problem) == ([workload(4)], None)


def test_damage_during_a_run_keeps_the_run(tmp_path: Path) -> None:
    """Another process sets the file aside; this one, which opened it before, goes on in the new file."""
    path = tmp_path / "t.sqlite"
    database = filled(path)
    number = database.begin(run("mine"), PROVENANCE)
    database.update_run(number, spent=4.0)
    with one_warning("damaged"):
        other = Database.opened(path)
        assert len(other.runs()) == 2
        other.storage._set_aside(ValueError("planted"))
        other.begin(run("other"), PROVENANCE)
        database.storage._set_aside(ValueError("planted"))  # it is the old file that was damaged
    assert len(aside(path)) == 1
    database.decide(workload(4), decision(), number)
    assert [(record.id, record.run.spent) for record in other.runs() if record.run.network == "mine"] == [(number, 4.0)]
    assert len(other.runs()) == 2
    assert other.decision(workload(4)) == decision()
    path.unlink()  # by its user
    Path(f"{path}-wal").unlink()
    database.decide(workload(5), decision(), number)
    assert list(Database.opened(path).decisions("t0", 1)) == [workload(5)]


def test_a_log_without_its_database_is_not_applied(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    database = filled(path)
    log = Path(f"{path}-wal").read_bytes()
    assert len(log) > 1000
    database.close()
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)
    other = Database.opened(path)
    other.begin(run("new"), PROVENANCE)
    assert [record.run.network for record in Database.opened(path).runs()] == ["new"]


# --- files that must not be used


def newer(path: Path) -> None:
    edit(path, "PRAGMA user_version = 9")


def foreign(path: Path) -> None:
    path.unlink()
    edit(path, "CREATE TABLE mail (text)")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def writable(path: Path) -> None:
    path.chmod(0o622)


def in_a_writable_folder(path: Path) -> None:
    path.parent.chmod(0o777)


@every(
    "change, reason",
    [
        (newer, r"a newer version of Stepwell wrote it \(format 9, this version reads 1\)"), (foreign, "it is a database of another program"),
        (a_pipe, "it is no plain file"), (writable, r"others may write to .*t\.sqlite"), (in_a_writable_folder, "others may write to .*records"),
    ],
)  # fmt: skip
def test_some_files_are_not_touched(change: object, reason: str, whole: Path, tmp_path: Path) -> None:
    assert callable(change)
    path = tmp_path / "records" / "t.sqlite"
    path.parent.mkdir()
    shutil.copy(whole, path)
    change(path)
    before = path.read_bytes() if path.is_file() else path.stat()
    database = Database.opened(path)
    with one_warning(f"are not used, and new ones are not kept: {reason}"):
        assert database.decisions("t0", 1) == {}
        number = database.begin(run(), PROVENANCE)
        database.decide(workload(8), decision(), number)
        assert database.decisions("t0", 1) == {workload(8): decision()}
    assert database.storage.problem is not None
    assert (path.read_bytes() if path.is_file() else path.stat(), aside(path)) == (before, [])


def test_a_file_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "t.sqlite", Path.stat
    filled(path).close()

    def of_another(self: Path, **options: bool) -> os.stat_result:
        status = list(real(self, **options))
        status[stat.ST_UID] = os.geteuid() + 1
        return os.stat_result(status)

    monkeypatch.setattr(Path, "stat", of_another)
    with one_warning("belongs to another user"):
        assert Database.opened(path).decisions("t0", 1) == {}


def test_mistakes_of_ours_are_no_damage(tmp_path: Path) -> None:
    database = filled(tmp_path / "t.sqlite")
    with pytest.raises(sqlite3.OperationalError, match="no such table: elsewhere"):
        database.storage.read(lambda connection: connection.execute("SELECT * FROM elsewhere"))
    with pytest.raises(sqlite3.IntegrityError):
        database.storage.write(lambda connection: connection.execute("INSERT INTO runs (id) VALUES (1)"))
    with pytest.raises(KeyboardInterrupt):
        database.storage.write(interrupted)
    assert (len(database.runs()), database.storage.problem, aside(tmp_path / "t.sqlite")) == (1, None, [])


def interrupted(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM decisions")
    raise KeyboardInterrupt
