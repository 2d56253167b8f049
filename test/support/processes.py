"""Programs of a few lines, each run in a process of its own, and whether processes are gone."""

import os
import subprocess
import sys
import time
from pathlib import Path


def run_script(script: str, cwd: Path, *, status: int = 0) -> str:
    """What a program prints. It must end with this status, negative for a signal, within two minutes; it has our modules, and runs in `cwd`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    (cwd / "script.py").write_text(script)
    result = subprocess.run([sys.executable, "script.py"], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == status, result.stderr
    return result.stdout


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process ends, if not now then within so many seconds; one that nobody has waited for has ended too."""
    for _ in range(int(seconds / 0.05)):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False
