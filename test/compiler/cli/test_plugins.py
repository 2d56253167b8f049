"""Plugins: from a file, and from installed packages."""

from pathlib import Path

import pytest
from commands import INPUTS, Commands, process

from stepwell import plugin_files
from stepwell.dialects.support.errors import InputError
from stepwell.passes.framework import registry


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the registries as they were."""
    monkeypatch.setattr(registry, "_PASSES", registry.passes())
    monkeypatch.setattr(plugin_files, "_loaded", dict(plugin_files._loaded))


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("a = 1\nb = = 2\n", 2, "SyntaxError"),
        ("\n\nraise RuntimeError('not today')\n", 3, "RuntimeError: not today"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError"),
        ("import nothing_of_that_name\n", 1, "ModuleNotFoundError"),
        ("\nimport json\njson.loads('{')\n", 3, "JSONDecodeError"),  # raised elsewhere: the plugin's own line
        ("from stepwell.passes.framework.registry import register_pass\nregister_pass('x', level='cellar')\n", 2, "level must be one of"),
    ],
)
def test_a_failing_file_is_named_with_its_line(tmp_path: Path, code: str, line: int, message: str) -> None:
    file = tmp_path / "plugin.py"
    file.write_text(code)
    for _ in range(2):  # it is not taken for loaded
        with pytest.raises(InputError, match=message) as caught:
            plugin_files.load_file(str(file))
        assert f"{file}, line {line}:" in str(caught.value)


def test_a_missing_file() -> None:
    with pytest.raises(InputError, match="no such file"):
        plugin_files.load_file("nowhere.py")


def test_a_file_is_loaded_once(tmp_path: Path) -> None:
    file = tmp_path / "count.py"
    file.write_text("with open(__file__ + '.log', 'a') as log:\n    log.write('x')\n")
    for _ in range(3):
        plugin_files.load_file(str(file))
    assert Path(f"{file}.log").read_text() == "x"


def test_commands_load_files(commands: Commands) -> None:
    assert "--merge-relus" in commands.opt("--list-passes", "--load", INPUTS / "plugin.py").out
    commands.opt("--list-passes", "--load", "nowhere.py").refused(1, "SW003", "nowhere.py")
    commands.stepwell("inspect", "--load", "nowhere.py", "model.onnx").refused(1, "SW003", "nowhere.py")


def test_installed_plugins_are_found(tmp_path: Path) -> None:
    (tmp_path / "acme_passes.py").write_text((INPUTS / "plugin.py").read_text())
    folder = tmp_path / "acme-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[stepwell.plugins]\nacme = acme_passes\n")
    import os

    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    assert "--merge-relus" in process("opt", "--list-passes", PYTHONPATH=path).out
    (tmp_path / "acme_passes.py").write_text("raise ValueError('acme is out of order')")
    process("opt", "--list-passes", PYTHONPATH=path).refused(1, "plugin 'acme' of package acme", "acme_passes.py, line 1", "acme is out of order")
