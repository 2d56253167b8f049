"""The package is whole: in the project file, in a wheel, and installed in a new environment."""

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import environment
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"stepwell": "compiler", "stepwell.dialects": "dialects", "stepwell.passes": "passes"}
DEPENDENCIES = "".join(f"{path}\n" for path in sys.path if path.endswith("site-packages"))
DATA = (
    "stepwell/py.typed", "stepwell/bundling/bundle.h", "stepwell/bundling/example.c", "stepwell/bundling/module.d.mts",
    "stepwell/bundling/module.mjs", "stepwell/bundling/runtime.c", "stepwell/bundling/tables.h", "stepwell/bundling/wasm.c",
    "stepwell/bundling/wasm.h", "stepwell/quantizer/report.html.jinja", "stepwell/tuning/report.html.jinja",
    "stepwell/passes/framework/upstream_names.json", "stepwell/passes/framework/upstream_summaries.json",
)  # fmt: skip
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


def modules() -> dict[str, Path]:
    """Every Python file of the package by its path in the installed package."""
    return {
        f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder)}": path
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # From a copy: setuptools leaves a build folder behind, and reads an old one.
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "LICENSE", "README.md", "compiler", "dialects", "passes"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(source)], check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("stepwell-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder of the commands of a new environment that has the wheel, and what it depends on from ours."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python3*/site-packages")
    # A path line brings in our dependencies, but not our own editable install, which is a .pth file there.
    (site / "dependencies.pth").write_text(DEPENDENCIES)
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A folder with a clone that is called `stepwell`, and an environment in it that has the clone installed as scripts/demo does it."""
    folder = tmp_path_factory.mktemp("parent") / "stepwell"
    folder.mkdir()
    for name in ("pyproject.toml", "LICENSE", "README.md", "compiler", "dialects", "passes"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(folder)], check=True)
    venv.create(folder / ".venv", with_pip=False)
    (site,) = (folder / ".venv" / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(DEPENDENCIES)
    python = folder / ".venv" / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-build-isolation", "-e", str(folder)]
    subprocess.run(command, check=True)
    environment.put_first(site)
    return folder


def run(command: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run([str(command), *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_every_subpackage_is_listed(project):
    found = {name.rpartition("/")[0].replace("/", ".") for name in modules()}
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(found)


def test_every_package_has_a_docstring():
    for name in {Path(name).parent for name in modules()}:
        assert f"{name}/__init__.py" in modules(), f"{name} has no __init__.py"


def test_bindings_are_pinned_exactly_and_all_else_is_bounded(project):
    dependencies = project["project"]["dependencies"]
    assert "torch-mlir==20261001" in dependencies
    for dependency in dependencies:
        assert "==" in dependency or (">=" in dependency and "<" in dependency), dependency


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert package == set(modules()) | set(DATA)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_package_is_the_wheels(installed, tmp_path):
    program = "import stepwell, stepwell.dialects.graph as graph; print(stepwell.__file__); print(graph.__file__)"
    shown = run(installed / "python", "-c", program, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for line in shown.stdout.splitlines():
        assert Path(line).is_relative_to(installed.parent)


def test_a_folder_of_its_name_is_not_taken_for_the_package(installed, clone):
    """Python takes a folder without __init__.py for a namespace package: here the clone itself, seen from the folder that it is in."""
    program = "import stepwell, stepwell.passes, stepwell.cli; print(stepwell.compile, stepwell.__file__, stepwell.passes.__file__)"
    for python, where in ((installed / "python", installed.parent), (clone / ".venv" / "bin" / "python", clone)):
        shown = run(python, "-c", program, cwd=clone.parent)
        assert shown.returncode == 0, shown.stderr
        assert all(Path(path).is_relative_to(where) for path in shown.stdout.split("> ")[1].split())


def test_the_commands_work_from_another_directory(installed, tmp_path):
    ran = run(installed / "stepwell", "run", str(DIGITS), "--shape", "image=1x1x8x8", "--check", "onnxruntime", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    listed = run(installed / "stepwell-opt", "--list-passes", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "fold-batch-norm" in listed.stdout
