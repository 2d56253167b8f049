"""The builder of front ends: the graph builder with symbols for dynamic dimensions, known values, and limits."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Dim, Size, holds, is_static
from stepwell.dialects.core.types import MAX_RANK, TensorType, dims_of as dims_of, is_compact, to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph.base import GraphOp, map_groups, takes_result_types
from stepwell.dialects.graph.builder import GraphBuilder
from stepwell.dialects.graph.callbacks import inferred_types
from stepwell.dialects.graph.data_sizes import BindSizesOp
from stepwell.dialects.graph.known import KnownValues
from stepwell.dialects.graph.origins import OriginFinder, Origins
from stepwell.dialects.graph.symbolic import SymbolicValues
from stepwell.dialects.support.errors import LimitError, ModelError, StepwellError, UnsupportedError
from stepwell.dialects.support.limits import Budget, how_to
from stepwell.frontends.symbols import Symbols

FEW = 64  # the largest number of elements of an input that may be sizes
LONGEST_LIST = 1 << 20  # of sizes, axes, parts of a split
Value = ir.Value


class NotConstantError(UnsupportedError):
    """An operand, or sizes, must be known at compile time but are not."""

    def __init__(self, message: str, *, operand: Value | None = None, sizes: Sequence[Dim] = (), origins: Origins | None = None) -> None:
        """The node could be imported if `operand`, or `sizes`, or the inputs in `origins` were known."""
        super().__init__(message)
        self.operand, self.sizes, self.origins = operand, tuple(sizes), origins


def _elements_of(symbols: Symbols, inputs: Mapping[Value, str], elements: dict[Value, list[Size]], argument: Value) -> list[Size] | None:
    """The symbols of the elements of an input, kept in `elements`; None if it has none."""
    if argument not in elements and argument in inputs:
        made = symbols.of_elements(inputs[argument], argument, type_of(argument))
        if made is not None:
            elements[argument] = made
    return elements.get(argument)


class ModelBuilder(GraphBuilder):
    """Builds the ops of a model that is being imported. Every dimension is a number or has a symbol; results are checked against the limits."""

    if TYPE_CHECKING:  # nearly every op has one result; the base class has Any

        def __getattr__(self, mnemonic: str) -> Callable[..., Value]: ...

    def __init__(self, weights: WeightTable, budget: Budget, symbols: Symbols) -> None:
        super().__init__(weights)
        self.symbols = symbols
        self.budget = budget
        self.known_values = KnownValues(weights, budget=budget)
        self.inputs: dict[Value, str] = {}
        """The names of the inputs, by the arguments that they are."""
        self.elements: dict[Value, list[Size]] = {}
        """The symbols of the elements of inputs, as far as they were asked for."""
        self.symbolic = SymbolicValues(self.known_values, partial(_elements_of, symbols, self.inputs, self.elements))  # avoids a cycle
        self._bound: dict[tuple[ir.Block, Value], tuple[Size, ...]] = {}
        self.origins = OriginFinder(self.known_values, self.symbols.origins)

    @property
    def value_name(self) -> str:
        """The name on which symbols for sizes of the current value are based."""
        return "size"

    @property
    def has_declared_results(self) -> bool:
        """Whether the model declares static sizes for the current results: then symbols for elements of inputs are not used for them."""
        return False

    def create(self, cls: type[GraphOp], operands: Any, attributes: dict[str, Any], result_types: list[TensorType] | None = None) -> GraphOp:
        """Like GraphBuilder.create; raises LimitError if a result would be too large, UnsupportedError if it has too many dimensions.

        Data-dependent sizes are those that follow from the data, if these are known.
        """
        if result_types is None and cls.infer is not None:
            groups = [list(o) if isinstance(o, (list, tuple)) else o for o in operands]
            result_types = list(inferred_types(cls, map_groups(type_of, groups), attributes))
            if not all(t.is_static for t in result_types):
                result_types = self._sized_by_data(cls, groups, attributes, result_types)
        if result_types is not None:
            name = self.value_name
            result_types = [self.symbols.completed(name, result) for result in result_types]
            for result in result_types:
                self.check_size(result)
                for size in result.shape:
                    holds(size, ">=", 0)  # otherwise it is assumed: given numbers are arbitrary
        return super().create(cls, operands, attributes, result_types)

    def _sized_by_data(self, cls: type[GraphOp], groups: Sequence[Any], attributes: dict[str, Any], types: list[TensorType]) -> list[TensorType]:
        """The `types` of an op's results with the sizes that follow from its operands, if these are known; else unchanged."""
        values = [v for group in groups for v in (group if isinstance(group, list) else [group]) if v is not None]
        if cls.reference is None or not all(type_of(v).is_static for v in values) or any(self.constant_value(v) is None for v in values):
            return types
        work = sum(type_of(v).elements for v in values)
        if self.budget.objection(0, work) is not None or takes_result_types(cls.reference):
            return types
        self.budget.spend(0, work)
        try:
            with np.errstate(all="ignore"):
                made = cls.reference(*map_groups(self.constant_value, groups), **attributes)
        except (StepwellError, ArithmeticError, IndexError, TypeError, ValueError):  # a reference on data for which it is undefined
            return types
        return [t.with_shape(array.shape) for t, array in zip(types, made if isinstance(made, tuple) else (made,), strict=True)]

    def constant_value(self, value: Value) -> np.ndarray | None:
        """Like GraphBuilder.constant_value, within the budget. Results are cached, since the importer never changes an op that it built."""
        return self.known_values.value(value)

    def erase(self, op: ir.Operation) -> None:
        """Erase an op with its regions, and forget cached facts about its values, because new values may reuse their addresses."""
        op.erase()
        self.known_values.release()
        self.symbolic.release()
        self.origins.release()
        self._bound.clear()

    def unroll(self, rounds: int, nodes: int) -> str | None:
        """Charge the budget for unrolling `rounds` iterations of `nodes` nodes, without inner loops. Returns the reason if it is exceeded."""
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
            size *= dim if isinstance(dim, int) else 1
        limit = self.budget.limits.value_bytes
        if max(size, *(dim for dim in tensor.shape if isinstance(dim, int)), 0) > limit:
            raise LimitError(f"a value of type {tensor} would take {size} bytes; at most {limit} are accepted ({how_to('value_bytes')})")

    def known(self, value: Value, what: str) -> np.ndarray:
        """The array in an operand. Raises NotConstantError, naming the operand as `what`, if it is not known."""
        array = self.constant_value(value)
        if array is None:
            objection = self.known_values.objection(value)
            if objection is not None:
                raise LimitError(f"{what} must be known at compile time, but {objection}")
            raise NotConstantError(f"{what} computed at run time is not supported; supported: {what} known at compile time", operand=value)
        return array

    def known_ints(self, value: Value, what: str) -> tuple[int, ...]:
        """Like `known`, for a list of integers; a scalar counts as a list of one. Raises ModelError if it is absurdly long."""
        return listed(self.known(value, what), what)

    def known_sizes(self, value: Value, what: str) -> tuple[int | Size, ...] | None:
        """The entries of a list of sizes, some of which may be symbols or expressions of symbols; None if it is not known.

        Elements of inputs are symbols only if the model does not declare static sizes of the result. Raises NotConstantError if nothing determines
        the sizes, and they would be known if inputs were.
        """
        array = self.constant_value(value)
        if array is not None:
            return listed(array, what)
        found = self.symbolic.value(value)
        sizes = None if found is None else tuple(found.reshape(-1))
        said = self.has_declared_results
        if sizes is None and not said:
            self.require_if_given([value], what)
        return None if said and sizes is not None and any(map(self.symbols.is_of_elements, sizes)) else sizes

    def partial_sizes(self, value: Value) -> list[Dim] | None:
        """The entries of a list of sizes, None for unknown ones; None if even its length is unknown, or exceeds any tensor's rank.

        Parts of a concatenation may be known although other parts are computed at run time.
        """
        length = type_of(value).size
        if isinstance(length, int) and length > MAX_RANK:
            return None
        found = self.symbolic.value(value)
        if found is not None or not isinstance(length, int):
            return None if found is None else list(found.reshape(-1))
        op = defining_op(value)
        if op is None or op.name not in ("graph.concat", "graph.reshape", "graph.cast"):
            return [None] * length
        parts = [self.partial_sizes(part) or [] for part in op.operands]
        return [size for part in parts for size in part] if type_of(value).rank == 1 else [None] * length

    def known_or_symbolic(self, value: Value, what: str) -> tuple[int | Size, ...]:
        """Like `known_sizes`, but symbols are always used. Raises NotConstantError, naming the operand as `what`, if it is not known."""
        array = self.constant_value(value)
        found = None if array is not None else self.symbolic.value(value)
        return self.known_ints(value, what) if found is None else tuple(found.reshape(-1))

    def bound_sizes(self, value: Value, what: str) -> tuple[int | Size, ...]:
        """Like `known_or_symbolic`, but unknown entries get symbols, whose values are computed at run time (`graph.bind_sizes`).

        They are nonnegative integers, or the run ends with an error that names the node. Raises NotConstantError if they follow from a few input
        numbers, for which code is specialised, and for a list of unknown length.
        """
        if self.constant_value(value) is not None or self.symbolic.value(value) is not None:
            return self.known_or_symbolic(value, what)
        self.require_if_given([value], what)
        key = (ir.InsertionPoint.current.block, value)  # not in other blocks, which may run without this one
        if key not in self._bound:
            tensor = type_of(value)
            if not tensor.is_static or tensor.rank > 1:
                what = f"{what} of type {tensor} computed at run time is not supported; supported: a list of known length"
                raise NotConstantError(what, operand=value)
            name = self.value_name
            sizes = tuple(self.symbols.fresh(f"{name}_{i}") for i in range(tensor.elements))
            self.build(BindSizesOp, self.with_shape(self.convert(value, "i64"), (tensor.elements,)), sizes=sizes)
            self._bound[key] = sizes
        return self._bound[key]

    def symbolic_scalar(self, value: Value, what: str) -> int | Size | None:
        """The single integer in an operand, perhaps in symbols; None if it is not known."""
        if self.constant_value(value) is not None:
            number = self.known_scalar(value, what)
            return int(number) if not isinstance(number, float) or number.is_integer() else None
        found = self.symbolic.value(value)
        return None if found is None or found.size != 1 else found.reshape(-1)[0]

    def uniform_value(self, value: Value) -> Any:
        """The value that all elements of a tensor have, whatever its sizes, such as one from ConstantOfShape; None if it is not known."""
        while (array := self.constant_value(value)) is None:
            op = defining_op(value)
            if op is None or op.name not in ("graph.expand", "graph.dynamic_expand", "graph.reshape", "graph.dynamic_reshape", "graph.tile"):
                return None
            value = op.operands[0]
        return array.flat[0].item() if array.size and (array == array.flat[0]).all() else None

    def require_if_given(self, values: Sequence[Value], what: str) -> None:
        """Raise NotConstantError if some values are unknown, but would be known if the values of a few input numbers, or sizes of inputs, were."""
        unknown = [self.origins.origins_of(value) for value in values if self.constant_value(value) is None]
        found = [one for one in unknown if one is not None and not one.by_data and all(map(_is_small, one.arguments))]
        origins = reduce(or_, found, Origins())
        if origins and len(found) == len(unknown):
            what = f"{what} computed at run time is not supported; supported: {what} known at compile time"
            raise NotConstantError(what, origins=origins)

    def known_scalar(self, value: Value, what: str) -> Any:
        """Like `known`, for a single element. Raises ModelError unless there is exactly one."""
        array = self.known(value, what)
        if array.size != 1:
            raise ModelError(f"{what} must have one element, got shape {list(array.shape)}")
        return array.reshape(()).item()

    def scalar(self, number: Any, like: Value) -> Value:
        """A literal of rank 0 with the element type of `like`."""
        return self.scalars(np.asarray(number), like)

    def scalars(self, numbers: np.ndarray, like: Value) -> Value:
        """Like `scalar`, for an array of numbers in its own shape."""
        return self.literal(numbers.astype(to_numpy(type_of(like).dtype)))

    def convert(self, x: Value, dtype: str) -> Value:
        """`x` cast to an element type, or `x` itself if it has that type; integers saturate, floats round as arithmetic does."""
        return x if type_of(x).dtype == dtype else self.cast(x, to=dtype, saturate=not is_compact(dtype))

    def with_shape(self, x: Value, shape: Sequence[int | Size]) -> Value:
        """`x` reshaped, or `x` itself if it has that shape."""
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


