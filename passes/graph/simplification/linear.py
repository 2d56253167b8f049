"""A common view of convolutions and matrix products with known weights: how the weights depend on input and output channels."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from stepwell.dialects.core.mlir import defining_op, ir
from stepwell.dialects.core.types import is_float, type_of
from stepwell.dialects.graph.contraction import ConvOp, ConvTransposeOp
from stepwell.dialects.graph.numerics import narrow
from stepwell.passes.framework.rewriting import NoMatch, Rewriter
from stepwell.passes.graph.integer_products import multiplies_rows, sums_integers
from stepwell.passes.graph.matching import along, has_one_use, stored


@dataclass(frozen=True)
class Linear:
    """A convolution or matrix product of `data` with the known float `weights`, which come from `parameter`."""

    op: Any
    data: ir.Value
    parameter: ir.Value
    weights: np.ndarray
    output_axis: int  # of the result
    outputs: int
    input_axis: int  # of `data`
    inputs: int
    is_uniform: bool  # whether a constant input gives a constant output: nothing is padded or cut off
    for_outputs: Callable[[np.ndarray], np.ndarray]  # makes a value for each output channel broadcast against the weights
    for_inputs: Callable[[np.ndarray], np.ndarray]  # the same for each input channel
    weight_axis: int  # the axis of the weights along which the output channels lie

    @property
    def result(self) -> ir.Value:
        return self.op.operation.results[0]

    def scaled(self, factor: np.ndarray) -> np.ndarray:
        """The weights times `factor` (f64, broadcasting), each product rounded once, and never to 0.

        Single weights may become subnormal and lose digits: that changes less than rounding the largest weight of the same channel does. The weights
        are not scaled (NoMatch is raised) if a whole channel would become subnormal, or if they would overflow.
        """
        if self.weights.dtype == ml_dtypes.bfloat16:  # numpy has no conversion loop from f64 to bfloat16 that rounds once
            out = narrow(self.weights.astype(np.float64) * factor, self.weights.dtype)
        else:
            out = np.empty_like(self.weights, subok=False)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                np.multiply(self.weights, factor, out=out, dtype=np.float64, casting="unsafe")
        if not np.isfinite(out).all() and np.isfinite(self.weights).all():
            raise NoMatch(f"the new weights would overflow {self.weights.dtype}")
        if self._sinks_a_channel(out):
            raise NoMatch(f"the new weights of a channel would be subnormal numbers of {self.weights.dtype}, and lose digits")
        return kept_from_zero(out, self.weights, factor)

    def _sinks_a_channel(self, scaled: np.ndarray) -> bool:
        """Whether all `scaled` weights of some input or output channel are subnormal, while the original ones were not."""
        least = ml_dtypes.finfo(scaled.dtype).smallest_normal
        if not ((scaled < least) & (scaled > -least) & (self.weights != 0)).any():
            return False
        for channels in (self.for_outputs(np.arange(self.outputs)), self.for_inputs(np.arange(self.inputs))):
            of = np.broadcast_to(channels, scaled.shape)
            before, after = (set(np.unique(of[np.abs(weights) >= least])) for weights in (self.weights, scaled))
            if before - after:
                return True
        return False

    def response(self, value: np.ndarray) -> np.ndarray:
        """The result of a uniform op, shaped to broadcast, for an input with one value for each input channel. Raises NoMatch if it is not finite."""
        axes = tuple(i for i in range(self.weights.ndim) if i != self.weight_axis)
        total = np.asarray(np.sum(self.weights * self.for_inputs(value), axis=axes, dtype=np.float64))
        out = narrow(along(total, type_of(self.result).rank, self.output_axis), self.weights.dtype)
        if not np.isfinite(out).all():
            raise NoMatch("what comes out would not be finite")
        return out

    def rebuilt(self, rw: Rewriter, weight: ir.Value, data: ir.Value | None = None) -> ir.Value:
        """The op with other weights, and other data if given, at the current insertion point and location."""
        replaced = {self.parameter: weight, self.data: self.data if data is None else data}
        operands = [replaced[v] for v in self.op.operation.operands]
        return rw.create(type(self.op), operands, self.op.attribute_values()).operation.results[0]


def kept_from_zero(product: np.ndarray, *factors: np.ndarray) -> np.ndarray:
    """A rounded product, in place, with the smallest number of its sign where it vanished although no factor is 0.

    Its other factor may be infinite, and stays so: 0 would turn it into NaN. Finite results change by less than rounding may change them.
    """
    vanished = product == 0
    if vanished.any():
        signs = [np.sign(np.broadcast_to(factor, product.shape)[vanished].astype(np.float64)) for factor in factors]
        sign = np.prod(signs, axis=0)  # 0 where a factor is, and NaN where one is
        least = float(ml_dtypes.finfo(product.dtype).smallest_subnormal)
        product[vanished] = np.where(np.abs(sign) == 1, sign * least, product[vanished].astype(np.float64)).astype(product.dtype)
    return product


def linear(value: ir.Value, rw: Rewriter, *, used_once: bool = True) -> Linear:
    """The linear op with known float weights that produces `value` (by default with one user only). Raises NoMatch if there is none."""
    made = defining_op(value)
    op: Any = None if made is None else made.opview
    if not (isinstance(op, (ConvOp, ConvTransposeOp)) or multiplies_rows(op)):
        raise NoMatch("it does not meet a convolution or matrix product")
    if not is_float(type_of(value).dtype):
        raise NoMatch("integers wrap")
    if sums_integers(op):
        raise NoMatch("it sums integers, exactly")
    if used_once and not has_one_use(value):
        raise NoMatch(f"the {op.mnemonic()} has another user")
    lhs, rhs = op.operation.operands
    for data, parameter in ((lhs, rhs), (rhs, lhs)) if multiplies_rows(op) else ((lhs, rhs),):
        weights = stored(parameter, rw.weights)
        if weights is not None and data != parameter and (weights.ndim == 2 or not multiplies_rows(op)):
            return _matmul(op, data, parameter, weights) if multiplies_rows(op) else _convolution(op, weights)
    raise NoMatch(f"the weights of the {op.mnemonic()} are not known")


def _matmul(op: Any, data: ir.Value, parameter: ir.Value, weights: np.ndarray) -> Linear:
    products = op.sum_of_products()
    of_weights, of_data = (products.rhs, products.lhs) if parameter == op.operation.operands[1] else (products.lhs, products.rhs)
    summed = of_weights.index(None)
    kept = 1 - summed
    for_outputs, for_inputs = (partial(along, rank=2, axis=axis) for axis in (kept, summed))
    outputs, inputs, column = weights.shape[kept], weights.shape[summed], of_weights[kept]
    return Linear(op, data, parameter, weights, column, outputs, of_data.index(None), inputs, True, for_outputs, for_inputs, kept)


def _convolution(op: ir.OpView, weights: np.ndarray) -> Linear:
    attributes = op.attribute_values()
    group, rank = attributes["group"], weights.ndim
    first, second = weights.shape[:2]
    along_first = partial(along, rank=rank, axis=0)

    def along_second(k: np.ndarray) -> np.ndarray:
        """The second axis counts channels within a group; the group follows from the first axis."""
        by_first = np.repeat(k.reshape(group, second), first // group, axis=0)
        return by_first.reshape(first, second, *[1] * (rank - 2))

    if isinstance(op, ConvOp):  # weights [outputs, inputs / group, …]
        uniform = not any(attributes["pads"])
        return Linear(op, op.x, op.w, weights, 1, first, 1, second * group, uniform, along_first, along_second, 0)
    # conv_transpose: weights [inputs, outputs / group, …]; at its borders fewer taps meet, so that it is never uniform
    return Linear(op, op.x, op.w, weights, 1, second * group, 1, first, False, along_second, along_first, 1)
