"""Re-creation of a structured op's scalar body on scalars or vectors."""

from collections.abc import Callable, Sequence
from typing import Any

from stepwell.dialects.mlir import ir, vector
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.rewriting import clone_into


def as_vector(value: ir.Value, width: int) -> ir.Value:
    """`value` in every lane of a vector of `width`; a vector, or any value at width 1, is left as it is."""
    if width == 1 or isinstance(value.type, ir.VectorType):
        return value
    return vector.broadcast(ir.VectorType.get([width], value.type), value)


def emit_body(op: Structured, arguments: Sequence[ir.Value | None], width: int, index: Callable[[int], ir.Value]) -> list[ir.Value]:
    """Emit the body at the current insertion point with its block arguments replaced; returns what it yields.

    An argument that is a vector makes what depends on it a vector of `width` lanes; scalars are broadcast where they meet one.
    `index(dim)` gives the value of `linalg.index dim`. Arguments that the body does not read may be None.
    """
    values: dict[ir.Value, ir.Value] = {a: v for a, v in zip(op.body.arguments, arguments, strict=True) if v is not None}
    here = ir.InsertionPoint.current
    for inner in op.body.operations:
        operation = inner.operation
        if operation.name == "linalg.yield":
            return [values.get(v, v) for v in operation.operands]
        if operation.name == "linalg.index":
            values[operation.results[0]] = index(ir.IntegerAttr(operation.attributes["dim"]).value)
            continue
        operands = [values.get(v, v) for v in operation.operands]
        vectorised = any(isinstance(v.type, ir.VectorType) for v in operands)
        if not vectorised:
            clone_into(operation, values, here)
            continue
        attributes: dict[str, Any] = {name: operation.attributes[name] for name in operation.attributes}
        results = [ir.VectorType.get([width], r.type) for r in operation.results]
        new = ir.Operation.create(
            operation.name, results=results, operands=[as_vector(v, width) for v in operands], attributes=attributes, loc=operation.location
        )
        values.update(zip(operation.results, new.results, strict=True))
    raise AssertionError("a structured op's body ends in linalg.yield")
