"""The script that measures quantisation on real data: a whole task with one fold, and what its numbers are made of."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import quantize_real
from kept_kernels import kept_kernels
from onnx import helper

from real_data import ort_quantizer
from real_data.compare import Result, judged, summaries
from real_data.engines import in_onnxruntime, in_stepwell
from real_data.ocr import character_accuracy
from real_data.packages import file_of
from real_data.trial import Trial, as_feeds, equal
from real_data.verdicts import verdicts
from stepwell.dialects.support.errors import InputError


@pytest.fixture(scope="module", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A network is compiled with several numbers of quantised values."""
    with kept_kernels(tmp_path_factory.mktemp("cache")):
        yield


def test_digits_with_one_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    monkeypatch.setattr("real_data.digits.EPOCHS", 5)
    status = quantize_real.main(["--tasks", "digits", "--folds", "1", "--settings", "minmax, per channel; mse, *budget", "--json", str(file)])
    told = json.loads(file.read_text())
    assert status == int(any(told["problems"].values()))
    by_name = {(s["quantiser"], s["setting"], s["engine"]): s for s in told["summaries"]}
    floats = by_name["none", "floats", "stepwell"]
    assert floats["samples"] == 360
    assert floats["accuracy"]["accuracy"] > 96
    assert by_name["none", "floats", "onnxruntime"]["agreement"] == 100
    ours = [s for key, s in by_name.items() if key[0] == "stepwell"]
    assert {(s["setting"], s["engine"]) for s in ours} == {
        (setting, engine) for setting in ("minmax, per channel", "mse, per channel, within a budget") for engine in ("stepwell", "onnxruntime")
    }
    for s in ours:
        assert s["loss"] <= 0.6, "two digits of 360"
        assert s["agreement"] >= 99
    assert {key[2] for key in by_name if key[0] == "onnxruntime"} == {"stepwell", "onnxruntime"}
    assert "the best setting of each quantiser" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--tasks", "digits,letters"], "there is no task 'letters'; there are digits, mnist, ocr, magika"),
    (["--folds", "6"], "--folds: invalid choice: 6"),
    (["--settings", "best"], "--settings leaves none of stepwell's: minmax, per channel; "),
])  # fmt: skip
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        quantize_real.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def trial_of(model: onnx.ModelProto, x: np.ndarray, truths: list[int | None]) -> Trial:
    return Trial("t", 0, model, as_feeds(x, "x"), as_feeds(x, "x"), truths, lambda outputs: int(outputs["y"].argmax()), {"accuracy": equal})


def test_onnxruntime_quantises_old_models_per_channel() -> None:
    """An opset that has no scales for channels, and a bias [1, n], with which its quantiser fails by itself."""
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 16)).astype(np.float32)
    w, b = random.standard_normal((16, 5)).astype(np.float32), random.standard_normal((1, 5)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "g",
        [helper.make_tensor_value_info("x", 1, ["batch", 16])], [helper.make_tensor_value_info("y", 1, ["batch", 5])],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=8)
    made = ort_quantizer.QUANTIZER.quantised(trial_of(model, x, [None] * 40), "minmax, per channel")
    assert [node.op_type for node in made.graph.node].count("DequantizeLinear") >= 3
    scales = [t for t in made.graph.initializer if t.name == "w_scale"]
    assert [list(t.dims) for t in scales] == [[5]]
    want = x @ w + b
    step = np.abs(want).max() / 127
    for engine in (in_onnxruntime, in_stepwell):
        got = np.concatenate([engine(made, {"x": row[None]})({"x": row[None]})["y"] for row in x[:3]])
        assert 0 < np.abs(got - want[:3]).max() < 4 * step


def test_losses_are_paired_and_unknown_truths_count_for_agreement_alone() -> None:
    trial = trial_of(onnx.ModelProto(), np.zeros((5, 1), np.float32), [1, 2, 3, 4, None])
    floats = [1, 2, 0, 4, 7]
    results = [
        judged(trial, floats, floats, "none", "floats", "stepwell"),
        judged(trial, floats, [1, 0, 3, 0, 8], "stepwell", "a", "stepwell"),
        judged(trial, floats, [1, 2, 0, 4, 7], "onnxruntime", "b", "onnxruntime"),
    ]
    _, ours, theirs = summaries(results)
    assert (ours.accuracy["accuracy"], ours.loss, ours.lost, ours.won, ours.agreement) == (50, 25, 2, 1, 20)
    assert ours.error == pytest.approx(100 * np.std([0, 1, -1, 1], ddof=1) / 2)
    assert (theirs.loss, theirs.agreement) == (0, 100)
    [verdict] = verdicts([ours, theirs])
    assert verdict.problems == ["the loss is above 0.5 points", "ONNX Runtime's quantiser loses less", "agreement is below 99 %"]


def test_luck_is_no_smaller_loss() -> None:
    """Where no setting loses anything, the best one is that with the most agreement, and none is worse for less luck."""
    trial = trial_of(onnx.ModelProto(), np.zeros((4, 1), np.float32), [1, 2, 3, 4])
    floats = [1, 2, 0, 0]
    results = [
        judged(trial, floats, floats, "none", "floats", "stepwell"),
        judged(trial, floats, [1, 2, 3, 0], "stepwell", "lucky", "stepwell"),
        judged(trial, floats, [1, 2, 0, 0], "stepwell", "same", "stepwell"),
        judged(trial, floats, [1, 2, 3, 4], "onnxruntime", "luckier", "onnxruntime"),
    ]
    [verdict] = verdicts(summaries(results))
    assert (verdict.ours.setting, verdict.theirs.loss, verdict.problems) == ("same", -50, [])


def test_folds_are_averaged() -> None:
    folds = [Result("t", fold, q, "s", "stepwell", {"accuracy": scores}, [True]) for fold, q, scores in (
        (0, "none", [1.0, 1.0]), (1, "none", [1.0, 0.0]), (0, "stepwell", [1.0, 0.0]), (1, "stepwell", [1.0, 1.0]),
    )]  # fmt: skip
    ours = summaries(folds)[1]
    assert (ours.folds, ours.samples, ours.loss, ours.lost, ours.won) == (2, 4, 0, 1, 1)
    with pytest.raises(ValueError, match="t, fold 1: there is no result of the floats"):
        summaries([folds[0], folds[3]])


def test_character_accuracy_is_by_edit_distance() -> None:
    assert character_accuracy("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert character_accuracy("same", "same") == 1
    assert character_accuracy("", "abc") == 0
    assert character_accuracy("abcdefgh", "x") == 0


def test_files_of_packages_are_found_without_importing_them() -> None:
    assert file_of("numpy", "version.py").name == "version.py"
    with pytest.raises(InputError, match="no_such_package is not installed: pip install"):
        file_of("no_such_package", "*")
    with pytest.raises(InputError, match=r"numpy: expected one file \*.nothing"):
        file_of("numpy", "*.nothing")
