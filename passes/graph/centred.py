"""Operands of quantised products: bytes minus a zero point, and known weights."""

from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.dtypes import BYTES
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.passes.graph.integer_products import widened
from stepwell.passes.graph.matching import producer, stored


@dataclass(frozen=True)
class Centred:
    """Bytes minus their zero point, which is known, or is a value in i32."""

    source: ir.Value
    zero: "np.ndarray | ir.Value"


def centred(value: ir.Value, weights: WeightTable) -> Centred | None:
    """The bytes and the zero point whose difference, in wide integers of the same shape, a value is; None if it is anything else."""
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
    """The known integers of an operand, perhaps before a widening."""
    cast = widened(value)
    return stored(value if cast is None else cast.x, weights)
