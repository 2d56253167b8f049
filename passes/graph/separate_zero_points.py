"""The pass that moves zero points out of integer products, so that these read bytes in the form of the target's fastest instruction."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from stepwell.dialects.core.dtypes import BYTES
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.products import SumOfProducts, changes_along_sum
from stepwell.dialects.graph.value_range import ANY, Range
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.rewriting import replace_results
from stepwell.passes.graph.integer_products import WIDE, IntegerProductPass, ProductRewriting, kind_of, rate, smallest, sum_of_products, widened
from stepwell.passes.graph.matching import new_weight, producer, stored, with_operands

HALF = 128
"""The difference between an unsigned byte and the signed byte with the opposite highest bit."""


@register_pass("separate-zero-points", level="graph", optional=True)
class SeparateZeroPoints(IntegerProductPass):
    """Multiply bytes as they are stored, or with their sign flipped, and subtract the zero point's part from the product.

    rewrite: matmul(x - z, w)       ->  matmul(x', w) - z' * sums(w)       where w is known, and sums(w) is the sum of each column
    rewrite: conv(pad(x - z, 0), w) ->  conv(pad(x', z'), w) - z' * sums(w)   likewise, of each filter

    x' is x with z' = z, or x - 128 as i8 with z' = z - 128, or x + 128 as ui8 with z' = z + 128: the form for an intrinsic of the target that does
    more products per instruction than the one for x - z, which has nine bits. Sums wrap around in i32 as before, so the result is bit-identical. This
    is the arithmetic of gemmlowp (Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
    2018).
    """

    done: ClassVar[str] = "multiplies bytes without their zero point, which is taken off the result"

    def rewriting(self, state: PassState, known: dict[ir.Value, Range]) -> ProductRewriting:
        return _Separating(state, known)


@dataclass
class _Separating(ProductRewriting):
    """One run on a function."""

    turned: dict[tuple[ir.Value, str], ir.Value] = field(default_factory=dict)

    def rewrite(self, op: ir.Operation) -> None:
        """Move the zero point out of a product. Raises NoMatch if it stays."""
        products = sum_of_products(op.opview)
        if products is None or type_of(op.results[0]).dtype != WIDE:
            raise NoMatch(f"it is not a product in {WIDE}")
        lhs, rhs = op.operands
        pad = producer(lhs, "pad") if products.has_windows else None
        found, weight = centred(lhs if pad is None else pad.x, self.state.weights), known_numbers(rhs, self.state.weights)
        if found is None:
            raise NoMatch("its left operand is not made of bytes")
        _check(op, products, found.zero, pad)
        source, zero = found.source, found.zero
        kind = None if weight is None or not weight.size else smallest(weight.min().item(), weight.max().item())
        if weight is None or kind is None:
            raise NoMatch("its right operand is not known at compile time, or does not fit bytes or 16 bits")
        now = smallest(*self.known.get(lhs, ANY))
        before = 0.0 if now is None else rate(now, kind, self.state.target)
        best = max(BYTES, key=lambda dtype: (rate(kind_of(dtype), kind, self.state.target), dtype == type_of(source).dtype))
        if rate(kind_of(best), kind, self.state.target) <= before:
            raise NoMatch("the target has no faster instruction for its bytes without their zero point")
        with ir.InsertionPoint(op), op.location:
            b = GraphBuilder(self.state.weights)
            shift = 0 if best == type_of(source).dtype else HALF if best == "ui8" else -HALF
            turned, wide = self.turn(b, source, shift, best), weight.astype(np.int64)
            if pad is not None:  # its zeros are the zero point in bytes
                assert isinstance(zero, np.ndarray)
                turned = b.pad(turned, **{**pad.attribute_values(), "value": float(zero.item() + shift)})
            product = with_operands(b, op, [b.cast(turned, to=WIDE, saturate=True)])
            taken = self.taken(b, zero, shift, products.column_sums(wide), rhs)
            replace_results(op, [product if taken is None else b.sub(product, taken)], b)
        self.replaced.append(op)

    def turn(self, b: GraphBuilder, source: ir.Value, shift: int, dtype: str) -> ir.Value:
        """Bytes plus `shift`, as bytes of the opposite signedness."""
        if not shift:
            return source
        if (source, dtype) not in self.turned:
            wide = b.cast(source, to=WIDE, saturate=True)
            self.turned[source, dtype] = b.cast(b.add(wide, b.literal(np.array(shift, np.int32))), to=dtype, saturate=True)
        return self.turned[source, dtype]

    def taken(self, b: GraphBuilder, zero: "ir.Value | np.ndarray", shift: int, sums: np.ndarray, weight: ir.Value) -> Any:
        """The term to subtract from the product: the zero point, moved by `shift`, times the sums of columns; None if it is zero."""
        if isinstance(zero, np.ndarray):
            both = ((zero + shift) * sums).astype(np.int32)  # modulo 2**32, as products are summed
            return new_weight(b, weight, both) if both.any() else None
        moved = zero if not shift else b.add(zero, b.literal(np.array(shift, np.int32)))
        return b.mul(moved, new_weight(b, weight, sums.astype(np.int32)))


def _check(op: ir.Operation, products: SumOfProducts, zero: "np.ndarray | ir.Value", pad: Any) -> None:
    """Raise NoMatch if a zero point cannot be moved out of a product."""
    sizes = zero.shape if isinstance(zero, np.ndarray) else type_of(zero).shape
    if changes_along_sum(sizes, products.lhs):
        raise NoMatch("its zero point has another value for each of the numbers that are summed")
    if products.along_result(sizes, products.lhs) is not None or (pad is not None and any(size != 1 for size in sizes)):
        raise NoMatch("its image has several zero points")
    if op.opview.padding_value() is not None and any(op.opview.attribute_values()["pads"]):
        raise NoMatch("it pads its image itself (see make-padding-explicit)")
    around = {} if pad is None else pad.attribute_values()
    if pad is not None and (around["mode"] != "constant" or around["value"] != 0 or not isinstance(zero, np.ndarray)):
        raise NoMatch("its image is padded with something else than zeros, or its zero point is not known")


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
