#!/usr/bin/env python3
"""Train a small convolutional network for handwritten digits in numpy, and write it as digits.onnx beside this file.

    .venv/bin/python examples/digits/train.py
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from data import split
from layers import BatchNorm, Conv, Dense, Flatten, Layer, MaxPool, Relu, all_parameters
from onnx import TensorProto, helper

EPOCHS = 40
BATCH = 32
RATE = 2e-3  # of Adam at the start; falls to zero along a cosine
DECAY = 1e-4
OPSET = 17


def network(random: np.random.Generator) -> list[Layer]:
    """Three convolutions and two dense layers: 1 x 8 x 8 pixels to ten scores."""
    layers: list[Layer] = []
    for channels, out, pool in ((1, 16, False), (16, 32, True), (32, 32, True)):
        layers += [Conv(random, channels, out), BatchNorm(out), Relu()]
        layers += [MaxPool()] if pool else []
    return [*layers, Flatten(), Dense(random, 32 * 2 * 2, 64), Relu(), Dense(random, 64, 10)]


def forward(layers: list[Layer], x: np.ndarray, training: bool = False) -> np.ndarray:
    """The scores of a batch of images."""
    for layer in layers:
        x = layer.forward(x, training)
    return x


def train(layers: list[Layer], images: np.ndarray, labels: np.ndarray, random: np.random.Generator, epochs: int = EPOCHS) -> Iterator[float]:
    """Minimise the cross entropy with Adam (Kingma and Ba, 2015) and decoupled weight decay, each image shifted by up to a pixel.

    Yields the mean loss of each epoch when that is done.
    """
    first = [np.zeros_like(layer.parameters[key]) for layer, key in all_parameters(layers)]
    second = [np.zeros_like(array) for array in first]
    batches = len(labels) // BATCH
    for epoch in range(epochs):
        order = random.permutation(len(labels))
        total = 0.0
        for batch in range(batches):
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            probabilities = softmax(forward(layers, shifted(images[chosen], random), training=True))
            total -= float(np.log(probabilities[np.arange(BATCH), labels[chosen]]).sum())
            grad = (probabilities - np.eye(10, dtype=np.float32)[labels[chosen]]) / BATCH
            for layer in reversed(layers):
                grad = layer.backward(grad)
            step = epoch * batches + batch + 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / (epochs * batches)))
            for (layer, key), m, v in zip(all_parameters(layers), first, second, strict=True):
                m += 0.1 * (layer.gradients[key] - m)
                v += 0.001 * (layer.gradients[key] ** 2 - v)
                change = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
                layer.parameters[key] -= (rate * (change + DECAY * layer.parameters[key])).astype(np.float32)
        yield total / (batches * BATCH)


def shifted(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The images, each moved by -1, 0 or 1 pixel both ways."""
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = random.integers(0, 3, (len(images), 2))
    return np.stack([image[:, i : i + height, j : j + width] for image, (i, j) in zip(padded, moves, strict=True)])


def softmax(x: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def to_onnx(layers: list[Layer], name: str = "digits", size: int = 8) -> onnx.ModelProto:
    """The network with a softmax at its end, from `image` [batch, 1, size, size] to `probability` [batch, 10]."""
    nodes, initializers, x = [], [], "image"
    count: dict[str, int] = {}
    for layer in layers:
        count[layer.op_type] = count.get(layer.op_type, 0) + 1
        x, made, weights = layer.to_onnx(x, f"{layer.op_type.lower()}{count[layer.op_type]}")
        nodes += made
        initializers += weights
    nodes.append(helper.make_node("Softmax", [x], ["probability"], name="softmax", axis=-1))
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, size, size])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name=f"stepwell-{name}")
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, say how well it does on the held-out digits, write the file."""
    random = np.random.default_rng(7)
    (images, labels), (held_images, held_labels) = split()
    layers = network(random)
    for epoch, loss in enumerate(train(layers, images, labels, random)):
        print(f"epoch {epoch + 1:2}  loss {loss:.4f}")
    right = int((forward(layers, held_images).argmax(1) == held_labels).sum())
    print(f"held-out digits right: {right} of {len(held_labels)} ({right / len(held_labels):.1%})")
    path = Path(__file__).parent / "digits.onnx"
    onnx.save(to_onnx(layers), path)
    print(f"wrote {path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
