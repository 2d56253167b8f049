"""Patterns that move reshapes, transpositions and expansions past element-wise ops, if that pays; part of simplify-algebra."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir, users
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import TensorType, is_integer, to_numpy, type_of
from stepwell.dialects.graph.traits import Elementwise
from stepwell.dialects.support.errors import InferenceError
from stepwell.passes.framework.rewriting import NoMatch, Rewriter, pattern
from stepwell.passes.graph.matching import (
    SPLAT_ELEMENTS,
    fused_location,
    is_stored,
    new_weight,
    producer,
    splat,
    stored,
)


def used_only_by(value: ir.Value, op: ir.OpView) -> bool:
    """Whether `op` is the only user of `value`."""
    return all(user == op.operation for user in users(value))


def rebuilt(op: Any, operands: Sequence[ir.Value], rw: Rewriter) -> ir.Value:
    """The element-wise `op` on other operands."""
    return rw.create(type(op), operands, op.attribute_values()).operation.results[0]


def movers(op: ir.OpView, mnemonic: str, rw: Rewriter) -> tuple[list[Any], dict[int, np.ndarray]]:
    """The operands of `op` as ([the op `graph.<mnemonic>` that produces it, or None], {index of another: array}).

    Raises NoMatch if an operand is neither, or if moving does not pay.
    """
    made, known = [], {}
    for i, v in enumerate(op.operation.operands):
        mover = producer(v, mnemonic)
        array = None if mover is not None else stored(v, rw.weights)
        if mover is None and (array is None or array.size > SPLAT_ELEMENTS):
            raise NoMatch(f"an operand is neither a {mnemonic} nor a small constant")
        if mover is not None and not used_only_by(v, op):
            raise NoMatch(f"the {mnemonic} has another user and would be done twice")
        if array is not None:
            known[i] = array
        made.append(mover)
    moving = [m for m in made if m is not None]
    if not moving:
        raise NoMatch(f"no operand is a {mnemonic}")
    if not all(type_of(m.result).shape == type_of(op.result).shape and None not in type_of(m.x).shape for m in moving):
        raise NoMatch(f"it broadcasts what the {mnemonic} gives, or shapes are not known")
    return made, known


@pattern(Elementwise)
def sink_transposes(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: f(transpose(x), transpose(y), c) -> transpose(f(x, y, c'))  for one order and constants c, permuted the other way   exact

    This pays because f can then fuse into the producer of x, and the transposition meets the next one. Not for a cast to a wider type.
    """
    made, known = movers(op, "transpose", rw)
    orders = {m.attribute_values()["perm"] for m in made if m is not None}
    if len(orders) > 1:
        return NoMatch("the transpositions differ")
    first = next(m for m in made if m is not None)
    if to_numpy(type_of(op.result).dtype).itemsize > to_numpy(type_of(first.x).dtype).itemsize:
        return NoMatch("it widens the elements, so that the transposition would move more bytes")
    perm = orders.pop()
    rank = len(perm)
    constants = {i: np.transpose(a.reshape((1,) * (rank - a.ndim) + a.shape), np.argsort(perm)) for i, a in known.items()}
    operands = [m.x if m is not None else moved(op.operation.operands[i], known[i], constants[i], rw) for i, m in enumerate(made)]
    with fused_location(first, op):
        return rw.transpose(rebuilt(op, operands, rw), perm=perm)


