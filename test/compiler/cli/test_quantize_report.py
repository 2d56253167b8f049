"""`stepwell quantize`: what a layer loses, a budget, and the options that say so."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import Commands, process
from float_networks import classifier, labelled
from kept_kernels import kept_kernels


@pytest.fixture(scope="module", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A network is compiled with several numbers of quantised values."""
    with kept_kernels(tmp_path_factory.mktemp("cache")):
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network that per-tensor quantisation hurts, and labelled samples."""
    folder = tmp_path_factory.mktemp("quantize")
    model = classifier(3, outlier=300.0)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", **labelled(model, 4))
    return folder


def test_a_process_with_a_report_and_a_budget(files: Path):
    ended = process(
        "main", "quantize", files / "model.onnx", "--data", files / "data.npz", "--labels", "y", "--budget", "3", "--no-per-channel",
        "--method", "minmax", "--report", files / "report.html", "-o", files / "out.onnx",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    lines = ended.out.splitlines()
    assert "what hurts most first" in lines[0]
    assert {line.split()[0] for line in lines[3:5]} == {"gemm0", "gemm4"}
    assert "in float: gemm2" in lines
    accuracy = next(line for line in lines if line.startswith("accuracy: 100.00 % -> "))
    assert 97 <= float(accuracy.split()[4]) <= 100
    page = (files / "report.html").read_text()
    assert "<title>model.onnx, quantised</title>" in page
    assert "<dd>minmax, per tensor</dd>" in page
    assert "<dt>in float</dt><dd>gemm2</dd>" in page
    assert page.count("<svg") == 2
    quantised = onnx.load(files / "out.onnx")
    onnx.checker.check_model(quantised, full_check=True)
    assert sum(node.op_type == "QuantizeLinear" for node in quantised.graph.node) == 2


def test_accuracy_and_what_was_equalised(files: Path, commands: Commands):
    ended = commands.stepwell(
        "quantize", files / "model.onnx", "--data", files / "data.npz", "--labels", "y", "--equalize", "--correct-bias", "--no-per-channel",
        "-o", files / "out.onnx",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert "2 pairs of layers equalised; 1 layer left: --report lists why" in ended.out
    after = float(next(line for line in ended.out.splitlines() if line.startswith("accuracy: ")).split()[4])
    assert after >= 97, "the outlier is shared with the layer before, so nothing need stay in float"


def test_a_budget_of_agreement(files: Path, commands: Commands):
    ended = commands.stepwell(
        "quantize", files / "model.onnx", "--data", files / "data.npz", "--budget", "3", "--no-per-channel", "--method", "minmax",
        "-o", files / "out.onnx",
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert "in float: gemm2" in ended.out.splitlines()
    agreement = next(line for line in ended.out.splitlines() if line.startswith("agreement: 100.00 % -> "))
    assert 97 <= float(agreement.split()[4]) <= 100


@pytest.mark.parametrize(
    ("options", "status", "parts"),
    [
        (["--budget", "nan"], 1, ["SW003", "expected points that may be lost, 0 or more, got nan"]),
        (["--labels", "z"], 1, ["SW003", "key of labels 'z'", "it has x, y"]),
        (["--labels", "y", "--budget", "-1"], 1, ["SW003", "expected points that may be lost, 0 or more, got -1"]),
        (["--report", "none/report.html"], 2, ["--report none/report.html: there is no folder none"]),
        (["--weights", "int4", "--report", "report.html"], 2, ["--data does not go with --weights"]),
    ],
)
def test_options_that_are_wrong(files: Path, commands: Commands, options: list[str], status: int, parts: list[str]):
    ended = commands.stepwell("quantize", files / "model.onnx", "--data", files / "data.npz", "-o", files / "wrong.onnx", *options)
    ended.refused(status, *parts)
    assert not (files / "wrong.onnx").exists()


def test_weights_alone_have_no_report(files: Path, commands: Commands):
    ended = commands.stepwell("quantize", files / "model.onnx", "--weights", "int4", "--equalize", "-o", files / "wrong.onnx")
    ended.refused(2, "--equalize does not go with --weights")


def test_no_matplotlib(files: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch):
    """It is said before anything is run."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "matplotlib" else find(name, *more))
    ended = commands.stepwell("quantize", "none.onnx", "--data", "none.npz", "--report", files / "report.html", "-o", files / "wrong.onnx")
    ended.refused(1, "report: a page needs matplotlib: pip install 'stepwell[quantize]'")
