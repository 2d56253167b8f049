"""The layers of a quantised network beside the same ones in floats, and a network in which each can be switched between the two."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from stepwell.dialects.support.errors import InputError
from stepwell.frontends.onnx.source import copy_without
from stepwell.quantizer.graphs import GraphEditor, Links, is_standard, operand, replace
from stepwell.quantizer.options import PRODUCTS
from stepwell.quantizer.plan import MOVES, UNARY, WITH_STORED
from stepwell.quantizer.ranges import Parameters

Q, DQ = "QuantizeLinear", "DequantizeLinear"
EXACT = ("GlobalMaxPool", "Identity", "MaxPool", *MOVES)
"""Operators whose results are some of their operands' numbers: they are not layers, since they add no error."""
SWITCHES = "switches"
"""The additional input of a network with switches."""


@dataclass(frozen=True)
class LayerPair:
    """A layer in both networks: a node that reads dequantised numbers, and the element-wise ops and moves after it."""

    node: NodeProto
    """The node in the quantised network."""
    behind: tuple[NodeProto, ...]
    """The nodes between it and the next quantisation, likewise."""
    parameters: Parameters | None
    """The quantisation of the result; None if it stays in floats, or has several scales."""
    result: str
    """The value that its readers use, in the quantised network; dequantised, if it is quantised for all readers."""
    float_result: str
    """The same value in the float network."""

    @property
    def name(self) -> str:
        """The name of its node, in both networks."""
        return self.node.name


def layer_pairs(floats: ModelProto, quantised: ModelProto) -> list[LayerPair]:
    """The layers of a quantised network, in its order. Raises InputError if a node of one is not in `floats`, by name and operator."""
    links, same = Links(quantised.graph), _Same(floats, quantised)
    return [_pair(node, links, same) for node in quantised.graph.node if not is_standard(node, Q, DQ, *EXACT) and _reads_integers(node, links)]


def _reads_integers(node: NodeProto, links: Links) -> bool:
    dequantized = [maker for name in node.input if (maker := links.makers.get(name)) is not None and is_standard(maker, DQ)]
    return any(is_standard(node, *PRODUCTS) or maker.input[0] not in links.initializers for maker in dequantized)


class _Same:
    """Finds values of a float network by those of a quantised one."""

    def __init__(self, floats: ModelProto, quantised: ModelProto) -> None:
        self.links = Links(floats.graph)
        self.nodes = {node.name: node for node in floats.graph.node}
        self.kept = {node.name for node in quantised.graph.node}

    def value(self, node: NodeProto, place: int = 0) -> str:
        """The value in floats that is a result of the node of this name: after an activation that the quantised network replaces by a range."""
        other = self.nodes.get(node.name)
        if other is None or other.op_type != node.op_type or len(other.output) <= place:
            raise InputError(f"quantised: it has a node '{node.name}' ({node.op_type}), and the network of floats has no such one")
        value = other.output[place]
        reader = self.links.only_reader(value)
        dropped = reader is not None and is_standard(reader, *UNARY) and reader.name not in self.kept
        return reader.output[0] if reader is not None and dropped else value


def _pair(node: NodeProto, links: Links, same: _Same) -> LayerPair:
    nodes = [node, *_behind(node, links)]
    for i, last in enumerate(nodes):
        value = last.output[0]
        readers = [reader for reader, _ in links.readers.get(value, [])]
        quantize = next((reader for reader in readers if is_standard(reader, Q)), None)
        if quantize is None or not _stay_inside(nodes[: i + 1], links):
            continue
        dequantize = next((reader for reader, _ in links.readers.get(quantize.output[0], []) if is_standard(reader, DQ)), None)
        if links.only_reader(value) is not None and dequantize is not None:
            value = dequantize.output[0]
        return LayerPair(node, tuple(nodes[1 : i + 1]), _parameters(quantize, links), value, same.value(last))
    return LayerPair(node, (), None, node.output[0], same.value(node))


def _behind(node: NodeProto, links: Links) -> list[NodeProto]:
    """The element-wise ops and moves from a layer's result to the next quantisation; in topological order."""
    values, nodes, pending = {node.output[0]}, [], [node.output[0]]
    while pending:
        readers = [reader for reader, _ in links.readers.get(pending.pop(0), [])]
        if any(is_standard(reader, Q) for reader in readers):
            continue
        for reader in readers:
            known = all(not name or name in values or name in links.initializers for name in reader.input)
            if known and is_standard(reader, *UNARY, *WITH_STORED, *EXACT) and len(reader.output) == 1 and reader.output[0] not in values:
                nodes.append(reader)
                values.add(reader.output[0])
                pending.append(reader.output[0])
    return nodes


