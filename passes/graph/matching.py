"""Helpers of graph patterns: producers and users of a value, known constants, and storing new weights."""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import is_float, to_numpy, type_of
from stepwell.dialects.core.weights import Deferred, WeightTable
from stepwell.dialects.graph import GraphBuilder, GraphOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.builder import LITERAL_ELEMENTS
from stepwell.dialects.graph.traits import Elementwise, Fusion, KeepsEach, MovesData, Trait
from stepwell.passes.framework.rewriting import Pattern, Rewriter

SPLAT_ELEMENTS = 1 << 16
"""The largest array, in elements, that is tested for equal elements."""
DERIVED = ".folded"  # suffix of the names of weights that a pass computed from others


def producer(value: ir.Value, *mnemonics: str) -> Any:
    """The view of the op that produces `value`, if it is `graph.<one of mnemonics>`; else None."""
    op = defining_op(value)
    if op is None or op.name.removeprefix("graph.") not in mnemonics:
        return None
    return op.opview


def has_one_use(value: ir.Value) -> bool:
    """Whether exactly one operand of one op is `value`."""
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def is_used(value: ir.Value) -> bool:
    """Whether any op uses `value`."""
    return next(iter(value.uses), None) is not None


def erase_unused(ops: Iterable[ir.Operation]) -> None:
    """Erase ops whose results have no users, and the producers of their operands that have none afterwards.

    No op in `ops` may be erased already: the bindings raise an error for most accesses to an erased op, but read its results, wherever these were.
    """
    pending = list(ops)
    while pending:
        op = pending.pop()
        if not any(map(is_used, op.results)):
            makers = list(dict.fromkeys(v.owner.operation for v in op.operands if not isinstance(v.owner, ir.Block)))
            op.erase()
            pending += [maker for maker in makers if maker not in pending]


def stored(value: ir.Value, weights: WeightTable) -> np.ndarray | None:
    """The array of a constant or parameter; None for anything else, and for a parameter that the weight table lacks."""
    op = producer(value, "constant", "parameter")
    if op is None:
        return None
    return op.evaluate([])[0] if op.operation.name == "graph.constant" else weights.get(op.operation.attributes["id"].value)


def is_stored(value: ir.Value) -> bool:
    """Whether `value` is a constant or a parameter, whether or not its content is known here."""
    return producer(value, "constant", "parameter") is not None


def splat(array: np.ndarray | None) -> Any:
    """The one value that all elements of `array` have, as a numpy scalar; None if they differ (NaN differs from itself)."""
    if array is None or not 0 < array.size <= SPLAT_ELEMENTS:
        return None
    first = array.reshape(-1)[0]
    return first if bool((array == first).all()) else None


def splat_of(value: ir.Value, rw: Rewriter) -> Any:
    """`splat` of the known content of `value`."""
    return splat(stored(value, rw.weights))


def keeps_type(op: Any, operand: ir.Value) -> bool:
    """Whether the op's result has the type of `operand`, so that `operand` may replace it: no other operand broadcasts it up.

    If a size is unknown, equal types are not enough: every other operand must be 1 there, or lack the dimension.
    """
    if op.result.type != operand.type:
        return False
    shape = type_of(operand).shape
    return None not in shape or all(widens_nothing(other, shape) for other in op.operation.operands if other != operand)


def widens_nothing(operand: ir.Value, shape: Sequence[Dim]) -> bool:
    """Whether an operand of an element-wise op determines none of the dynamic sizes of the result's `shape`."""
    own = type_of(operand).shape
    aligned = (1,) * (len(shape) - len(own)) + own
    return all(isinstance(size, int) or mine in (1, 1 if size is None else size) for mine, size in zip(aligned, shape, strict=True))


