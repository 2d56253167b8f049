"""`stepwell run --check f64`: how far native code is from our own references in f64."""

from pathlib import Path

from commands import DIGITS, Commands


def test_the_command_says_whose_reference_it_is(commands: Commands, tmp_path: Path) -> None:
    ended = commands.stepwell("run", DIGITS, "--shape", "image=1x1x8x8", "--check", "f64", "--threads", "1")
    assert ended.status == 0
    assert "evaluated by Stepwell's own references (numpy) in f64" in ended.out
    assert "ULP" in ended.out
    commands.stepwell("run", DIGITS, "--check", "f64:other.onnx").refused(2, "--check f64:other.onnx: expected the model that is run")
    file = tmp_path / "digits.mlir"
    for level, status in (("graph", 0), ("linalg", 2)):
        commands.stepwell("compile", DIGITS, "--shape", "image=1x1x8x8", "--emit", level, "-o", file)
        assert commands.stepwell("run", "--from", level, file, "--check", "f64").status == status
