"""Operands of quantised products: bytes less a zero point, known weights, and which instructions of a target multiply them."""

from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.target.description import Target
from stepwell.passes.graph.matching import producer, stored
from stepwell.passes.graph.narrow_products import NARROW, holds, kind_of, widened
from stepwell.passes.schedule.intrinsics import registered

WIDE = "i32"  # what products are summed in
BYTES = ("ui8", "i8")


@dataclass(frozen=True)
class Centred:
    """Bytes less their zero point, which is known, or is a value in i32."""

    source: ir.Value
    zero: "np.ndarray | ir.Value"


def centred(value: ir.Value, weights: WeightTable) -> Centred | None:
    """The bytes and the zero point whose difference, in wide integers of the same shape, a value is; None if it is something else."""
    difference = producer(value, "sub", "add")
    wide, zero = value, None
    if difference is not None:
        wide, zero = (difference.rhs, difference.lhs) if widened(difference.lhs) is None else (difference.lhs, difference.rhs)
    cast = widened(wide)
    if cast is None or type_of(cast.x).dtype not in BYTES or type_of(wide).shape != type_of(value).shape:
        return None
    if difference is None or zero is None:
        return Centred(cast.x, np.zeros((), np.int64))
    numbers, subtracted = stored(zero, weights), difference.operation.name == "graph.sub"
    if subtracted and wide != difference.lhs:
        return None
    if numbers is None:
        return Centred(cast.x, zero) if subtracted else None
    signed = numbers.astype(np.int64)
    return Centred(cast.x, signed if subtracted else np.asarray(-signed))


def known_numbers(value: ir.Value, weights: WeightTable) -> np.ndarray | None:
    """The integers that an operand is known to be, perhaps behind a widening."""
    cast = widened(value)
    return stored(value if cast is None else cast.x, weights)


def rate(left: str, right: str, target: Target | None) -> float:
    """How many products of two types an instruction of the target computes, at most; 0 if there is no intrinsic for them."""
    fitting = [i for i in registered(target) if i.result == WIDE and i.takes(left, right) is not None]
    return max((i.lanes * i.depth / i.instructions for i in fitting), default=0.0)


def smallest(low: float, high: float) -> str | None:
    """The smallest type that holds all numbers of a range, as intrinsics spell it; None if none of the narrow ones does."""
    return next((kind_of(dtype) for dtype in NARROW if holds(dtype, low, high)), None)