@pattern(Elementwise)
def sink_reshapes(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: f(reshape(x), reshape(y), c) -> reshape(f(x, y, c'))  for x and y of one shape and constants c that x's shape suits too   exact

    This pays because f can then fuse into the producer of x; a reshape is free anywhere.
    """
    made, known = movers(op, "reshape", rw)
    first = next(m for m in made if m is not None)
    source, shape = type_of(first.x).shape, type_of(op.result).shape
    before = ((i, before_reshape(array, shape, source)) for i, array in known.items())
    constants = {i: array for i, array in before if array is not None}
    if len(constants) < len(known) or any(m is not None and type_of(m.x).shape != source for m in made):
        return NoMatch("the reshapes come from different shapes, or a constant differs along what they merge or split")
    if defining_op(first.x) is None:
        return NoMatch("what is reshaped is an argument, with no op to fuse into")
    if widens_integers(type_of(first.x).dtype, type_of(op.result).dtype):
        return NoMatch("it widens integers, for a product that reads the narrow ones")
    operands = [m.x if m is not None else moved(op.operation.operands[i], known[i], constants[i], rw) for i, m in enumerate(made)]
    return rw.reshape(rebuilt(op, operands, rw), shape=shape)


def moved(value: ir.Value, before: np.ndarray, after: np.ndarray, rw: Rewriter) -> ir.Value:
    """A known operand after a move; a single number is the same everywhere."""
    return value if before.ndim == 0 else new_weight(rw, value, after)


def widens_integers(source: str, result: str) -> bool:
    """Whether a cast widens integers."""
    return is_integer(source) and is_integer(result) and to_numpy(source).itemsize < to_numpy(result).itemsize


def before_reshape(array: np.ndarray, shape: Sequence[Dim], source: Sequence[Dim]) -> np.ndarray | None:
    """`array`, which broadcasts to `shape`, in a form that broadcasts alike to `source`, which is reshaped to `shape`.

    None if it has several values and the reshape does more than add or remove dimensions of size 1.
    """
    value = splat(array)
    if value is not None:
        return np.asarray(value)
    if [n for n in shape if n != 1] != [n for n in source if n != 1]:
        return None
    aligned = (1,) * (len(shape) - array.ndim) + array.shape
    kept = iter(size for size, n in zip(aligned, shape, strict=True) if n != 1)
    return array.reshape([1 if n == 1 else next(kept) for n in source])


@pattern(Elementwise)
def absorb_expansions(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: f(expand(x), y) -> f(x, y)  where y alone already gives the result its shape   exact"""
    sources = [e.x if (e := producer(v, "expand")) is not None else v for v in op.operation.operands]
    if sources == list(op.operation.operands):
        return NoMatch("no operand is an expansion")
    types = [type_of(v) for v in sources]
    if not all(t.is_static for t in types):
        return NoMatch("shapes are not known")
    if result_of(op, types) != op.result_types()[0]:
        return NoMatch("without the expansion the result would be smaller")
    return rebuilt(op, sources, rw)


@pattern(Elementwise)
def sink_expansion(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: f(expand(x)) -> expand(f(x))  for an op of one operand: less arithmetic   exact"""
    if len(op.operation.operands) != 1:
        return NoMatch("it has several operands")
    expansion = producer(op.operation.operands[0], "expand")
    if expansion is None or not used_only_by(op.operation.operands[0], op):
        return NoMatch("its operand is not an expansion that nothing else uses")
    return rw.expand(rebuilt(op, [expansion.x], rw), shape=expansion.attribute_values()["shape"])


@pattern(Elementwise)
def shrink_constants(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: f(x, c) -> f(x, c')  for a constant c of one value, which a tensor without dimensions holds as well   exact"""
    operands = list(op.operation.operands)
    types = [type_of(v) for v in operands]
    for i, v in enumerate(operands):
        value = None if types[i].rank == 0 or not is_stored(v) else splat(stored(v, rw.weights))
        if value is None:
            continue
        smaller = [t.with_shape(()) if k == i else t for k, t in enumerate(types)]
        if result_of(op, smaller) == op.result_types()[0]:
            operands[i], types = rw.constant(value=np.asarray(value)), smaller
    if operands == list(op.operation.operands):
        return NoMatch("no operand is a constant of one value that is larger than need be")
    return rebuilt(op, operands, rw)


def result_of(op: Any, operands: Sequence[TensorType]) -> TensorType | None:
    """The result type of `op` on operands of other types; None if it does not accept them."""
    try:
        made: TensorType = type(op).infer(*operands, **op.attribute_values())
    except InferenceError:
        return None
    return made


DATA_MOVEMENT = (shrink_constants, sink_transposes, sink_reshapes, absorb_expansions, sink_expansion)
