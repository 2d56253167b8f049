#!/usr/bin/env python3
"""Write the networks of the zoo as ONNX files, with random weights from a seed.

    .venv/bin/python scripts/zoo.py DIR [--only NAME ...] [--seed N] [--check]
"""

import argparse
import sys
import time
from pathlib import Path

import environment
import numpy as np
import onnx
from onnx import numpy_helper

from networks import NETWORKS, build, image


def main() -> int:
    """Parse the arguments and write the files; 0 if successful, 2 for wrong usage (argparse)."""
    parser = argparse.ArgumentParser(description="Write the networks of the zoo as ONNX files, weights drawn at random from a seed.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="made if it is not there")
    parser.add_argument("--only", nargs="+", choices=NETWORKS, metavar="NAME", help=f"some of them: {', '.join(NETWORKS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="run each in ONNX Runtime and show the spread of its scores")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only or NETWORKS:
        start = time.monotonic()
        model = build(name, options.seed)
        path = options.folder / f"{name}.onnx"
        onnx.save(model, path)
        print(f"{path}  {describe(model)}  {time.monotonic() - start:.1f} s", flush=True)
        if options.check:
            print(f"  {scores(path)}", flush=True)
    return 0


def describe(model: onnx.ModelProto) -> str:
    """A short description: nodes, convolutions and bytes of weights."""
    convolutions = sum(node.op_type == "Conv" for node in model.graph.node)
    size = sum(numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer)
    return f"{len(model.graph.node)} nodes, {convolutions} convolutions, {size / 1e6:.1f} MB of weights"


def scores(path: Path) -> str:
    """The output of ONNX Runtime for a random image: range, spread, and the margin of the best score over the second."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (out,) = session.run(None, {session.get_inputs()[0].name: image(seed=0)})
    second, best = np.sort(out.ravel())[-2:]
    return f"scores {out.min():.3g} to {best:.3g}, deviation {out.std():.3g}, best ahead by {best - second:.3g}"


if __name__ == "__main__":
    environment.need(__doc__, "demo", *(["onnxruntime"] if "--check" in sys.argv else []))
    sys.exit(main())
