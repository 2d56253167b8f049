"""Stands in for MNN's converter and quantiser: what they write is the ONNX file."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from stand_in import note


def mnnconvert(arguments: list[str]) -> bool:
    options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert options["-f"] == "ONNX"
    model = onnx.load(options["--modelFile"])
    note(f"mnnconvert {model.graph.name} of opset {model.opset_import[0].version}")
    if model.graph.name == "refused":
        print("an operator is unknown")
    else:
        shutil.copy(options["--modelFile"], options["--MNNModel"])
    return True


def mnnquant(arguments: list[str]) -> bool:
    _, source, target, config = arguments
    settings = json.loads(Path(config).read_text())
    shape = [size.dim_value for size in onnx.load(source).graph.input[0].type.tensor_type.shape.dim]
    samples = sorted(Path(settings["path"]).iterdir())
    data = [np.loadtxt(sample / "in0.txt", dtype=np.float32) for sample in samples]
    assert all(json.loads((sample / "input.json").read_text())["inputs"] == [{"name": "in0", "shape": shape}] for sample in samples)
    assert all(array.size == np.prod(shape) for array in data)
    assert not np.array_equal(data[0], data[1])
    note(f"mnnquant with {len(samples)} samples of {settings['used_sample_num']}")
    shutil.copy(source, target)
    return True
