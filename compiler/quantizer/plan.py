"""Plans where a network is quantised: which nodes read quantised values, and which values share a scale.

A value is quantised only if something reads it as integers: operators between a product and the next reader of integers (bias, activation,
normalisation) stay in floats, and a compiler fuses them into the product's kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto

from stepwell.dialects.graph.traits import ChoosesData, Elementwise, JoinsData, MovesData, Trait
from stepwell.quantizer.fold import weight_axis
from stepwell.quantizer.graphs import STANDARD, Links, attribute, is_standard, operand, rank_of, value_types
from stepwell.quantizer.options import ELEMENTWISE, OP_TYPES, PRODUCTS, QuantizeOptions
from stepwell.quantizer.stated import stated

MOVES = (
    "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Pad", "ReduceMax", "ReduceMin", "Reshape", "Resize", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip
"""Operators whose results are some of their operands' numbers, so that one scale serves both."""
UNARY = (
    "Abs", "BatchNormalization", "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu", "Selu",
    "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
)  # fmt: skip
"""Element-wise operators, which a preceding kernel computes in floats."""
WITH_STORED = ("Add", "Div", "Mul", "Pow", "PRelu", "Sub")
"""Operators that are element-wise in this sense if an operand is stored."""
BOUNDS = ("Relu", "Clip")
"""Activations that engines fuse with a product of integers."""


@dataclass(frozen=True)
class Layer:
    """A quantised product."""

    node: str
    """Its name, in the prepared and in the quantised network."""
    kind: str
    inputs: tuple[str, ...]
    """The quantised values that it reads."""
    weights: str | None
    """The stored operand in the prepared network; None if both operands are computed."""
    result: str
    """The value that it produces, in floats, under the same name in both networks."""
    weight_axis: int | None = None
    """The axis of the stored operand that corresponds to the channels of the result, each of which may have a scale; None if there is none."""


Edge = tuple[str, int]
"""The name of a node, and the index of one of its operands."""


