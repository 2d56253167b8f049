"""Small networks of floats with random weights, to be quantised."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 6


class FloatNet:
    """Builds a network of floats whose weights differ in range from channel to channel."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        spread = np.exp(self.rng.normal(0, 1, shape[:2] + (1,) * (len(shape) - 2)))
        self.weights[name] = (self.rng.normal(0.1, 1, shape) * spread).astype(np.float32)
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}.y"], name=name, **attributes))
        return f"{name}.y"

    def model(self, result: str, *shape: int) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        stored = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", [x], [y], stored)
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def branching(seed: int) -> onnx.ModelProto:
    """Convolutions with and without bias, one by channel, an addition around them, a concatenation, pools, a product with an addition behind it.

    Its input is x, f32[2, 3, 12, 12], its output f32[2, 5].
    """
    net = FloatNet(seed)
    first = net.op("Relu", net.op("Conv", "x", net.weight(8, 3, 3, 3), net.weight(8), pads=[1] * 4))
    h = net.op("Relu", net.op("Conv", first, net.weight(8, 1, 3, 3), group=8, pads=[1] * 4))
    h = net.op("Relu", net.op("Add", net.op("Conv", h, net.weight(8, 8, 1, 1)), first))
    h = net.op("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
    left = net.op("Relu", net.op("Conv", h, net.weight(4, 8, 1, 1), net.weight(4)))
    h = net.op("Concat", left, h, axis=1)
    h = net.op("Flatten", net.op("GlobalAveragePool", h))
    h = net.op("Relu", net.op("Gemm", h, net.weight(12, 7), net.weight(7)))
    h = net.op("Add", net.op("MatMul", h, net.weight(7, 5)), net.weight(5))
    return net.model(h, 2, 3, 12, 12)


def run_plainly(model: onnx.ModelProto, feed: dict[str, np.ndarray], names: list[str] | None = None) -> dict[str, np.ndarray]:
    """What ONNX Runtime computes node by node, each as the model has it: the model's outputs, or the values of these names."""
    import onnxruntime

    from stepwell.quantizer.taps import with_outputs

    model = model if names is None else with_outputs(model, names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = names or [value.name for value in session.get_outputs()]
    return dict(zip(wanted, session.run(wanted, feed), strict=True))


def classifier(seed: int, outlier: float = 1.0) -> onnx.ModelProto:
    """Three products, the second of which has a weight that is `outlier` times as large, of a number that is always near 0."""
    net = FloatNet(seed)
    h = net.op("Relu", net.op("Gemm", "x", net.weight(8, 16), net.weight(16)))
    h = net.op("Relu", net.op("Gemm", h, net.weight(16, 16), net.weight(16)))
    model = net.model(net.op("Gemm", h, net.weight(16, CLASSES)), 50, 8)
    first, second = (next(t for t in model.graph.initializer if t.name == name) for name in ("w0", "w2"))
    for tensor, rows, factor in ((first, np.s_[:, 3], 1 / outlier), (second, np.s_[3], outlier)):
        array = numpy_helper.to_array(tensor).copy()
        array[rows] *= factor
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model


def labelled(model: onnx.ModelProto, seed: int, right: float = 1.0) -> dict[str, np.ndarray]:
    """Samples, and labels that are the model's own answers for about that part of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (200, 8)).astype(np.float32)
    answers = np.concatenate([run_plainly(model, {"x": part})[model.graph.output[0].name].argmax(-1) for part in x.reshape(4, 50, 8)])
    return {"x": x, "y": np.where(rng.uniform(size=200) < right, answers, (answers + 1) % CLASSES)}
