"""Models of a few nodes for the examples, and a check of compiled code against expected results. No plugin itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import stepwell

Node = tuple[str, Sequence[str], dict[str, Any]]


def chain(nodes: Sequence[Node], x: np.ndarray, y: np.ndarray, **weights: Any) -> onnx.ModelProto:
    """A model from arrays like `x` to arrays like `y`: each node is an operator (`domain::Name`), its inputs and attributes.

    The results are `v0`, `v1`, …; among the inputs `@` is the result of the previous node.
    """
    protos, last = [], "x"
    for i, (operator, inputs, attributes) in enumerate(nodes):
        domain, _, name = operator.rpartition("::")
        result = "y" if i == len(nodes) - 1 else f"v{i}"
        protos.append(helper.make_node(name, [last if v == "@" else v for v in inputs], [result], name=f"{name}_{i}", domain=domain, **attributes))
        last = result
    sides = [[helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)] for n, a in (("x", x), ("y", y))]
    graph = helper.make_graph(protos, "small", sides[0], sides[1], [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()])
    domains = {node.domain for node in protos} - {""}
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def check(model: onnx.ModelProto, x: np.ndarray, y: np.ndarray, *, kernels: int | None = None, **how: Any) -> None:
    """Compile a model, run it on `x`, and print the error of the result. Raises AssertionError if it is too large, or for other kernels."""
    compiled = stepwell.compile(model, threads=1, **how)
    assert isinstance(compiled, stepwell.CompiledModel)
    got = compiled.run({"x": x})["y"]
    error = float(np.abs(got.astype(np.float64) - y).max())
    print(f"{compiled.kernels} kernels, the greatest error is {error:.3g}")
    assert error <= 1e-5 * float(np.abs(y).max()), f"the result is {got}, expected {y}"
    assert kernels is None or compiled.kernels == kernels, f"{compiled.kernels} kernels, expected {kernels}"
