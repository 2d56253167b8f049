"""Re-creation of a structured op's scalar body on scalars or vectors."""

import re
from collections.abc import Callable, Sequence

from stepwell.dialects.core.mlir import defining_op, ir, scf, vector
from stepwell.passes.framework.rewriting import clone_into
from stepwell.passes.linalg.structured import LOOP, READS, WITHOUT_VALUE, Structured, may_contract


def as_vector(value: ir.Value, width: int) -> ir.Value:
    """`value` in every lane of a vector of `width`; a vector, or any value at width 1, is left as it is."""
    if width == 1 or isinstance(value.type, ir.VectorType):
        return value
    return vector.broadcast(ir.VectorType.get([width], value.type), value)


def emit_body(
    op: Structured, arguments: Sequence[ir.Value | None], width: int, index: Callable[[int], ir.Value], *, fma: bool = False
) -> list[ir.Value]:
    """Emit the body at the current insertion point with its block arguments replaced; returns what it yields.

    An argument that is a vector makes what depends on it a vector of `width` lanes; scalars are broadcast where they meet one.
    `index(dim)` gives the value of `linalg.index dim`. Arguments that the body does not read may be None.

    What may be contracted becomes a fused multiply-add here if the target has it (`fma`), and nowhere later: LLVM decides anew for each copy
    that it makes of a loop, so that results would depend on which iterations a thread is given.
    """
    values: dict[ir.Value, ir.Value] = {a: v for a, v in zip(op.body.arguments, arguments, strict=True) if v is not None}
    return _emit_block(op, op.body, values, width, index, fma)


def emit_value(op: Structured, value: ir.Value, argument: ir.Value, given: ir.Value, index: Callable[[int], ir.Value]) -> ir.Value:
    """What the body makes `value` of an argument, where that is a vector of any length: each op of it, with scalars in all lanes."""
    if value == argument:
        return given
    made = defining_op(value)
    if made is None or made.block != op.body:
        return value
    if made.name == "linalg.index":
        return index(ir.IntegerAttr(made.attributes["dim"]).value)
    operands = [emit_value(op, v, argument, given, index) for v in made.operands]
    return _create(made, made.name, operands, {key: made.attributes[key] for key in made.attributes}).result


def _create(like: ir.Operation, name: str, operands: Sequence[ir.Value], attributes: dict[str, ir.Attribute]) -> ir.Operation:
    """An op in the place of one of a body: on vectors if an operand is one, with scalars in all of its lanes."""
    width = next((v.type.shape[0] for v in operands if isinstance(v.type, ir.VectorType)), None)
    if width is not None:
        operands = [as_vector(v, width) for v in operands]
    results = [r.type if width is None else ir.VectorType.get([width], r.type) for r in like.results]
    return ir.Operation.create(name, results=results, operands=operands, attributes=attributes, loc=like.location)


def _emit_block(
    op: Structured, block: ir.Block, values: dict[ir.Value, ir.Value], width: int, index: Callable[[int], ir.Value], fma: bool
) -> list[ir.Value]:
    """Emit the body, or that of a loop inside of it, with the values that it reads replaced; returns what it yields."""
    here = ir.InsertionPoint.current
    contracted = op.contracted if fma else {}
    products = {product for product, _ in contracted.values()}
    for inner in block.operations:
        operation = inner.operation
        if operation.name in WITHOUT_VALUE:
            return [values.get(v, v) for v in operation.operands]
        if operation.name == LOOP and width > 1:
            _emit_loop(op, operation, values, width, index, fma)
            continue
        result = operation.results[0]
        if operation.name == "linalg.index":
            values[result] = index(ir.IntegerAttr(operation.attributes["dim"]).value)
            continue
        operands = [values.get(v, v) for v in operation.operands]
        name, attributes = operation.name, {key: operation.attributes[key] for key in operation.attributes}
        decided = may_contract(operation)
        if decided:
            attributes["fastmath"] = _without_contraction(attributes["fastmath"])
        if result in products and not any(map(_is_one, operands)):
            continue
        if result in contracted and contracted[result][0] not in values:
            name, operands = "math.fma", [values.get(v, v) for v in contracted[result][1]]
        vectorised = any(isinstance(v.type, ir.VectorType) for v in operands)
        if vectorised and name in READS:
            values[result] = neighbours(operation, operands, width)
            continue
        if not vectorised and not decided:
            clone_into(operation, values, here)
            continue
        new = _create(operation, name, operands, attributes)
        values.update(zip(operation.results, new.results, strict=True))
    raise AssertionError("a structured op's body and its loops end in a yield")


def _emit_loop(
    op: Structured, loop: ir.Operation, values: dict[ir.Value, ir.Value], width: int, index: Callable[[int], ir.Value], fma: bool
) -> None:
    """A loop of the body whose rounds are the same for all lanes, and which hands on vectors."""
    low, high, step, *carried = [values.get(v, v) for v in loop.operands]
    new = scf.ForOp(low, high, step, [as_vector(v, width) for v in carried])
    block = loop.regions[0].blocks[0]
    values.update(zip(block.arguments, [new.induction_variable, *new.inner_iter_args], strict=True))
    with ir.InsertionPoint(new.body):
        scf.YieldOp([as_vector(v, width) for v in _emit_block(op, block, values, width, index, fma)])
    values.update(zip(loop.results, new.results, strict=True))


def neighbours(read: ir.Operation, operands: Sequence[ir.Value], width: int) -> ir.Value:
    """The elements that a read finds in all lanes: its last index grows by one from each to the next."""
    memory, *outer, last = operands
    kind = ir.VectorType.get([width], read.results[0].type)
    return vector.LoadOp(kind, memory, [*outer, vector.extract(last, [], [0])]).result


def _without_contraction(fastmath: ir.Attribute) -> ir.Attribute:
    kept = [flag for flag in re.split(r"[<>,]", str(fastmath))[1:-1] if flag != "contract"]
    return ir.Attribute.parse(f"#arith.fastmath<{','.join(kept) or 'none'}>", fastmath.context)


def _is_one(value: ir.Value) -> bool:
    """Whether a product with `value` is exact and costs nothing: it is the constant 1 or -1."""
    made = defining_op(value)
    if made is None or made.name != "arith.constant" or not isinstance(value.type, ir.FloatType):
        return False
    return abs(ir.FloatAttr(made.attributes["value"]).value) == 1
