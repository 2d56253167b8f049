"""The pass that evaluates, at compile time, ops that depend only on constants and weights."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from stepwell.dialects.core.mlir import ir, ops_below, users
from stepwell.dialects.core.types import TensorType, from_numpy, is_float, to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder, GraphOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.known import operations
from stepwell.dialects.graph.quantization import DequantizeOp
from stepwell.dialects.graph.traits import JoinsData, MovesData
from stepwell.dialects.support.errors import PassError, StepwellError
from stepwell.dialects.support.origins import plugin_line
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.graph.integer_products import multiplies_rows
from stepwell.passes.graph.matching import has_one_use, is_used, moves_by_place, new_weight, states


@register_pass("fold-constants", level="graph")
class FoldConstants(Pass):
    """Evaluate ops whose operands are all known, by their reference implementation.

    rewrite: f(constants and parameters)  -> constant, or a parameter with a new entry of the weight table
    rewrite: shape_of(x of static shape)  -> constant
    rewrite: anything without elements    -> constant

    Thus transpositions, reshapes and casts of weights are done once, at compile time. An op is left to run time if folding it would make the weights
    much larger, take long, or exceed the model's limits of bytes and operations (docs/reference/limits.md).
    """

    numbers: bool = False  # also convert low-bit weights to floats, which a product could read directly (pack-matmul)
    max_bytes: int = 1 << 20  # a larger result is folded only if it is not much larger than its operands
    max_growth: int = 8  # how many times larger than its operands such a result may be (a cast from i8 to f64 is 8)
    max_operations: int = 1 << 31  # arithmetic operations that one folding may take

    def run(self, op: ir.Operation, state: PassState) -> None:
        folding = _Folding(self, state)
        folded: list[ir.Operation] = []
        leaves: list[ir.Operation] = []
        for inner in ops_below(op):
            view = inner.opview
            if not isinstance(view, GraphOp) or len(inner.regions):
                continue
            if inner.name in LEAVES:
                if folding.add_leaf(inner):
                    leaves.append(inner)
            elif folding.fold(view):
                folded.append(inner)
        # In reverse: the folded users of a folded op are then already gone, so that only values still in use become constants.
        for inner in reversed(folded):
            for result in inner.results:
                if is_used(result):
                    with ir.InsertionPoint(inner), inner.location:
                        array = folding.known[result]()
                        result.replace_all_uses_with(new_weight(GraphBuilder(state.weights), folding.source.get(result), array))
            inner.erase()
        for leaf in leaves:
            if not is_used(leaf.results[0]):
                leaf.erase()
        state.count(self.name, len(folded))


LEAVES = ("graph.constant", "graph.parameter")
_ROUNDED_ALIKE = frozenset(
    f"graph.{name}" for name in (
        "abs", "add", "bit_cast", "cast", "ceil", "clamp", "dequantize", "div", "fake_quantize", "first", "floor", "leaky_relu", "maximum", "minimum",
        "mul", "neg", "quantize", "range", "reciprocal", "reduce_max", "reduce_min", "relu", "round", "select", "sign", "sqrt", "sub",
    )
)  # fmt: skip
"""The ops of floats, besides moves, whose references give the same bits on every machine: numpy's other functions and its products differ."""


