"""Scalar arithmetic by element type: picks the float, signed or unsigned form of each operation."""

from typing import Any

from stepwell.dialects.core.mlir import arith, constant_attribute, ir, math
from stepwell.dialects.core.types import compute_dtype, is_float, is_unsigned
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, element

# op: (float, signed, unsigned)
_BINARY: dict[str, tuple[Any, Any, Any]] = {
    "add": (arith.AddFOp, arith.AddIOp, arith.AddIOp),
    "sub": (arith.SubFOp, arith.SubIOp, arith.SubIOp),
    "mul": (arith.MulFOp, arith.MulIOp, arith.MulIOp),
    "maximum": (arith.MaximumFOp, arith.MaxSIOp, arith.MaxUIOp),
    "minimum": (arith.MinimumFOp, arith.MinSIOp, arith.MinUIOp),
    "maximum_number": (arith.MaxNumFOp, arith.MaxSIOp, arith.MaxUIOp),
}  # fmt: skip
_F, _I = arith.CmpFPredicate, arith.CmpIPredicate
_COMPARE: dict[str, tuple[Any, Any, Any]] = {
    "eq": (_F.OEQ, _I.eq, _I.eq),
    "ne": (_F.UNE, _I.ne, _I.ne),
    "lt": (_F.OLT, _I.slt, _I.ult),
    "le": (_F.OLE, _I.sle, _I.ule),
    "gt": (_F.OGT, _I.sgt, _I.ugt),
    "ge": (_F.OGE, _I.sge, _I.uge),
}  # fmt: skip


class Scalars:
    """Arithmetic on scalars of one dtype (computed in f32 for f16 and bf16), at the current insertion point."""

    def __init__(self, b: LinalgBuilder, dtype: str) -> None:
        self.b = b
        self.dtype = compute_dtype(dtype)
        self.is_float = is_float(dtype)
        self.is_unsigned = is_unsigned(dtype)
        self.type = element(self.dtype)
        self._column = 0 if self.is_float else 2 if self.is_unsigned else 1

    @property
    def width(self) -> int:
        """Bits of an element."""
        return self.type.width

    def const(self, value: Any) -> ir.Value:
        return self.b.scalar(value, self.dtype)

    def binary(self, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
        """add, sub, mul, maximum, minimum or maximum_number; floats propagate NaN, except the last, which ignores it."""
        return _BINARY[name][self._column](x, y).result

    def add(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.binary("add", x, y)

    def sub(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.binary("sub", x, y)

    def mul(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.binary("mul", x, y)

    def maximum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.binary("maximum", x, y)

    def minimum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.binary("minimum", x, y)

    def accumulate(self, name: str, x: ir.Value, total: ir.Value) -> ir.Value:
        """`binary` for sums and products that may be contracted into fused multiply-adds."""
        if not self.is_float or name not in ("add", "mul"):
            return self.binary(name, total, x)
        return _BINARY[name][0](total, x, fastmath=arith.FastMathFlags.contract).result

    def multiply_accumulate(self, x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        """`total + x * y`, as one fused multiply-add if the target has it.

        Signs of zeros count: LLVM would begin a sum at its first term instead of zero wherever it unrolls a loop, so that results would depend on the
        schedule.
        """
        if not self.is_float:
            return self.add(total, self.mul(x, y))
        contract = arith.FastMathFlags.contract
        product = arith.MulFOp(x, y, fastmath=contract).result
        return arith.AddFOp(total, product, fastmath=contract).result

    def compare(self, predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
        """eq, ne, lt, le, gt or ge; false for NaN, except ne."""
        which = _COMPARE[predicate][self._column]
        return (arith.CmpFOp if self.is_float else arith.CmpIOp)(which, x, y).result

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.SelectOp(condition, x, y).result

    def neg(self, x: ir.Value) -> ir.Value:
        if not self.is_float:
            return self.sub(self.const(0), x)
        return arith.NegFOp(x).result

    def abs(self, x: ir.Value) -> ir.Value:
        if self.is_unsigned:
            return x
        return (math.AbsFOp if self.is_float else math.AbsIOp)(x).result

    def div(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The quotient; for integers truncated, 0 for a division by zero, and never trapping."""
        if self.is_float:
            return arith.DivFOp(x, y).result
        zero, one = self.const(0), self.const(1)
        by_zero = self.compare("eq", y, zero)
        if self.is_unsigned:
            return self.select(by_zero, zero, self._quotient(x, self.select(by_zero, one, y), y))
        by_minus_one = self.compare("eq", y, self.const(-1))
        safe = self.select(arith.OrIOp(by_zero, by_minus_one).result, one, y)
        quotient = self.select(by_minus_one, self.neg(x), self._quotient(x, safe, y))
        return self.select(by_zero, zero, quotient)

    def _quotient(self, x: ir.Value, safe: ir.Value, y: ir.Value) -> ir.Value:
        """The quotient of integers by `safe`, which is `y` if that is a valid divisor.

        Machines divide vectors of floats, not of integers. If every integer is exactly representable as a float, a quotient rounded to a float does
        not reach the next integer: with p bits, x / y is at least 1 / y away from it, and the rounding error is below 2^-p x / y. A constant divisor
        is left to LLVM, which multiplies instead.
        """
        if self.width > 32 or constant_attribute(y) is not None:
            return (arith.DivUIOp if self.is_unsigned else arith.DivSIOp)(x, safe).result
        wide = ir.F64Type.get() if self.width == 32 else ir.F32Type.get()
        to_float, to_integer = (arith.UIToFPOp, arith.FPToUIOp) if self.is_unsigned else (arith.SIToFPOp, arith.FPToSIOp)
        return to_integer(self.type, arith.DivFOp(to_float(wide, x).result, to_float(wide, safe).result).result).result

    def rem(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The remainder of truncating division, with the sign of `x`; 0 for an integer division by zero."""
        if self.is_float:
            return arith.RemFOp(x, y).result
        one = self.const(1)
        trivial = self.compare("eq", y, self.const(0))
        if not self.is_unsigned:
            trivial = arith.OrIOp(trivial, self.compare("eq", y, self.const(-1))).result
        safe = self.select(trivial, one, y)
        return self.sub(x, self.mul(self._quotient(x, safe, y), safe))

    def call(self, function: Any, *operands: ir.Value) -> ir.Value:
        """An op of the math dialect."""
        return function(*operands).result