def per_channel(array: np.ndarray, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """`array`, broadcast against a tensor of `rank`, as one value for each of the `channels` along `axis`; None if it varies elsewhere."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(size != 1 for i, size in enumerate(shape) if i != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))


def along(array: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A vector shaped to broadcast along `axis` of a tensor of `rank`."""
    return array.reshape([-1 if i == axis else 1 for i in range(rank)])


def new_weight(b: GraphBuilder, source: ir.Value | None, array: np.ndarray) -> ir.Value:
    """A constant with `array`: a literal if it is small, else a weight named after the parameter from which it was computed."""
    if array.size <= LITERAL_ELEMENTS:
        return b.literal(array)
    return b.weight(derived_name(source), np.asarray(array))


def deferred_weight(
    b: GraphBuilder, source: ir.Value, shape: Sequence[int], make: Callable[[], Iterable[np.ndarray]], dtype: str | None = None,
    plain: Callable[[], np.ndarray] | None = None,
) -> ir.Value:  # fmt: skip
    """Like `new_weight`, for an array of `dtype`, or that of `source`, that `make` computes piece by piece, in parallel with later passes.

    `plain` is for passes that choose another transform of the same array (see `plain_source`).
    """
    deferred = Deferred(to_numpy(dtype or type_of(source).dtype), tuple(shape), make, plain)
    if prod(shape) <= LITERAL_ELEMENTS:
        return new_weight(b, source, deferred.array())
    return b.weight(derived_name(source), deferred)


def source_of(value: ir.Value, weights: WeightTable) -> Callable[[], np.ndarray] | None:
    """How to get the known array in `value`, without computing it now if it is a deferred weight; None if it is not known."""
    parameter = producer(value, "parameter")
    if parameter is not None:
        entry = parameter.operation.attributes["id"].value
        return weights.source(entry) if entry in weights else None
    array = stored(value, weights)
    return None if array is None else lambda: array


def plain_source(value: ir.Value, weights: WeightTable) -> Callable[[], np.ndarray] | None:
    """How to get the array that the weight `value` is a transform of; None if that is not known."""
    parameter = producer(value, "parameter")
    if parameter is None or (name := parameter.operation.attributes["id"].value) not in weights:
        return None
    entry = weights.entry(name)
    return entry.plain if isinstance(entry, Deferred) else None


def derived_name(source: ir.Value | None) -> str:
    """The name for a weight computed from `source`."""
    parameter = None if source is None else producer(source, "parameter")
    if parameter is None:
        return "constant"
    name: str = parameter.operation.attributes["id"].value
    return name if DERIVED in name else name + DERIVED


def fused_location(*ops: Any) -> ir.Location:
    """The location of an op that does the work of all of `ops`."""
    return ir.Location.fused([op.operation.location for op in ops])


def is_float_op(op: Any) -> bool:
    """Whether the op's result has a float type."""
    return is_float(type_of(op.operation.results[0]).dtype)


def is_elementwise(op: ir.OpView) -> bool:
    """Whether the op view is an element-wise op: each element of the result from one element of each (broadcast) operand."""
    return isinstance(op, GraphOp) and op.has_trait(Elementwise)


def states(op: ir.Operation | None, *traits: type[Trait]) -> bool:
    """Whether an op belongs to the graph levels and has all of these traits."""
    return op is not None and isinstance(op.opview, GraphOp) and all(map(op.opview.has_trait, traits))


def category(op: ir.Operation) -> Fusion:
    """The fusion category of an op, which its class states; ops of upstream's dialects stay outside kernels."""
    view = op.opview
    return view.fusion_category() if isinstance(view, GraphOp) else Fusion.FREE


def keeps_each_element(op: ir.Operation | None) -> bool:
    """Whether an op has each element of its only operand once in its result, at a known position: reshape, transpose, pad."""
    return states(op, KeepsEach) and op is not None and len(op.operands) == 1


def moves_by_place(op: ir.Operation | None) -> bool:
    """Whether an op only moves the elements of its one operand, to known positions."""
    return states(op, MovesData) and op is not None and len(op.operands) == 1


def with_operands(b: GraphBuilder, op: ir.Operation, values: Sequence[ir.Value]) -> ir.Value:
    """The result of the same op with other values for its first operands, of any element type that it accepts."""
    view: Any = op.opview
    flat = iter([*values, *list(op.operands)[len(values) :]])
    groups = map_groups(lambda _: next(flat), view.operand_groups())
    return b.create(type(view), groups, view.attribute_values()).operation.results[0]


def for_each(roots: Iterable[Any]) -> Callable[[Callable[[Any, Rewriter], Any]], tuple[Pattern, ...]]:
    """Decorator: the same pattern for each of several op classes."""

    def make(function: Callable[[Any, Rewriter], Any]) -> tuple[Pattern, ...]:
        return tuple(Pattern(function.__name__, root.OPERATION_NAME, function) for root in roots)

    return make
