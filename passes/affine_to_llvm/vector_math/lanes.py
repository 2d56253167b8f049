"""Values of a formula, computed lane by lane: a scalar or vector of floats, integers or truth values, with Python's operators."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeVar

from stepwell.dialects.core.llvm_ops import call_intrinsic
from stepwell.dialects.core.mlir import arith, ir, math, scf, vector
from stepwell.dialects.core.vectors import part
from stepwell.dialects.target.capabilities import PLAIN, Capabilities, Emit, widest

F = arith.CmpFPredicate


class Shape:
    """The common properties of all values in a formula: the lanes (a vector type's sizes, or none for a scalar) and the constants made so far.

    `capabilities` are those of the target.
    """

    def __init__(self, like: ir.Type, capabilities: Capabilities = PLAIN) -> None:
        self.capabilities = capabilities
        self.sizes = list(ir.VectorType(like).shape) if isinstance(like, ir.VectorType) else None
        self._constants: dict[tuple[str, Any], ir.Value] = {}
        self.f32, self.f64 = self.lane_type(ir.F32Type.get()), self.lane_type(ir.F64Type.get())
        self.i32 = self.lane_type(ir.IntegerType.get_signless(32))

    def lane_type(self, element: ir.Type) -> ir.Type:
        """The type of lanes with elements of type `element`."""
        return element if self.sizes is None else ir.VectorType.get(self.sizes, element)

    def constant(self, kind: ir.Type, value: float) -> ir.Value:
        """`value` in every lane; each type and value has one op."""
        key = str(kind), repr(value)
        if key not in self._constants:
            element = ir.VectorType(kind).element_type if self.sizes is not None else kind
            attribute = ir.IntegerAttr.get(element, value) if isinstance(element, ir.IntegerType) else ir.FloatAttr.get(element, value)
            whole = attribute if self.sizes is None else ir.DenseElementsAttr.get_splat(kind, attribute)
            self._constants[key] = arith.ConstantOp(kind, whole).result
        return self._constants[key]

    @contextmanager
    def inside(self, block: ir.Block) -> Iterator[None]:
        """Build in `block`; constants made there are not used outside."""
        outside = dict(self._constants)
        with ir.InsertionPoint(block):
            yield
        self._constants = outside


class Lanes:
    """Base class of the three kinds of values."""

    def __init__(self, shape: Shape, value: ir.Value) -> None:
        self.shape, self.value = shape, value


L = TypeVar("L", bound=Lanes)


class Mask(Lanes):
    """A truth value in each lane."""

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(self.shape, arith.AndIOp(self.value, other.value).result)

    def __or__(self, other: "Mask") -> "Mask":
        return Mask(self.shape, arith.OrIOp(self.value, other.value).result)

    def choose(self, then: L, otherwise: "L | float") -> L:
        """`then` where true, else `otherwise`."""
        other = otherwise.value if isinstance(otherwise, Lanes) else self.shape.constant(then.value.type, otherwise)
        return type(then)(self.shape, arith.SelectOp(self.value, then.value, other).result)

    def any(self) -> ir.Value:
        """Whether it is true in any lane, as one i1."""
        if self.shape.sizes is None:
            return self.value
        truth = ir.IntegerType.get_signless(1)
        flat = vector.ShapeCastOp(ir.VectorType.get([prod(self.shape.sizes)], truth), self.value).result
        return vector.ReductionOp(truth, vector.CombiningKind.OR, flat).result


class Ints(Lanes):
    """A 32-bit integer in each lane; arithmetic wraps."""

    def _binary(self, op: Callable[[ir.Value, ir.Value], Any], other: "Ints | int") -> "Ints":
        operand = other.value if isinstance(other, Ints) else self.shape.constant(self.shape.i32, other)
        return Ints(self.shape, op(self.value, operand).result)

    def __add__(self, other: "Ints | int") -> "Ints":
        return self._binary(arith.AddIOp, other)

    def __sub__(self, other: "Ints | int") -> "Ints":
        return self._binary(arith.SubIOp, other)

    def __rsub__(self, other: int) -> "Ints":
        return Ints(self.shape, arith.SubIOp(self.shape.constant(self.shape.i32, other), self.value).result)

    def __and__(self, other: "Ints | int") -> "Ints":
        return self._binary(arith.AndIOp, other)

    def __or__(self, other: "Ints | int") -> "Ints":
        return self._binary(arith.OrIOp, other)

    def __xor__(self, other: "Ints | int") -> "Ints":
        return self._binary(arith.XOrIOp, other)

    def __lshift__(self, other: int) -> "Ints":
        return self._binary(arith.ShLIOp, other)

    def __rshift__(self, other: int) -> "Ints":
        """An arithmetic shift, which rounds down."""
        return self._binary(arith.ShRSIOp, other)

    def at_least(self, bound: int) -> "Ints":
        """The larger one of it and `bound`."""
        return self._binary(arith.MaxSIOp, bound)

    def equal(self, other: int) -> Mask:
        """Whether it equals `other`."""
        return Mask(self.shape, arith.CmpIOp(arith.CmpIPredicate.eq, self.value, self.shape.constant(self.shape.i32, other)).result)

    def as_float(self) -> "Floats":
        """The f32 that has these bits."""
        return Floats(self.shape, arith.BitcastOp(self.shape.f32, self.value).result)

    def to_float(self) -> "Floats":
        """The nearest f32."""
        return Floats(self.shape, arith.SIToFPOp(self.shape.f32, self.value).result)


class Floats(Lanes):
    """An f32 or f64 in each lane. Every operation rounds once: nothing here may be contracted or reordered."""

    def _operand(self, other: "Floats | float") -> ir.Value:
        return other.value if isinstance(other, Floats) else self.shape.constant(self.value.type, other)

    def _new(self, op: Any) -> "Floats":
        return Floats(self.shape, op.result)

    def __add__(self, other: "Floats | float") -> "Floats":
        return self._new(arith.AddFOp(self.value, self._operand(other)))

    __radd__ = __add__

    def __sub__(self, other: "Floats | float") -> "Floats":
        return self._new(arith.SubFOp(self.value, self._operand(other)))

    def __rsub__(self, other: float) -> "Floats":
        return self._new(arith.SubFOp(self._operand(other), self.value))

    def __mul__(self, other: "Floats | float") -> "Floats":
        return self._new(arith.MulFOp(self.value, self._operand(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: "Floats | float") -> "Floats":
        return self._new(arith.DivFOp(self.value, self._operand(other)))

    def __rtruediv__(self, other: float) -> "Floats":
        return self._new(arith.DivFOp(self._operand(other), self.value))

    def __neg__(self) -> "Floats":
        return self._new(arith.NegFOp(self.value))

    def __abs__(self) -> "Floats":
        return self.apply(math.AbsFOp)

    def constant(self, value: float) -> "Floats":
        """`value` in every lane, in the type of this value."""
        return Floats(self.shape, self.shape.constant(self.value.type, value))

    def floor(self) -> "Floats":
        """The largest integer not above it."""
        return self.apply(math.FloorOp)

    def apply(self, op: Callable[[ir.Value], Any]) -> "Floats":
        """The result of an op of the math dialect on it."""
        return self._new(op(self.value))

    def sqrt(self) -> "Floats":
        """The square root, rounded once."""
        return self.apply(math.SqrtOp)

    def _compare(self, predicate: Any, other: "Floats | float") -> Mask:
        return Mask(self.shape, arith.CmpFOp(predicate, self.value, self._operand(other)).result)

    def __lt__(self, other: "Floats | float") -> Mask:
        return self._compare(F.OLT, other)

    def __le__(self, other: "Floats | float") -> Mask:
        return self._compare(F.OLE, other)

    def __gt__(self, other: "Floats | float") -> Mask:
        return self._compare(F.OGT, other)

    def __ge__(self, other: "Floats | float") -> Mask:
        return self._compare(F.OGE, other)

    def equal(self, other: "Floats | float") -> Mask:
        """Whether it equals `other`; false for NaN."""
        return self._compare(F.OEQ, other)

    def differs(self, other: "Floats | float") -> Mask:
        """Whether it differs from `other`; true for NaN."""
        return self._compare(F.UNE, other)

    def at_most(self, bound: float) -> "Floats":
        """The smaller one of it and `bound`; NaN stays."""
        return (self > bound).choose(self.constant(bound), self)

    def at_least(self, bound: float) -> "Floats":
        """The larger one of it and `bound`; NaN stays."""
        return (self < bound).choose(self.constant(bound), self)

    @property
    def scales(self) -> bool:
        """Whether `scaled` accepts n as floats without a bound: the lanes fill registers that the target scales in one instruction."""
        return self._scaling() is not None

    def _scaling(self) -> tuple[int, Emit] | None:
        sizes = self.shape.sizes or [1]
        return widest(self.shape.capabilities.power_scaling, sizes[0]) if len(sizes) == 1 else None

    def scaled(self, n: Ints, same: "Floats") -> "Floats":
        """An f32 times 2^n, rounded once, on machines with an instruction for that; `same` is n as floats, the operand of that instruction."""
        scaling = self._scaling()
        if scaling is None:  # LLVM finds the instruction itself, after a conversion of n
            return Floats(self.shape, call_intrinsic(self.value.type, "llvm.ldexp", [self.value, n.value]))
        register, emit = scaling
        lanes, whole = (self.shape.sizes or [1])[0], self.value
        for first in range(0, lanes, register):
            made = emit(*(part(v, first // register, register) for v in (self.value, same.value)))
            whole = made if lanes == register else vector.InsertStridedSliceOp(made, whole, [first], [1]).result
        return Floats(self.shape, whole)

    def bits(self) -> Ints:
        """An f32's bits."""
        return Ints(self.shape, arith.BitcastOp(self.shape.i32, self.value).result)

    def wide(self) -> "Floats":
        """An f32 as f64."""
        return self._new(arith.ExtFOp(self.shape.f64, self.value))

    def narrow(self) -> "Floats":
        """An f64 rounded to f32."""
        return self._new(arith.TruncFOp(self.shape.f32, self.value))


def fma(x: Floats, y: Floats | float, z: Floats | float) -> Floats:
    """`x * y + z`, rounded once: one instruction if the target has it, otherwise a function with the same result."""
    return Floats(x.shape, math.FmaOp(x.value, x._operand(y), x._operand(z)).result)


def polynomial(x: Floats, coefficients: Sequence[float]) -> Floats:
    """`c0 + c1 x + c2 x^2 + …` by W. G. Horner's rule: two coefficients or more, lowest degree first."""
    result = fma(x, coefficients[-1], coefficients[-2])
    for c in reversed(coefficients[:-2]):
        result = fma(result, x, c)
    return result


def when_any(condition: Mask, then: Callable[[], Sequence[L]], otherwise: Sequence[L]) -> list[L]:
    """The result of `then()` if `condition` is true in any lane, else `otherwise`: a branch around work that is hardly ever needed."""
    shape = condition.shape
    branch = scf.IfOp(condition.any(), [value.value.type for value in otherwise], has_else=True)
    with shape.inside(branch.then_block):
        scf.YieldOp([value.value for value in then()])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([value.value for value in otherwise])
    return [type(value)(shape, result) for value, result in zip(otherwise, branch.results, strict=True)]
