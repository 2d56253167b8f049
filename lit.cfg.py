"""lit: FileCheck tests of the IR, `lit -v test` or `lit -v test/passes/linalg/use_destinations.mlir`."""
# ruff: noqa: F821  (lit defines `config` and `lit_config`)

import os
import sys
from pathlib import Path

root = Path(__file__).parent.resolve()
python = sys.executable
sys.path.insert(0, str(root / "test" / "support"))

from forked_commands import ForkedCommands  # noqa: E402  (found by the line above)

config.name = "stepwell"
config.test_format = ForkedCommands()
config.suffixes = [".mlir"]
config.excludes = [".venv", "build", "Inputs"]
config.test_source_root = str(root)
config.test_exec_root = str(root / "build" / "lit")

# The commands of the package and FileCheck in pure Python, all run by the interpreter that runs lit: whole words that are no part of a
# path, an option or a longer name.
for name, module in (("stepwell-opt", "stepwell.cli.opt"), ("stepwell", "stepwell.cli.main"), ("FileCheck", "filecheck")):
    config.substitutions.append((rf"(?<![-\w./='\"]){name}(?![-\w./='\"])", f"{python} -m {module}"))
config.substitutions.append(("%python", python))

for variable in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "OMP_WAIT_POLICY", "HOME", "STEPWELL_CACHE_DIR"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
config.environment["STEPWELL_CACHE"] = "0"  # what is tested is what the code does now
