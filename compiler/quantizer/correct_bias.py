"""Bias correction: subtracts the mean quantisation error of each channel of a layer through the layer's bias."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from stepwell.dialects.support.errors import InputError
from stepwell.frontends.onnx.source import copy_without
from stepwell.quantizer.fold import groups_of, weight_axis
from stepwell.quantizer.graphs import GraphEditor, Links, Names, is_standard, operand, replace
from stepwell.quantizer.layers import DQ, LayerPair, layer_pairs
from stepwell.quantizer.options import PRODUCTS
from stepwell.quantizer.taps import Tapped

Arrays = Mapping[str, np.ndarray]
IMAGES = ("Conv", "ConvTranspose")
INT32 = np.iinfo(np.int32)


@dataclass
class _Corrected:
    """A layer whose bias is corrected."""

    node: NodeProto
    depth: int
    """The largest number of such layers on a path before it."""
    shape: tuple[int, ...]
    """The shape of the term that is added to its result: (channels,), or (channels, 1, …) for images."""
    shift: np.ndarray
    """The term for each channel; zero at first."""

    @property
    def result(self) -> str:
        """Its result before any activation."""
        return self.node.output[0]


def bias_corrected(
    floats: ModelProto, quantised: ModelProto, samples: Iterable[Arrays], *, threads: int | None = None, cache: bool = True,
    on_step: Callable[[str], None] = lambda text: None,
) -> ModelProto:  # fmt: skip
    """A copy of `quantised` in which the bias of each layer compensates its mean error.

    For each quantised Conv, ConvTranspose, Gemm and MatMul with stored weights, the mean over `samples` of (result in floats - result in integers) of
    each channel, before the activation, is added to the bias; in topological order, so that a layer's error is measured behind corrected layers.
    Layers of the same depth are measured together, in one pass over the samples. A bias is an initializer in floats, or in int32 behind a
    DequantizeLinear, to whose scale the correction is rounded. A layer without a bias gets one in int32; a MatMul has that of a following Add, or
    stays unchanged, as do layers that share their bias. Nodes have the same names in both networks. Raises InputError if there are no samples, and
    the errors of `stepwell.compile`.

    Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019, section 4.2; the means are measured.
    """
    made = copy_without(quantised)
    biases = _Biases(made)
    layers = _corrected_layers(layer_pairs(floats, quantised), floats, made, biases)
    if not layers:
        return made
    on_step("compiling the networks whose means are compared")
    results = {node.name: node.output[0] for node in floats.graph.node}
    in_floats = _Means(floats, {one.node.name: results[one.node.name] for one in layers}, layers, threads=threads, cache=cache)
    shifted, shifts = _with_shifts(quantised, layers)
    together = _Means(shifted, {one.node.name: one.result for one in layers}, layers, threads=threads, cache=cache)
    on_step("means in floats")
    want = in_floats.over(samples, {}, layers)
    for depth in sorted({one.depth for one in layers}):
        now = [one for one in layers if one.depth == depth]
        on_step(f"means of {', '.join(one.node.name for one in now)}")
        given = {name: one.shift.reshape(one.shape).astype(np.float32) for name, one in zip(shifts, layers, strict=True)}
        got = together.over(samples, given, now)
        for one in now:
            one.shift = want[one.node.name] - got[one.node.name]
    for one in layers:
        biases.add(one.node.name, one.shift)
    return made


def _corrected_layers(found: Sequence[LayerPair], floats: ModelProto, made: ModelProto, biases: "_Biases") -> list[_Corrected]:
    """The layers whose bias can be corrected, each with its depth."""
    weights, kinds = Links(floats.graph), {layer.name for layer in found if is_standard(layer.node, *PRODUCTS)}
    others = {node.name: node for node in floats.graph.node if node.name in kinds}
    depths: dict[str, int] = {}
    layers = []
    for node in made.graph.node:
        depth = max((depths.get(name, 0) for name in node.input), default=0)
        if node.name in kinds:
            array = weights.array(others[node.name].input[1])
            if array is not None and array.ndim >= 2 and biases.can(node):
                axis = weight_axis(node, array.ndim)
                count = array.shape[-1 if axis is None else axis] * groups_of(node)
                shape = (count, *[1] * (array.ndim - 2)) if is_standard(node, *IMAGES) else (count,)
                layers.append(_Corrected(node, depth, shape, np.zeros(count)))
                depth += 1
        depths.update(dict.fromkeys(node.output, depth))
    return layers


def _with_shifts(quantised: ModelProto, layers: Sequence[_Corrected]) -> tuple[ModelProto, list[str]]:
    """The network with an additional input for each layer, which is added to its result, and these inputs' names."""
    made = copy_without(quantised)
    names, by_name = Names(made), {one.node.name: one for one in layers}
    nodes, inputs = [], {}
    for node in made.graph.node:
        nodes.append(node)
        if (one := by_name.get(node.name)) is not None:
            raw, inputs[node.name] = (names.fresh(f"{one.result}.{what}") for what in ("unshifted", "shift"))
            nodes.append(helper.make_node("Add", [raw, inputs[node.name]], [one.result], name=names.fresh(f"{node.name}.shifted")))
            node.output[0] = raw
    replace(made.graph.node, nodes)
    made.graph.input.extend(helper.make_tensor_value_info(inputs[one.node.name], TensorProto.FLOAT, one.shape) for one in layers)
    return made, [inputs[one.node.name] for one in layers]


