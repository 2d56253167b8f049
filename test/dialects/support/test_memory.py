"""How much memory a process may have, by control groups of both versions and by its own limits."""

import sys
from pathlib import Path

import pytest
from every import every

from stepwell.dialects.support import limits, memory
from stepwell.dialects.support.limits import Limits
from stepwell.dialects.support.memory import _of_groups, memory_of_process

GIB = 1 << 30


def groups(folder: Path, process: str, files: dict[str, str]) -> list[int]:
    (folder / "cgroup").write_text(process)
    for name, text in files.items():
        file = folder / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return sorted(_of_groups(folder / "cgroup", folder / "fs"))


@every(
    ("process", "files", "found"),
    [
        ("0::/\n", {"memory.max": f"{2 * GIB}\n"}, [2 * GIB]),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{3 * GIB}\n"}, [3 * GIB]),
        ("0::/a\n", {"a/memory.max": f"{GIB}\n", "memory.max": f"{2 * GIB}\n"}, [GIB, 2 * GIB]),
        ("4:memory:/c\n3:cpuset:/\n0::/\n", {"memory/c/memory.limit_in_bytes": f"{5 * GIB}\n", "cpuset/memory.max": "1\n"}, [5 * GIB]),
        ("4:cpu,memory:/gone\n", {"memory/memory.limit_in_bytes": f"{6 * GIB}\n"}, [6 * GIB]),
        ("nonsense\n", {}, []),
        ("", {"memory.max": "1\n"}, []),
    ],
)
def test_control_groups(process: str, files: dict[str, str], found: list[int], tmp_path: Path) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    assert groups(folder, process, files) == found


def test_no_proc(tmp_path: Path) -> None:
    assert _of_groups(tmp_path / "nothing", tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="its processes have no such limits")
def test_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_of_machine", lambda: [7 * GIB])
    monkeypatch.setattr(memory, "_of_groups", lambda *_: [9 * GIB, 1 << 60])
    monkeypatch.setattr(memory, "_of_limits", list)
    assert memory_of_process.__wrapped__() == 7 * GIB
    monkeypatch.setattr(memory, "_of_limits", lambda: [GIB])
    assert memory_of_process.__wrapped__() == GIB
    for name in ("_of_machine", "_of_groups", "_of_limits"):
        monkeypatch.setattr(memory, name, lambda *_: [])
    assert memory_of_process.__wrapped__() == 8 * GIB


@every(("have", "value", "workspace"), [(2 * GIB, GIB // 2, GIB), (24 * GIB, 6 * GIB, 12 * GIB), (1 << 42, 16 * GIB, 32 * GIB)])
def test_default_limits_are_parts_of_it(have: int, value: int, workspace: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "memory_of_process", lambda: have)
        made = Limits()
    assert (made.value_bytes, made.workspace_bytes) == (value, workspace)
    assert Limits(value_bytes=5).value_bytes == 5
