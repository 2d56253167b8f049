"""The checkout's virtual environments, created and updated by the scripts that need them. Uses the standard library only."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "stepwell-environment.json"
PEERS = ROOT / ".venv-peers"
PEERS_PACKAGES = Path(__file__).resolve().parent / "benchmark" / "peers.txt"
PEERS_STAMP = "peers.sha256"
OLDEST = (3, 11)


def enter(*extras: str) -> None:
    """Continue in `.venv` with the package installed in editable mode, with these extras.

    Creates the environment if it is missing or does not run, installs if pyproject.toml changed or an extra is new, and replaces this process by the
    environment's Python running the same script. Returns at once if this process already is that Python. Exits with a message if no suitable Python
    is found or the installation fails.
    """
    if Path(sys.prefix).resolve() == VENV.resolve() and os.environ.get("STEPWELL_ENTERED"):
        return
    if not works():
        create()
    install_if_needed(set(extras))
    compile_bytecode()
    environment = {**os.environ, "STEPWELL_ENTERED": "1"}
    os.execve(str(python()), [str(python()), *sys.argv], environment)


BASE = ("stepwell", "numpy", "onnx")


def need(about: "str | None", extra: str, *modules: str, for_help: Sequence[str] = BASE) -> None:
    """Make the modules of an extra available to a script: it continues in `.venv`, where the extra is installed, unless they can be imported.

    Called before the modules are imported. Help needs none of them and installs nothing: the script shows its own help if the modules `for_help` are
    available; otherwise this prints `about`, its docstring, and exits.
    """
    if {"-h", "--help"} & set(sys.argv[1:]):
        if not installed(*for_help):
            print((about or "").strip())
            sys.exit(0)
    elif not installed(*BASE, *modules):
        enter(extra)


def installed(*modules: str) -> bool:
    """Whether all of these modules can be imported."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def make_peers() -> Path:
    """The interpreter of `.venv-peers`, which has the packages of scripts/benchmark/peers.txt and nothing else.

    Creates the environment if it is missing or does not run, and recreates it if that file changed. Exits with a message if no suitable Python is
    found or the installation fails. Its packages cannot be in `.venv`, because they bring their own tools and pinned versions.
    """
    packages = hashlib.sha256(PEERS_PACKAGES.read_bytes()).hexdigest()
    stamp = PEERS / PEERS_STAMP
    if stamp.is_file() and stamp.read_text() == packages and works(PEERS):
        return python(PEERS)
    create(PEERS)
    print(f"installing {PEERS_PACKAGES.name} into {PEERS.name} (once)", flush=True)
    # The list has all needed packages. Their other dependencies are for unused features: pnnx depends on torch, with gigabytes of CUDA.
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--requirement", str(PEERS_PACKAGES)]
    if subprocess.run([str(python(PEERS)), "-m", "pip", "install", *options], check=False).returncode != 0:
        sys.exit(f"error: {PEERS_PACKAGES.name} cannot be installed; pip's message is above. Leave mnn and ncnn out with --engines")
    stamp.write_text(packages)
    return python(PEERS)


def python(venv: Path = VENV) -> Path:
    """The interpreter of an environment."""
    return venv / "bin" / "python"


def works(venv: Path = VENV) -> bool:
    """Whether there is an environment whose Python still runs and has pip."""
    own = python(venv)
    return own.exists() and subprocess.run([str(own), "-c", "import pip"], capture_output=True, check=False).returncode == 0


def create(venv: Path = VENV) -> None:
    """Create an environment with Python 3.11 or newer."""
    base = find_python()
    print(f"making {venv.name} with {base}", flush=True)
    shutil.rmtree(venv, ignore_errors=True)
    made = subprocess.run([base, "-m", "venv", str(venv)], check=False)
    if made.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        sys.exit(f"error: {base} cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)")


def find_python() -> str:
    """This Python if it is new enough, else a newer one on the path."""
    if sys.version_info >= OLDEST:
        return sys.executable
    for minor in range(14, OLDEST[1] - 1, -1):
        candidate = shutil.which(f"python3.{minor}")
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"error: Stepwell needs Python {OLDEST[0]}.{OLDEST[1]} or newer, found {found} and no newer python3.x on PATH")


def fingerprint() -> str:
    """The inputs of an installation: the project file, this code, and the path of the checkout (an editable install refers to it)."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def install_if_needed(extras: "set[str]") -> None:
    """Install the package and `extras` unless the stamp in the environment shows that they are installed."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        stamp = {"fingerprint": "", "extras": []}
    if stamp["fingerprint"] == fingerprint() and extras <= set(stamp["extras"]):
        return
    wanted = sorted(extras | set(stamp["extras"]))
    print(f"installing stepwell[{','.join(wanted)}] into .venv (a few minutes the first time, not again)", flush=True)
    command = [str(python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", f"{ROOT}[{','.join(wanted)}]"]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit("error: the installation failed; pip's message is above")
    for site in VENV.glob("lib/python*/site-packages"):
        put_first(site)
    STAMP.write_text(json.dumps({"fingerprint": fingerprint(), "extras": wanted}))


def compile_bytecode() -> None:
    """Compile changed modules of the package to bytecode, as pip does for packages that are not editable.

    Without it, each process with PYTHONDONTWRITEBYTECODE set (often set in test runners and containers) would compile 400 files again, which takes a
    second.
    """
    folders = [str(ROOT / name) for name in ("compiler", "dialects", "passes")]
    subprocess.run([str(python()), "-m", "compileall", "-qq", *folders], check=False)  # a read-only checkout works without bytecode


def put_first(site: Path) -> None:
    """Make Python find the editable installation in `site` before any folder with its name.

    Setuptools appends its finder after those that search the path. In a folder that contains the clone, `stepwell`, these would find an empty
    namespace package. (A plain installation is a regular package, which Python prefers.)
    """
    line = "import sys; sys.meta_path.sort(key=lambda finder: not getattr(finder, '__module__', '').startswith('__editable___stepwell_'))\n"
    (site / "stepwell_first.pth").write_text(line)  # sorts after setuptools' own file, because .pth files are executed in the order of their names
