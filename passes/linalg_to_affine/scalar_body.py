"""Recreates a structured op's scalar body on scalars or vectors."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stepwell.dialects.core.mlir import defining_op, ir, scf, vector
from stepwell.passes.framework.rewriting import clone_into
from stepwell.passes.linalg.structured import LOOP, READS, WITHOUT_VALUE, Structured, may_contract
from stepwell.passes.linalg_to_affine import emit


def as_vector(value: ir.Value, width: int) -> ir.Value:
    """`value` broadcast to a vector of `width` lanes; a vector, or any value at width 1, is returned unchanged."""
    if width == 1 or isinstance(value.type, ir.VectorType):
        return value
    return emit.value("vector.broadcast", ir.VectorType.get([width], value.type), [value])


@dataclass(frozen=True)
class _BodyOp:
    """An op of a body, read once and emitted for each point of a tile."""

    operation: ir.Operation
    name: str
    operands: list[ir.Value]
    results: list[ir.Value]
    attributes: dict[str, ir.Attribute]
    """Its attributes without the permission to contract."""
    decided: bool
    """Whether it had that permission: contraction is decided here."""

    @staticmethod
    def from_op(operation: ir.Operation) -> "_BodyOp":
        attributes = {key: operation.attributes[key] for key in operation.attributes}
        decided = may_contract(operation)
        if decided:
            attributes["fastmath"] = _without_contraction(attributes["fastmath"])
        return _BodyOp(operation, operation.name, list(operation.operands), list(operation.results), attributes, decided)


class ScalarBody:
    """The body of a structured op, prepared for repeated emission.

    Contractions become fused multiply-adds here if the target has them (`fma`), and nowhere later: LLVM decides anew for each copy that it makes of a
    loop, so results would depend on which iterations a thread gets.
    """

    def __init__(self, op: Structured, *, fma: bool = False) -> None:
        self.op = op
        self._contracted = op.contracted if fma else {}
        self._products = {product for product, _ in self._contracted.values()}
        self._ops: dict[ir.Block, list[_BodyOp]] = {}

    def emit(self, arguments: Sequence[ir.Value | None], width: int, index: Callable[[int], ir.Value]) -> list[ir.Value]:
        """Emit the body at the current insertion point with its block arguments replaced; returns the yielded values.

        If an argument is a vector, all values that depend on it become vectors of `width` lanes; scalars are broadcast where they meet one.
        `index(dim)` returns the value of `linalg.index dim`. Arguments that the body does not read may be None.
        """
        values: dict[ir.Value, ir.Value] = {a: v for a, v in zip(self.op.body.arguments, arguments, strict=True) if v is not None}
        return self._emit(self.op.body, values, width, index)

    def _emit(self, block: ir.Block, values: dict[ir.Value, ir.Value], width: int, index: Callable[[int], ir.Value]) -> list[ir.Value]:
        """Emit the body, or that of a loop inside it, with the values that it reads replaced; returns the yielded values."""
        here = ir.InsertionPoint.current
        if block not in self._ops:
            self._ops[block] = [_BodyOp.from_op(inner.operation) for inner in block.operations]
        for inner in self._ops[block]:
            if inner.name in WITHOUT_VALUE:
                return [values.get(v, v) for v in inner.operands]
            if inner.name == LOOP and width > 1:
                self._emit_loop(inner.operation, values, width, index)
                continue
            result = inner.results[0]
            if inner.name == "linalg.index":
                values[result] = index(ir.IntegerAttr(inner.attributes["dim"]).value)
                continue
            name, operands = inner.name, [values.get(v, v) for v in inner.operands]
            if result in self._products and not any(map(_is_one, operands)):
                continue
            if result in self._contracted and self._contracted[result][0] not in values:
                name, operands = "math.fma", [values.get(v, v) for v in self._contracted[result][1]]
            lanes = _lanes(operands)
            if lanes is not None and name in READS:
                values[result] = neighbours(inner.operation, operands, width)
                continue
            if lanes is None and not inner.decided:
                clone_into(inner.operation, values, here)
                continue
            new = _create(inner, name, operands, lanes)
            values.update(zip(inner.results, new.results, strict=True))
        raise AssertionError("a structured op's body and its loops end in a yield")

    def _emit_loop(self, loop: ir.Operation, values: dict[ir.Value, ir.Value], width: int, index: Callable[[int], ir.Value]) -> None:
        """Emit a loop of the body whose bounds are the same for all lanes, and which carries vectors."""
        low, high, step, *carried = [values.get(v, v) for v in loop.operands]
        new = scf.ForOp(low, high, step, [as_vector(v, width) for v in carried])
        block = loop.regions[0].blocks[0]
        values.update(zip(block.arguments, [new.induction_variable, *new.inner_iter_args], strict=True))
        with ir.InsertionPoint(new.body):
            scf.YieldOp([as_vector(v, width) for v in self._emit(block, values, width, index)])
        values.update(zip(loop.results, new.results, strict=True))


def emit_value(op: Structured, value: ir.Value, argument: ir.Value, given: ir.Value, index: Callable[[int], ir.Value]) -> ir.Value:
    """The body's `value` with `given` in place of `argument`, a vector of any length: each op of it, with scalars in all lanes."""
    if value == argument:
        return given
    made = defining_op(value)
    if made is None or made.block != op.body:
        return value
    if made.name == "linalg.index":
        return index(ir.IntegerAttr(made.attributes["dim"]).value)
    operands = [emit_value(op, v, argument, given, index) for v in made.operands]
    attributes = {key: made.attributes[key] for key in made.attributes}
    return _create(_BodyOp(made, made.name, [], list(made.results), attributes, False), made.name, operands, _lanes(operands)).result


def _lanes(operands: Sequence[ir.Value]) -> int | None:
    """The number of lanes of the first operand that is a vector; None if there is none."""
    return next((kind.shape[0] for kind in (v.type for v in operands) if isinstance(kind, ir.VectorType)), None)


def _create(like: _BodyOp, name: str, operands: Sequence[ir.Value], lanes: int | None) -> ir.Operation:
    """A copy of a body's op with other operands: on vectors if an operand is one, with scalars broadcast to all lanes."""
    if lanes is not None:
        operands = [as_vector(v, lanes) for v in operands]
    results = [r.type if lanes is None else ir.VectorType.get([lanes], r.type) for r in like.results]
    return ir.Operation.create(name, results=results, operands=operands, attributes=like.attributes, loc=like.operation.location)


def neighbours(read: ir.Operation, operands: Sequence[ir.Value], width: int) -> ir.Value:
    """The elements that a read finds in all lanes: its last index grows by one from each lane to the next."""
    memory, *outer, last = operands
    kind = ir.VectorType.get([width], read.results[0].type)
    return vector.LoadOp(kind, memory, [*outer, vector.extract(last, [], [0])]).result


def _without_contraction(fastmath: ir.Attribute) -> ir.Attribute:
    kept = [flag for flag in re.split(r"[<>,]", str(fastmath))[1:-1] if flag != "contract"]
    return ir.Attribute.parse(f"#arith.fastmath<{','.join(kept) or 'none'}>", fastmath.context)


def _is_one(value: ir.Value) -> bool:
    """Whether a product with `value` is exact and free: it is the constant 1 or -1."""
    made = defining_op(value)
    if made is None or made.name != "arith.constant" or not isinstance(value.type, ir.FloatType):
        return False
    return abs(ir.FloatAttr(made.attributes["value"]).value) == 1
