"""Queries of patterns on quantised networks: the quantisation of a value, its scale and its zero point."""

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import DequantizeOp, GraphBuilder, constant_value
from stepwell.passes.graph.matching import derived_name, producer


def quantized(value: ir.Value) -> DequantizeOp | None:
    """The op that converts integers to `value`, which is `(x - zero_point) * scale` in f32; None if there is none."""
    return producer(value, "dequantize")


def quantized_alike(value: ir.Value) -> DequantizeOp | None:
    """Like `quantized`, but None if there are several scales or zero points."""
    op = quantized(value)
    return op if op is not None and is_per_tensor(op) else None


def parameters(op: DequantizeOp) -> tuple[ir.Value, ir.Value]:
    """Scale and zero point."""
    return op.scale, op.zero_point


def is_per_tensor(op: DequantizeOp) -> bool:
    """Whether scale and zero point are one number each."""
    return all(type_of(v).size == 1 for v in parameters(op))


def same_parameters(first: tuple[ir.Value, ir.Value], second: tuple[ir.Value, ir.Value], weights: WeightTable) -> bool:
    """Whether two scales and zero points are known to be the same numbers, for every element, in the same type."""
    return all(_same(a, b, weights) for a, b in zip(first, second, strict=True))


def _same(a: ir.Value, b: ir.Value, weights: WeightTable) -> bool:
    if a == b:
        return True
    left, right = constant_value(a, weights), constant_value(b, weights)
    if left is None or right is None or left.dtype != right.dtype:
        return False
    return left.size == right.size == 1 and bool(left.reshape(()) == right.reshape(()))


def is_positive(scale: ir.Value, weights: WeightTable) -> bool:
    """Whether a scale is known to be positive, so that larger integers represent larger numbers."""
    array = constant_value(scale, weights)
    return array is not None and bool((array > 0).all())


def parameter(b: GraphBuilder, source: ir.Value | None, array: np.ndarray) -> ir.Value:
    """A scale, zero point or bias as an entry of the weight table, however small: kernels that differ only in such numbers are shared."""
    return b.weight(derived_name(source), np.asarray(array))
