"""The inputs of values that are unknown at compile time: the arguments of @main they depend on, and whether they need sizes of arguments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Dim, Size
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.known import KnownValues


@dataclass(frozen=True)
class Origins:
    """The inputs that determine a value."""

    arguments: frozenset[ir.Value] = frozenset()
    sizes: bool = False
    """Whether sizes of arguments are needed."""
    by_data: bool = False
    """Whether an intermediate op has a result whose size depends on data."""

    def __bool__(self) -> bool:
        """Whether any input is needed."""
        return bool(self.arguments) or self.sizes

    def __or__(self, other: "Origins") -> "Origins":
        return Origins(self.arguments | other.arguments, self.sizes or other.sizes, self.by_data or other.by_data)


NOTHING = Origins()


class OriginFinder:
    """Finds the inputs of values through ops that are evaluated at compile time (`KnownValues`) if their operands are known."""

    def __init__(self, known: KnownValues, of_symbol: Callable[[str], Origins | None]) -> None:
        """`of_symbol` returns the origins of a symbol; None if the symbol does not come from arguments alone."""
        self.known = known
        self.block: ir.Block | None = None
        """The block whose arguments are the inputs."""
        self._of_symbol = of_symbol
        self._found: dict[ir.Value, Origins | None] = {}

    def origins_of(self, value: ir.Value) -> Origins | None:
        """The origins of a value; None if it also depends on something else. Uses an explicit stack."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            op = None if current in self._found else self._op(current)
            missing = [] if op is None else [o for o in op.operands if o not in self._found]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if current not in self._found:
                self._found[current] = self._leaf(current) if op is None else self._made(op)
        return self._found[value]

    def release(self) -> None:
        """Forget all cached results."""
        self._found.clear()

    def of_sizes(self, sizes: Sequence[Dim]) -> Origins | None:
        """The origins of a list of sizes."""
        return self._joined([None if s is None else self._of_symbol(name) for s in sizes if not isinstance(s, int) for name in self._names(s)])

    def _made(self, op: Any) -> Origins | None:
        found = self._joined([self._found[operand] for operand in op.operands])
        unknown = any(self.of_sizes(t.shape) is None for t in op.opview.result_types())
        return found | Origins(by_data=True) if found is not None and unknown else found

    def _names(self, size: Dim) -> Sequence[str]:
        return size.symbols if isinstance(size, Size) else ("",)

    def _op(self, value: ir.Value) -> Any:
        """The op whose operands determine the value; None for a leaf."""
        op = defining_op(value)
        view = None if op is None else op.opview
        if op is None or not isinstance(view, GraphOp) or not len(op.operands) or op.name == "graph.shape_of" or len(op.regions):
            return None
        too_large = any(t.is_static and t.elements > self.known.limit for t in view.result_types())
        return None if type(view).reference is None or too_large or self.known.value(value) is not None else op

    def _leaf(self, value: ir.Value) -> Origins | None:
        if self.known.value(value) is not None:
            return NOTHING
        op = defining_op(value)
        if op is None:
            inside = self.block is not None and value in self.block.arguments
            return Origins(frozenset([value])) if inside else None
        if op.name == "graph.sizes":
            return self.of_sizes(op.opview.attribute_values()["values"])
        return self.of_sizes(type_of(op.operands[0]).shape) if op.name == "graph.shape_of" else None

    def _joined(self, parts: Sequence[Origins | None]) -> Origins | None:
        found = NOTHING
        for part in parts:
            if part is None:
                return None
            found |= part
        return found
