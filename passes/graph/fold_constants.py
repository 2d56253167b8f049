"""The pass that evaluates, at compile time, everything that depends on constants and weights only."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.errors import PassError, StepwellError
from stepwell.dialects.graph import GraphBuilder, GraphOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.mlir import ir
from stepwell.dialects.types import TensorType, from_numpy, type_of
from stepwell.passes.graph.matching import is_used, new_weight
from stepwell.passes.registry import Declined, Pass, PassState, register_pass
from stepwell.passes.rewriting import ops_below


@register_pass("fold-constants", level="graph")
@dataclass
class FoldConstants(Pass):
    """Evaluate ops whose operands are all known, by their reference meaning.

    rewrite: f(constants and parameters)  -> constant, or a parameter with a new entry of the weight table
    rewrite: shape_of(x of static shape)  -> constant

    Transpositions, reshapes and casts of weights are thus done once, at compile time. What would make the weights much larger, or
    take long, is left to run time.
    """

    max_bytes: int = 1 << 20  # a larger result is folded only if it is not much larger than its operands
    max_growth: int = 8  # how many times larger than its operands such a result may be (a cast from i8 to f64 is 8)
    max_operations: int = 1 << 31  # arithmetic operations that one folding may take

    def run(self, op: ir.Operation, state: PassState) -> None:
        known: dict[ir.Value, np.ndarray] = {}
        source: dict[ir.Value, ir.Value] = {}  # the parameter that a folded value derives its name from
        folded: list[ir.Operation] = []
        leaves: list[ir.Operation] = []
        for inner in ops_below(op):
            view = inner.opview
            if not isinstance(view, GraphOp) or len(inner.regions):
                continue
            arrays = self._evaluate(view, known, state)
            if arrays is None:
                continue
            known.update(zip(inner.results, arrays, strict=True))
            if not len(inner.operands):
                leaves.append(inner)
                if inner.name == "graph.parameter":
                    source[inner.results[0]] = inner.results[0]
            else:
                folded.append(inner)
                named = next((source[v] for v in inner.operands if v in source), None)
                if named is not None:
                    source.update(dict.fromkeys(inner.results, named))
        # In reverse, so that a folded op's users that are folded too are gone, and only what is still used becomes a constant.
        for inner in reversed(folded):
            for result in inner.results:
                if is_used(result):
                    with ir.InsertionPoint(inner), inner.location:
                        result.replace_all_uses_with(new_weight(GraphBuilder(state.weights), source.get(result), known[result]))
            inner.erase()
        for leaf in leaves:
            if not is_used(leaf.results[0]):
                leaf.erase()
        state.count(self.name, len(folded))

    def _evaluate(self, view: GraphOp, known: dict[ir.Value, np.ndarray], state: PassState) -> tuple[np.ndarray, ...] | None:
        """The op's result arrays, or None if they are not known or should not be."""
        op = view.operation
        if op.name == "graph.constant":
            return view.evaluate([])
        if op.name == "graph.parameter":
            array = state.weights.get(op.attributes["id"].value)
            return None if array is None else (array,)
        if op.name == "graph.shape_of" and type_of(op.operands[0]).is_static:
            return (np.array(type_of(op.operands[0]).shape, dtype=np.int64),)
        if not len(op.operands) or any(v not in known for v in op.operands):
            return None
        reason = self._objection(view, known)
        if reason is None:
            try:
                arrays = view.evaluate(map_groups(known.__getitem__, view.operand_groups()))
            except StepwellError as error:
                reason = f"its evaluation fails: {error.args[0]}"
            except Exception as error:
                raise PassError(f"pass '{self.name}': evaluating '{op.name}' at {op.location}: {type(error).__name__}: {error}") from error
            else:
                if all(fits(a, t) for a, t in zip(arrays, view.result_types(), strict=True)):
                    return arrays
                reason = "its result's shape is not static in the IR"
        state.declined.append(Declined(self.name, op.name, str(op.location), reason))
        return None

    def _objection(self, view: GraphOp, known: dict[ir.Value, np.ndarray]) -> str | None:
        """Why not to fold an op with known operands; None if nothing speaks against it."""
        if type(view).reference is None:
            return "it has no reference meaning"
        types = view.result_types()
        if not all(t.is_static for t in types):
            return "its result's shape is not static in the IR"
        made, given = sum(t.bytes for t in types), sum(known[v].nbytes for v in set(view.operation.operands))
        if made > self.max_bytes and made > self.max_growth * given:
            return f"it makes {made} bytes of {given}: more than max-growth={self.max_growth} times as many, and above max-bytes={self.max_bytes}"
        work = operations(view)
        if work > self.max_operations:
            return f"it takes {work} operations, more than max-operations={self.max_operations}"
        return None


def operations(view: GraphOp) -> int:
    """The arithmetic of an op of static types."""
    types = view.result_types()
    count: Any = type(view).flops(*view.operand_types(), result=types[0], **view.attribute_values())
    return int(count)


def fits(array: np.ndarray, expected: TensorType) -> bool:
    """Whether an array is exactly of a type."""
    return TensorType(from_numpy(array.dtype), array.shape) == expected