@dataclass
class Plan:
    """The places where a network is quantised."""

    layers: list[Layer] = field(default_factory=list)
    edges: dict[Edge, str] = field(default_factory=dict)
    """The readers of quantised values, and their operands."""
    moving: set[Edge] = field(default_factory=set)
    """The edges among these whose nodes only move numbers, or concatenate them."""
    everywhere: set[str] = field(default_factory=set)
    """Values that all their readers read quantised."""
    alike: list[tuple[str, ...]] = field(default_factory=list)
    """Values that must share a scale."""
    concats: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Results of concatenations, and their operands: one scale for all saves work, if it is fine enough for all."""

    @property
    def values(self) -> set[str]:
        """The quantised values."""
        return set(self.edges.values()) | self.everywhere


def candidates(model: ModelProto, options: QuantizeOptions) -> list[Layer]:
    """The products that can be quantised, including those in `options.keep_float`."""
    planner = _Planner(model, options)
    return [layer for node in model.graph.node if (layer := planner.layer(node)) is not None]


def planned(model: ModelProto, options: QuantizeOptions) -> Plan:
    """The plan for a prepared model."""
    planner = _Planner(model, options)
    for node in reversed(model.graph.node):
        planner.visit(node)
    planner.plan.layers.reverse()
    planner.plan.concats.reverse()
    return planner.plan


class _Planner:
    """Goes through a graph from its end to its beginning."""

    def __init__(self, model: ModelProto, options: QuantizeOptions) -> None:
        self.options = options
        self.links = Links(model.graph)
        types = value_types(model)
        others = [node for node in model.graph.node if node.domain not in STANDARD]
        self.stated = {node.name: found for node in others if (found := stated(model, node, types)) is not None}
        """The properties of nodes of other domains, by node name."""
        self.floats = {name for name, value in types.items() if value.type.tensor_type.elem_type == TensorProto.FLOAT}
        self.ranks = {name: rank_of(value) for name, value in types.items()}
        self.plan = Plan()
        self.wanted: set[str] = set()

    def visit(self, node: NodeProto) -> None:
        """Decide which operands a node reads quantised; everything after it is decided."""
        if self._is_product(node):
            layer = None if self.options.keeps(node.name) else self.layer(node)
            if layer is not None:
                self.plan.layers.append(layer)
                self._read(node, *(place for place in (0, 1) if node.input[place] in layer.inputs))
                self._keep_result(node)
        elif self.is_move(node):
            moved = [name for name in node.output if name in self.wanted]
            if moved and self._is_value(node.input[0]):
                self._read(node, 0)
                self.plan.moving.add((node.name, 0))
                self.plan.alike.append((node.input[0], *moved))
        elif self._is_chosen(node):
            places = [place for place in range(len(node.input)) if not self._is_fused(node, place)]
            self._read(node, *places)
            if self._is_concat(node):
                self.plan.moving.update((node.name, place) for place in places)
                self.plan.concats.append((node.output[0], tuple(node.input)))

    def layer(self, node: NodeProto) -> Layer | None:
        """The layer of a node, if it is a product of floats that can be quantised."""
        if not self._is_product(node) or not self._is_asked(node):
            return None
        x, w, other = node.input[0], node.input[1], self.stated.get(node.name)
        stored = [name for name in (x, w) if name in self.links.initializers]
        arrays = [self.links.array(name) for name in stored]
        values = [name for name in (x, w) if name not in stored]
        if len(stored) == 2 or not all(name in self.floats for name in values):
            return None
        if any(array is None or array.dtype != np.float32 or array.size == 0 or not np.isfinite(array).all() for array in arrays):
            return None
        if (other is not None and stored == [x]) or (is_standard(node, "Conv", "ConvTranspose") and stored != [w]):
            return None
        if is_standard(node, "Gemm"):
            factors = (attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0) if operand(node, 2) else 1.0)
            if factors != (1.0, 1.0) or attribute(node, "transA", 0):
                return None
        if is_standard(node, "MatMul") and any((self.ranks.get(name) or 2) < 2 for name in (x, w)):
            return None
        axis = None
        if stored == [w] and not (is_standard(node, "ConvTranspose") and attribute(node, "group", 1) != 1):  # else groups share channels of weights
            axis = other.weight_axis if other is not None else weight_axis(node, len(self.links.initializers[w].dims))
        return Layer(node.name, node.op_type, tuple(dict.fromkeys(values)), stored[0] if stored else None, node.output[0], axis)

    def _is_product(self, node: NodeProto) -> bool:
        """Whether a node sums products of two operands."""
        found = self.stated.get(node.name)
        return is_standard(node, *PRODUCTS) if found is None else found.products is not None and len(node.input) == 2

    def _is_concat(self, node: NodeProto) -> bool:
        """Whether a node joins its operands."""
        return is_standard(node, "Concat") or self._states(node, JoinsData)

    def _states(self, node: NodeProto, *traits: type[Trait]) -> bool:
        """Whether a node of another domain states one of these traits."""
        found = self.stated.get(node.name)
        return found is not None and found.states(*traits)

    def _is_asked(self, node: NodeProto) -> bool:
        """Whether the options quantise this kind of operator; those of other domains are quantised unless the options restrict the kinds."""
        return node.op_type in self.options.op_types if node.domain in STANDARD else self.options.op_types == OP_TYPES

    def is_move(self, node: NodeProto) -> bool:
        """Whether a node returns numbers of its first operand, perhaps with zeros."""
        if is_standard(node, "MaxPool"):
            return "MaxPool" in self.options.op_types and not self.options.keeps(node.name) and len([name for name in node.output if name]) == 1
        if not is_standard(node, *MOVES):
            return self._states(node, MovesData, ChoosesData)
        if node.op_type == "Resize":
            return attribute(node, "mode", b"nearest") == b"nearest"
        if node.op_type == "Pad" and attribute(node, "mode", b"constant") == b"constant":
            value = self.links.array(node.input[2]) if operand(node, 2) else np.zeros(1)
            return value is not None and not value.any()
        return True

    def _is_chosen(self, node: NodeProto) -> bool:
        """Whether an operator other than a product should read quantised values: its result soon becomes integers, and has no other readers."""
        if self.options.keeps(node.name) or len(node.output) != 1:
            return False
        if is_standard(node, *ELEMENTWISE):
            fits = len(node.input) == 2 and node.input[0] != node.input[1] and not self._is_rescaling(node)
        elif is_standard(node, "AveragePool", "GlobalAveragePool"):
            fits = True
        elif is_standard(node, "ReduceMean"):
            fits = "GlobalAveragePool" in self.options.op_types and self._averages_images(node)
        else:
            fits = self._is_concat(node)
        if not fits or not (self._is_asked(node) or is_standard(node, "ReduceMean")):
            return False
        read = node.input[:1] if is_standard(node, "ReduceMean") else node.input
        return all(self._is_value(name) for name in read) and self._becomes_integers(node.output[0])

    def _averages_images(self, node: NodeProto) -> bool:
        """Whether a ReduceMean goes over the last two of four axes."""
        axes = self.links.array(node.input[1]) if operand(node, 1) else attribute(node, "axes")
        return self.ranks.get(node.input[0]) == 4 and axes is not None and {int(a) % 4 for a in np.atleast_1d(axes)} == {2, 3}

    def _is_value(self, name: str) -> bool:
        return name in self.floats and name not in self.links.initializers

    def _is_fused(self, node: NodeProto, place: int) -> bool:
        """Whether an operand stays in float: the axes of a ReduceMean; a product's result that only this addition reads, if requested."""
        if is_standard(node, "ReduceMean"):
            return place > 0
        if not is_standard(node, "Add") or not self.options.fuse_additions:
            return False
        fusable = [i for i in (0, 1) if self._is_own_product(node.input[i])]
        return bool(fusable) and place == fusable[-1]

    def _is_own_product(self, name: str) -> bool:
        maker = self.links.makers.get(name)
        return maker is not None and self._is_product(maker) and self.links.only_reader(name) is not None

    def _keep_result(self, node: NodeProto) -> None:
        """If requested, quantise the result of a product for all its readers, behind an activation that engines fuse."""
        if not self.options.quantize_results:
            return
        name = node.output[0]
        after = self.links.only_reader(name)
        if after is not None and is_standard(after, *BOUNDS):
            name = after.output[0]
        if name not in self.links.outputs | self.links.held:
            self.plan.everywhere.add(name)

    def _read(self, node: NodeProto, *places: int) -> None:
        """Let a node read operands quantised."""
        for place in places:
            self.plan.edges[node.name, place] = node.input[place]
            self.wanted.add(node.input[place])

    def _becomes_integers(self, name: str) -> bool:
        """Whether a value, or element-wise results of it, is quantised, and all its readers are this or integers."""
        pending, seen, found = [name], {name}, False
        while pending:
            value = pending.pop()
            found = found or value in self.wanted
            if value in self.links.outputs:
                continue
            for reader, place in self.links.readers.get(value, []):
                if (reader.name, place) in self.plan.edges:
                    continue
                if self.options.keeps(reader.name) and self._is_product(reader):
                    continue
                if not (self._is_light(reader) or self.is_move(reader)):
                    return False
                pending += [out for out in reader.output if out and out not in seen]
                seen.update(reader.output)
        return found

    def _is_light(self, node: NodeProto) -> bool:
        """Whether a node computes element by element, from one value, which may arrive in several ways: `x * sigmoid(x)`."""
        if is_standard(node, *UNARY):
            return True
        if not is_standard(node, *WITH_STORED) and not self._states(node, Elementwise):
            return False
        return len([name for name in node.input if name not in self.links.initializers]) == 1 or self._is_gate(node)

    def _is_gate(self, node: NodeProto) -> bool:
        """Whether both operands follow from one value, element by element."""
        return self._have_common_source(node, lambda maker: is_standard(maker, *UNARY, *WITH_STORED))

    def _is_rescaling(self, node: NodeProto) -> bool:
        """Whether both operands follow from one value without a product in between: a gate, or a normalisation.

        In a normalisation, `x - mean(x)` meets a function of the sum of its squares. Its operands would be rounded once more in the middle of one
        function of that value.
        """
        return self._have_common_source(node, lambda maker: not self._is_product(maker))

    def _have_common_source(self, node: NodeProto, is_crossed: Callable[[NodeProto], bool]) -> bool:
        """Whether both operands depend on one value through nodes that are crossed."""
        first, second = (self._sources(name, is_crossed) for name in node.input[:2])
        return not first.isdisjoint(second)

    def _sources(self, name: str, is_crossed: Callable[[NodeProto], bool]) -> set[str]:
        """A value and all values that it depends on through nodes that are crossed."""
        found, pending = {name}, [name]
        while pending:
            maker = self.links.makers.get(pending.pop())
            if maker is None or not is_crossed(maker):
                continue
            more = {x for x in maker.input if x and x not in self.links.initializers} - found
            found |= more
            pending += more
        return found
