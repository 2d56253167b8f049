"""The example network that the demo runs: what it is made of, and how well it does."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from command_server import started

import stepwell

ROOT = Path(__file__).resolve().parents[2]
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
    shown = subprocess.run(started([sys.executable, DIGITS / "demo.py"]), capture_output=True, text=True, timeout=600, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "the same answer for 450 of 450 digits" in shown.stdout
    for text in ("graph-opt", "linalg", "affine", "llvm", "ONNX Runtime", "µs"):
        assert text in shown.stdout


@pytest.mark.parametrize("target", ["x86-64-v3", "host"])
def test_products_of_the_machine_code_are_those_of_the_nodes_that_multiply(target: str) -> None:
    """Those of convolutions that batch normalisations were folded into too."""
    model = stepwell.compile(DIGITS / "digits.onnx", shapes={"image": (1, 1, 8, 8)}, target=target, threads=1)
    counts: Counter[str] = Counter()
    place = ""
    for line in map(str.strip, model.ir("asm").splitlines()):
        if line.startswith(("# node ", "# no node")):
            place = line
        elif line.startswith("vfmadd"):
            counts[place] += 1
    multiplying = ["# node 0: conv1", "# node 3: conv2", "# node 7: conv3", "# node 12: gemm1", "# node 14: gemm2", "# node 15: softmax"]
    assert sorted(counts) == sorted(multiplying)
