"""The report of `--explain`: what passes did to each ONNX node, what they declined, and why."""

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.support.errors import InputError
from stepwell.passes.framework.decisions import Decision, Decisions
from stepwell.passes.framework.instrumentation import Instrumentation
from stepwell.passes.framework.pipeline import Step
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.rewriting import functions

SHOWN_NODES = 6  # the largest number of shown nodes that share a kernel


class Explanation(Instrumentation):
    """Collects the decisions of the passes that it observes, and reports them node by node and kernel by kernel.

    A node is an ONNX node's name or, in hand-written IR, a position in its text. Decisions inside kernels are reported by kernel, since a kernel may
    compute several groups of nodes.
    """

    def __init__(self) -> None:
        self.decisions = Decisions()
        self.kernels: dict[str, list[str]] = {}
        """The nodes that each kernel computes, in order of its launches."""
        self._nodes: list[str] = []

    def begin(self, state: PassState) -> None:
        state.decisions = self.decisions

    def before(self, step: Step, module: ir.Module, level: str | None, rest: str) -> None:
        self._learn(module)

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        self._learn(module)

    @property
    def nodes(self) -> list[str]:
        """All nodes with decisions, in the model's order."""
        known = dict.fromkeys([*self._by_node(), *(node for nodes in self.kernels.values() for node in nodes)])
        return list(dict.fromkeys([*(node for node in self._nodes if node in known), *known]))

    def matching(self, name: str) -> tuple[list[str], list[str]]:
        """The nodes, and the kernels, that match `name`: a name, or a pattern like `layer1_*`. Raises InputError if there is none."""
        sides = [[n for n in names if n == name or fnmatchcase(n, name)] for names in (self.nodes, list(self.kernels))]
        if not any(sides):
            known = [*self.nodes, *self.kernels]
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else f"; there are: {', '.join(known[:20])}{', …' if len(known) > 20 else ''}"
            raise InputError(f"there is no node or kernel '{name}'{hint}")
        return sides[0], sides[1]

    def text(self, name: str = "") -> str:
        """The decisions about the nodes that match `name` (see `matching`) and their kernels; about all nodes without a name."""
        nodes, kernels = (self.nodes, list(self.kernels)) if not name else self.matching(name)
        wanted = set(nodes)
        inside = [kernel for kernel, own in self.kernels.items() if not wanted.isdisjoint(own)]
        lines: list[str] = []
        decisions, homes = self._by_node(), self._homes()
        for node in nodes:
            outside = [d for d in decisions.get(node, []) if d.kernel is None]
            lines += [node, *_lines(outside), *(f"  in kernel {kernel}" for kernel in homes.get(node, [])), ""]
        for kernel in dict.fromkeys([*kernels, *inside]):
            of = self.kernels[kernel]
            more = f" and {len(of) - SHOWN_NODES} more" if len(of) > SHOWN_NODES else ""
            lines += [f"kernel {kernel}, of {', '.join(of[:SHOWN_NODES])}{more}", *_lines([d for d in self.decisions if d.kernel == kernel]), ""]
        return "\n".join(lines)

    def _by_node(self) -> dict[str, list[Decision]]:
        """The decisions about each node."""
        found: dict[str, list[Decision]] = {}
        for decision in self.decisions:
            for node in subjects(decision.location):
                found.setdefault(node, []).append(decision)
        return found

    def _homes(self) -> dict[str, list[str]]:
        """The kernels that compute each node."""
        found: dict[str, list[str]] = {}
        for kernel, nodes in self.kernels.items():
            for node in nodes:
                found.setdefault(node, []).append(kernel)
        return found

    def _learn(self, module: Any) -> None:
        """Record the names of nodes and, once there are kernels, which kernels compute them."""
        self._nodes = self._nodes or list(ModuleInfo(module).nodes)
        if self.kernels or not any(KernelInfo(f).is_kernel for f in functions(module.operation)):
            return
        found: dict[str, dict[str, None]] = {}
        for function in functions(module.operation):
            if not KernelInfo(function).is_kernel:
                for callee, location in _calls(function.operation):
                    found.setdefault(callee, {}).update(dict.fromkeys(subjects(location)))
        self.kernels = {kernel: list(nodes) for kernel, nodes in found.items()}


def subjects(location: ir.Location) -> list[str]:
    """The subjects of a decision at a location: the nodes that it names, else the position in the text."""
    return node_names(location) or [str(location).removeprefix("loc(").removesuffix(")").replace('"', "")]


def _calls(function: ir.Operation) -> Iterator[tuple[str, ir.Location]]:
    for block in function.regions[0].blocks if len(function.regions) else ():
        for op in block.operations:
            if op.operation.name == "func.call":
                yield ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value, op.operation.location


def _lines(decisions: Sequence[Decision]) -> list[str]:
    counts = Counter(f"  {'did     ' if d.done else 'declined'}  {_who(d)}, {d.op}: {d.what}" for d in decisions)
    return [f"{line}{f' ({count} times)' if count > 1 else ''}" for line, count in counts.items()]


def _who(decision: Decision) -> str:
    return decision.run if decision.by == decision.run else f"{decision.run}/{decision.by}"
