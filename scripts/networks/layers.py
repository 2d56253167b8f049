"""A small builder for networks: one method a layer, weights drawn as it goes, names that say where a layer is."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from networks.weights import Weights

__all__ = ["Layers", "Typed"]

OPSET = 17
IR_VERSION = 8
Typed: TypeAlias = tuple[int, Sequence[int | str]]
"""An element type of ONNX, and a shape: numbers, and names for free sizes."""


class Layers:
    """A network under construction. Layers take the name of their input and their own, and return the name of their output."""

    def __init__(self, network: str, seed: int) -> None:
        self.network = network
        self.weights = Weights(network, seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def parameter(self, name: str, values: np.ndarray) -> str:
        """A weight."""
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def op(self, op_type: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Any op with one output."""
        output = f"{name}.out"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def conv(self, x: str, name: str, channels: tuple[int, int], kernel: int, stride: int = 1, group: int = 1, gain: float = 2.0) -> str:
        """A convolution without bias, padded to keep the size at stride 1; `channels` is (in, out)."""
        shape = (channels[1], channels[0] // group, kernel, kernel)
        weight = self.parameter(f"{name}.weight", self.weights.kernel(f"{name}.weight", shape, fan_in=shape[1] * kernel * kernel, gain=gain))
        pads = [kernel // 2] * 4
        return self.op("Conv", [x, weight], name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group)

    def batch_norm(self, x: str, name: str, channels: int, scale: float = 1.0) -> str:
        """A batch normalisation with scales about `scale`."""
        draw, shape = self.weights, (channels,)
        values = {"scale": draw.scale(f"{name}.scale", shape, scale), "bias": draw.bias(f"{name}.bias", shape)}
        values |= {"mean": draw.bias(f"{name}.mean", shape), "variance": draw.variance(f"{name}.variance", shape)}
        parameters = [self.parameter(f"{name}.{part}", array) for part, array in values.items()]
        return self.op("BatchNormalization", [x, *parameters], name, epsilon=1e-5)

    def classifier(self, x: str, channels: int, gain: float) -> str:
        """Global average pooling and a fully connected layer to 1000 scores; choose `gain` for scores with a deviation of about 2."""
        pooled = self.op("Flatten", [self.op("GlobalAveragePool", [x], "pool")], "flatten", axis=1)
        weight = self.parameter("fc.weight", self.weights.kernel("fc.weight", (1000, channels), fan_in=channels, gain=gain))
        bias = self.parameter("fc.bias", self.weights.bias("fc.bias", (1000,)))
        return self.op("Gemm", [pooled, weight, bias], "fc", transB=1)

    def model(
        self, output: str, *, takes: tuple[str, Sequence[int]] = ("image", (1, 3, 224, 224)), gives: Sequence[int] = (1, 1000)
    ) -> onnx.ModelProto:
        """The finished network to `output` of shape `gives` from the input `takes`, its name and shape; checked and with shapes inferred."""
        return self.finished({takes[0]: (TensorProto.FLOAT, takes[1])}, {output: (TensorProto.FLOAT, gives)})

    def named(self, value: str, name: str) -> None:
        """Give a value the name of an output of the network."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"{name}.named"))

    def finished(self, inputs: Mapping[str, Typed], outputs: Mapping[str, Typed]) -> onnx.ModelProto:
        """The network from and to values by name, with their element types and shapes (names for free sizes); checked, with shapes inferred."""
        takes, gives = ([helper.make_tensor_value_info(name, *kind) for name, kind in side.items()] for side in (inputs, outputs))
        graph = helper.make_graph(self.nodes, self.network, takes, gives, self.initializers)
        opsets = {"": OPSET, **{node.domain: 1 for node in self.nodes if node.domain}}
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="stepwell-zoo")
        onnx.checker.check_model(model, full_check=True)
        return model
