"""Handles branches whose values have no common type: the code after them is computed in each branch instead."""

from collections.abc import Iterable, Sequence

from onnx import AttributeProto, GraphProto, NodeProto, helper

from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.onnx.order import names_read
from stepwell.frontends.onnx.walking import nested_nodes, subgraphs


class BranchesDifferError(UnsupportedError):
    """The branches of a conditional return values that differ in more than their sizes, and only the run decides between them."""


def with_following_nodes(node: NodeProto, following: Sequence[NodeProto], wanted: Iterable[str]) -> tuple[list[NodeProto], NodeProto] | None:
    """The nodes that do not depend on the conditional `node`, in order, and the conditional with all dependent nodes in each of its branches.

    `following` are the nodes after it in its graph, whose results are `wanted`. None if nothing depends on it, or if a branch has a name that the
    following nodes have too, where it would mean another value.
    """
    made = {name for name in node.output if name}
    others, dependent = [], []
    for later in following:
        if made.isdisjoint(names_read(later)):
            others.append(later)
        else:
            dependent.append(later)
            made.update(name for name in later.output if name)
    used = made.union(*map(names_read, dependent))
    if not dependent or any(not used.isdisjoint(_names_made(graph)) for graph in subgraphs(node)):
        return None
    outputs = [name for name in dict.fromkeys(wanted) if name in made]
    moved = NodeProto(op_type=node.op_type, domain=node.domain, name=node.name, input=node.input, output=outputs)
    for attribute in node.attribute:
        if attribute.type != AttributeProto.GRAPH:
            moved.attribute.append(attribute)
            continue
        pairs = zip(attribute.g.output, node.output, strict=True)
        ends = [helper.make_node("Identity", [value.name], [name]) for value, name in pairs if name]
        graph = GraphProto(name=attribute.g.name)
        graph.CopyFrom(attribute.g)
        graph.ClearField("output")
        graph.node.extend([*ends, *dependent])
        for name in outputs:
            graph.output.add(name=name)
        moved.attribute.append(helper.make_attribute(attribute.name, graph))
    return others, moved


def _names_made(graph: GraphProto) -> set[str]:
    """All names that a graph, or one inside it, gives to values of its own."""
    inside = [graph, *(inner for node in nested_nodes(graph.node) for inner in subgraphs(node))]
    names = {name for part in inside for node in part.node for name in node.output}
    return names | {tensor.name for part in inside for tensor in part.initializer} | {value.name for part in inside for value in part.input}