class _Means:
    """A network compiled to return the mean of each channel of its layers' results."""

    def __init__(self, model: ModelProto, results: Mapping[str, str], layers: Sequence[_Corrected], *, threads: int | None, cache: bool) -> None:
        """`results` are the values by the layer's name."""
        made = copy_without(model)
        names = Names(made)
        self.taps = {}
        for one in layers:
            self.taps[one.node.name] = value = results[one.node.name]
            if is_standard(one.node, *IMAGES):  # so that its pixels do not leave the network
                self.taps[one.node.name] = names.fresh(f"{value}.mean")
                made.graph.node.append(helper.make_node("GlobalAveragePool", [value], [self.taps[one.node.name]]))
        self.model = Tapped(made, list(self.taps.values()), threads=threads, cache=cache)

    def over(self, samples: Iterable[Arrays], more: Arrays, layers: Sequence[_Corrected]) -> dict[str, np.ndarray]:
        """The means over all samples by the layer's name; `more` are additional inputs. Raises InputError if there are no samples."""
        sums = {one.node.name: np.zeros(one.shape[0]) for one in layers}
        counts = dict.fromkeys(sums, 0)
        for batch in samples:
            values = self.model.run({**batch, **more})
            for one in layers:
                array = values[self.taps[one.node.name]].astype(np.float64)
                rows = np.moveaxis(array, 1, -1) if is_standard(one.node, *IMAGES) else array
                rows = rows.reshape(-1, one.shape[0])
                sums[one.node.name] += rows.sum(0)
                counts[one.node.name] += len(rows)
        if not all(counts.values()):
            raise InputError("samples: there are none")
        return {name: total / counts[name] for name, total in sums.items()}


class _Biases(GraphEditor):
    """The biases of a quantised network, which is changed in place."""

    def can(self, node: NodeProto) -> bool:
        """Whether a layer's bias can be changed, or added."""
        where = self._where(node)
        if where is None:
            return False
        value = operand(*where)
        return self._stored(value) is not None if value else node.op_type != "MatMul"

    def _where(self, node: NodeProto) -> tuple[NodeProto, int] | None:
        """The node that adds a layer's bias, and the index of the bias among its operands."""
        if node.op_type != "MatMul":
            return node, 2
        reader = self.links.only_reader(node.output[0])
        if reader is None or not is_standard(reader, "Add") or node.output[0] not in reader.input:
            return None
        return reader, 1 - list(reader.input).index(node.output[0])

    def _stored(self, value: str) -> tuple[TensorProto, np.ndarray] | None:
        """The initializer behind a bias, and its scale (1 for floats); None unless it is one without other readers."""
        maker = self.links.makers.get(value)
        scale = np.ones((), np.float32)
        if maker is not None:
            if not is_standard(maker, DQ) or self.links.only_reader(value) is None:
                return None
            found = self.links.array(maker.input[1])
            zero = self.links.array(maker.input[2]) if operand(maker, 2) else np.zeros((), np.int32)
            if found is None or zero is None or zero.any() or zero.dtype != np.int32:
                return None
            scale, value = found, maker.input[0]
        tensor = self.links.initializers.get(value)
        if tensor is None or self.links.only_reader(value) is None or (maker is None and tensor.data_type != TensorProto.FLOAT):
            return None
        return tensor, scale.astype(np.float64)

    def add(self, name: str, shift: np.ndarray) -> None:
        """Add a number to each channel of the bias of the layer of this name."""
        node = self.nodes[name]
        where = self._where(node)
        assert where is not None
        holder, place = where
        value = operand(holder, place)
        stored = self._stored(value) if value else self._new(holder, len(shift))
        assert stored is not None
        tensor, scale = stored
        old = numpy_helper.to_array(tensor)
        new = old + shift / scale  # along the last axis, which is that of the channels
        if old.dtype == np.int32:
            new = np.clip(np.rint(new), INT32.min, INT32.max)
        tensor.CopyFrom(numpy_helper.from_array(new.astype(old.dtype), tensor.name))

    def _new(self, node: NodeProto, count: int) -> tuple[TensorProto, np.ndarray]:
        """Give a layer a bias of zeros in the scale of its sums; returns the initializer and the scale."""
        scales = [self._scale(node.input[0]), self._scale(node.input[1])]
        scale: np.ndarray | None = None
        if scales[0] is not None and scales[1] is not None and scales[0].size == 1:
            scale = (scales[0].reshape(()) * scales[1].reshape(-1)).astype(np.float32)
        if scale is None or scale.size not in (1, count) or not (scale > 0).all():
            node.input[:] = [*node.input[:2], self.store(f"{node.name}.bias", np.zeros(count, np.float32))]
            return self.graph.initializer[-1], np.ones(())
        bias = self.names.fresh(f"{node.name}.bias")
        scale = scale if scale.size > 1 else scale.reshape(())
        arrays = {"quantised": np.zeros(count, np.int32), "scale": scale, "zero_point": np.zeros(scale.shape, np.int32)}
        stored = [self.store(f"{bias}.{what}", array) for what, array in arrays.items()]
        self.graph.node.insert(0, helper.make_node(DQ, stored, [bias], name=f"{bias}.dequantized", axis=0))
        node.input[:] = [*node.input[:2], bias]
        return self.graph.initializer[-3], scale.astype(np.float64)

    def _scale(self, value: str) -> np.ndarray | None:
        maker = self.links.makers.get(value)
        return self.links.array(maker.input[1]) if maker is not None and is_standard(maker, DQ) else None
