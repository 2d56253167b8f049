"""`stepwell bundle`, and `stepwell run` of its folder."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from stepwell.cli.main import main

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


def run(*arguments: object) -> int:
    return main(list(map(str, arguments)))


def test_a_bundle_is_written_run_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, folder = tmp_path / "digits.onnx", tmp_path / "bundle"
    shutil.copy(DIGITS, model)
    assert run("bundle", model, "--shape", "image=1x1x8x8", "-o", folder) == 0
    said = capsys.readouterr().out
    assert "digits.weights" in said
    assert "1 input, 1 output, workspace" in said
    assert run("run", folder, "--check", "onnxruntime", "--threads", 2, "--repeat", 2, "--save", tmp_path / "out.npz") == 0
    said = capsys.readouterr().out
    assert "bundle digits for host, weights" in said
    assert "ok" in said
    assert "2 runs: median" in said
    assert run("run", folder, "--check", tmp_path / "out.npz", "--threads", 1) == 0
    assert run("run", folder, "--check", "reference") == 0
    wrong = {"probability": np.load(tmp_path / "out.npz")["probability"] + 1}
    np.savez(tmp_path / "wrong.npz", **wrong)
    assert run("run", folder, "--check", tmp_path / "wrong.npz") == 1
    changed = onnx.load(model)
    changed.producer_name = "another"
    onnx.save(changed, model)
    capsys.readouterr()
    assert run("run", folder, "--check", "onnxruntime") == 1
    assert "of which the bundle was made, is changed; expected --check onnxruntime:MODEL.onnx" in capsys.readouterr().err
    assert run("run", folder, "--check", f"onnxruntime:{DIGITS}") == 0
    model.unlink()
    assert run("run", folder, "--check", "onnxruntime") == 1
    assert "is gone" in capsys.readouterr().err


def test_free_sizes_and_state_come_from_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "bundle"
    assert run("bundle", DIGITS, "-o", folder, "--prefix", "free", "--kind", "shared", "--embed") == 0
    assert not (folder / "libfree.a").exists()
    assert not (folder / "free.weights").exists()
    assert "workspace by the sizes of inputs" in capsys.readouterr().out
    assert run("run", folder, "--shape", "image=5x1x8x8", "--check", "onnxruntime") == 0
    assert "float32[5x10]" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "status", "text"), [
    (("bundle", DIGITS, "-o", "no", "--prefix", "2x"), 2, "--prefix: prefix: expected a name in C"),
    (("bundle", DIGITS, "-o", "no", "--bind", "image"), 2, "--bind image: expected INPUT=OUTPUT"),
    (("bundle", DIGITS, "-o", "no", "--bind", "image=probability"), 1, "cannot take output"),
    (("bundle", DIGITS, "-o", "no", "--target", "pdp11"), 2, "unknown target 'pdp11'"),
    (("bundle", "none.onnx", "-o", "no"), 1, "none.onnx"),
    (("run", ROOT / "docs"), 1, "manifest.json: No such file"),
    (("run", ROOT / "docs", "--libm"), 2, "--libm: "),
    (("run", ROOT / "docs", "--check", "levels"), 2, "a bundle has no IR"),
], ids=lambda value: value if isinstance(value, str) else None)  # fmt: skip
def test_errors_are_one_line(
    arguments: tuple[object, ...], status: int, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == status
    said = capsys.readouterr().err.strip()
    assert text in said
    assert "\n" not in said
    assert not Path("no").exists()
