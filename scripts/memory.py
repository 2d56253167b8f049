#!/usr/bin/env python3
"""Measure the peak memory of a cold compilation of a large model with external data, of a start from the cache, and of many callers.

    .venv/bin/python scripts/memory.py [--gigabytes 2.5] [--folder DIR]
    .venv/bin/python scripts/memory.py --contexts 8 NETWORK.onnx

The model is a chain of products whose weights are in one file next to it. The file is sparse, and takes no space on disk, unless `--filled` is given.
Each measurement is a separate process. Its peak is the system's ru_maxrss, which includes mapped file pages and, for forked children, the pages that
they share with the parent. A cold compilation should stay below 1.3 times the weights plus 500 MB.

With `--contexts`, so many streams run a network, as a bundle and as a compiled model from the cache. The growth of resident memory, from a process
that has run another small model until each stream has run, should stay below the weights plus a workspace for each stream plus 10 MB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

SIZE = 4096  # rows and columns of the square matrices: 64 MiB each
FACTOR, ALLOWANCE = 1.3, 500 << 20
DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits" / "digits.onnx"
BESIDE_CONTEXTS = 10_000_000
"""The bytes that may come to the weights and the workspaces of many callers."""


def write_model(folder: Path, matrices: int, size: int = SIZE, *, filled: bool = False) -> Path:
    """Write a model with the given number of products. Its weights are in `weights.bin` next to it, zero except for one row each unless `filled`."""
    nodes, tensors = [], []
    step = size * size * 4
    random = np.random.default_rng(0)
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(matrices * step)
        for i in range(matrices):
            file.seek(i * step)
            rows = size if filled else 1
            for _ in range(rows):
                file.write((random.standard_normal(size, np.float32) / size**0.5).tobytes())
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[size, size], data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "weights.bin"), ("offset", i * step), ("length", step)):
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"v{i}" if i else "x", f"w{i}"], [f"v{i + 1}"]))
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name in ("x", f"v{matrices}")]
    graph = helper.make_graph(nodes, "large", sides[:1], sides[1:], tensors)
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    return path


CHILD = """
import json, resource, sys, time
import numpy as np
import stepwell
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
model = stepwell.compile(sys.argv[1])
seconds = time.perf_counter() - start
compiled = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
x = np.ones([1, model.inputs[0].shape[1]], np.float32)
first = float(model(x)[0][0, 0])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps(dict(seconds=seconds, before=before * 1024, compiled=compiled * 1024, run=after * 1024, children=child * 1024, first=first,
                      cached="cache" in model.timings)))
"""


def measure(path: Path, cache: Path) -> dict[str, float]:
    """Compile and run a model in a separate process, with the cache in the given folder; returns peaks in bytes, and seconds."""
    environment = {**os.environ, "STEPWELL_CACHE": "1", "STEPWELL_CACHE_DIR": str(cache), "STEPWELL_CACHE_BYTES": str(1 << 40)}
    ended = subprocess.run([sys.executable, "-c", CHILD, str(path)], env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr)
    return dict(json.loads(ended.stdout.splitlines()[-1]))


CONTEXTS = """
import json, sys, threading
import numpy as np
import stepwell
from benchmark.system import resident
from stepwell.runtime.openmp import openmp
from stepwell.runtime.serving.choice import example_inputs

kind, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
stepwell.load, openmp(), np.random.default_rng(0).standard_normal(1)
with stepwell.compile(sys.argv[4], shapes={"image": (1, 1, 8, 8)}).streams(1) as streams:  # loads the modules of Python
    streams.submit({"image": np.zeros((1, 1, 8, 8), np.float32)}).result()
before = resident()
model = stepwell.load(path) if kind == "bundle" else stepwell.compile(path)
weights = model.manifest.weights.bytes if kind == "bundle" else model.memory.weights_bytes
workspace = model.context_bytes if kind == "bundle" else model.memory.workspace_bytes
together = threading.Barrier(count)

