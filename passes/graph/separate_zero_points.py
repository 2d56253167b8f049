"""The pass that takes zero points out of integer products, so that these read bytes as the target's fastest instruction wants them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder, MatmulOp
from stepwell.dialects.graph.value_range import ANY, Range
from stepwell.dialects.target.description import Target
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions, ops_below
from stepwell.passes.graph.matching import is_used, new_weight, producer, stored
from stepwell.passes.graph.narrow_products import NARROW, is_integer_product, kind_of, widened
from stepwell.passes.graph.ranges import ranges
from stepwell.passes.schedule.intrinsics import registered

WIDE = "i32"  # what products are summed in
BYTES = ("ui8", "i8")
HALF = 128  # how far apart the signed and the unsigned byte of the same bits, but for the first, are


@register_pass("separate-zero-points", level="graph", optional=True)
@dataclass
class SeparateZeroPoints(Pass):
    """Multiply bytes as they are stored, or with their sign turned, and take the zero point's part off the product.

    rewrite: matmul(x - z, w)  ->  matmul(x', w) - z' * sums(w)    where w is known, and sums(w) is the sum of each column

    x' is x with z' = z, or x - 128 as i8 with z' = z - 128, or x + 128 as ui8 with z' = z + 128: what an intrinsic of the target takes that
    multiplies more in an instruction than the one for x - z, which has nine bits. Sums wrap around in i32 as they did, so the result is the same
    to the bit. This is the arithmetic of gemmlowp (Jacob et al., "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", 2018).
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in functions(op):
            ops = ops_below(function)
            products = [o for o in ops if is_integer_product(o.opview)]
            if KernelInfo(function).is_kernel or not products:
                continue
            separating = _Separating(state, ranges(ops, state.weights))
            for inner in products:
                declined = separating.rewrite(inner)
                if declined is None:
                    state.count(self.name)
                    state.did(self.name, inner, "multiplies bytes without their zero point, which is taken off the result")
                else:
                    state.decline(self.name, inner, declined)
            separating.erase_replaced()


def rate(kinds: Iterable[str], target: Target | None) -> float:
    """How many products an instruction of the target multiplies, at most, of operands of two types; 0 if there is no intrinsic for them."""
    left, right = kinds
    fitting = [i for i in registered(target) if i.result == WIDE and i.takes(left, right) is not None]
    return max((i.lanes * i.depth / i.instructions for i in fitting), default=0.0)


def smallest(low: float, high: float) -> str | None:
    """The smallest type that holds all numbers of a range, as intrinsics spell it; None if none of the narrow ones does."""
    for dtype in NARROW:
        limits = np.iinfo(to_numpy(dtype))
        if limits.min <= low <= high <= limits.max:
            return kind_of(dtype)
    return None


@dataclass
class _Separating:
    """One run on a function."""

    state: PassState
    known: dict[ir.Value, Range]
    turned: dict[tuple[ir.Value, str], ir.Value] = field(default_factory=dict)
    replaced: list[ir.Operation] = field(default_factory=list)

    def rewrite(self, op: ir.Operation) -> NoMatch | None:
        """Take the zero point out of a product; None if done, else why not."""
        if not isinstance(op.opview, MatmulOp) or type_of(op.results[0]).dtype != WIDE:
            return NoMatch(f"it is not a matrix product in {WIDE}")
        lhs, rhs = op.operands
        found = self.centred(lhs)
        if found is None:
            return NoMatch("its left operand is not made of bytes")
        source, zero = found
        weight = self.array(rhs)
        kind = None if weight is None or not weight.size else smallest(weight.min().item(), weight.max().item())
        if weight is None or kind is None:
            return NoMatch("its right operand is not known at compile time, or does not fit bytes or 16 bits")
        now = smallest(*self.known.get(lhs, ANY))
        before = 0.0 if now is None else rate((now, kind), self.state.target)
        best = max(BYTES, key=lambda dtype: (rate((kind_of(dtype), kind), self.state.target), dtype == type_of(source).dtype))
        if rate((kind_of(best), kind), self.state.target) <= before:
            return NoMatch("the target has no faster instruction for its bytes without their zero point")
        with ir.InsertionPoint(op), op.location:
            b = GraphBuilder(self.state.weights)
            shift = 0 if best == type_of(source).dtype else HALF if best == "ui8" else -HALF
            product = b.matmul(b.cast(self.turn(b, source, shift, best), to=WIDE, saturate=True), rhs)
            taken = self.taken(b, zero, shift, weight.astype(np.int64).sum(axis=-2, keepdims=True), rhs)
            op.results[0].replace_all_uses_with(product if taken is None else b.sub(product, taken))
        self.replaced.append(op)
        return None

    def centred(self, value: ir.Value) -> tuple[ir.Value, "ir.Value | np.ndarray"] | None:
        """The bytes and the zero point whose difference, in wide integers, a left operand is; None if it is something else."""
        difference = producer(value, "sub", "add")
        wide, zero = value, None
        if difference is not None:
            wide, zero = (difference.rhs, difference.lhs) if widened(difference.lhs) is None else (difference.lhs, difference.rhs)
            if widened(wide) is None or (wide == difference.rhs and difference.operation.name == "graph.sub"):
                return None
        cast = widened(wide)
        if cast is None or type_of(cast.x).dtype not in BYTES or type_of(wide).shape != type_of(value).shape:
            return None
        if zero is None:
            return cast.x, np.zeros((), np.int64)
        kind, numbers = type_of(zero), stored(zero, self.state.weights)
        if kind.rank and kind.shape[-1] != 1:
            return None  # it has another value for each of the numbers that are summed
        if numbers is not None:
            signed = numbers.astype(np.int64)
            return cast.x, signed if difference.operation.name == "graph.sub" else np.asarray(-signed)
        return (cast.x, zero) if difference.operation.name == "graph.sub" else None

    def array(self, value: ir.Value) -> np.ndarray | None:
        """The numbers that an operand is known to be, perhaps behind a widening."""
        cast = widened(value)
        return stored(value if cast is None else cast.x, self.state.weights)

    def turn(self, b: GraphBuilder, source: ir.Value, shift: int, dtype: str) -> ir.Value:
        """Bytes plus `shift`, as bytes of the other sign."""
        if not shift:
            return source
        if (source, dtype) not in self.turned:
            wide = b.cast(source, to=WIDE, saturate=True)
            self.turned[source, dtype] = b.cast(b.add(wide, b.literal(np.array(shift, np.int32))), to=dtype, saturate=True)
        return self.turned[source, dtype]

    def taken(self, b: GraphBuilder, zero: "ir.Value | np.ndarray", shift: int, sums: np.ndarray, weight: ir.Value) -> Any:
        """What to take off the product: the zero point, moved by `shift`, times the sums of columns; None if that is nothing."""
        source = weight if producer(weight, "parameter") is not None else None
        if isinstance(zero, np.ndarray):
            both = ((zero + shift) * sums).astype(np.int32)  # modulo 2**32, as products are summed
            return new_weight(b, source, both) if both.any() else None
        moved = zero if not shift else b.add(zero, b.literal(np.array(shift, np.int32)))
        return b.mul(moved, new_weight(b, source, sums.astype(np.int32)))

    def erase_replaced(self) -> None:
        """Erase the products that were rewritten, and what nothing else uses of what made their operands."""
        pending = list(reversed(self.replaced))
        while pending:
            op = pending.pop()
            if not any(map(is_used, op.results)):
                makers = list(dict.fromkeys(v.owner.operation for v in op.operands if not isinstance(v.owner, ir.Block)))
                op.erase()
                pending += [maker for maker in makers if maker not in pending]
