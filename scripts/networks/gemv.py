"""One row times large matrices, as a language model makes of each token: all of its time is that of reading weights."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["gemv"]

SIZE = 4096  # rows and columns: LLaMA's (Touvron et al., 2023), of seven billion parameters


def gemv(seed: int, matrices: int = 1, size: int = SIZE) -> onnx.ModelProto:
    """A chain of so many products of f32[1, size] with a square matrix, 64 MiB each by default."""
    random = np.random.default_rng([seed, matrices])
    weights = [random.standard_normal((size, size), np.float32) / np.float32(size**0.5) for _ in range(matrices)]
    names = ["x", *(f"v{number}" for number in range(1, matrices)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]], name=f"product{i}") for i in range(matrices)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name in "xy")
    graph = helper.make_graph(nodes, "gemv", [x], [y], [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
