"""Cases in one model: it computes all of them, each from inputs of its own."""

from collections.abc import Iterable, Sequence

from backend_suite.cases import Case, graphs
from backend_suite.forms import SIZE
from onnx import ModelProto, compose

TOGETHER = 24  # cases in one model


def batches(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases in groups whose models can be joined; one whose nodes hold graphs, or which has functions, stays alone."""
    groups: dict[object, list[Case]] = {}
    for case in cases:
        model = ModelProto.FromString(case.model)
        versions = sorted((imported.domain, imported.version) for imported in model.opset_import)
        alone = len(model.functions) > 0 or len(list(graphs(model.graph))) > 1
        groups.setdefault(case.name if alone else (model.ir_version, *versions), []).append(case)
    return [group[start : start + TOGETHER] for group in groups.values() for start in range(0, len(group), TOGETHER)]


def joined(models: Sequence[bytes]) -> bytes:
    """One model of several of one version, with their inputs and outputs in order."""
    result = ModelProto.FromString(models[0])
    result.graph.Clear()
    result.graph.name = "joined"
    for number, data in enumerate(models):
        graph = compose.add_prefix_graph(ModelProto.FromString(data).graph, f"c{number}_")
        for value in [*graph.input, *graph.output, *graph.value_info]:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param and not SIZE.fullmatch(dim.dim_param):  # a size of that name means the same number everywhere
                    dim.dim_param = f"c{number}_{dim.dim_param}"
        for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
            getattr(result.graph, field).extend(getattr(graph, field))
    return result.SerializeToString()
