"""Layers of a small convolutional network in numpy: forward, backward, and the ONNX node each becomes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["BatchNorm", "Conv", "Dense", "Flatten", "Layer", "MaxPool", "Relu"]

Array = np.ndarray


class Layer:
    """One layer. `forward` remembers what `backward` needs; `parameters` and `gradients` have the same keys."""

    op_type: str
    attributes: dict[str, Any]

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes
        self.parameters: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}

    def forward(self, x: Array, training: bool) -> Array:
        """The layer's output for a batch."""
        raise NotImplementedError

    def backward(self, grad: Array) -> Array:
        """The gradient at the input for one at the output; sets `gradients`."""
        raise NotImplementedError

    def weights(self) -> dict[str, Array]:
        """The operands of the ONNX node after the first, in order."""
        return self.parameters

    def to_onnx(self, x: str, name: str) -> tuple[str, list[onnx.NodeProto], list[onnx.TensorProto]]:
        """(name of the output, nodes, initializers) of this layer with input `x`."""
        tensors = [numpy_helper.from_array(array, f"{name}.{key}") for key, array in self.weights().items()]
        node = helper.make_node(self.op_type, [x, *(t.name for t in tensors)], [f"{name}.out"], name=name, **self.attributes)
        return f"{name}.out", [node], tensors


class Conv(Layer):
    """A 3 x 3 convolution with a border of zeros and no bias."""

    op_type = "Conv"

    def __init__(self, random: np.random.Generator, channels: int, out: int) -> None:
        super().__init__(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        self.parameters["weight"] = random.normal(0, np.sqrt(2 / (9 * channels)), (out, channels, 3, 3)).astype(np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        """Gather the 3 x 3 neighbourhoods and multiply (im2col)."""
        n, channels, height, width = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        self.columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, channels * 9)
        self.shape = x.shape
        out = self.columns @ self.parameters["weight"].reshape(-1, channels * 9).T
        return out.reshape(n, height, width, -1).transpose(0, 3, 1, 2)

    def backward(self, grad: Array) -> Array:
        """Scatter the gradients of the neighbourhoods back."""
        n, channels, height, width = self.shape
        weight = self.parameters["weight"]
        rows = grad.transpose(0, 2, 3, 1).reshape(-1, weight.shape[0])
        self.gradients["weight"] = (rows.T @ self.columns).reshape(weight.shape)
        patches = (rows @ weight.reshape(weight.shape[0], -1)).reshape(n, height, width, channels, 3, 3)
        padded = np.zeros((n, channels, height + 2, width + 2), np.float32)
        for i in range(3):
            for j in range(3):
                padded[:, :, i : i + height, j : j + width] += patches[..., i, j].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]


class BatchNorm(Layer):
    """Batch normalisation over images and pixels, with running statistics for inference."""

    op_type = "BatchNormalization"
    momentum = 0.9

    def __init__(self, channels: int) -> None:
        super().__init__(epsilon=1e-5)
        self.parameters = {"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}
        self.mean = np.zeros(channels, np.float32)
        self.variance = np.ones(channels, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        """Normalise with the batch's statistics in training, with the running ones otherwise."""
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean = self.momentum * self.mean + (1 - self.momentum) * mean
            self.variance = self.momentum * self.variance + (1 - self.momentum) * variance
        self.inverse = 1 / np.sqrt(variance + self.attributes["epsilon"]).astype(np.float32)
        self.normalised = (x - per_channel(mean)) * per_channel(self.inverse)
        return self.normalised * per_channel(self.parameters["scale"]) + per_channel(self.parameters["bias"])

    def backward(self, grad: Array) -> Array:
        """Through the batch's mean and variance as well."""
        self.gradients = {"scale": (grad * self.normalised).sum((0, 2, 3)), "bias": grad.sum((0, 2, 3))}
        count = grad.size / grad.shape[1]
        spread = per_channel(self.gradients["bias"]) + self.normalised * per_channel(self.gradients["scale"])
        return per_channel(self.parameters["scale"] * self.inverse) * (grad - spread / count)

    def weights(self) -> dict[str, Array]:
        """Scale, bias, mean, variance."""
        return {**self.parameters, "mean": self.mean, "variance": self.variance}


def per_channel(values: Array) -> Array:
    """A vector shaped to broadcast along the channels."""
    return values[None, :, None, None]


class Relu(Layer):
    """max(x, 0)."""

    op_type = "Relu"

    def forward(self, x: Array, training: bool) -> Array:
        """Remember where x is positive."""
        self.positive = x > 0
        return x * self.positive

    def backward(self, grad: Array) -> Array:
        """Pass the gradient where x was positive."""
        return grad * self.positive


class MaxPool(Layer):
    """The largest of each 2 x 2 pixels."""

    op_type = "MaxPool"

    def __init__(self) -> None:
        super().__init__(kernel_shape=[2, 2], strides=[2, 2])

    def forward(self, x: Array, training: bool) -> Array:
        """Remember where the largest were."""
        n, channels, height, width = x.shape
        blocks = x.reshape(n, channels, height // 2, 2, width // 2, 2)
        out = blocks.max((3, 5))
        self.largest = blocks == out[:, :, :, None, :, None]
        return out

    def backward(self, grad: Array) -> Array:
        """Share the gradient among equally large ones."""
        share = grad[:, :, :, None, :, None] / self.largest.sum((3, 5), keepdims=True)
        n, channels, height, _, width, _ = self.largest.shape
        return (self.largest * share).reshape(n, channels, 2 * height, 2 * width).astype(np.float32)


class Flatten(Layer):
    """All but the batch in one dimension."""

    op_type = "Flatten"

    def forward(self, x: Array, training: bool) -> Array:
        """Reshape."""
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, grad: Array) -> Array:
        """Reshape back."""
        return grad.reshape(self.shape)


class Dense(Layer):
    """x W^T + b."""

    op_type = "Gemm"

    def __init__(self, random: np.random.Generator, size: int, out: int) -> None:
        super().__init__(transB=1)
        self.parameters["weight"] = random.normal(0, np.sqrt(2 / size), (out, size)).astype(np.float32)
        self.parameters["bias"] = np.zeros(out, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        """Remember x."""
        self.x = x
        return x @ self.parameters["weight"].T + self.parameters["bias"]

    def backward(self, grad: Array) -> Array:
        """The usual."""
        self.gradients = {"weight": grad.T @ self.x, "bias": grad.sum(0)}
        return grad @ self.parameters["weight"]


def all_parameters(layers: list[Layer]) -> Iterator[tuple[Layer, str]]:
    """Every trainable array as (layer, key)."""
    for layer in layers:
        for key in layer.parameters:
            yield layer, key
