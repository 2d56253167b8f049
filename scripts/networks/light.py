"""The networks that ship in the `onnx` package without weights, with weights."""

from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

from networks.weights import Weights

__all__ = ["LIGHT_NAMES", "light_model", "randomised_light_model"]

# Our name -> the file's. In the files nearly every weight is a ConstantOfShape of 0.02, and every initializer is declared as an input.
LIGHT_NAMES = {
    "vgg19": "vgg19",
    "alexnet": "bvlc_alexnet",
    "densenet121": "densenet121",
    "shufflenet": "shufflenet",
    "squeezenet": "squeezenet",
    "resnet50v1": "resnet50",
    "inceptionv1": "inception_v1",
    "inceptionv2": "inception_v2",
    "zfnet512": "zfnet512",
}

IR_VERSION = 4  # the first where initializers need not be declared as inputs, so that a runtime may take them for constants

# What an operand of an op stands for.
ROLES = {
    ("Conv", 1): "kernel", ("Conv", 2): "bias", ("Gemm", 1): "kernel", ("Gemm", 2): "bias", ("Mul", 1): "scale", ("Add", 1): "bias",
    ("BatchNormalization", 1): "scale", ("BatchNormalization", 2): "bias", ("BatchNormalization", 3): "mean", ("BatchNormalization", 4): "variance",
}  # fmt: skip

# The last op of a residual branch is scaled down: sixteen equal summands would let the signal grow a hundredfold.
BRANCH_SCALE = 0.25

# Variance gain of the last kernel (He's is 2): scores with a deviation of about 2, so that no softmax is saturated or flat.
CLASSIFIER_GAIN = {
    "vgg19": 0.36, "alexnet": 0.26, "densenet121": 0.2, "shufflenet": 0.04, "squeezenet": 3.5, "resnet50v1": 0.083,
    "inceptionv1": 0.176, "inceptionv2": 0.1, "zfnet512": 2.3,
}  # fmt: skip


def light_model(name: str) -> onnx.ModelProto:
    """The file as it ships, by our name. Raises KeyError for an unknown name."""
    folder = Path(onnx.backend.test.__file__).parent / "data" / "light"
    return onnx.load(folder / f"light_{LIGHT_NAMES[name]}.onnx")


def randomised_light_model(name: str, seed: int) -> onnx.ModelProto:
    """The network with every weight drawn at random.

    The few weights in the files that are not constant are replaced too: they were trained together with the missing ones, and beside
    random ones their statistics (variances from 1e-14 to 7000) would drown or blow up the signal.
    """
    model = light_model(name)
    graph = model.graph
    weights = Weights(name, seed)
    initializers = {t.name: t for t in graph.initializer}
    consumers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    for node in graph.node:
        for index, operand in enumerate(node.input):
            consumers.setdefault(operand, []).append((node, index))
    branch_ends = residual_branch_ends(graph)
    classifier = [node for node in graph.node if node.op_type in ("Conv", "Gemm")][-1]

    def draw(tensor: str, shape: tuple[int, ...]) -> np.ndarray:
        node, role = weight_role(tensor, consumers)
        if role == "kernel":
            gain = CLASSIFIER_GAIN[name] if node.output == classifier.output else 2.0
            return weights.kernel(tensor, shape, fan_in=shape[-1] if node.op_type == "Gemm" else prod(shape[1:]), gain=gain)
        if role == "scale":
            return weights.scale(tensor, shape, BRANCH_SCALE if node.output[0] in branch_ends else 1.0)
        if role == "variance":
            return weights.variance(tensor, shape)
        return weights.bias(tensor, shape)

    drawn: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name in consumers:
            drawn[tensor.name] = draw(tensor.name, tuple(tensor.dims))
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(n) for n in numpy_helper.to_array(initializers[node.input[0]]))
            drawn[node.output[0]] = draw(node.output[0], shape)

    nodes = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    read = {operand for node in nodes for operand in node.input}
    kept = [t for t in graph.initializer if t.name in read and t.name not in drawn]
    inputs = [i for i in graph.input if i.name not in initializers]
    for field, values in (("node", nodes), ("initializer", kept), ("input", inputs)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    graph.initializer.extend(numpy_helper.from_array(array, tensor) for tensor, array in drawn.items())
    model.ir_version = IR_VERSION
    return model


def weight_role(tensor: str, consumers: dict[str, list[tuple[onnx.NodeProto, int]]]) -> tuple[onnx.NodeProto, str]:
    """The op that a weight works in and the part it plays there, through the reshapes between. Raises KeyError for one we do not know."""
    node, index = consumers[tensor][0]
    while node.op_type in ("Unsqueeze", "Reshape"):
        node, index = consumers[node.output[0]][0]
    return node, ROLES[node.op_type, index]


def residual_branch_ends(graph: onnx.GraphProto) -> set[str]:
    """The tensor at the end of the longer path into each residual sum: the branch, not the shortcut."""
    producer = {node.output[0]: node for node in graph.node}
    uses: dict[str, int] = {}
    for node in graph.node:
        for operand in node.input:
            uses[operand] = uses.get(operand, 0) + 1

    def length(tensor: str) -> int:
        steps = 0
        while tensor in producer and uses[tensor] == 1:
            tensor = producer[tensor].input[0]
            steps += 1
        return steps

    return {max(node.input, key=length) for node in graph.node if node.op_type == "Sum"}
