"""Checks a model before it is imported: node names, opsets, local functions, known operators."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, defs

from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError
from stepwell.dialects.support.limits import Limits, over
from stepwell.dialects.support.names import printable
from stepwell.frontends.onnx.functions import domain_of, has_schema_function, operator_key, schema_of
from stepwell.frontends.onnx.problems import Notices, Problems, node_problem
from stepwell.frontends.onnx.registry import find_rule, missing_rule
from stepwell.frontends.onnx.walking import every_node, nested_nodes

OLDEST_OPSET = 1  # below 7, only operators with rules of that age
LONGEST_TEXT = 4000  # shown of another library's message

FunctionKey = tuple[str, str, str]  # domain, name, overload


@contextmanager
def foreign_errors(what: str) -> Iterator[None]:
    """Convert any exception of the libraries that read the model, raised inside the block, to a ModelError."""
    try:
        yield
    except StepwellError:
        raise
    except Exception as error:  # onnx raises its own classes, protobuf's, and pybind's translation of C++ exceptions
        raise ModelError(f"{what}: {foreign_text(error)}") from None


def foreign_text(error: Exception) -> str:
    """Another library's error message on one line, shortened, because it repeats parts of the model."""
    text = printable(" ".join(str(error).replace("==> Context:", "in:").split()))
    if len(text) > LONGEST_TEXT:
        text = f"{text[: LONGEST_TEXT // 2]} … {text[-LONGEST_TEXT // 2 :]}"
    return text or type(error).__name__


def opset_versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Opset version by domain. Raises UnsupportedError if ONNX's own is outside the supported range, ModelError for two versions of a domain."""
    versions: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if versions.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"the model imports two versions of the domain '{domain or 'ai.onnx'}': {versions[domain]} and {entry.version}")
    newest = defs.onnx_opset_version()
    if "" in versions and not OLDEST_OPSET <= versions[""] <= newest:
        raise UnsupportedError(
            f"opset {versions['']} of ai.onnx is not supported; supported: {OLDEST_OPSET} to {newest}, the newest that the installed onnx knows"
        )
    return versions


def name_nodes(nodes: Iterable[NodeProto], notices: Notices) -> None:
    """Give every node a unique name, in place: `OpType_index` if it has none, `name.1` if the name is taken."""
    taken: dict[str, int] = {}
    for index, node in enumerate(nodes):
        name = unique_name(node.name or f"{node.op_type}_{index}", taken)
        if node.name and node.name != name:
            notices.add("node name", f"several nodes have the name '{node.name}': the {node.op_type} at index {index} is called '{name}' here")
        node.name = name


def unique_name(name: str, taken: dict[str, int]) -> str:
    """`name`, or `name.1`, `name.2`, … if that is taken; adds it to `taken`, which maps each name to the last number tried."""
    unique, count = name, taken.get(name, 0)
    while unique in taken:
        count += 1
        unique = f"{name}.{count}"
    taken[name] = count
    taken[unique] = 0
    return unique


def unify_domains(model: ModelProto) -> None:
    """Normalise the spelling of ONNX's own domain, in place: its checker knows only one of the two."""
    imports = [*model.opset_import, *(entry for function in model.functions for entry in function.opset_import)]
    for message in [*imports, *every_node(model)]:
        if message.domain != domain_of(message.domain):
            message.domain = domain_of(message.domain)


RUNTIMES_OWN = ("LayerNormalization", "SimplifiedLayerNormalization")
"""Operators that ONNX Runtime's optimiser writes as ONNX's, in opsets in which ONNX has none of that name."""
WITHDRAWN = "ai.onnx.withdrawn"
"""The domain of operators in versions that ONNX has withdrawn, which exporters wrote all the same: ONNX's checker refuses them in its own domain."""
WITHDRAWN_OPERATORS = ("GroupNormalization",)


def adopt_operators(model: ModelProto) -> None:
    """Move nodes that ONNX's checker would refuse to domains that it does not know, in place.

    `RUNTIMES_OWN` go to com.microsoft if the model's opset of ai.onnx does not have them, `WITHDRAWN_OPERATORS` to a domain of our own if that opset
    has them in a withdrawn version.
    """
    bodies = [(model.opset_import, model.graph.node), *((f.opset_import, f.node) for f in model.functions)]
    for imports, nodes in bodies:
        versions = {domain_of(entry.domain): entry.version for entry in imports}
        opset, moved = versions.get("", 0), set[str]()
        for node in nested_nodes(nodes):
            schema = schema_of("", node.op_type, opset) if not node.domain and node.op_type in (*RUNTIMES_OWN, *WITHDRAWN_OPERATORS) else None
            if not node.domain and node.op_type in RUNTIMES_OWN and schema is None:
                node.domain = "com.microsoft"
                moved.add(node.domain)
            elif schema is not None and schema.deprecated and node.op_type in WITHDRAWN_OPERATORS:
                node.domain = WITHDRAWN
                moved.add(node.domain)
        for domain in sorted(moved - versions.keys()):
            imports.add(domain=domain, version=1)