def _is_small(argument: Value) -> bool:
    tensor = type_of(argument)
    return tensor.is_static and tensor.rank <= 1 and tensor.elements <= FEW


def normalized_axes(axes: Sequence[int], rank: int, what: str = "axes") -> tuple[int, ...]:
    """Axes counted from the front, ascending. Raises ModelError if an axis does not exist or is repeated."""
    out = sorted(normalized_axis(axis, rank, what) for axis in axes)
    if len(set(out)) != len(out):
        raise ModelError(f"{what} names an axis twice: {list(axes)}")
    return tuple(out)


def static_dim(value: Value, axis: int, what: str) -> int:
    """The size of `value` along an axis. Raises NotConstantError, naming it as `what`, if it is not static."""
    size = dims_of(value)[axis]
    if not isinstance(size, int):
        text = f"{what} {type_of(value)} is not supported; supported: dimension {axis % type_of(value).rank} known at compile time"
        raise NotConstantError(text, sizes=[size])
    return size


def static_dims(value: Value, what: str) -> tuple[int, ...]:
    """The static shape of `value`. Raises NotConstantError, naming it as `what`, if a dimension is dynamic."""
    shape = type_of(value).shape
    if not is_static(shape):
        raise NotConstantError(
            f"{what} of the dynamic type {type_of(value)} is not supported; supported: a static shape (fix the model's inputs with shapes=)",
            sizes=shape,
        )
    return tuple(d for d in shape if isinstance(d, int))
