"""Patterns that merge the constants of consecutive sums and products; two passes use them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph import AddOp, MaximumOp, MinimumOp, MulOp
from stepwell.dialects.graph.numerics import is_floating, loses_digits, narrow
from stepwell.passes.framework.rewriting import NoMatch, Rewriter, expect, pattern
from stepwell.passes.graph.matching import for_each, fused_location, has_one_use, is_stored, new_weight, producer, stored


def combined(function: Callable[[Any, Any], Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`function(a, b)`, broadcast, rounded once to their type. Raises NoMatch if it should not replace the two."""
    if not is_floating(a.dtype):
        with np.errstate(over="ignore"):
            value = np.asarray(function(a, b))
    else:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            exact = np.asarray(function(a.astype(np.float64), b.astype(np.float64)))
            value = narrow(exact, a.dtype)
        if np.isfinite(a).all() and np.isfinite(b).all() and not np.isfinite(value).all():
            raise NoMatch("the merged constant would overflow")
        if function is np.multiply and bool((((value == 0) & (a != 0) & (b != 0)) | loses_digits(value, exact)).any()):
            raise NoMatch("the merged constant would underflow, or lose digits")
    if value.size > max(a.size, b.size):
        raise NoMatch("the merged constant would be larger than either")
    return value


@for_each((AddOp, MulOp, MaximumOp, MinimumOp))
def constant_to_the_right(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: c + x -> x + c, the same for *, maximum and minimum, so that other patterns need to look on one side only   exact"""
    if not is_stored(op.lhs) or is_stored(op.rhs):
        return NoMatch("the left operand is no constant, or both are")
    return rw.create(type(op), [op.rhs, op.lhs], {}).operation.results[0]


def constants_in_row(op: ir.OpView, mnemonic: str, rw: Rewriter) -> tuple[Any, np.ndarray, np.ndarray]:
    """(inner op, its constant, the op's own constant) for an op with a constant whose other operand comes from a `graph.<mnemonic>` with one.

    Raises NoMatch for any other op.
    """
    inner = expect(producer(op.lhs, mnemonic), f"its left operand is not a {mnemonic}")
    first, second = stored(inner.rhs, rw.weights), stored(op.rhs, rw.weights)
    if first is None or second is None:
        raise NoMatch("the right operands are not both known")
    if not has_one_use(op.lhs):
        raise NoMatch(f"the {mnemonic} has another user")
    return inner, first, second


@pattern(AddOp)
def merge_additions(op: AddOp, rw: Rewriter) -> ir.Value:
    """rewrite: (x + a) + b -> x + (a + b)   one rounding less, of x + a"""
    return merged(op, "add", np.add, rw)


@pattern(MulOp)
def merge_products(op: MulOp, rw: Rewriter) -> ir.Value:
    """rewrite: (x * a) * b -> x * (a * b)   one rounding less, of x * a; declined where a * b overflows, becomes 0 or loses digits"""
    return merged(op, "mul", np.multiply, rw)


def merged(op: AddOp | MulOp, mnemonic: str, fold: np.ufunc, rw: Rewriter) -> ir.Value:
    """Two ops of one kind in a row, each with a constant, as one with both constants folded. Raises NoMatch if that is not possible."""
    inner, a, b = constants_in_row(op, mnemonic, rw)
    constant = combined(fold, a, b)
    with fused_location(inner, op):
        return rw.create(type(op), [inner.lhs, new_weight(rw, inner.rhs, constant)], {}).operation.results[0]


@pattern(MulOp)
def scale_affine(op: MulOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: (x * k + a) * s -> x * (k * s) + a * s   as many roundings, in other places; two normalisations in a row become one"""
    addition, a, s = constants_in_row(op, "add", rw)
    inner = producer(addition.lhs, "mul")
    k = None if inner is None else stored(inner.rhs, rw.weights)
    if inner is None or k is None or not has_one_use(addition.lhs):
        return NoMatch("what is added to is not a product with a known constant, used once")
    if not np.isfinite(s).all():
        return NoMatch("the factor is not finite: its two products might be infinities of both signs, and their sum NaN")
    scale, shift = combined(np.multiply, k, s), combined(np.multiply, a, s)
    with fused_location(inner, op):
        product = rw.mul(inner.lhs, new_weight(rw, inner.rhs, scale))
    with fused_location(addition, op):
        return rw.add(product, new_weight(rw, addition.rhs, shift))


MERGE_CONSTANTS = (*constant_to_the_right, merge_additions, merge_products, scale_affine)
