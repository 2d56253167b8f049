"""The pass that bounds values from one side with one instruction; the stock lowering of `maximumf` takes three."""

from dataclasses import dataclass
from typing import Any

from stepwell.dialects.core.mlir import arith, defining_op, ir
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, Pattern, Rewriter, apply_patterns


@register_pass("select-bounds", level="affine", optional=True)
@dataclass
class SelectBounds(Pass):
    """Write maxima and minima with a constant as a comparison and a select, which is what x86's `maxps` and `minps` compute.

    rewrite: maximumf(x, c)  ->  select(c > x, c, x)    and minimumf(x, c) -> select(c < x, c, x), for c that is not NaN

    A NaN in x fails the comparison and is kept, as `maximumf` requires; of two zeros with different signs, x keeps its own. On other
    machines, whose instructions do all that `maximumf` requires, nothing changes.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        if not state.machine.triple.startswith(("x86", "i386", "i686")):
            state.decline(self.name, op, NoMatch(f"instructions of {state.machine.triple} do all that maximumf and minimumf say"))
            return
        apply_patterns(op, [bound("arith.maximumf", arith.CmpFPredicate.OGT), bound("arith.minimumf", arith.CmpFPredicate.OLT)], state)


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
    return Pattern(f"select-{name.removeprefix('arith.')}", name, rewrite)


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
