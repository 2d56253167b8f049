"""The pass that computes maxima and minima in few instructions: one if a bound is constant, otherwise three; upstream's `maximumf` takes four."""

from typing import Any

from stepwell.dialects.core.mlir import arith, defining_op, ir
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, Pattern, PatternPass, Rewriter, apply_patterns

_BEYOND = arith.CmpFPredicate.OGT
_LOOPS = ("affine.for", "scf.for")


def bound(name: str, beyond: Any) -> Pattern:
    """rewrite: name(x, c) -> select(c beyond x, c, x)"""

    def rewrite(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
        x, constant = op.operation.operands
        number = lane_constant(constant)
        if number is None or number != number:
            return NoMatch("its second operand is not one known number")
        return arith.SelectOp(arith.CmpFOp(beyond, constant, x).result, constant, x).result

    rewrite.__doc__ = f"rewrite: {name}(x, c) -> select(c beyond x, c, x)"
    return Pattern(f"select-{name.removeprefix('arith.')}", name, rewrite, benefit=2)


def element_first(name: str) -> Pattern:
    """rewrite: name(x, y) -> name(y, x) nsz"""

    def rewrite(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
        if "nsz" in str(op.operation.attributes["fastmath"]):
            return NoMatch("it is in this order")
        x, y = op.operation.operands
        return type(op)(y, x, fastmath=arith.FastMathFlags.nsz).result

    rewrite.__doc__ = f"rewrite: {name}(x, y) -> {name}(y, x) nsz"
    return Pattern(f"order-{name.removeprefix('arith.')}", name, rewrite)


def greatest_so_far(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: maxnumf(x, y) -> select(y > x, y, x)"""
    x, y = op.operation.operands
    if is_number(y):
        x, y = y, x
    elif not is_number(x):
        return NoMatch("either of its operands may be NaN")
    return arith.SelectOp(arith.CmpFOp(_BEYOND, y, x).result, y, x).result


def is_number(value: ir.Value, assumed: tuple[ir.Value, ...] = ()) -> bool:
    """Whether no lane can be NaN, provided `assumed` are not: a constant, or a maximum that starts with one, also through loops."""
    if value in assumed:
        return True
    made = defining_op(value)
    if made is None:
        loop, place = value.owner.owner.operation, ir.BlockArgument(value).arg_number - 1
        return loop.name in _LOOPS and place >= 0 and _carries_number(loop, place, assumed)
    if made.name == "arith.constant":
        number = lane_constant(value)
        return number is not None and number == number
    if made.name == "arith.maxnumf":
        return any(is_number(operand, assumed) for operand in made.operands)
    if made.name in _LOOPS:
        return _carries_number(made, ir.OpResult(value).result_number, assumed)
    return _is_greater(made) and is_number(made.operands[2], assumed)


def _carries_number(loop: ir.Operation, place: int, assumed: tuple[ir.Value, ...]) -> bool:
    """Whether a loop-carried value starts as a number and stays one."""
    count, body = len(loop.results), loop.regions[0].blocks[0]
    start, carried = loop.operands[len(loop.operands) - count + place], body.arguments[1 + place]
    yielded = body.operations[len(body.operations) - 1].operands[place]
    return is_number(start, assumed) and is_number(yielded, (*assumed, carried))


def _is_greater(op: ir.Operation) -> bool:
    """Whether this is select(y > x, y, x): x, unless y is a larger number."""
    if op.name != "arith.select":
        return False
    compared = defining_op(op.operands[0])
    if compared is None or compared.name != "arith.cmpf" or list(compared.operands) != list(op.operands)[1:]:
        return False
    return bool(ir.IntegerAttr(compared.attributes["predicate"]).value == int(_BEYOND))


def lane_constant(value: ir.Value) -> float | None:
    """The number that a constant holds in every lane; None for any other value."""
    made = defining_op(value)
    if made is None or made.name != "arith.constant":
        return None
    attribute = made.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None


def number_of_both(op: ir.Operation, rw: Rewriter) -> ir.Value:
    """rewrite: maxnumf(x, y) -> select(y > x, y, select(x is a number, x, y))"""
    x, y = op.operation.operands
    is_known = arith.CmpFOp(arith.CmpFPredicate.ORD, x, x).result
    return arith.SelectOp(arith.CmpFOp(_BEYOND, y, x).result, y, arith.SelectOp(is_known, x, y).result).result


NUMBER_OF_BOTH = Pattern("select-number", "arith.maxnumf", number_of_both)


@register_pass("select-bounds", level="affine", optional=True)
class SelectBounds(PatternPass):
    """Write maxima and minima in the form that x86's `maxps` and `minps` compute.

    rewrite: maximumf(x, c)  ->  select(c > x, c, x)    and minimumf(x, c) -> select(c < x, c, x), for c that is not NaN
    rewrite: maximumf(x, y)  ->  maximumf(y, x) nsz     and the like for minimumf and maxnumf
    rewrite: maxnumf(x, y)   ->  select(y > x, y, x)    for x that is not NaN, such as the running maximum

    A NaN in x fails the comparison with a constant and is kept, as `maximumf` requires; of two zeros with different signs, x keeps its own.

    `maxps` returns the second operand if either is NaN, so LLVM only has to test whether the first is. In a reduction x is the running maximum: as
    the second operand, the test concerns the new element and does not wait for the previous one; which of two zeros is the result is unspecified. On
    other machines, whose instructions do all that `maximumf` requires, nothing changes.

    Reproducible results leave nothing unspecified: on all machines the patterns with `nsz` are left out, and any other maxnumf(x, y) becomes
    select(y > x, y, select(x is a number, x, y)).
    """

    patterns = (
        bound("arith.maximumf", _BEYOND), element_first("arith.maximumf"), bound("arith.minimumf", arith.CmpFPredicate.OLT),
        element_first("arith.minimumf"), Pattern("select-maxnumf", "arith.maxnumf", greatest_so_far, benefit=2), element_first("arith.maxnumf"),
    )  # fmt: skip

    @classmethod
    def all_patterns(cls) -> tuple[Pattern, ...]:
        """The patterns for all kinds of results."""
        return (*cls.patterns, NUMBER_OF_BOTH)

    def run(self, op: ir.Operation, state: PassState) -> None:
        if state.machine.reproducible:
            exact = tuple(p for p in self.patterns if not p.name.startswith("order-"))
            state.count(self.name, apply_patterns(op, (*exact, NUMBER_OF_BOTH), state))
            return
        if not state.machine.capabilities.maximum_selects:
            state.decline(self.name, op, NoMatch(f"instructions of {state.machine.triple} do all that maximumf and minimumf say"))
            return
        super().run(op, state)
