"""The pass that takes maxima with few instructions: one where a bound is known, three elsewhere; the stock lowering of `maximumf` takes four."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.mlir import arith, defining_op, ir
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, Pattern, Rewriter, apply_patterns


@register_pass("select-bounds", level="affine", optional=True)
@dataclass
class SelectBounds(Pass):
    """Write maxima and minima as what x86's `maxps` and `minps` compute.

    rewrite: maximumf(x, c)  ->  select(c > x, c, x)    and minimumf(x, c) -> select(c < x, c, x), for c that is not NaN
    rewrite: maximumf(x, y)  ->  maximumf(y, x) nsz     and the like for minimumf

    A NaN in x fails the comparison with a constant and is kept, as `maximumf` requires; of two zeros with different signs, x keeps its own.
    `maxps` gives the second operand if either is NaN, so LLVM has to ask only whether the first is. In a reduction x is what was found so far:
    put second, the question is about the new element and does not wait for the one before it; which of two zeros is found is left open. On
    other machines, whose instructions do all that `maximumf` requires, nothing changes.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        if not state.machine.triple.startswith(("x86", "i386", "i686")):
            state.decline(self.name, op, NoMatch(f"instructions of {state.machine.triple} do all that maximumf and minimumf say"))
            return
        kinds = ("arith.maximumf", arith.CmpFPredicate.OGT), ("arith.minimumf", arith.CmpFPredicate.OLT)
        apply_patterns(op, [p for name, beyond in kinds for p in (bound(name, beyond), element_first(name))], state)


def bound(name: str, beyond: Any) -> Pattern:
    """rewrite: name(x, c) -> select(c beyond x, c, x)"""

    def rewrite(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
        x, constant = op.operation.operands
        number = known(constant)
        if number is None or number != number:
            return NoMatch("its second operand is not one known number")
        value: ir.Value = arith.SelectOp(arith.CmpFOp(beyond, constant, x).result, constant, x).result
        return value

    rewrite.__doc__ = f"rewrite: {name}(x, c) -> select(c beyond x, c, x)"
    return Pattern(f"select-{name.removeprefix('arith.')}", name, rewrite, benefit=2)


def element_first(name: str) -> Pattern:
    """rewrite: name(x, y) -> name(y, x) nsz"""

    def rewrite(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
        if "nsz" in str(op.operation.attributes["fastmath"]):
            return NoMatch("it is in this order")
        x, y = op.operation.operands
        value: ir.Value = type(op)(y, x, fastmath=arith.FastMathFlags.nsz).result
        return value

    rewrite.__doc__ = f"rewrite: {name}(x, y) -> {name}(y, x) nsz"
    return Pattern(f"order-{name.removeprefix('arith.')}", name, rewrite)


def known(value: ir.Value) -> float | None:
    """The number that a constant holds in every lane; None for anything else."""
    made = defining_op(value)
    if made is None or made.name != "arith.constant":
        return None
    attribute = made.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None
