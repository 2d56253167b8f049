"""Writes a quantised network: weights and biases as integers, QuantizeLinear and DequantizeLinear around integer computation."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import ModelProto, NodeProto

from stepwell.arguments import checked
from stepwell.frontends.onnx.source import copy_without
from stepwell.quantizer.graphs import GraphEditor, operand, replace
from stepwell.quantizer.histogram import Histogram
from stepwell.quantizer.options import QuantizeOptions
from stepwell.quantizer.plan import Layer, Plan
from stepwell.quantizer.prepare import drop_unused, save
from stepwell.quantizer.ranges import SMALLEST_SCALE, Parameters, Range, parameters, range_of

GREATEST_BIAS = 1 << 30  # the largest integer of a bias, so that the sum of products still fits
COARSER = 0.5  # a value shares the scale of a concatenation if its own range is at least this fraction of the other


@dataclass(frozen=True)
class Quantized:
    """A quantised network, the float network, and information about both."""

    model: ModelProto
    """The network in ONNX's Q/DQ format."""
    floats: ModelProto
    """The prepared float network: nodes and values have the same names in both."""
    options: QuantizeOptions
    layers: tuple[Layer, ...]
    """The quantised products, in the network's order."""
    parameters: dict[str, Parameters]
    """Scale and zero point of each quantised value by name, which is also the name in front of its QuantizeLinear."""
    ranges: dict[str, Range]
    """The range chosen for each value by itself; values that share a scale are quantised by a wider one."""
    histograms: dict[str, Histogram]
    """The histograms of each value from calibration."""

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the quantised network to an ONNX file. Raises InputError if it is not a path, ResourceError if it cannot be written."""
        save(self.model, path)


def inserted(model: ModelProto, plan: Plan, histograms: dict[str, Histogram], options: QuantizeOptions) -> Quantized:
    """The prepared `model`, quantised according to `plan`, with ranges from `histograms`, which has one for each of the plan's values.

    Weights are int8 around 0, with a scale for each channel of the result if `options.per_channel` is set and the operator has such an axis. Biases
    are int32 in the scale of the product.
    """
    values = sorted(plan.values)
    ranges = {name: range_of(histograms[name], options) for name in values}
    shared = _Sharing(plan, ranges).ranges()
    chosen = {name: parameters(shared[name], symmetric=options.symmetric_activations) for name in values}
    writer = _Writer(model, options, chosen)
    for layer in plan.layers:
        writer.quantize_weights(layer)
    writer.quantize_values(plan)
    drop_unused(writer.graph)
    return Quantized(writer.model, model, options, tuple(plan.layers), chosen, ranges, histograms)


def weight_scales(array: np.ndarray, axis: int | None, bias: np.ndarray | None, x_scale: float, *, reduce_range: bool) -> np.ndarray:
    """The scales of weights, f32: one for each index along `axis`, or one if that is None.

    Each is the smallest scale that covers all weights and with which the bias, in units of `x_scale` times it, fits i32 beside sums of products:
    weights that are nearly 0 would otherwise let it overflow.
    """
    others = tuple(i for i in range(array.ndim) if i != axis) if axis is not None else None
    most = np.abs(array).max(axis=others).astype(np.float64)
    scales = most / (63 if reduce_range else 127)
    if bias is not None and bias.size:
        least = np.abs(bias.astype(np.float64)) / (x_scale * GREATEST_BIAS)
        scales = np.maximum(scales, least if least.shape == scales.shape else least.max())
    return np.asarray(np.where(scales > 0, np.maximum(scales, SMALLEST_SCALE), 1.0), np.float32)


def rounded_weights(array: np.ndarray, scales: np.ndarray, axis: int | None, *, reduce_range: bool) -> np.ndarray:
    """Weights as int8 in units of `scales`."""
    along = scales if axis is None else scales.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    most = 63 if reduce_range else 127
    return np.clip(np.rint(array / along), -most, most).astype(np.int8)


class _Sharing:
    """Sets of values that share a scale, and grow."""

    def __init__(self, plan: Plan, ranges: Mapping[str, Range]) -> None:
        self.plan = plan
        self.own = ranges
        self.parent = {name: name for name in ranges}
        self.joined = dict(ranges)
        computing = {name for edge, name in plan.edges.items() if edge not in plan.moving} | plan.everywhere
        # The narrowest range that is used in computation; values that are only concatenated or moved have the coarser scale anyway.
        self.narrowest = {name: range_.size if name in computing else np.inf for name, range_ in ranges.items()}

    def ranges(self) -> dict[str, Range]:
        """The range by which each value is quantised."""
        for first, *others in self.plan.alike:
            for other in others:
                self._join(first, other)
        for result, parts in self.plan.concats:
            first, *others = (result, *parts) if result in self.own else parts
            for other in others:
                self._join_if_fine(first, other)
        return {name: self.joined[self._root(name)] for name in self.own}

    def _root(self, name: str) -> str:
        while self.parent[name] != name:
            self.parent[name] = self.parent[self.parent[name]]
            name = self.parent[name]
        return name

    def _join(self, first: str, second: str) -> None:
        a, b = self._root(first), self._root(second)
        if a != b:
            self.parent[b] = a
            self.joined[a] = self.joined[a].joined([self.joined[b]])
            self.narrowest[a] = min(self.narrowest[a], self.narrowest[b])

    def _join_if_fine(self, first: str, second: str) -> None:
        a, b = self._root(first), self._root(second)
        size = self.joined[a].joined([self.joined[b]]).size
        if min(self.narrowest[a], self.narrowest[b]) >= COARSER * size:
            self._join(first, second)


class _Writer(GraphEditor):
    """Builds the quantised network from a copy of the prepared one."""

    def __init__(self, model: ModelProto, options: QuantizeOptions, chosen: Mapping[str, Parameters]) -> None:
        self.model = copy_without(model)
        super().__init__(self.model)
        self.options = options
        self.chosen = chosen
        self.weights: dict[tuple[str, int | None, bytes], str] = {}
        self.before: dict[str, list[NodeProto]] = {}
        """Nodes that go in front of the node of that name."""

    def quantize_weights(self, layer: Layer) -> None:
        """Let a layer read its weights, and its bias if it has one, as integers."""
        node = self.nodes[layer.node]
        array = None if layer.weights is None else self.links.array(layer.weights)
        if array is None or layer.weights is None:
            return
        place = 1 if node.input[1] == layer.weights else 0
        axis = layer.weight_axis if self.options.per_channel else None
        x_scale = float(self.chosen[layer.inputs[0]].scale)
        bias = self._bias(node, array, axis)
        scales = weight_scales(array, axis, bias, x_scale, reduce_range=self.options.reduce_range)
        key = (layer.weights, axis, scales.tobytes())
        if key not in self.weights:
            numbers = rounded_weights(array, scales, axis, reduce_range=self.options.reduce_range)
            self.weights[key] = self._dequantized(layer.weights, numbers, scales, axis, layer.node)
        node.input[place] = self.weights[key]
        if bias is not None:
            product = np.asarray(np.float32(x_scale) * scales, np.float32)
            numbers = np.rint(bias / product.astype(np.float64)).astype(np.int32)
            node.input[2] = self._dequantized(node.input[2], numbers, np.broadcast_to(product, bias.shape), 0, layer.node)

    def quantize_values(self, plan: Plan) -> None:
        """Put a QuantizeLinear and a DequantizeLinear behind each quantised value, and let its readers read the result."""
        quantized: dict[str, str] = {}
        behind: dict[str, list[NodeProto]] = {}
        for name, used in self.chosen.items():
            stored = [self.store(f"{name}_scale", np.asarray(used.scale)), self.store(f"{name}_zero_point", np.asarray(used.zero_point))]
            integers, floats = self.names.fresh(f"{name}_quantized"), self.names.fresh(f"{name}_dequantized")
            behind[name] = [
                onnx.helper.make_node("QuantizeLinear", [name, *stored], [integers], name=self.names.fresh(f"{name}_QuantizeLinear")),
                onnx.helper.make_node("DequantizeLinear", [integers, *stored], [floats], name=self.names.fresh(f"{name}_DequantizeLinear")),
            ]
            quantized[name] = floats
        for (node, place), name in plan.edges.items():
            self.nodes[node].input[place] = quantized[name]
        for name in plan.everywhere:
            for reader, place in self.links.readers.get(name, []):
                reader.input[place] = quantized[name]
        nodes = [node for name, pair in behind.items() if name not in self.links.makers for node in pair]
        for node in self.graph.node:
            nodes += [*self.before.get(node.name, []), node]
            nodes += [made for name in node.output for made in behind.get(name, [])]
        replace(self.graph.node, nodes)

    def _bias(self, node: NodeProto, weights: np.ndarray, axis: int | None) -> np.ndarray | None:
        """The bias of a layer if it is stored, one number for each channel."""
        bias = self.links.array(operand(node, 2))
        if bias is None or bias.ndim != 1 or not np.isfinite(bias).all():
            return None
        channels = weights.shape[axis] if axis is not None else bias.size
        return bias.astype(np.float64) if bias.size == channels else None

    def _dequantized(self, name: str, numbers: np.ndarray, scales: np.ndarray, axis: int | None, reader: str) -> str:
        """The name of the result of a DequantizeLinear in front of `reader` on integers, which are stored with their scales."""
        zero = np.zeros(scales.shape, numbers.dtype)
        stored = [
            self.store(f"{name}_{part}", array) for part, array in (("quantized", numbers), ("scale", np.array(scales)), ("zero_point", zero))
        ]
        floats = self.names.fresh(f"{name}_dequantized")
        node = onnx.helper.make_node("DequantizeLinear", stored, [floats], name=self.names.fresh(f"{name}_DequantizeLinear"))
        if scales.ndim:
            node.attribute.append(onnx.helper.make_attribute("axis", axis))
        self.before.setdefault(reader, []).append(node)
        return floats
