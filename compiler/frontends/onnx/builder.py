"""The builder for importer rules: the builder of front ends plus information about the node being imported."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from onnx import GraphProto

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.support.limits import Budget
from stepwell.frontends.builder import ModelBuilder
from stepwell.frontends.symbols import Symbols

ImportGraph = Callable[[GraphProto, Sequence[Any]], tuple[Any, ...]]  # values as in sequences.py, tensors and others
Attempt = Callable[[Callable[[], Any]], Any]
ImportBranches = Callable[[Sequence[tuple[ir.Block, GraphProto]]], list[Any]]


@dataclass(frozen=True)
class NodeContext:
    """The node being imported: its opset, and the name and ONNX-inferred type of each output."""

    opset: int
    output_names: tuple[str, ...]
    output_types: tuple[TensorType | None, ...]
    import_graph: ImportGraph
    attempt: Attempt
    """Calls a function and returns its result, or None if it failed or some node inside was not imported: then nothing is left of it."""
    import_branches: ImportBranches
    """Like `import_graph` for two graphs, each at the end of its block: the values, or why one cannot be valid although the other can."""

    @property
    def output_count(self) -> int:
        """The number of outputs of the node, up to the last one with a name."""
        return max((i + 1 for i, name in enumerate(self.output_names) if name), default=0)


class NotResolvedError(UnsupportedError):
    """Something is unsupported only because branches and iterations around it are decided at run time."""


class ImportBuilder(ModelBuilder):
    """The builder that every importer rule gets as its first argument; `node` describes the node being imported."""

    node: NodeContext

    def __init__(self, weights: WeightTable, budget: Budget, symbols: Symbols) -> None:
        super().__init__(weights, budget, symbols)
        self.node = NodeContext(0, (), (), lambda graph, arguments: (), lambda build: build(), lambda branches: [() for _ in branches])

    @contextmanager
    def at_node(self, node: NodeContext) -> Iterator[None]:
        """Make `node` the current node inside the block."""
        before, self.node = self.node, node
        try:
            yield
        finally:
            self.node = before

    @property
    def value_name(self) -> str:
        return next(filter(None, self.node.output_names), "size")

    @property
    def has_declared_results(self) -> bool:
        return bool(self.node.output_types) and all(t is not None and t.is_static for t in self.node.output_types)
