"""Cross-layer equalisation: adjacent layers exchange scales by channel, so that the weights of a layer have similar ranges in all channels."""

from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from stepwell.frontends.onnx.source import copy_without
from stepwell.quantizer.graphs import Links, attribute, is_standard, operand

SWEEPS = 100  # the largest number of passes over all pairs: a chain of layers converges step by step
AT_REST = 1e-4  # the largest relative change of a scale that ends the sweeps
DEAD = 1e-3  # relative to a layer's largest weight: channels below it are skipped, since a small scale would blow up their bias
LAYERS = ("Conv", "ConvTranspose", "Gemm")
HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Identity", "Dropout")
"""Operators with f(s x) = s f(x) for s > 0, channel by channel."""


class _Layer:
    """A layer's weights by the first two axes: the largest magnitude, the channels each produces and reads, and its factor."""

    def __init__(self, node: NodeProto, weights: np.ndarray) -> None:
        self.node, self.weights = node, weights
        size: tuple[int, ...] = weights.shape
        group = int(attribute(node, "group", 1))
        indices = np.indices(size[:2])
        rows: np.ndarray = indices[0]
        columns: np.ndarray = indices[1]
        grouped: np.ndarray = rows // max(1, size[0] // group) * size[1] + columns
        self.makes, self.reads = rows, grouped  # of a Conv
        if node.op_type == "ConvTranspose":
            self.makes, self.reads = grouped, rows
        elif node.op_type == "Gemm":
            self.makes, self.reads = (rows, columns) if attribute(node, "transB", 0) else (columns, rows)
        self.size = np.abs(weights.astype(np.float64)).max(axis=tuple(range(2, weights.ndim)), initial=0)
        self.factor = np.ones(size[:2])
        self.bias_factor = np.ones(self.made)

    @property
    def made(self) -> int:
        """The number of channels it produces."""
        return int(self.makes.max(initial=-1)) + 1

    @property
    def read(self) -> int:
        """The number of channels it reads."""
        return int(self.reads.max(initial=-1)) + 1

    def ranges(self, channels: np.ndarray, count: int) -> np.ndarray:
        """The largest magnitude of the weights of each channel."""
        found = np.zeros(count)
        np.maximum.at(found, channels, self.size * self.factor)
        return found


@dataclass
class _Pair:
    """Two layers between which a scale for each channel can move."""

    first: _Layer
    second: _Layer
    reads: np.ndarray
    """The channel of `first` that each weight of `second` reads."""

    def equalise(self) -> float:
        """Give both the same ranges; returns the largest change of a scale."""
        count = self.first.made
        made, read = self.first.ranges(self.first.makes, count), self.second.ranges(self.reads, count)
        alive = (made > DEAD * made.max()) & (read > DEAD * read.max())
        scale = np.sqrt(np.where(alive, made, 1) / np.where(alive, read, 1))
        self.first.factor /= scale[self.first.makes]
        self.first.bias_factor /= scale
        self.second.factor *= scale[self.reads]
        return float(np.abs(scale - 1).max(initial=0))


def equalized(model: ModelProto) -> tuple[ModelProto, list[str]]:
    """An equivalent copy of `model` whose weights lose less to quantisation; and the actions and refusals, a line for each layer.

    `model` is prepared: batch normalisations are folded, weights are initializers. If layer `a` feeds only layer `b`, through operators with f(s x) =
    s f(x), channel i of `a` is divided by s_i = sqrt(r_i(a) / r_i(b)), where r_i is the largest magnitude of the weights that produce, or read,
    channel i, and the weights of `b` that read it are multiplied by s_i. Depthwise layers between two others are both `b` and `a`, so the sweeps over
    all pairs end when all three ranges are equal. Layers that share weights, values with a second reader, and activations with an upper bound (Relu6:
    the bound would have to differ by channel) are left unchanged.

    Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019, section 4.1.
    """
    made = copy_without(model)
    links = Links(made.graph)
    layers: dict[str, _Layer | str] = {node.output[0]: _layer(node, links) for node in made.graph.node if is_standard(node, *LAYERS)}
    pairs, notes = [], []
    for layer in layers.values():
        found = layer if isinstance(layer, str) else _pair(layer, layers, links)
        if isinstance(found, _Pair):
            pairs.append(found)
            notes.append(f"{found.first.node.name}, {found.second.node.name}: equalised over {found.first.made} channels")
        else:
            notes.append(found)
    for _ in range(SWEEPS):
        if max((pair.equalise() for pair in pairs), default=0) < AT_REST:
            break
    for changed in {id(layer): layer for pair in pairs for layer in (pair.first, pair.second)}.values():
        _write(changed, links)
    return made, notes


