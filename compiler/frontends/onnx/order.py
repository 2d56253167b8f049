"""The topological order of the nodes of a graph, and the names that nodes read."""

import heapq
from collections.abc import Collection, Iterator, Sequence

from onnx import GraphProto, NodeProto

from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.onnx.walking import subgraphs

SHOWN = 8  # the largest number of named nodes of a cycle


def sorted_nodes(nodes: Sequence[NodeProto], given: Collection[str] = ()) -> tuple[list[int], tuple[NodeProto, str] | None]:
    """The indices of nodes in the topological order that is closest to the given order.

    Also returns, if they are not sorted, the first node that comes too early, with the name that it reads. A node depends on the outside values of
    graphs inside it. Names that are `given`, or that no node produces, come from elsewhere. The algorithm is Kahn's (1962), with the ready nodes in a
    heap by their position: O((n + names) log n). Raises ModelError, naming nodes, for a cycle.
    """
    maker: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if name and name not in given:
                maker.setdefault(name, i)
    early: tuple[NodeProto, str] | None = None
    users: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for i, node in enumerate(nodes):
        for name in dict.fromkeys(names_read(node)):
            before = maker.get(name)
            if before is None:
                continue
            if before >= i and early is None:
                early = (node, name)
            users[before].append(i)
            missing[i] += 1
    if early is None:
        return list(range(len(nodes))), None
    ready = [i for i, count in enumerate(missing) if count == 0]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for user in users[i]:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        raise ModelError(f"nodes depend on each other in a circle: {_circle(nodes, maker, missing)}")
    return order, early


def names_read(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, itself or in graphs inside it, without those that these graphs define."""
    yield from (name for name in node.input if name)
    waiting: list[tuple[GraphProto, frozenset[str]]] = [(graph, frozenset()) for graph in subgraphs(node)]
    while waiting:
        graph, around = waiting.pop()
        own = [*(v.name for v in graph.input), *(t.name for t in graph.initializer), *(t.values.name for t in graph.sparse_initializer)]
        known = around | frozenset([*own, *(name for inner in graph.node for name in inner.output)])
        for inner in graph.node:
            yield from (name for name in inner.input if name and name not in known)
            waiting += [(below, known) for below in subgraphs(inner)]
        yield from (value.name for value in graph.output if value.name and value.name not in known)


def _circle(nodes: Sequence[NodeProto], maker: dict[str, int], missing: Sequence[int]) -> str:
    """The nodes of one cycle among those with missing operands, from one to the one that reads its result, and back to the first."""
    start = next(i for i, count in enumerate(missing) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while start not in seen:  # back from user to producer: a missing value has a producer with a missing operand itself
        seen[start] = len(path)
        path.append(start)
        start = next(m for m in (maker.get(name) for name in names_read(nodes[start])) if m is not None and missing[m])
    around = path[seen[start] :][::-1]
    texts = [f'{nodes[i].op_type} "{nodes[i].name}"' for i in (*around, around[0])]
    return " -> ".join(texts if len(texts) <= SHOWN else [*texts[: SHOWN - 1], f"… ({len(around)} nodes)"])
