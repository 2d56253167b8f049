"""ConvInteger of random bytes, and what it gives."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(37)


def draw(dtype: Any, *shape: int) -> np.ndarray:
    """Random integers with the extremes among them."""
    limits = np.iinfo(dtype)
    values = np.asarray(RNG.integers(limits.min, limits.max + 1, shape)).astype(dtype)
    values.flat[:: max(1, values.size // 7)] = RNG.choice([limits.min, limits.max])
    return values


def model(inputs: dict[str, np.ndarray], weights: dict[str, np.ndarray], names: list[str], attributes: dict[str, Any]) -> onnx.ModelProto:
    """One ConvInteger of inputs and known arrays by name."""
    single = helper.make_node("ConvInteger", names, ["y"], **attributes)
    sides = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    out = [helper.make_tensor_value_info("y", TensorProto.INT32, None)]
    graph = helper.make_graph([single], "g", sides, out, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def convolved(x: np.ndarray, w: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    """Through ONNX's evaluator in f64, in which sums of products of nine bits are exact."""
    single = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    sides = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, None) for n in ("x", "w")]
    graph = helper.make_graph([single], "g", sides, [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)])
    [y] = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).run(None, {"x": x, "w": w})
    return np.asarray(y).astype(np.int64).astype(np.int32)