def _stay_inside(nodes: Sequence[NodeProto], links: Links) -> bool:
    """Whether only these nodes read their results, except that of the last: x * sigmoid(x) is one layer with the producer of x."""
    names = {node.name for node in nodes}
    inner = [node.output[0] for node in nodes[:-1]]
    return all(
        value not in links.outputs | links.held and all(reader.name in names for reader, _ in links.readers.get(value, [])) for value in inner
    )  # fmt: skip


def _parameters(quantize: NodeProto, links: Links) -> Parameters | None:
    scale = links.array(quantize.input[1])
    zero = links.array(quantize.input[2]) if operand(quantize, 2) else np.zeros((), np.uint8)
    if scale is None or zero is None or scale.size != 1 or zero.dtype not in (np.uint8, np.int8):
        return None
    at = zero.item()
    return Parameters(np.float32(scale.item()), np.uint8(at) if zero.dtype == np.uint8 else np.int8(at))


def switched(floats: ModelProto, quantised: ModelProto, layers: Sequence[LayerPair]) -> tuple[ModelProto, list[str]]:
    """The float network in which each layer can be quantised alone, and the value of each quantised layer.

    Its additional input, `SWITCHES`, has a boolean for each layer: whether the rest of the network reads its quantised result. So one network shows
    the effect of any set of layers on the outputs.
    """
    made = copy_without(floats)
    build = _Switched(made, quantised, _Same(floats, quantised))
    results = [build.add(layer, i) for i, layer in enumerate(layers)]
    build.finish(len(layers))
    return made, results


class _Switched(GraphEditor):
    """Puts the layers of a quantised network beside those in floats, in place."""

    def __init__(self, made: ModelProto, quantised: ModelProto, same: _Same) -> None:
        super().__init__(made)
        self.quantised, self.same = Links(quantised.graph), same
        self.constants: dict[str, str] = {}
        """Values of the quantised network that no input changes, and their names here."""
        self.behind: dict[str, list[NodeProto]] = {}
        """The new nodes behind each old one, by its name."""

    def add(self, layer: LayerPair, number: int) -> str:
        """Add a layer and its switch; returns the name of its value."""
        nodes: list[NodeProto] = []
        result = self._copied(layer.result, {layer.name, *(node.name for node in layer.behind)}, nodes, {})
        old = layer.float_result
        new, switch = (self.names.fresh(f"{old}.{what}") for what in ("floats", "switch"))
        place = self.store(f"{old}.place", np.array(number, np.int64))
        nodes.append(helper.make_node("Gather", [SWITCHES, place], [switch], name=self.names.fresh(switch)))
        nodes.append(helper.make_node("Where", [switch, result, new], [old], name=self.names.fresh(f"{old}.chosen")))
        maker = self.links.makers[old]
        maker.output[list(maker.output).index(old)] = new
        self.behind[maker.name] = nodes
        return result

    def _copied(self, value: str, inside: set[str], nodes: list[NodeProto], known: dict[str, str]) -> str:
        """The name here of a value of the quantised network, copied up to the float values that are quantised for the layer."""
        if not value or value in known or value in self.constants:
            return known.get(value) or self.constants.get(value, "")
        maker = self.quantised.makers.get(value)
        if maker is None:
            tensor = self.quantised.initializers.get(value)
            if tensor is None:  # an input
                return value
            self.constants[value] = self.names.fresh(f"{value}.quantised")
            self.graph.initializer.add().CopyFrom(tensor)
            self.graph.initializer[-1].name = self.constants[value]
            return self.constants[value]
        place = list(maker.output).index(value)
        fixed = self._is_constant(value)
        if not (fixed or maker.name in inside or is_standard(maker, Q, DQ)):
            return self.same.value(maker, place)
        copy = NodeProto()
        copy.CopyFrom(maker)
        copy.name = self.names.fresh(f"{maker.name}.quantised")
        copy.input[:] = [self._copied(name, inside, nodes, known) for name in maker.input]
        copy.output[:] = [name and self.names.fresh(f"{name}.quantised") for name in maker.output]
        nodes.append(copy)
        # Values that depend on inputs are not those of another layer, which may read this one's in floats.
        (self.constants if fixed else known)[value] = copy.output[place]
        return copy.output[place]

    def _is_constant(self, value: str) -> bool:
        maker = self.quantised.makers.get(value)
        if maker is None:
            return value in self.quantised.initializers or not value
        return value in self.constants or all(map(self._is_constant, maker.input))

    def finish(self, count: int) -> None:
        """Put the new nodes into the graph, and the switches among its inputs."""
        replace(self.graph.node, [new for node in self.graph.node for new in (node, *self.behind.get(node.name, []))])
        self.graph.input.append(helper.make_tensor_value_info(SWITCHES, TensorProto.BOOL, [count]))
