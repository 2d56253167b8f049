"""The checkout's own virtual environments, made and kept up to date by the scripts that need them. Standard library only."""

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
OLDEST = (3, 10)


def enter(*extras: str) -> None:
    """Go on inside `.venv` with the package installed there, editable, with these extras.

    Makes the environment when it is missing or does not run, installs when pyproject.toml changed or an extra is new, and
    replaces this process by the environment's Python running the same script. Returns at once when that is the Python we are.
    Exits with a message when no suitable Python is found or the installation fails.
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
    """How a script gets the modules of an extra: it goes on in `.venv`, where the extra is installed, unless they are there.

    Called before the modules are imported. Help needs none of them and installs nothing: the script shows its own if the modules `for_help` are
    there, and is else ended with `about`, its docstring.
    """
    if {"-h", "--help"} & set(sys.argv[1:]):
        if not installed(*for_help):
            print((about or "").strip())
            sys.exit(0)
    elif not installed(*BASE, *modules):
        enter(extra)


def installed(*modules: str) -> bool:
    """Whether all of these can be imported."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def make_peers() -> Path:
    """The interpreter of `.venv-peers`, which has the packages of scripts/benchmark/peers.txt and nothing else.

    Makes the environment when it is missing or does not run, and makes it anew when that file changed. Exits with a message when no
    suitable Python is found or the installation fails. Its packages are not for `.venv`: they bring tools and pins of their own.
    """
    packages = hashlib.sha256(PEERS_PACKAGES.read_bytes()).hexdigest()
    stamp = PEERS / PEERS_STAMP
    if stamp.is_file() and stamp.read_text() == packages and works(PEERS):
        return python(PEERS)
    create(PEERS)
    print(f"installing {PEERS_PACKAGES.name} into {PEERS.name} (once)", flush=True)
    # All packages are in the list, and what they name beside these is for what is not used here: pnnx names torch, with gigabytes of CUDA.
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
    """Make an environment with a Python of version 3.10 or newer."""
    base = find_python()
    print(f"making {venv.name} with {base}", flush=True)
    shutil.rmtree(venv, ignore_errors=True)
    made = subprocess.run([base, "-m", "venv", str(venv)], check=False)
    if made.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        sys.exit(f"error: {base} cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)")


def find_python() -> str:
    """This Python where it is new enough, else a newer one on the path."""
    if sys.version_info >= OLDEST:
        return sys.executable
    for minor in range(14, OLDEST[1] - 1, -1):
        candidate = shutil.which(f"python3.{minor}")
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"error: Stepwell needs Python {OLDEST[0]}.{OLDEST[1]} or newer, found {found} and no newer python3.x on PATH")


def fingerprint() -> str:
    """What an installation depends on: the project file, this code, and where the checkout lies (an editable install points there)."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def install_if_needed(extras: "set[str]") -> None:
    """Install the package and `extras` unless the stamp in the environment says that this was done."""
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
    """Compile what changed of the package to bytecode, as pip does for packages that are not editable.

    Without it, each process where PYTHONDONTWRITEBYTECODE is set (test runners and containers like to set it) compiles 400 files again: a second.
    """
    folders = [str(ROOT / name) for name in ("compiler", "dialects", "passes")]
    subprocess.run([str(python()), "-m", "compileall", "-qq", *folders], check=False)  # a checkout that cannot be written to works without


def put_first(site: Path) -> None:
    """Have the editable installation in `site` be found before any folder of its name.

    Setuptools appends its finder to those that look along the path, and in a folder that has the clone in it, `stepwell`, these find an
    empty namespace package. (A plain installation is a regular package, which Python prefers.)
    """
    line = "import sys; sys.meta_path.sort(key=lambda finder: not getattr(finder, '__module__', '').startswith('__editable___stepwell_'))\n"
    (site / "stepwell_first.pth").write_text(line)  # after setuptools' own in the order of names, which is that of their execution
