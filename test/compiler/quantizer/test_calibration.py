"""Calibration: histograms of what ONNX Runtime sees, kept on disk and read back without a run."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from float_networks import FloatNet, branching, run_plainly

from stepwell import InputError, ModelError
from stepwell.quantizer import calibration
from stepwell.quantizer.calibration import calibrate
from stepwell.quantizer.histogram import Histogram
from stepwell.quantizer.prepare import prepared
from stepwell.quantizer.samples import Samples


@pytest.fixture(scope="module")
def floats() -> onnx.ModelProto:
    return prepared(branching(3))


@pytest.fixture
def samples(floats: onnx.ModelProto) -> Samples:
    return Samples.from_data({"x": np.random.default_rng(0).normal(0.2, 1, (3, 2, 3, 12, 12)).astype(np.float32)}, floats)


def without_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **more: object) -> None:
        raise AssertionError("it runs again")

    monkeypatch.setattr(calibration, "Tapped", fail)


def test_histograms_are_of_what_onnx_runtime_computes(floats: onnx.ModelProto, samples: Samples):
    names = ["x", *(name for node in floats.graph.node for name in node.output)]
    progress: list[tuple[int, int]] = []
    found = calibrate(floats, names, samples, cache=False, on_batch=lambda done, every: progress.append((done, every)))
    assert progress == [(0, 3), (1, 3), (2, 3), (3, 3)]
    inner = names[1:-1]
    values = [run_plainly(floats, inputs, inner) for inputs in samples]
    for name in inner:
        parts = [batch[name] for batch in values]
        top = max(np.abs(part).max() for part in parts)
        seen = found[name]
        assert seen.total == sum(part.size for part in parts), name
        np.testing.assert_allclose([seen.low, seen.high], [min(p.min() for p in parts), max(p.max() for p in parts)], atol=2e-5 * top, err_msg=name)
        mean = sum(float(part.sum(dtype=np.float64)) for part in parts) / seen.total
        assert abs(float(seen.counts @ seen.centres) / seen.total - mean) <= seen.width, name


def test_a_file_is_read_back_until_something_changes(
    floats: onnx.ModelProto, samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, names = tmp_path / "seen.npz", ["x", floats.graph.node[0].output[0]]
    first = calibrate(floats, names, samples, file=file, cache=False)
    with monkeypatch.context() as patch:
        without_runs(patch)
        again = calibrate(floats, names, samples, file=file, cache=False)
        assert list(again) == names
        for name in names:
            same_histogram(first[name], again[name])
        for other in (lambda: calibrate(floats, names[:1], samples, file=file), lambda: calibrate(floats, names, samples.first(2), file=file)):
            with pytest.raises(AssertionError, match="it runs again"):
                other()
    fewer = calibrate(floats, names, samples.first(2), file=file, cache=False)
    assert fewer["x"].total == 2 * 2 * 3 * 12 * 12, "the file is written anew"


def same_histogram(a: Histogram, b: Histogram) -> None:
    assert (a.exponent, a.first, a.low, a.high) == (b.exponent, b.first, b.low, b.high)
    np.testing.assert_array_equal(a.counts, b.counts)


def test_the_cache_keeps_histograms(floats: onnx.ModelProto, samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("STEPWELL_CACHE", "1")
    first = calibrate(floats, ["x"], samples)
    without_runs(monkeypatch)
    same_histogram(first["x"], calibrate(floats, ["x"], samples)["x"])
    with pytest.raises(AssertionError, match="it runs again"):
        calibrate(floats, ["x"], samples, cache=False)


def test_a_file_of_something_else_is_refused(floats: onnx.ModelProto, samples: Samples, tmp_path: Path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InputError, match=rf"{name}: expected histograms that the quantiser wrote"):
            calibrate(floats, ["x"], samples, file=tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_a_value_that_is_nan_is_named():
    net = FloatNet(0)
    model = prepared(net.model(net.op("MatMul", net.op("Log", "x"), net.weight(4, 3)), 2, 4))
    samples = Samples.from_data({"x": np.array([[[1, 2, 3, 4]] * 2, [[1, -2, 3, 4]] * 2], np.float32)}, model)
    with pytest.raises(ModelError, match=r"node 'log0' \(Log\): its value 'log0\.y' has NaN or infinite elements on the data, batch 1"):
        calibrate(model, ["log0.y"], samples, cache=False)