class _Folding:
    """The state of one run of the pass: known arrays (or how to get them) of values that may still be needed."""

    def __init__(self, options: FoldConstants, state: PassState) -> None:
        self.options = options
        self.state = state
        self.known: dict[ir.Value, Callable[[], np.ndarray]] = {}
        self.source: dict[ir.Value, ir.Value] = {}  # the parameter from which a folded value derives its name
        self.uses: dict[ir.Value, int] = {}  # uses of known values by ops that are not folded

    def add_leaf(self, op: ir.Operation) -> bool:
        """Record the value of a constant or a parameter; False if it is not known. A weight is not loaded before it is needed."""
        view, weights = op.opview, self.state.weights
        result = op.results[0]
        if op.name == "graph.constant":
            self._learn(result, lambda: view.evaluate([])[0])
            return True
        entry = op.attributes["id"].value
        if entry not in weights:
            return False
        self._learn(result, lambda: weights[entry])
        self.source[result] = result
        return True

    def fold(self, view: GraphOp) -> bool:
        """Evaluate an op if its operands are known and no limit is exceeded; returns whether it did."""
        op = view.operation
        if op.name == "graph.shape_of" and type_of(op.operands[0]).is_static:
            shape = np.array(type_of(op.operands[0]).shape, dtype=np.int64)
            self._learn(op.results[0], lambda: shape)
            return True
        if len(op.operands) and len(op.results) and all(t.is_static and 0 in t.shape for t in view.result_types()):
            for result, kind in zip(op.results, view.result_types(), strict=True):
                self._learn(result, partial(np.empty, kind.static_shape, to_numpy(kind.dtype)))
            return True
        if not len(op.operands) or any(v not in self.known for v in op.operands):
            return False
        dying = [v for v, count in Counter(op.operands).items() if self.uses[v] == count]
        freed = sum(type_of(v).bytes for v in dying)
        arrays = self._objection(view, freed) or self._evaluated(view)
        if isinstance(arrays, NoMatch):
            self.state.decline(self.options.name, op, arrays)
            return False
        self.state.did(self.options.name, op, "evaluated now")
        self.state.budget.spend(sum(t.bytes for t in view.result_types()), operations(view), freed)
        for value in op.operands:
            self.uses[value] -= 1
        for value in dying:
            del self.known[value]
        named = next((self.source[v] for v in op.operands if v in self.source), None)
        for result, array in zip(op.results, arrays, strict=True):
            self._learn(result, partial(np.asarray, array))
            if named is not None:
                self.source[result] = named
        return True

    def _learn(self, value: ir.Value, get: Callable[[], np.ndarray]) -> None:
        self.known[value] = get
        self.uses[value] = sum(1 for _ in value.uses)

    def _evaluated(self, view: GraphOp) -> Sequence[np.ndarray] | NoMatch:
        """The results of an op, or why it is not folded after all."""
        op, name = view.operation, self.options.name
        try:
            arrays = view.evaluate(map_groups(lambda v: dense(self.known[v]()), view.operand_groups()))
        except StepwellError as error:
            return NoMatch(f"its evaluation fails: {error.args[0]}")
        except Exception as error:
            raise PassError(f"pass '{name}': evaluating '{op.name}' at {op.location}: {type(error).__name__}: {error}{plugin_line(error)}") from error
        if not all(fits(a, t) for a, t in zip(arrays, view.result_types(), strict=True)):
            return NoMatch("its result's shape is not static in the IR")
        return arrays

    def _objection(self, view: GraphOp, freed: int) -> NoMatch | None:
        """Why not to fold an op with known operands, `freed` bytes of which only it uses; None if it may be folded."""
        if type(view).reference is None:
            return NoMatch("it has no reference meaning")
        types, options = view.result_types(), self.options
        if not all(t.is_static for t in types):
            return NoMatch("its result's shape is not static in the IR")
        if not options.numbers and isinstance(view, DequantizeOp) and feeds_products(view.operation.results[0]):
            return NoMatch("a product reads it, which may take the numbers as they are (pack-matmul)")
        if self.state.machine.reproducible and any(is_float(t.dtype) for t in types) and not is_rounded_alike(view):
            return NoMatch("the result would depend on the numpy of the compiling machine, and it is to be the same everywhere")
        made, given = sum(t.bytes for t in types), sum(type_of(v).bytes for v in set(view.operation.operands))
        if made > options.max_bytes and made > options.max_growth * given:
            growth = f"more than max-growth={options.max_growth} times as many, and above max-bytes={options.max_bytes}"
            return NoMatch(f"it makes {made} bytes of {given}: {growth}")
        work = operations(view)
        if work > options.max_operations:
            return NoMatch(f"it takes {work} operations, more than max-operations={options.max_operations}")
        beyond = self.state.budget.objection(made, work, freed)
        return None if beyond is None else NoMatch(beyond)


def dense(array: np.ndarray) -> np.ndarray:
    """`array` itself, or a copy if it repeats its elements: numpy multiplies matrices with such strides without BLAS."""
    return np.ascontiguousarray(array) if array.ndim and 0 in array.strides else array


def is_rounded_alike(view: GraphOp) -> bool:
    """Whether numpy evaluates an op with the same bits on every machine."""
    return view.operation.name in _ROUNDED_ALIKE or states(view.operation, MovesData) or states(view.operation, JoinsData)


def fits(array: np.ndarray, expected: TensorType) -> bool:
    """Whether an array has exactly the expected type."""
    return TensorType(from_numpy(array.dtype), array.shape) == expected


def feeds_products(value: ir.Value) -> bool:
    """Whether a matrix, perhaps moved, is the right-hand side of products alone."""
    readers = users(value)
    if not readers:
        return False
    for reader in readers:
        if multiplies_rows(reader.opview):
            if reader.operands[1] != value or reader.operands[0] == value or type_of(value).rank != 2:
                return False
        elif not moves_by_place(reader) or not has_one_use(value) or not feeds_products(reader.results[0]):
            return False
    return True
