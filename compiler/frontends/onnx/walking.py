"""Walks over the nodes, graphs and tensors of a model, including those inside nodes and in its own functions."""

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto


def every_node(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of a model: of its main graph, of its functions, and of graphs inside nodes."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from nested_nodes(nodes)


def inner_graphs(model: ModelProto) -> list[GraphProto]:
    """Every graph inside a node, of the main graph, of functions, or of another such graph."""
    return [graph for node in every_node(model) for graph in subgraphs(node)]


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def nested_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Each node, followed by the nodes of the graphs inside it."""
    waiting = [iter(nodes)]
    while waiting:
        for node in waiting[-1]:
            yield node
            inside = [iter(graph.node) for graph in subgraphs(node)]
            if inside:
                waiting += reversed(inside)
                break
        else:
            waiting.pop()


def attribute_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor outside the main graph's initializers: attributes, and initializers of graphs inside nodes."""
    for node in every_node(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
        for graph in subgraphs(node):
            yield from graph.initializer
