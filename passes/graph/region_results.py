"""Additional results for the functions of regions: the findings of checks reach @main through the ops that call the functions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir, replace_op
from stepwell.dialects.core.types import TensorType, to_numpy, type_of
from stepwell.dialects.flow import control as flow
from stepwell.dialects.graph import GraphBuilder
from stepwell.passes.framework.rewriting import retyped


def with_more_results(op: ir.Operation, functions: dict[str, Any], more: dict[str, Sequence[ir.Value]], b: GraphBuilder) -> list[ir.Value]:
    """Give a `flow.if` or `flow.loop` an additional result for each value in `more`, by function name, that its functions compute.

    It is 0 for a branch that is not taken and for a loop without iterations; otherwise, for a loop, the maximum over all iterations. Replaces the op.
    """
    view: Any = op.opview
    return _of_if(view, functions, more, b) if isinstance(view, flow.IfOp) else _of_loop(view, functions, more, b)


def _of_if(op: flow.IfOp, functions: dict[str, Any], more: dict[str, Sequence[ir.Value]], b: GraphBuilder) -> list[ir.Value]:
    attributes = op.attribute_values()
    names = [attributes["then"], attributes["otherwise"]]
    own = [list(more.get(name, ())) for name in names]
    kinds = [type_of(v) for values in own for v in values]
    for number, name in enumerate(names):
        end = _end(functions[name])
        with ir.InsertionPoint(end), end.location:
            values = [v if side == number else _zeros(b, type_of(v)) for side, values in enumerate(own) for v in values]
        set_returned(functions[name], [*end.operands, *values])
    return _rebuilt(op, list(op.inputs), list(op.result_types()), len(op.result_types()), kinds, attributes)


def _of_loop(op: flow.LoopOp, functions: dict[str, Any], more: dict[str, Sequence[ir.Value]], b: GraphBuilder) -> list[ir.Value]:
    attributes = op.attribute_values()
    function, carried = functions[attributes["body"]], attributes["carried"]
    values = list(more.get(attributes["body"], ()))
    kinds = [type_of(v) for v in values]
    block, end = function.regions[0].blocks[0], _end(function)
    with ir.InsertionPoint(end), end.location:
        captured = list(block.arguments)[2 + carried :]
        before = [block.add_argument(v.type, function.location) for v in values]
        for argument in captured:  # they come behind the carried values
            argument.replace_all_uses_with(block.add_argument(argument.type, function.location))
        for argument in reversed(captured):
            block.erase_argument(argument.arg_number)
        greatest = [b.maximum(old, new) for old, new in zip(before, values, strict=True)]
    returned = list(end.operands)
    set_returned(function, [*returned[: 1 + carried], *greatest, *returned[1 + carried :]])
    with ir.InsertionPoint(op.operation), op.operation.location:
        zeros = [_zeros(b, kind) for kind in kinds]
    inputs = list(op.inputs)
    attributes["carried"] = carried + len(values)
    return _rebuilt(op, [*inputs[:carried], *zeros, *inputs[carried:]], list(op.result_types()), carried, kinds, attributes)


def _zeros(b: GraphBuilder, kind: TensorType) -> ir.Value:
    return b.literal(np.zeros(kind.static_shape, to_numpy(kind.dtype)))


def _end(function: Any) -> ir.Operation:
    return list(function.regions[0].blocks[0].operations)[-1].operation


def set_returned(function: Any, values: Sequence[ir.Value]) -> None:
    """Make a function also return these values."""
    end = _end(function)
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("func.return", operands=list(values))
    end.erase()
    retyped(function)


def _rebuilt(
    op: Any, inputs: Sequence[ir.Value], kinds: Sequence[TensorType], place: int, more: Sequence[TensorType], attributes: dict[str, Any]
) -> list[ir.Value]:
    """The op with other inputs and additional results in the middle; returns these."""
    results: list[ir.Value] = list(flow.with_inputs(op, inputs, attributes, [*kinds[:place], *more, *kinds[place:]]).results)
    replace_op(op.operation, [*results[:place], *results[place + len(more) :]])
    return results[place : place + len(more)]
