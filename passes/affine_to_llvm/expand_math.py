"""The pass that computes functions of the math dialect by polynomials on vectors; upstream's lowering calls libm for each element."""

from collections.abc import Callable
from functools import cache
from typing import Any

from stepwell.dialects.core.locations import nodes_text
from stepwell.dialects.core.mlir import arith, defining_op, ir, math, ops_below
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.dialects.target.capabilities import PLAIN, Capabilities
from stepwell.passes.affine_to_llvm.select_bounds import lane_constant
from stepwell.passes.affine_to_llvm.vector_math.by_libm import BY_LIBM
from stepwell.passes.affine_to_llvm.vector_math.expansions import EXPANSIONS, Expansion
from stepwell.passes.affine_to_llvm.vector_math.lanes import Floats, Shape
from stepwell.passes.affine_to_llvm.vector_math.power import CONSTANT_EXPONENTS
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, Pattern, PatternPass, Rewriter, apply_patterns, pattern


def element_type(kind: ir.Type) -> ir.Type:
    """The type of a scalar or of a vector's elements."""
    return ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind


def lanes(kind: ir.Type, capabilities: Capabilities = PLAIN) -> Shape:
    """The lanes of a scalar or vector type, on a target with these capabilities. Raises NoMatch if their number is unknown."""
    if isinstance(kind, ir.VectorType) and kind.scalable:
        raise NoMatch("its number of lanes is not known")
    return Shape(kind, capabilities)


def widening_pattern(name: str) -> Pattern:
    """rewrite: math.f(x) : f16 or bf16 lanes -> truncf(math.f(extf(x)))"""

    def widen(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
        kind = op.operation.results[0].type
        shape = lanes(kind)
        if not isinstance(element_type(kind), (ir.F16Type, ir.BF16Type)):
            return NoMatch("it is not of f16 or bf16")
        operands = [arith.ExtFOp(shape.f32, operand).result for operand in op.operation.operands]
        return arith.TruncFOp(kind, ir.Operation.create(name, results=[shape.f32], operands=operands).results[0]).result

    widen.__doc__ = f"rewrite: {name}(x) -> truncf({name}(extf(x)))"
    return Pattern(f"widen-{name.removeprefix('math.')}", name, widen)


def pattern_of(
    name: str, prefix: str, function: Callable[..., Floats], elements: tuple[type[ir.Type], ...], capabilities: Capabilities = PLAIN
) -> Pattern:
    """rewrite: math.f(x) -> function(x), for lanes of `elements`"""

    def expand(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
        kind = op.operation.results[0].type
        shape = lanes(kind, capabilities)
        if not isinstance(element_type(kind), elements):
            return NoMatch(f"not for {element_type(kind)}")
        return function(*(Floats(shape, operand) for operand in op.operation.operands)).value

    expand.__doc__ = f"rewrite: {name}(x) -> {function.__name__}(x)"
    return Pattern(f"{prefix}-{name.removeprefix('math.')}", name, expand)


@pattern("math.powf", benefit=2)
def expand_constant_power(op: Any, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: math.powf(x, 3.0) -> x * x * x, and the like"""
    x, y = op.operation.operands
    exponent = splat_constant(y)
    if exponent not in CONSTANT_EXPONENTS:
        return NoMatch("its exponent is none of " + ", ".join(map(str, CONSTANT_EXPONENTS)))
    if not isinstance(element_type(x.type), ir.F32Type):
        return NoMatch("it is not of f32")
    return CONSTANT_EXPONENTS[exponent](Floats(Shape(x.type), x)).value


@pattern("math.rsqrt")
def expand_rsqrt(op: Any, rw: Rewriter) -> ir.Value:
    """rewrite: math.rsqrt(x) -> 1 / math.sqrt(x)"""
    x = op.operation.operands[0]
    kind = x.type
    one: Any = ir.FloatAttr.get(element_type(kind), 1.0)
    whole = ir.DenseElementsAttr.get_splat(kind, one) if isinstance(kind, ir.VectorType) else one
    return arith.DivFOp(arith.ConstantOp(kind, whole).result, math.SqrtOp(x).result).result


def splat_constant(value: ir.Value) -> float | None:
    """The number that all lanes of `value` hold, if it is a constant; otherwise None."""
    while (op := defining_op(value)) is not None and op.name == "vector.broadcast":
        value = op.operands[0]
    return lane_constant(value)


_EXACT = (
    "math.absf", "math.absi", "math.ceil", "math.copysign", "math.ctlz", "math.ctpop", "math.cttz", "math.floor", "math.fma", "math.isfinite",
    "math.isinf", "math.isnan", "math.isnormal", "math.round", "math.roundeven", "math.sqrt", "math.trunc",
)  # fmt: skip
"""The functions whose results are the same on every machine, by an instruction or by libm."""


def _refuse_calls(op: ir.Operation) -> None:
    """Raise UnsupportedError, naming nodes, for functions that are left to libm, whose results differ between systems."""
    left = [inner for inner in ops_below(op) if inner.name.startswith("math.") and inner.name not in _EXACT]
    if left:
        calls = dict.fromkeys(f"{nodes_text(o.location)}: '{o.name}' of {element_type(o.results[0].type)}" for o in left)
        raise UnsupportedError(f"reproducible results cannot use libm, which differs between systems; supported: f32, f16, bf16. {'; '.join(calls)}")


@cache
def _patterns(expansions: tuple[Expansion, ...], capabilities: Capabilities, *, libm: bool) -> tuple[Pattern, ...]:
    """The patterns that expand functions for a target with these capabilities, by these expansions or by calls of the system's libm."""
    kinds = (ir.F32Type, ir.F64Type) if libm else (ir.F64Type,)
    by_us = (pattern_of(e.op, "expand", e.function, (ir.F32Type,), capabilities) for e in expansions)
    polynomials = () if libm else (expand_constant_power, *by_us)
    return (
        expand_rsqrt,
        *(widening_pattern(e.op) for e in expansions),
        *polynomials,
        *(pattern_of(name, "correct", function, kinds) for name, function in BY_LIBM.items()),
    )


@register_pass("expand-math", level="affine", switches={"expand-math": "libm=true"})
class ExpandMath(PatternPass):
    """Compute exp, log, tanh, erf, sin, pow and similar functions by polynomials on f32 vectors and scalars, with bit-identical results.

    Narrower floats are computed in f32; f64 is left to libm. docs/vector-math.md explains how each function is computed and how large its error can
    be.
    """

    libm: bool = False  # leave f32 to the system's libm too, one element at a time

    @classmethod
    def all_patterns(cls) -> tuple[Pattern, ...]:
        """The patterns with polynomials and those that call libm, including the expansions of plugins."""
        by_polynomials, by_libm = (_patterns(tuple(EXPANSIONS.values()), PLAIN, libm=libm) for libm in (False, True))
        return tuple({p.name: p for p in (*by_polynomials, *by_libm)}.values())

    def run(self, op: ir.Operation, state: PassState) -> None:
        libm = self.libm or not state.machine.vector_maths
        patterns = _patterns(tuple(EXPANSIONS.values()), state.machine.capabilities, libm=libm)  # includes those of plugins
        state.count(self.name, apply_patterns(op, patterns, state))
        if state.machine.reproducible:
            _refuse_calls(op)
