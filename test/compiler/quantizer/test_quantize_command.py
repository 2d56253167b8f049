"""`stepwell quantize`: files that it writes, and command lines and files that it refuses."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import DIGITS, Commands, process

from stepwell.analysis.compare import run_onnxruntime

DATA = np.random.default_rng(0).uniform(0, 1, (8, 1, 8, 8)).astype(np.float32)


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", image=DATA)
    return tmp_path / "data.npz"


def scores(model: Path) -> np.ndarray:
    return run_onnxruntime(str(model), {"image": DATA})["probability"]


def test_a_process_writes_a_quantised_network(commands: Commands, data: Path, tmp_path: Path):
    out, seen = tmp_path / "out.onnx", tmp_path / "seen.npz"
    ended = process("main", "quantize", DIGITS, "--data", data, "--batch", "4", "--histograms", seen, "-o", out)
    assert (ended.status, ended.err) == (0, "")
    assert "5 of 5 products and 8 values quantised" in ended.out
    assert np.abs(scores(out) - scores(DIGITS)).max() < 0.1
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in onnx.load(out).graph.node}
    assert out.stat().st_size < DIGITS.stat().st_size / 2
    again = commands.stepwell("run", out, "--input", f"image={data}", "--check", "onnxruntime")
    assert again.status == 0, again.err


def test_options_reach_the_quantiser(commands: Commands, data: Path, tmp_path: Path):
    out = tmp_path / "out.onnx"
    ended = commands.stepwell(
        "quantize", DIGITS, "--data", data, "--batch", "4", "--batches", "1", "--method", "percentile", "--percentile", "99", "--no-per-channel",
        "--symmetric", "--reduce-range", "--keep-float", "gemm*", "-o", out,
    )  # fmt: skip
    assert (ended.status, ended.err) == (0, "")
    assert "3 of 5 products and 4 values quantised" in ended.out
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(out).graph.initializer}
    assert stored["image_zero_point"].dtype == np.int8
    assert np.abs(stored["conv1.weight.folded_quantized"]).max() == 63
    assert stored["conv1.weight.folded_scale"].shape == ()
    assert stored["gemm1.weight"].dtype == np.float32
    assert stored["image_scale"] == pytest.approx(np.percentile(DATA[:4], 99) / 127, rel=1e-2)


def test_weights_alone(commands: Commands, tmp_path: Path):
    out = tmp_path / "out.onnx"
    ended = commands.stepwell("quantize", DIGITS, "--weights", "int4", "--block", "16", "--zero-points", "-o", out)
    assert (ended.status, ended.err) == (0, "")
    assert "weights" in ended.out
    assert [node.op_type for node in onnx.load(out).graph.node].count("MatMulNBits") == 2
    assert np.abs(scores(out) - scores(DIGITS)).max() < 0.2
    blocks = commands.stepwell("quantize", DIGITS, "--weights", "int8", "--form", "DequantizeLinear", "-o", out)
    assert blocks.status == 0
    assert np.abs(scores(out) - scores(DIGITS)).max() < 0.02


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        ((), 2, "expected --data FILE.npz|DIR to calibrate with, or --weights int4|int8"),
        (("--data", "{data}", "--method", "magic"), 2, "--method: invalid choice: 'magic'"),
        (("--data", "{data}", "--percentile", "99"), 2, "--percentile goes with --method percentile"),
        (("--data", "{data}", "--block", "32"), 2, "--block does not go with --data"),
        (("--weights", "int4", "--data", "{data}"), 2, "--data does not go with --weights"),
        (("--weights", "int4", "--symmetric"), 2, "--symmetric does not go with --weights"),
        (("--weights", "int4", "--block", "17"), 1, "block: expected 16, 32, 64, 128, got 17"),
        (("--data", "{data}", "-o", "{folder}/none/out.onnx"), 2, "there is no folder"),
        (("--data", "{folder}/none.npz"), 1, "none.npz: expected an .npz file, or a folder"),
        (("--data", "{data}", "--batch", "9"), 1, "there are no samples in it, or fewer than a batch"),
        (("--data", "{data}", "--keep-float", "conv9"), 1, "got 'conv9', which fits none of"),
        (("--data", "{data}", "--op-types", "Conv,Relu"), 1, "op_types: expected some of"),
        (("--data", "{data}", "--histograms", "{data}"), 1, "data.npz: expected histograms that the quantiser wrote"),
    ],
)  # fmt: skip
def test_what_is_refused(commands: Commands, data: Path, tmp_path: Path, arguments: tuple[str, ...], status: int, part: str):
    given = [text.format(data=data, folder=tmp_path) for text in arguments]
    out = tmp_path / "out.onnx"
    commands.stepwell("quantize", DIGITS, "-o", out, *given).refused(status, part)
    assert not out.exists()


def test_data_that_are_refused(commands: Commands, tmp_path: Path):
    for name, array, part in (
        ("nan", np.where(DATA > 0.99, np.nan, DATA), "the array for input 'image' has"),
        ("shape", DATA[:, :, :7], "batch 0: input 'image' is float32[batchx1x8x8], got the shape [1, 1, 7, 8]"),
    ):  # fmt: skip
        np.savez(tmp_path / f"{name}.npz", image=array)
        commands.stepwell("quantize", DIGITS, "--data", tmp_path / f"{name}.npz", "-o", tmp_path / "out.onnx").refused(1, f"{name}.npz", part)
    np.savez(tmp_path / "two.npz", a=DATA, b=DATA)
    commands.stepwell("quantize", DIGITS, "--data", tmp_path / "two.npz", "-o", tmp_path / "out.onnx").refused(1, "lacks an array", "'image'", "a, b")
    assert not (tmp_path / "out.onnx").exists()
