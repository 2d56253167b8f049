"""The example network that the demo runs: what it is made of, and how well it does."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits"


def test_the_network_is_small_and_has_the_layers_it_should():
    path = DIGITS / "digits.onnx"
    assert path.stat().st_size < 1_000_000
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert {"Conv", "BatchNormalization", "Relu", "MaxPool", "Flatten", "Gemm", "Softmax"} == {node.op_type for node in model.graph.node}
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_it_reads_digits_that_it_was_not_trained_on(monkeypatch):
    monkeypatch.syspath_prepend(str(DIGITS))
    import data

    (images, _), (held_images, labels) = data.split()
    seen = {image.tobytes() for image in images}
    assert not any(image.tobytes() in seen for image in held_images)
    session = onnxruntime.InferenceSession(str(DIGITS / "digits.onnx"), providers=["CPUExecutionProvider"])
    (probability,) = session.run(None, {"image": held_images})
    assert np.mean(probability.argmax(1) == labels) >= 0.97


def test_the_demo_agrees_with_onnxruntime():
    shown = subprocess.run([sys.executable, str(DIGITS / "demo.py")], capture_output=True, text=True, timeout=600, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "the same answer for 450 of 450 digits" in shown.stdout
    for text in ("graph-opt", "linalg", "affine", "llvm", "ONNX Runtime", "µs"):
        assert text in shown.stdout
