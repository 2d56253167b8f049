"""The factors in the body of a contraction, as dot-product instructions take them: inputs, or some of their bits."""

from collections.abc import Callable
from dataclasses import dataclass

from stepwell.dialects.core.mlir import defining_op, ir, known_index

WIDENS = ("arith.extsi", "arith.extui", "arith.extf")
MULTIPLY_ADDS = (["arith.muli", "arith.addi", "linalg.yield"], ["arith.mulf", "arith.addf", "linalg.yield"])


@dataclass(frozen=True)
class Factor:
    """One of two factors of a product."""

    index: int
    """The index of the input that it comes from."""
    kind: str
    """Its type as intrinsics spell it: `s8`, `u4`, `b16`."""
    value: ir.Value
    """Computes the factor, before widening, from the argument: the argument itself, or some of its bits."""


def product_factors(body: ir.Block, stays: Callable[[int, int], bool]) -> list[Factor] | None:
    """The factors of the product of two inputs that a body adds to its sum; None if it does anything else.

    They are integers, possibly widened, or bf16. An integer may first be cut to its lowest bits, possibly after a shift. The shift may depend on the
    indices of loops for which `stays(input, dim)` holds: all elements that an intrinsic takes from the input at once must be shifted alike.
    """
    operations = [o.operation for o in body.operations]
    if [o.name for o in operations[-3:]] not in MULTIPLY_ADDS:
        return None
    found = []
    for operand in operations[-3].operands:
        made = defining_op(operand)
        widened = made if made is not None and made.name in WIDENS else None
        value = operand if widened is None else widened.operands[0]
        index, bits = _cut(body, value, stays)
        if index is None:
            return None
        kind = body.arguments[index].type
        if isinstance(kind, ir.BF16Type):
            found.append(Factor(index, "b16", value))
        elif isinstance(kind, ir.IntegerType):
            signed = bits is None and (widened is None or widened.name == "arith.extsi")
            found.append(Factor(index, f"{'s' if signed else 'u'}{bits or kind.width}", value))
    return found if len({factor.index for factor in found}) == 2 else None


def _cut(body: ir.Block, value: ir.Value, stays: Callable[[int, int], bool]) -> tuple[int | None, int | None]:
    """The input whose value or lowest bits `value` is, and the number of these bits (None for all); the input is None if `value` is neither."""
    made = defining_op(value)
    if made is None:
        return _argument(body, value), None
    mask = known_index(made.operands[1]) if made.name == "arith.andi" else None
    if mask is None or mask <= 0 or mask & (mask + 1):
        return None, None
    shifted = defining_op(made.operands[0])
    if shifted is None or shifted.name != "arith.shrui":
        return _argument(body, made.operands[0]), mask.bit_length()
    index, places = _argument(body, shifted.operands[0]), _places(shifted.operands[1])
    alike = index is not None and places is not None and all(stays(index, dim) for dim in places)
    return (index if alike else None), mask.bit_length()


def _argument(body: ir.Block, value: ir.Value) -> int | None:
    """The input whose argument a value is; None if it is not an argument."""
    return next((i for i, a in enumerate(list(body.arguments)[:-1]) if a == value), None)


def _places(value: ir.Value) -> set[int] | None:
    """The loops whose indices a scalar of a body is computed from; None if it depends on anything else but constants."""
    made = defining_op(value)
    if made is None:
        return None
    if made.name == "linalg.index":
        return {ir.IntegerAttr(made.attributes["dim"]).value}
    found: set[int] = set()
    for operand in made.operands:
        places = _places(operand)
        if places is None:
            return None
        found |= places
    return found
