"""`stepwell run --check levels`: what each level means, and between which two a fault shows."""

import re
from pathlib import Path

import numpy as np
import onnx
from commands import Commands
from faults import broken
from importing import floats, model, node

from stepwell.passes.schedule.assign_schedules import AssignSchedules

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"


def test_each_level_against_the_one_above(commands: Commands) -> None:
    ended = commands.stepwell("run", DIGITS, "--shape", "image=1x1x8x8", "--check", "levels", "--no-cache")
    assert ended.status == 0, ended.err
    for step in (r"graph-opt +graph", r"linalg +graph-opt", r"scheduled +linalg", r"native code +scheduled"):
        assert len(re.findall(rf"\n{step} +probability .* ok", ended.out)) == 1, ended.out


def test_the_data_say_sizes_that_are_free(commands: Commands, tmp_path: Path) -> None:
    np.save(tmp_path / "image.npy", floats(2, 1, 8, 8))
    assert commands.stepwell("run", DIGITS, "--input", tmp_path / "image.npy", "--check", "levels", "--no-cache").status == 0


def test_from_ir_and_where_levels_differ(commands: Commands, tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["r"]), node("MaxPool", ["r"], kernel_shape=[2])], {"x": floats(1, 3, 9)}, {"y": floats(1, 3, 8)})
    onnx.save(proto, tmp_path / "m.onnx")
    for level in ("graph-opt", "scheduled"):
        file = tmp_path / f"{level}.mlir"
        assert commands.stepwell("compile", tmp_path / "m.onnx", "--emit", level, "-o", file).status == 0
        for check in ("levels", "reference"):
            assert commands.stepwell("run", "--from", level, file, "--check", check).status == 0
    with broken(AssignSchedules, "arith.maximumf", "arith.minimumf"):
        ended = commands.stepwell("run", tmp_path / "m.onnx", "--check", "levels", "--no-cache")
    ended.refused(1, "the meaning changed between linalg and scheduled: outputs y")