class Inputs(dict):
    def __getitem__(self, name):
        together.wait(60)  # a run reads its inputs in the thread of its stream: so each of them runs one
        return super().__getitem__(name)

inputs = Inputs(example_inputs(model.inputs))
with model.streams(count, threads=1) as streams:
    for future in [streams.submit(inputs) for _ in range(count)]:
        future.result()
    after, own = resident(), streams.workspace_bytes
print(json.dumps(dict(before=before, grown=after - before, weights=weights, workspace=workspace, own=own)))
"""


def measure_contexts(kind: str, path: Path, count: int, cache: Path) -> dict[str, int]:
    """Run a `bundle` or a `model` with so many streams in a separate process; returns bytes."""
    environment = {**os.environ, "STEPWELL_CACHE": "1", "STEPWELL_CACHE_DIR": str(cache), "STEPWELL_CACHE_BYTES": str(1 << 40)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", CONTEXTS, kind, str(path), str(count), str(DIGITS)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr)
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def show_contexts(network: Path, count: int, folder: Path | None) -> int:
    """Measure so many streams of a network; returns 0 if their memory is within the bound."""
    import stepwell

    verdicts = []
    with tempfile.TemporaryDirectory(dir=folder) as name:
        bundled = stepwell.bundle(str(network), Path(name) / "bundle", kinds=("shared",))
        measure_contexts("model", network, 1, Path(name) / "cache")  # fills the cache
        for kind, path in (("bundle", bundled), ("model", network)):
            found = measure_contexts(kind, path, count, Path(name) / "cache")
            beside = found["grown"] - found["weights"] - count * found["workspace"]
            verdicts.append("ok" if beside <= BESIDE_CONTEXTS else "too much")
            parts = f"{found['weights'] / 1e6:.1f} MB of weights, {count} workspaces of {found['workspace'] / 1e6:.1f} MB"
            print(f"{kind:6} grows by {found['grown'] / 1e6:.1f} MB: {parts}, and {beside / 1e6:.1f} MB: {verdicts[-1]}")
    return int(verdicts != ["ok", "ok"])


def main() -> int:
    """Run the requested measurement; returns 0 if the peaks are within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.5, help="of weights")
    parser.add_argument("--folder", type=Path, help="where to write the model and the cache; by default a temporary one")
    parser.add_argument("--filled", action="store_true", help="fill all weights, not one row of each")
    parser.add_argument("--contexts", type=int, metavar="N", help="measure so many callers of a network")
    parser.add_argument("network", nargs="?", type=Path, metavar="NETWORK.onnx", help="with --contexts: of fixed sizes")
    options = parser.parse_args()
    if (options.contexts is None) != (options.network is None):
        parser.error("--contexts measures the callers of a network: give both")
    if options.contexts is not None:
        return show_contexts(options.network, options.contexts, options.folder)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        start = time.perf_counter()
        path = write_model(folder, max(round(options.gigabytes * 1e9 / (SIZE * SIZE * 4)), 1), filled=options.filled)
        weights = (folder / "weights.bin").stat().st_size
        print(f"weights {weights / 1e9:.2f} GB, written in {time.perf_counter() - start:.1f} s")
        verdicts = []
        for what in ("cold", "cached"):
            found = measure(path, folder / "cache")
            peak = max(found["compiled"], found["run"])
            verdict = "ok" if peak < FACTOR * weights + ALLOWANCE else "too much"
            if bool(found["cached"]) != (what == "cached"):
                verdict = "not from the cache" if what == "cached" else "from the cache"
            print(
                f"{what:7} peak {peak / 1e9:.2f} GB = {peak / weights:.2f} x weights ({found['before'] / 1e6:.0f} MB before, the largest child "
                f"{found['children'] / 1e6:.0f} MB), {found['seconds']:.1f} s: {verdict}"
            )
            verdicts.append(verdict)
    return int(verdicts != ["ok", "ok"])


if __name__ == "__main__":
    sys.exit(main())
