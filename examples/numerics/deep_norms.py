#!/usr/bin/env python3
"""How far a deep chain of batch normalisations is from f64: folded into one, node by node, and in ONNX Runtime if it is installed.

    .venv/bin/python examples/numerics/deep_norms.py [--depth N] [--spread S] [--target NAME]

docs/numerics.md says what folding does.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import stepwell


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the errors; 0 if native code could be run."""
    parser = argparse.ArgumentParser(description="How far a deep chain of batch normalisations is from f64.")
    parser.add_argument("--depth", type=int, default=105, help="how many normalisations follow each other (default: 105)")
    parser.add_argument("--spread", type=float, default=1.0, help="of means and biases, over the deviation of the data (default: 1)")
    parser.add_argument("--target", default="host", help="the machine to compile for (default: host)")
    options = parser.parse_args(arguments)
    random = np.random.default_rng(0)
    model, x = chain(options.depth, options.spread, random), random.standard_normal((1, 16, 8, 8)).astype(np.float32)
    lowered = stepwell.lower(model, "graph")
    print(f"{options.depth} batch normalisations against f64 (our own references)")
    for name, disabled in (("folded", ()), ("node by node", ("merge-constants", "fold-batch-norm"))):
        known = stepwell.Pipeline.default(options.target).switches()
        model_of = stepwell.compile(model, target=options.target, threads=1, disable=tuple(d for d in disabled if d in known))
        show(name, lowered, x, model_of.run({"x": x})["y"])
    try:
        import onnxruntime
    except ImportError:
        print("ONNX Runtime is not installed")
        return 0
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    show("ONNX Runtime", lowered, x, session.run(None, {"x": x})[0])
    return 0


def chain(depth: int, spread: float, random: np.random.Generator) -> onnx.ModelProto:
    """The model: each normalisation has the statistics of its data, as training finds them, so that its mean cancels the bias of the one before."""
    arrays: dict[str, np.ndarray] = {}
    nodes, last = [], "x"
    mean, deviation = np.zeros(16), np.ones(16)
    for i in range(depth):
        scale, bias = random.uniform(0.5, 1.5, 16), (spread if i < depth - 1 else 1) * random.standard_normal(16)
        arrays |= {f"{name}{i}": a.astype(np.float32) for name, a in (("scale", scale), ("bias", bias), ("mean", mean), ("var", deviation**2))}
        result = "y" if i == depth - 1 else f"t{i}"
        inputs = [last, *(f"{name}{i}" for name in ("scale", "bias", "mean", "var"))]
        nodes.append(helper.make_node("BatchNormalization", inputs, [result], name=f"norm{i}"))
        last, mean, deviation = result, bias, scale
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 8, 8]) for name in "xy"]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "norms", sides[:1], sides[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def show(name: str, lowered: stepwell.Lowered, x: np.ndarray, y: np.ndarray) -> None:
    """Print how far an output is from f64."""
    for found in stepwell.compare_with_f64(lowered, {"x": x}, {"y": y}):
        print(f"{name:<14} {found.scale_rel:.2g} of scale, {found.ulps:.3g} ULP at most")


if __name__ == "__main__":
    sys.exit(main())