def spell_out_defaults(model: ModelProto) -> None:
    """Add default attributes, in place, to nodes that ONNX's strict inference rejects without them: functions, and STFT."""
    versions = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    for node in nested_nodes(model.graph.node):
        schema = schema_of(*operator_key(node, versions))
        if schema is not None and (schema.has_function or node.op_type == "STFT"):
            given = {a.name for a in node.attribute}
            node.attribute.extend(a.default_value for a in schema.attributes.values() if a.default_value.name and a.name not in given)


def function_key(node: NodeProto | FunctionProto) -> FunctionKey:
    """The key of a model-local function, or of the function that a node calls."""
    name = node.op_type if isinstance(node, NodeProto) else node.name
    return domain_of(node.domain), name, node.overload


def local_functions(model: ModelProto, limits: Limits) -> dict[FunctionKey, FunctionProto]:
    """The model's functions. Raises ModelError if one calls itself, directly or not, LimitError if expanding all calls gives too many nodes."""
    functions: dict[FunctionKey, FunctionProto] = {}
    for function in model.functions:
        if functions.setdefault(function_key(function), function) is not function:
            raise ModelError(f"two functions of the model have the name '{function.name}' (domain '{function.domain}')")
    sizes: dict[FunctionKey, int] = {}
    for key in functions:
        _expanded_size(key, functions, sizes)
    size = sum(sizes.get(function_key(node), 1) for node in nested_nodes(model.graph.node))
    if size > limits.operations:
        raise over("the model's nodes, with its functions expanded,", "operations", size, limits)
    return functions


def _expanded_size(key: FunctionKey, functions: Mapping[FunctionKey, FunctionProto], sizes: dict[FunctionKey, int]) -> int:
    """The number of nodes in a function after expansion; fills `sizes`. Not recursive, since the nesting may be deep."""
    in_progress: list[FunctionKey] = [key]
    while in_progress:
        current = in_progress[-1]
        calls = [function_key(node) for node in nested_nodes(functions[current].node)]
        pending = next((call for call in calls if call in functions and call not in sizes), None)
        if pending is None:
            sizes[current] = sum(sizes.get(call, 1) for call in calls) if calls else 1
            in_progress.pop()
        elif pending in in_progress:
            raise ModelError(f"the model's function '{pending[1]}' (domain '{pending[0]}') calls itself")
        elif len(in_progress) >= 100:
            raise ModelError(f"the model's functions call each other more than 100 deep, from '{key[1]}' on")
        else:
            in_progress.append(pending)
    return sizes[key]


def check_known_ops(model: ModelProto, functions: Mapping[FunctionKey, FunctionProto], opsets: Mapping[str, int]) -> None:
    """If some node has an operator that ONNX's checker would reject, raise UnsupportedError listing every node without a rule."""
    problems = Problems()
    stumbles = False
    bodies = [(model.graph.node, opsets)]
    bodies += [(f.node, opset_versions(f.opset_import) or opsets) for f in functions.values()]
    for nodes, versions in bodies:
        for node in nested_nodes(nodes):
            domain, name, opset = key = operator_key(node, versions)
            if function_key(node) in functions or find_rule(*key) or has_schema_function(*key):
                continue
            known = schema_of(*key) is not None
            stumbles = stumbles or not known
            reason = missing_rule(domain, name) if known else unknown_reason(node, domain, opset)
            problems.add(node.name or name, node_problem(node, versions, reason))
    if stumbles:
        problems.raise_any()


def unknown_reason(node: NodeProto, domain: str, opset: int) -> str:
    """The reason for which ONNX does not know an operator."""
    if opset == 0:
        return f"the model imports no opset of the domain '{node.domain or 'ai.onnx'}'"
    first = first_versions().get((domain, node.op_type))
    if first is not None:
        return f"the operator exists only from opset {first} on"
    return f"there is no such operator in the domain '{domain or 'ai.onnx'}', and no rule for it"


@cache
def first_versions() -> dict[tuple[str, str], int]:
    """The opset version that introduced each operator known to ONNX, by domain and name."""
    first: dict[tuple[str, str], int] = {}
    for schema in defs.get_all_schemas_with_history():
        key = (schema.domain, schema.name)
        first[key] = min(first.get(key, schema.since_version), schema.since_version)
    return first
