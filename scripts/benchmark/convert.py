"""Converts one prepared model with the tools of a peer: `python -m benchmark.convert ENGINE FOLDER`, in the interpreter of the peers' environment.

The folder has `model.onnx`, `about.json` and for int8 `calibration`; what is to be kept is written to its sub-folder `kept`.
"""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.jobs import Contestant, Job
from benchmark.peer_engines import Mnn
from benchmark.results import TOLERANCE

__all__ = ["main"]

LARGEST, SMALLEST = 3, 0  # of MNN's levels

CALLED = re.compile(r'(?:ex\.input\("(in\d+)", ncnn\.Mat|torch\.from_numpy\((out\d+)\.numpy)\((?:in\d+\.numpy\(\),? ?)?(?:batch_index=(\d+))?\)')
"""An input or an output in the Python program that pnnx writes to show how a model is called, and which of its dimensions is the batch."""


def main() -> None:
    """Convert, or end with a message and status 1."""
    engine, folder = sys.argv[1], Path(sys.argv[2])
    about = json.loads((folder / "about.json").read_text())
    (folder / "kept").mkdir()
    about |= TOOLS[engine](folder, about)
    (folder / "kept" / "about.json").write_text(json.dumps(about))


def convert_for_mnn(folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """`mnnconvert -f ONNX --useGeluApproximation 0`, as the approximation is not exact enough here, and `mnnquant` for int8.

    Both through the module below these commands: the commands themselves install a logging client with whatever `pip` is found on PATH and report
    their use to their makers. The module always says that it succeeded.
    """
    import _tools

    floats, made = folder / "model.mnn", folder / "kept" / "model.mnn"
    wanted = floats if about["int8"] else made
    options = {"-f": "ONNX", "--modelFile": folder / "model.onnx", "--MNNModel": wanted, "--bizCode": "benchmark", "--useGeluApproximation": 0}
    _tools.mnnconvert(["mnnconvert", *(str(word) for option in options.items() for word in option)])
    if about["int8"] and floats.is_file():
        samples = folder / "calibration"
        settings = {
            "path": f"{samples}/", "used_sample_num": len(list(samples.iterdir())), "input_type": "sequence", "batch_size": 1, "quant_bits": 8,
            "feature_quantize_method": "KL", "weight_quantize_method": "MAX_ABS",
        }  # fmt: skip
        (folder / "quantise.json").write_text(json.dumps(settings))
        _tools.mnnquant(["mnnquant", str(floats), str(made), str(folder / "quantise.json")])
    if not made.is_file():
        sys.exit("the tool wrote no model")
    return {"winograd": LARGEST if about["int8"] else exact_enough(made.parent, about)}


def exact_enough(kept: Path, about: dict[str, Any]) -> int:
    """The largest tiles of Winograd's method that MNN may use for this network: those of its default, unless they take half of the tolerance."""
    random = np.random.default_rng(0)
    feed = {spec["name"]: random.standard_normal(spec["shape"]).astype(np.float32) for spec in about["inputs"]}
    found = []
    for level in (LARGEST, SMALLEST):
        (kept / "about.json").write_text(json.dumps(about | {"winograd": level}))
        engine = Mnn(Job(Contestant("mnn"), str(kept), 1, True))
        found.append(engine.arrays(engine.call(feed)))
    error = max(float(np.abs(large - small).max() / max(np.abs(small).max(), 1e-30)) for large, small in zip(*found, strict=True))
    return LARGEST if error <= TOLERANCE / 2 else LARGEST - 1


def convert_for_ncnn(folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """`pnnx` with weights in f32. Adds which dimension of each input and output is the batch, which ncnn's arrays have none for.

    What pnnx has no translation for it leaves in, so the network is also loaded.
    """
    import ncnn

    found = importlib.util.find_spec("pnnx")  # the package itself imports torch; its program is a file in it
    assert found is not None
    assert found.submodule_search_locations
    program = Path(found.submodule_search_locations[0]) / "pnnx"
    shapes = ",".join(f"[{','.join(map(str, spec['shape']))}]f32" for spec in about["inputs"])
    status = subprocess.run([str(program), "model.onnx", f"inputshape={shapes}", "fp16=0"], cwd=folder, check=False).returncode
    files = [folder / "model.ncnn.param", folder / "model.ncnn.bin"]
    if status != 0 or not all(file.is_file() for file in files):
        sys.exit(f"pnnx ended with status {status}")
    if ncnn.Net().load_param(str(files[0])) != 0:
        sys.exit("ncnn cannot load what pnnx wrote")
    for file in files:
        file.rename(folder / "kept" / file.name)
    calls = CALLED.findall((folder / "model_ncnn.py").read_text())
    return {"batch": {given or got: int(batch) if batch else None for given, got, batch in calls}}


TOOLS: dict[str, Callable[[Path, dict[str, Any]], dict[str, Any]]] = {"mnn": convert_for_mnn, "ncnn": convert_for_ncnn}


if __name__ == "__main__":
    main()
