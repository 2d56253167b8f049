"""Handles branches that only the run can choose between.

If their values have no common type, the code after them is computed in each branch instead. Assumptions about data-dependent sizes inside a branch
are checked when the branch is taken, and do not affect other runs.
"""

from collections.abc import Iterable, Sequence

from onnx import AttributeProto, GraphProto, NodeProto, helper

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Assumption, Size, symbol
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.builder import dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.frames import Frame
from stepwell.frontends.onnx.order import names_read
from stepwell.frontends.onnx.walking import nested_nodes, subgraphs
from stepwell.frontends.symbols import Symbols


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


def guarded(assumed: Iterable[Assumption], known: frozenset[str], symbols: Symbols) -> list[str]:
    """The data-dependent symbols of `known` about which something is assumed.

    Symbols of inputs are excluded: they are known before a run, which gets specialised code for sizes that do not fit.
    """
    names = {name for assumption in assumed if known.issuperset(assumption.symbols) for name in assumption.symbols}
    return sorted(name for name in names if symbols.origins(name) is None)


def with_own_sizes(b: ImportBuilder, graph: GraphProto, frame: Frame, names: Sequence[str]) -> Frame:
    """The frame for a branch, built at the current insertion point, in which these symbols have other names, local to the branch.

    Values that it reads from the surrounding graph have these sizes there. Where the branch begins, their numbers are read, and the assumptions about
    them are checked.
    """
    own = {name: b.symbols.fresh(name) for name in names}
    b.bind_sizes(b.sizes(values=tuple(map(symbol, names))), sizes=tuple(own.values()))
    renamed = {name: str(size) for name, size in own.items()}
    inner = Frame(frame.opsets, frame, prefix=frame.prefix, owner=frame.owner, attributes=frame.attributes)
    for name in sorted(set().union(*map(names_read, graph.node), (value.name for value in graph.output))):
        value = frame.lookup(name) if name and frame.has(name) else None
        if not isinstance(value, ir.Value) or set(names).isdisjoint(_symbols(value)):
            continue
        sizes = [size.renamed(renamed) if isinstance(size, Size) else size for size in dims_of(value)]
        inner.values[name] = b.with_shape(value, sizes)
        if frame.is_tainted(name):
            inner.tainted.add(name)
    return inner


def _symbols(value: ir.Value) -> set[str]:
    return {name for size in type_of(value).shape if isinstance(size, Size) for name in size.symbols}
