"""The scope of one graph or function body: names, opsets, types, and the node that it belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import AttributeProto, GraphProto, NodeProto

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.onnx.sequences import AnyValue
from stepwell.frontends.onnx.tensors import onnx_tensor_type
from stepwell.frontends.onnx.walking import nested_nodes


@dataclass(frozen=True)
class Unavailable:
    """A value that could not be built. When something uses it, `problem` is reported for `about`, unless it was reported before."""

    about: str = ""
    problem: str = ""


Binding = AnyValue | Unavailable | None  # None: an omitted optional input


@dataclass
class Frame:
    """The names visible in one graph or function body, and how to interpret its nodes."""

    opsets: Mapping[str, int]
    parent: "Frame | None" = None  # the graph around a graph inside a node; a function body has none
    values: dict[str, Binding] = field(default_factory=dict)
    types: Mapping[str, TensorType] = field(default_factory=dict)  # inferred by ONNX
    prefix: str = ""  # of node names
    owner: tuple[str, int] | None = None  # name and index that all nodes take: those of the node that this body defines
    attributes: Mapping[str, AttributeProto] | None = None  # of the call, in a function body
    tainted: set[str] = field(default_factory=set)  # values that depend on a reported node
    doubtful: set[str] = field(default_factory=set)  # values whose declared or inferred shapes are wrong, and those that depend on them

    @property
    def is_main(self) -> bool:
        """Whether it is that of the main graph."""
        return self.parent is None and self.attributes is None

    def lookup(self, name: str) -> Binding:
        """The value bound to `name` here or in an enclosing graph. Raises ModelError if there is none."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.values[name]
            frame = frame.parent
        raise ModelError(f"the value '{name}' is used before it is defined")

    def has(self, name: str) -> bool:
        """Whether a value is bound to `name` here or in an enclosing graph."""
        return name in self.values or (self.parent is not None and self.parent.has(name))

    def inferred(self, name: str) -> TensorType | None:
        """The type that ONNX infers for the value of that name; None if ONNX may be wrong."""
        return None if name in self.doubtful else self.types.get(name)

    def is_tainted(self, name: str) -> bool:
        """Whether the value of that name depends on a reported node."""
        return self._is_marked(name, "tainted")

    def depends_on_problems(self, node: NodeProto) -> bool:
        """Whether a node, or a node of a graph inside it, uses such a value."""
        return self._uses_marked(node, "tainted")

    def depends_on_doubts(self, node: NodeProto) -> bool:
        """Whether a node, or a node of a graph inside it, uses a value of doubtful size."""
        return self._uses_marked(node, "doubtful")

    def _is_marked(self, name: str, mark: str) -> bool:
        if name in getattr(self, mark):
            return True
        return self.parent is not None and name not in self.values and self.parent._is_marked(name, mark)

    def _uses_marked(self, node: NodeProto, mark: str) -> bool:
        frame: Frame | None = self
        while frame is not None and not getattr(frame, mark):
            frame = frame.parent
        return frame is not None and any(self._is_marked(name, mark) for user in nested_nodes([node]) for name in user.input)


def graph_types(graph: GraphProto) -> dict[str, TensorType]:
    """The types of a graph's values that ONNX infers and we support."""
    types = {value.name: onnx_tensor_type(value.type) for value in [*graph.value_info, *graph.input, *graph.output]}
    return {name: tensor for name, tensor in types.items() if tensor is not None}
