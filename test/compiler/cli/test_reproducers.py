"""Files that watching leaves behind can be run: reproducers at every level, in real processes, and dumps of the IR after each pass."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_server import commands_folder, started
from commands import DIGITS, Commands

from stepwell.dialects.core.weights import WeightTable

SHAPE = ("--shape", "image=1x1x8x8")
PASSES = {
    "graph-opt": "pack-matmul", "linalg": "collapse-dimensions", "scheduled": "assign-schedules", "affine": "lower-to-affine",
    "llvm": "limit-unrolling",
}  # fmt: skip
# A mistake in one pass, whose message depends on the weights that are there and on the target.
MISTAKE = """
import hashlib, os
from stepwell.passes.framework.ir_files import used_weights
from stepwell.passes.framework.registry import passes

def run(self, op, state):
    while op.name != "builtin.module":
        op = op.parent.operation
    digest = hashlib.sha256()
    for name in sorted(used_weights(op)):
        digest.update(name.encode() + state.weights[name].tobytes())
    raise ValueError(f"planted {digest.hexdigest()} {state.target.name}")

passes()[os.environ["MISTAKE_IN"]].run = run
"""
# As many runs as there are levels, in one process: the passes are mended in between.
FAILING = """
import os, sys
from stepwell import plugin_files
from stepwell.cli.main import main
from stepwell.passes.framework.registry import passes

model, shape, mistake, folder, *failing = sys.argv[1:]
for name in failing:
    os.environ["MISTAKE_IN"] = name
    right = passes()[name].run
    plugin_files._loaded.clear()
    status = main(["run", model, "--shape", shape, "--target", "x86-64-v3", "--load", mistake, "--dump-ir", os.path.join(folder, name)])
    assert status == 1, status
    passes()[name].run = right
"""


def test_a_reproducer_fails_as_the_model_did_at_every_level(tmp_path: Path) -> None:
    mistake = tmp_path / "a mistake.py"
    mistake.write_text(MISTAKE)
    command = [sys.executable, "-c", FAILING, str(DIGITS), SHAPE[1], str(mistake), str(tmp_path), *PASSES.values()]
    failed = subprocess.run(started(command), capture_output=True, text=True, timeout=300, check=False)
    assert failed.returncode == 0, failed.stderr
    errors = [line for line in failed.stderr.splitlines() if ": error: " in line]
    assert len(errors) == len(PASSES)
    said = set()
    path = f"{commands_folder(tmp_path)}{os.pathsep}{os.environ.get('PATH', '')}"
    for error, (level, name) in zip(errors, PASSES.items(), strict=True):
        message = f"pass '{name}': ValueError: planted \\w+ x86-64-v3 \\({re.escape(str(mistake))}, line \\d+\\)"
        found = re.fullmatch(f"stepwell run: error: SW005 level {level}, ({message}); reproducer: .*; run it with: (stepwell-opt .*)", error)
        assert found is not None, error
        printed = found.group(2)
        environment = {**os.environ, "PATH": path, "MISTAKE_IN": name}
        again = subprocess.run(printed, shell=True, capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert again.returncode == 1
        assert again.stderr == f"stepwell-opt: error: SW005 {found.group(1)}\n"
        assert (tmp_path / name / "reproducer.mlir").read_text().startswith(f"// {printed}\n")
        said.add(found.group(1).partition("planted ")[2].split()[0])
    assert len(said) > 1, "the levels have different weights"


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the IR after each pass, and the outputs."""
    folder = tmp_path_factory.mktemp("dump")
    from stepwell.cli.main import main

    options = ("--disable", "use-winograd", "--threads", "1", "--dump-ir", str(folder), "--save", str(folder / "direct.npz"))
    assert main(["run", str(DIGITS), *SHAPE, *options]) == 0
    return folder


@pytest.mark.parametrize("name", ["input", "convert-layout", "outline-kernels", "remove-boundaries", "assign-schedules", "expand-math", "set-target"])
def test_a_dump_can_be_gone_on_from(commands: Commands, dumped: Path, name: str) -> None:
    file = min(dumped.glob(f"*_{name}.mlir"))
    lines = [line.removeprefix("// ") for line in file.read_text().splitlines() if line.startswith("// ")]
    for line in lines:
        program, *arguments = shlex.split(line)
        run = program == "stepwell"
        options = ["--save", dumped / "again.npz", "--threads", "1"] if run else []
        assert (commands.stepwell if run else commands.opt)(*arguments, *options).status == 0
        if run:
            assert arguments[3:5] == ["--disable", "use-winograd"]
    np.testing.assert_array_equal(np.load(dumped / "again.npz")["probability"], np.load(dumped / "direct.npz")["probability"])


def test_dumps_share_weights_on_disk(dumped: Path) -> None:
    files = sorted(dumped.glob("*.safetensors"))
    assert len(files) > 40
    assert len({file.stat().st_ino for file in files}) < 15
    assert not set(WeightTable.load(files[0])) <= set(WeightTable.load(max(dumped.glob("*_set-target.safetensors"))))
