"""Accepts, with a warning, deviations from the standard whose meaning is clear."""

import re
from collections.abc import Callable, Iterable, Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorShapeProto, defs

from stepwell.frontends.onnx.functions import domain_of
from stepwell.frontends.onnx.order import sorted_nodes
from stepwell.frontends.onnx.problems import Notices
from stepwell.frontends.onnx.registry import newest_rule
from stepwell.frontends.onnx.source import refill
from stepwell.frontends.onnx.validation import function_key
from stepwell.frontends.onnx.walking import inner_graphs, nested_nodes

IMPLIED_OPSET = 1  # of a model older than imports of opsets
NO_NAME = re.compile(r"\s*(\?+|\*|-\d+|none|null|nan|dynamic|unknown|unk__\d+)?\s*", re.IGNORECASE)
"""The names that exporters write for a dynamic dimension without a name."""
OPSETS_AHEAD = 100  # beyond the newest known opset; one further ahead is damage
FIRST_WITH_OPSETS = 3  # the IR version


def repair(model: ModelProto, notices: Notices) -> None:
    """Make a model acceptable to ONNX's checker, in place, as far as there is one way to read it; the checker reports the rest.

    Functions without calls are dropped silently. Raises ModelError for nodes that depend on each other in a cycle.
    """
    _drop_unused_functions(model)
    _free_negative_sizes(model, notices)
    free_names(model, lambda name: NO_NAME.fullmatch(name) is not None)
    _date(model, notices)
    for graph in _graphs(model):
        if not graph.name:
            graph.name = "graph"
            notices.add("unnamed graph", "a graph has no name")
    bodies: list[tuple[str, GraphProto | FunctionProto]] = [(f"graph '{g.name}'", g) for g in _graphs(model)]
    bodies = [*((f"function '{f.name}'", f) for f in model.functions), *bodies]
    for what, body in reversed(bodies):  # innermost first: sorting copies nodes with the graphs in them
        _sort(what, body, notices)


def _graphs(model: ModelProto) -> list[GraphProto]:
    """The main graph, and every graph inside a node of it or of a function."""
    return [model.graph, *inner_graphs(model)]


def _drop_unused_functions(model: ModelProto) -> None:
    """Keep only the functions that the main graph calls, directly or not."""
    functions = {function_key(function): function for function in model.functions}
    if len(functions) != len(model.functions):  # two with one name: the reader will report them
        return
    used: set[tuple[str, str, str]] = set()
    waiting: list[Iterable[NodeProto]] = [model.graph.node]
    while waiting:
        for node in nested_nodes(waiting.pop()):
            key = function_key(node)
            if key in functions and key not in used:
                used.add(key)
                waiting.append(functions[key].node)
    if len(used) < len(functions):
        refill(model, "functions", [function for key, function in functions.items() if key in used])


def free_names(model: ModelProto, chosen: Callable[[str], bool]) -> None:
    """Remove the `chosen` names of dynamic dimensions, wherever a type is declared: each then has its own size."""
    for _, _, dim in _dimensions(model):
        if dim.dim_param and chosen(dim.dim_param):
            dim.ClearField("dim_param")


def _free_negative_sizes(model: ModelProto, notices: Notices) -> None:
    """Take a negative size for a dynamic one, wherever a type is declared."""
    for name, axis, dim in _dimensions(model):
        if dim.dim_value < 0:
            notices.add("negative size", f"dimension {axis} of '{name}' is declared as {dim.dim_value}, which is taken for a free size")
            dim.ClearField("dim_value")


def _dimensions(model: ModelProto) -> Iterator[tuple[str, int, TensorShapeProto.Dimension]]:
    """The dimensions of each tensor whose type is declared: the tensor's name, the axis, and the dimension."""
    for graph in _graphs(model):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.WhichOneof("value") == "tensor_type":
                yield from ((value.name, axis, dim) for axis, dim in enumerate(value.type.tensor_type.shape.dim))


def _date(model: ModelProto, notices: Notices) -> None:
    """Give a model the opset that its age implies, and read one newer than all known ones as the newest."""
    if model.ir_version and model.ir_version < FIRST_WITH_OPSETS:
        if not model.opset_import:  # as the standard says
            model.opset_import.add(domain="", version=IMPLIED_OPSET)
        else:
            notices.add("old IR version", f"the model is of IR version {model.ir_version}, which has no imports of opsets, and imports some")
        model.ir_version = FIRST_WITH_OPSETS
    newest = defs.onnx_opset_version()
    for body, imports in [(model.graph.node, model.opset_import), *((f.node, f.opset_import) for f in model.functions)]:
        for entry in imports:
            if domain_of(entry.domain) != "" or not newest < entry.version <= newest + OPSETS_AHEAD:
                continue
            used = sorted({node.op_type for node in nested_nodes(body) if domain_of(node.domain) == ""})
            if any(newest_rule("", op) > newest for op in used):
                continue
            text = f"opset {entry.version} of ai.onnx is newer than {newest}, the newest that the installed onnx knows"
            notices.add("newer opset", f"{text}: operators are taken as in opset {newest} ({', '.join(used) or 'none is used'})")
            entry.version = newest


def _sort(what: str, body: GraphProto | FunctionProto, notices: Notices) -> None:
    """Sort the nodes of a graph or function topologically; sorted ones keep their order."""
    given = body.input if isinstance(body, FunctionProto) else [value.name for value in (*body.input, *body.initializer)]
    order, early = sorted_nodes(body.node, frozenset(given))
    if early is None:
        return
    node, name = early
    shown = f'{node.op_type} "{node.name}" comes before the node that makes its input \'{name}\''
    notices.add("order of nodes", f"the nodes of {what} are not in topological order ({shown}): they are sorted")
    refill(body, "node", [body.node[i] for i in order])
