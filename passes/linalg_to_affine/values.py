"""Values that a nest is made of: loads of scalars and vectors, indices, constants, and what folds them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stepwell.dialects.core.attributes import dense_value
from stepwell.dialects.core.mlir import affine, arith, defining_op, ir, vector
from stepwell.passes.linalg.structured import Access

FEW_NUMBERS = 64  # of a constant operand whose elements are written into the code


def load(source: ir.Value, kind: str, width: int, ivs: list[ir.Value], address: Callable[[int], Any]) -> ir.Value:
    """Load from a memref: a scalar, a vector of successive elements, or a vector put together from single ones."""
    element = ir.MemRefType(source.type).element_type
    if kind == "scalar":
        return affine.AffineLoadOp(element, source, ivs, ir.AffineMapAttr.get(address(0))).result
    vector_type = ir.VectorType.get([width], element)
    if kind == "vector":
        return affine.AffineVectorLoadOp(vector_type, source, ivs, ir.AffineMapAttr.get(address(0))).result
    lanes = [affine.AffineLoadOp(element, source, ivs, ir.AffineMapAttr.get(address(lane))).result for lane in range(width)]
    return vector.FromElementsOp(vector_type, lanes).result


def index_value(expr: Any, ivs: list[ir.Value], width: int) -> ir.Value:
    """An affine expression of the loop variables as an index, or as `width` successive ones."""
    scalar = affine.AffineApplyOp(ir.AffineMapAttr.get(ir.AffineMap.get(len(ivs), 0, [expr])), ivs).result
    if width == 1:
        return scalar
    vector_type = ir.VectorType.get([width], ir.IndexType.get())
    return arith.addi(vector.broadcast(vector_type, scalar), vector.StepOp(vector_type).result)


def known_array(access: Access) -> np.ndarray | None:
    """The few numbers that an operand is known to hold: it is a constant of the module."""
    source = defining_op(access.value) if access.is_shaped else None
    if source is None or source.name != "memref.get_global" or math.prod(access.shape) > FEW_NUMBERS:
        return None
    module = source
    while module.parent is not None:
        module = module.parent.operation
    found = ir.SymbolTable(module)[ir.FlatSymbolRefAttr(source.attributes["name"]).value]
    return dense_value(ir.DenseElementsAttr(found.attributes["initial_value"]))


def constant_of(element: ir.Type, value: float) -> ir.Value:
    """A scalar constant of type `element`."""
    attribute = ir.FloatAttr.get(element, float(value)) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, int(value))
    return arith.ConstantOp(element, attribute).result


def neutral(combiner: str, element: ir.Type) -> ir.Value:
    """The neutral element of a combiner: folding it in changes nothing."""
    width = 64 if isinstance(element, ir.FloatType) else ir.IntegerType(element).width
    values: dict[str, float] = {
        "arith.addf": 0.0, "arith.addi": 0, "arith.mulf": 1.0, "arith.muli": 1, "arith.maximumf": float("-inf"), "arith.minimumf": float("inf"),
        "arith.maxsi": -(1 << (width - 1)), "arith.minsi": (1 << (width - 1)) - 1, "arith.maxui": 0, "arith.minui": -1, "arith.andi": -1,
        "arith.ori": 0, "arith.xori": 0,
    }  # fmt: skip
    return constant_of(element, values[combiner])


def combine(combiner: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Fold two scalars with the combining op of that name."""
    return ir.Operation.create(combiner, results=[a.type], operands=[a, b]).results[0]