def _layer(node: NodeProto, links: Links) -> _Layer | str:
    """A layer whose weights and bias may be changed, or why they may not."""
    weights = links.array(node.input[1])
    if weights is None or any(name and links.array(name) is None for name in node.input[2:]):
        return f"{node.name}: left: its weights or its bias are computed"
    if any(name and links.only_reader(name) is None for name in node.input[1:]):
        return f"{node.name}: left: another node reads its weights or its bias, too"
    if weights.dtype.kind != "f":
        return f"{node.name}: left: its weights are {weights.dtype}"
    layer = _Layer(node, weights)
    bias = links.array(operand(node, 2))
    if bias is not None and bias.size != layer.made:
        return f"{node.name}: left: its bias has {bias.size} elements for {layer.made} channels"
    return layer


def _pair(first: _Layer, layers: dict[str, _Layer | str], links: Links) -> _Pair | str:
    """The pair that starts with a layer, or why there is none."""
    left, value, flat = f"{first.node.name}: left:", first.node.output[0], False
    while True:
        reader = links.only_reader(value)
        if reader is None:
            return f"{left} '{value}' is an output or has several readers"
        follows = reader.output[0] in layers or is_standard(reader, "Clip", "Flatten", *HOMOGENEOUS)
        if not follows or (is_standard(reader, "Flatten") and attribute(reader, "axis", 1) != 1):
            return f"{left} {reader.name} ({reader.op_type}) follows"
        if reader.input[0] != value:
            return f"{left} {reader.name} ({reader.op_type}) takes '{value}' as another operand than the first"
        if reader.output[0] in layers:
            break
        if is_standard(reader, "Clip"):
            low, high = _bounds(reader, links)
            if low != 0 or high < np.inf:
                return f"{left} {reader.name} (Clip) has bounds, which would have to differ by channel"
        flat = flat or is_standard(reader, "Flatten")
        value = reader.output[0]
    second = layers[reader.output[0]]
    if isinstance(second, str):
        return f"{left} so is {reader.name}"
    if reader.op_type == "Gemm" and attribute(reader, "transA", 0):
        return f"{left} {reader.name} transposes what it reads"
    # A flattened image has all elements of a channel side by side.
    copies = second.read // first.made if flat else 1
    if second.read != copies * first.made:
        return f"{left} {reader.name} reads {second.read} channels of the {first.made}"
    return _Pair(first, second, second.reads // copies)


def _bounds(clip: NodeProto, links: Links) -> tuple[float, float]:
    """The bounds of a Clip; NaN for one that is computed at run time."""
    bounds = []
    for place, (name, none) in enumerate((("min", -np.inf), ("max", np.inf)), start=1):
        given = operand(clip, place)
        array = links.array(given) if given else np.asarray(attribute(clip, name, none))
        bounds.append(float(array.item()) if array is not None and array.size == 1 else np.nan)
    return bounds[0], bounds[1]


def _write(layer: _Layer, links: Links) -> None:
    """Replace a layer's weights and bias by the new ones."""
    factors = [layer.factor.reshape(*layer.factor.shape, *[1] * (layer.weights.ndim - 2)), layer.bias_factor]
    for name, factor in zip(layer.node.input[1:3], factors, strict=False):
        if name:
            old = numpy_helper.to_array(links.initializers[name])
            new = old * (factor if factor.ndim > 1 else factor.reshape(old.shape))
            links.initializers[name].CopyFrom(numpy_helper.from_array(new.astype(old.dtype), name))
