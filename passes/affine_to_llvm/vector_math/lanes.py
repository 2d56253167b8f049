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

    def operand(self, other: "Lanes | float") -> ir.Value:
        """Another value, or a number in every lane in the type of this value."""
        return other.value if isinstance(other, Lanes) else self.shape.constant(self.value.type, other)


L = TypeVar("L", bound=Lanes)


def _unary(op: Callable[[ir.Value], Any]) -> Callable[[L], L]:
    """A method that applies an op to a value."""
    return lambda self: type(self)(self.shape, op(self.value).result)


def _binary(op: Callable[[ir.Value, ir.Value], Any]) -> Callable[[L, L | float], L]:
    """A method that applies an op to a value and another operand."""
    return lambda self, other: type(self)(self.shape, op(self.value, self.operand(other)).result)


def _reflected(op: Callable[[ir.Value, ir.Value], Any]) -> Callable[[L, float], L]:
    """A method that applies an op to a number and a value."""
    return lambda self, other: type(self)(self.shape, op(self.operand(other), self.value).result)


def _compares(predicate: arith.CmpFPredicate) -> "Callable[[Floats, Floats | float], Mask]":
    """A method that compares floats."""
    return lambda self, other: Mask(self.shape, arith.CmpFOp(predicate, self.value, self.operand(other)).result)


class Mask(Lanes):
    """A truth value in each lane."""

    __and__, __or__ = _binary(arith.AndIOp), _binary(arith.OrIOp)

    def choose(self, then: L, otherwise: "L | float") -> L:
        """`then` where true, else `otherwise`."""
        return type(then)(self.shape, arith.SelectOp(self.value, then.value, then.operand(otherwise)).result)

    def any(self) -> ir.Value:
        """Whether it is true in any lane, as one i1."""
        if self.shape.sizes is None:
            return self.value
        truth = ir.IntegerType.get_signless(1)
        flat = vector.ShapeCastOp(ir.VectorType.get([prod(self.shape.sizes)], truth), self.value).result
        return vector.ReductionOp(truth, vector.CombiningKind.OR, flat).result


class Ints(Lanes):
    """A 32-bit integer in each lane; arithmetic wraps, and a shift to the right is arithmetic: it rounds down."""

    __add__, __sub__, __rsub__ = _binary(arith.AddIOp), _binary(arith.SubIOp), _reflected(arith.SubIOp)
    __and__, __or__, __xor__ = _binary(arith.AndIOp), _binary(arith.OrIOp), _binary(arith.XOrIOp)
    __lshift__, __rshift__ = _binary(arith.ShLIOp), _binary(arith.ShRSIOp)
    at_least = _binary(arith.MaxSIOp)
    """The larger one of it and a bound."""

    def equal(self, other: int) -> Mask:
        """Whether it equals `other`."""
        return Mask(self.shape, arith.CmpIOp(arith.CmpIPredicate.eq, self.value, self.operand(other)).result)

    def as_float(self) -> "Floats":
        """The f32 that has these bits."""
        return Floats(self.shape, arith.BitcastOp(self.shape.f32, self.value).result)

    def to_float(self) -> "Floats":
        """The nearest f32."""
        return Floats(self.shape, arith.SIToFPOp(self.shape.f32, self.value).result)


class Floats(Lanes):
    """An f32 or f64 in each lane. Every operation rounds once: nothing here may be contracted or reordered."""

    __add__, __sub__, __mul__, __truediv__ = _binary(arith.AddFOp), _binary(arith.SubFOp), _binary(arith.MulFOp), _binary(arith.DivFOp)
    __radd__, __rsub__, __rmul__, __rtruediv__ = __add__, _reflected(arith.SubFOp), __mul__, _reflected(arith.DivFOp)
    __neg__, __abs__ = _unary(arith.NegFOp), _unary(math.AbsFOp)
    __lt__, __le__, __gt__, __ge__ = _compares(F.OLT), _compares(F.OLE), _compares(F.OGT), _compares(F.OGE)
    equal, differs = _compares(F.OEQ), _compares(F.UNE)
    """Whether it equals another value (false for NaN), or differs from it (true for NaN)."""
    floor, sqrt = _unary(math.FloorOp), _unary(math.SqrtOp)
    """The largest integer not above it; its square root, rounded once."""

    def constant(self, value: float) -> "Floats":
        """`value` in every lane, in the type of this value."""
        return Floats(self.shape, self.operand(value))

    def apply(self, op: Callable[[ir.Value], Any]) -> "Floats":
        """The result of an op of the math dialect on it."""
        return self._new(op(self.value))

    def _new(self, op: Any) -> "Floats":
        return Floats(self.shape, op.result)

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
    return Floats(x.shape, math.FmaOp(x.value, x.operand(y), x.operand(z)).result)


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
