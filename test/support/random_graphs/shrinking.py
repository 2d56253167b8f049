"""Makes a case that fails smaller: fewer outputs, nodes replaced by what they gave, data of size that stays."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
from importing import context
from onnx import helper, numpy_helper
from random_graphs.net import Case, Value, value_info
from random_graphs.noise import outputs_of

from stepwell.dialects.interpreter import functions_of
from stepwell.dialects.interpreter.evaluate import Evaluator
from stepwell.frontends.onnx import import_model

MOST_TRIES = 60


def shrink(case: Case, fails: Callable[[Case], bool], tries: int = MOST_TRIES) -> Case:
    """The smallest case found that still fails."""
    values = all_values(case)
    left = tries
    smaller = True
    while smaller:
        smaller = False
        for candidate in candidates(case, values):
            left -= 1
            if left < 0:
                return case
            if fails(candidate):
                case, smaller = candidate, True
                break
    return case


def all_values(case: Case) -> dict[str, np.ndarray]:
    """What every node of a model gives."""
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(case.model))
    known = {v.name: v for v in (*model.graph.value_info, *model.graph.output)}
    names = [name for node in model.graph.node for name in node.output if name]
    everything = onnx.ModelProto()
    everything.CopyFrom(model)
    del everything.graph.output[:]
    everything.graph.output.extend(known[name] for name in names if name in known)
    imported = import_model(everything, context())
    return outputs_of(imported.module, Evaluator(functions_of(imported.module), imported.weights), case.inputs)


def candidates(case: Case, values: dict[str, np.ndarray]) -> Iterator[Case]:
    """Smaller cases, those first that leave least."""
    model = onnx.load_from_string(case.model)
    outputs = [v.name for v in model.graph.output]
    nodes = list(model.graph.node)
    if len(outputs) > 1:
        for name in outputs:
            yield reduced(case, nodes, [name], {})
    if case.disable:
        yield Case(case.model, case.inputs, case.target, (), case.strict, case.undefined)
    if case.target != "host":
        yield Case(case.model, case.inputs, "host", case.disable, case.strict, case.undefined)
    made = {name for node in nodes for name in node.output}
    # What nodes give becomes an input, or a constant where it was known: the last ones first, which leaves least.
    for constant in (False, True):
        for index in range(len(nodes) - 1, -1, -1):
            cut = {name: (values[name], constant) for name in nodes[index].output if name in values}
            used = {name for node in nodes[:index] + nodes[index + 1 :] for name in node.input}
            if cut and used & set(cut):
                yield reduced(case, nodes[:index] + nodes[index + 1 :], [o for o in outputs if o not in cut] or outputs[:0], cut)
    if len(nodes) > 1:
        for index in range(len(nodes) - 1, -1, -1):  # the results before the last instead
            wanted = [name for name in nodes[index].input if name in made]
            if set(nodes[index].output) & set(outputs) and wanted:
                yield reduced(case, nodes[:index] + nodes[index + 1 :], wanted, {}, values)


def reduced(
    case: Case, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], cut: dict[str, tuple[np.ndarray, bool]],
    values: dict[str, np.ndarray] | None = None,
) -> Case:  # fmt: skip
    """The case with some of its nodes: those that an output needs. `cut` gives values that are not computed any more."""
    model = onnx.load_from_string(case.model)
    infos = {v.name: v for v in (*model.graph.input, *model.graph.output)}
    for name, array in (values or {}).items():
        infos.setdefault(name, value_info(Value(name, array, False)))
    needed = set(outputs)
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.insert(0, node)
            needed |= set(node.input)
    inputs = dict(case.inputs)
    initializers = [t for t in model.graph.initializer if t.name in needed]
    leaves = [v for v in model.graph.input if v.name in needed]
    for name, (array, constant) in cut.items():
        if name not in needed:
            continue
        if constant:
            initializers.append(numpy_helper.from_array(array, name))
        else:
            leaves.append(value_info(Value(name, array, False)))
            inputs[name] = array
    graph = helper.make_graph(kept, "random", leaves, [infos[name] for name in outputs], initializers)
    small = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    taken = {v.name for v in leaves}
    return Case(small.SerializeToString(), {n: a for n, a in inputs.items() if n in taken}, case.target, case.disable, case.strict, case.undefined)
