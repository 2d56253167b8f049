"""One model of many: it computes all of them, each from inputs of its own."""

import re
from collections.abc import Hashable, Sequence

from onnx import AttributeProto, ModelProto, compose

TOGETHER = 24  # models in one
SIZE = re.compile(r"s\d+")  # the name of a free size that tells what it is, and so means the same in each model


def kind(model: ModelProto) -> Hashable:
    """Models of one kind can be joined; None for one that cannot: its nodes hold graphs, or it has functions."""
    nested = any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for node in model.graph.node for a in node.attribute)
    versions = sorted((imported.domain, imported.version) for imported in model.opset_import)
    return None if nested or model.functions else (model.ir_version, *versions)


def joined(models: Sequence[ModelProto]) -> ModelProto:
    """One model of several of one kind, with their inputs and outputs in order; names begin with `c` and the number of the model.

    Nodes without a name get one, so that a message about one of them tells the model (`culprit`).
    """
    result = ModelProto()
    result.CopyFrom(models[0])
    result.graph.Clear()
    result.graph.name = "joined"
    for number, model in enumerate(models):
        graph = compose.add_prefix_graph(model.graph, f"c{number}_")
        for place, node in enumerate(graph.node):
            node.name = node.name or f"c{number}_{node.op_type}_{place}"
        for value in [*graph.input, *graph.output, *graph.value_info]:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param and not SIZE.fullmatch(dim.dim_param):
                    dim.dim_param = f"c{number}_{dim.dim_param}"
        for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
            getattr(result.graph, field).extend(getattr(graph, field))
    return result


def culprit(text: str, count: int) -> int | None:
    """The number of the one of `count` joined models that a message is about; None if it names none, or several."""
    found = {int(number) for number in re.findall(r"\bc(\d+)_", text)}
    return found.pop() if len(found) == 1 and max(found) < count else None
