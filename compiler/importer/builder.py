"""The builder for importer rules: the graph builder plus information about the node being imported."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import GraphProto

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import MAX_RANK, TensorType, to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph.base import GraphOp, map_groups
from stepwell.dialects.graph.builder import GraphBuilder
from stepwell.dialects.graph.known import KnownValues
from stepwell.dialects.support.errors import LimitError, ModelError, UnsupportedError
from stepwell.dialects.support.limits import Budget, how_to

LONGEST_LIST = 1 << 20  # of sizes, axes, parts of a split
Value = ir.Value
ImportGraph = Callable[[GraphProto, Sequence[Value]], tuple[Value, ...]]


@dataclass(frozen=True)
class NodeContext:
    """The node being imported: its opset, and the name and ONNX-inferred type of each output."""

    opset: int
    output_names: tuple[str, ...]
    output_types: tuple[TensorType | None, ...]
    import_graph: ImportGraph

    @property
    def output_count(self) -> int:
        """How many outputs the node has, up to the last one with a name."""
        return max((i + 1 for i, name in enumerate(self.output_names) if name), default=0)


class NotConstantError(UnsupportedError):
    """An operand must be known at compile time and is not."""


class ImportBuilder(GraphBuilder):
    """The builder that every importer rule gets as its first argument; `node` describes the node being imported."""

    node: NodeContext

    if TYPE_CHECKING:  # nearly every op has one result: say so, where the base class says Any

        def __getattr__(self, mnemonic: str) -> Callable[..., Value]: ...

    def __init__(self, weights: WeightTable, budget: Budget) -> None:
        super().__init__(weights)
        self.budget = budget
        self.known_values = KnownValues(weights, budget=budget)
        self.node = NodeContext(0, (), (), lambda graph, arguments: ())

    @contextmanager
    def at(self, node: NodeContext) -> Iterator[None]:
        """Make `node` the current node inside the block."""
        before, self.node = self.node, node
        try:
            yield
        finally:
            self.node = before

    def create(self, cls: type[GraphOp], operands: Any, attributes: dict[str, Any], result_types: list[TensorType] | None = None) -> GraphOp:
        """Like GraphBuilder.create; raises LimitError if a result would be too large, UnsupportedError if it has too many dimensions."""
        if result_types is None and cls.infer is not None:
            inferred = cls.infer(*map_groups(type_of, [list(o) if isinstance(o, (list, tuple)) else o for o in operands]), **attributes)
            result_types = list(inferred) if isinstance(inferred, tuple) else [inferred]
        for result in result_types or ():
            self.check_size(result)
        return super().create(cls, operands, attributes, result_types)

    def constant_value(self, value: Value) -> np.ndarray | None:
        """Like GraphBuilder.constant_value, within the budget. Results are cached, since the importer never changes an op that it built."""
        return self.known_values.value(value)

    def unroll(self, rounds: int, nodes: int) -> str | None:
        """Charge the budget for unrolling `rounds` rounds of `nodes` nodes, inner loops excluded. Returns the reason if it is exceeded."""
        limit, spent = self.budget.limits.unrolled_operations, self.budget.unrolled
        if spent + rounds * nodes > limit:
            what = f"unrolling its {rounds} rounds of {nodes} nodes"
            return f"{what} would take {rounds * nodes} of the {limit - spent} nodes left for loops ({how_to('unrolled_operations')})"
        self.budget.unrolled += max(rounds, 0) * nodes
        return None

    def check_size(self, tensor: TensorType) -> None:
        """Raise LimitError if a tensor would be too large (dynamic dimensions count as one), UnsupportedError if it has too many dimensions."""
        if tensor.rank > MAX_RANK:
            raise UnsupportedError(f"a value of {tensor.rank} dimensions is not supported; supported: up to {MAX_RANK}")
        size = to_numpy(tensor.dtype).itemsize
        for dim in tensor.shape:
            size *= 1 if dim is None else dim
        limit = self.budget.limits.value_bytes
        if max(size, *(dim or 0 for dim in tensor.shape), 0) > limit:
            raise LimitError(f"a value of type {tensor} would take {size} bytes; at most {limit} are accepted ({how_to('value_bytes')})")

    def known(self, value: Value, what: str) -> np.ndarray:
        """The array that an operand holds. Raises NotConstantError, naming the operand as `what`, if it is not known."""
        array = self.constant_value(value)
        if array is None:
            objection = self.known_values.objection(value)
            if objection is not None:
                raise LimitError(f"{what} must be known at compile time, but {objection}")
            raise NotConstantError(f"{what} computed at run time is not supported; supported: {what} known at compile time")
        return array

    def known_ints(self, value: Value, what: str) -> tuple[int, ...]:
        """Like `known`, for a list of integers; a scalar counts as a list of one. Raises ModelError if it is absurdly long."""
        return listed(self.known(value, what), what)

    def known_scalar(self, value: Value, what: str) -> Any:
        """Like `known`, for a single element. Raises ModelError unless there is exactly one."""
        array = self.known(value, what)
        if array.size != 1:
            raise ModelError(f"{what} must have one element, got shape {list(array.shape)}")
        return array.reshape(()).item()

    def scalar(self, number: Any, like: Value) -> Value:
        """A literal of rank 0 with the element type of `like`."""
        return self.literal(np.asarray(number).astype(to_numpy(type_of(like).dtype)))

    def convert(self, x: Value, dtype: str) -> Value:
        """`x` cast to an element type, or `x` itself if it has that type."""
        return x if type_of(x).dtype == dtype else self.cast(x, to=dtype, saturate=True)

    def with_shape(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` reshaped to static sizes, or `x` itself if it has that shape."""
        return x if type_of(x).shape == tuple(shape) else self.reshape(x, shape=tuple(shape))

    def transposed(self, x: Value, perm: Sequence[int]) -> Value:
        """`x` with its dimensions permuted, or `x` itself if they stay in place."""
        return x if list(perm) == list(range(len(perm))) else self.transpose(x, perm=tuple(perm))


def listed(array: np.ndarray, what: str) -> tuple[int, ...]:
    """The integers of an array of sizes, axes and the like. Raises ModelError if it is absurdly long."""
    if array.size > LONGEST_LIST:
        raise ModelError(f"{what} must be a list of at most {LONGEST_LIST} integers, got {array.size}")
    return tuple(int(i) for i in array.reshape(-1))


def normalized_axis(axis: int, rank: int, what: str = "axis") -> int:
    """An axis counted from the front. Raises ModelError if a tensor of that rank has no such axis."""
    if not -rank <= axis < rank:
        raise ModelError(f"{what} must be from {-rank} to {rank - 1} for a tensor of rank {rank}, got {axis}")
    return axis % rank


def normalized_axes(axes: Sequence[int], rank: int, what: str = "axes") -> tuple[int, ...]:
    """Axes counted from the front, ascending. Raises ModelError if an axis does not exist or is repeated."""
    out = sorted(normalized_axis(axis, rank, what) for axis in axes)
    if len(set(out)) != len(out):
        raise ModelError(f"{what} names an axis twice: {list(axes)}")
    return tuple(out)


def static_dims(value: Value, what: str) -> tuple[int, ...]:
    """The static shape of `value`. Raises UnsupportedError, naming it as `what`, if a dimension is dynamic."""
    shape = type_of(value).shape
    if any(d is None for d in shape):
        raise UnsupportedError(
            f"{what} of the dynamic type {type_of(value)} is not supported; supported: a static shape (fix the model's inputs with shapes=)"
        )
    return tuple(d for d in shape if d is not None)
