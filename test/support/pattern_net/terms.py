"""Graphs of fixed shapes as terms of z3 over the reals, an array of terms for each value.

What only moves elements is asked of the op's reference, on numbers of elements; so is which elements a window or a reduction covers, and what a
contraction multiplies by (it is linear, so it suffices to try units). Arithmetic is spelled out below. Functions such as `exp` are not
interpreted: equal arguments give equal results, and nothing else is known of them, but that the root of what is not negative, squared, is it, and
that the exponential of a sum is a product.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import z3
from pattern_net.graphs import Argument, Constant, Graph, Node, Ref

from stepwell.dialects.core.types import INTEGERS, TensorType, is_float, is_integer, to_numpy
from stepwell.dialects.graph import op_class
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.traits import MovesData
from stepwell.dialects.support.errors import StepwellError

LINEAR = {
    "conv": 2, "conv_transpose": 2, "packed.conv": 2, "packed.bordered_conv": 2, "packed.depthwise_conv": 2, "packed.winograd_conv": 2, "matmul": 2,
    "packed.matmul": 2, "avg_pool": 1, "reduce_sum": 1, "cumsum": 1, "col2im": 1, "resize": 1,
}  # fmt: skip
"""Ops that are linear in each of their first so many operands."""
UNITS = 6000  # evaluations of a reference on units, for one op
RING = ("add", "sub", "mul", "neg", "bitwise_not", "matmul", "conv", "cast", "reduce_sum")
"""Integer arithmetic that wraps may be proven without: what holds in the whole numbers holds modulo 2^n."""
ORDERED = ("maximum", "minimum", "relu", "abs", "clamp", "reduce_max", "reduce_min", "max_pool", "less", "less_equal", "greater", "greater_equal")
QUANTISED = ("quantize", "dequantize", "fake_quantize")
ROUNDING = ("quantize", "fake_quantize", "round", "cast", "floor", "ceil", "mod")
EXPONENTIALS = 24  # of which it is asked whether the exponent of one is the sum of two others
LARGEST = 256  # elements of a value


LEAST = z3.Real("least")
"""What stands for minus infinity as a padding: a number below those of all arguments."""


class NoTermError(Exception):
    """What there is no term for."""


def number(value: Any) -> Any:
    """A finite number as a term: a boolean, or an exact fraction."""
    if isinstance(value, (bool, np.bool_)):
        return z3.BoolVal(bool(value))
    if not np.isfinite(float(value)):
        raise NoTermError("an infinity or NaN is no real number")
    exact = value if isinstance(value, Fraction) else Fraction(int(value)) if isinstance(value, np.integer) else Fraction(float(value))
    return z3.RealVal(f"{exact.numerator}/{exact.denominator}")


def each(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """A function of the elements of arrays, which are broadcast."""
    broadcast = np.broadcast_arrays(*arrays)
    out = np.empty(broadcast[0].shape, object)
    for place in np.ndindex(out.shape):
        out[place] = function(*(a[place] for a in broadcast))
    return out


def zero_one(term: Any) -> Any:
    """A boolean as a number."""
    return z3.If(term, z3.RealVal(1), z3.RealVal(0)) if z3.is_bool(term) else term


def is_zero(term: Any) -> bool:
    """Whether a term is the number 0."""
    return bool(z3.is_rational_value(term) and term.numerator_as_long() == 0)


def greater(a: Any, b: Any) -> Any:
    return z3.If(a >= b, a, b)


def lesser(a: Any, b: Any) -> Any:
    return z3.If(a <= b, a, b)


def nearest(x: Any) -> Any:
    """The nearest whole number, the even one of two."""
    below = z3.ToInt(x)
    rest = x - z3.ToReal(below)
    half = z3.Q(1, 2)
    up = z3.Or(rest > half, z3.And(rest == half, below % 2 == 1))
    return z3.ToReal(z3.If(up, below + 1, below))


def toward_zero(x: Any) -> Any:
    """The nearest whole number that is not farther from 0."""
    return z3.If(x >= 0, z3.ToReal(z3.ToInt(x)), -z3.ToReal(z3.ToInt(-x)))


class Terms:
    """Makes the terms of graphs that share their arguments. `conditions` are what its results suppose, `axioms` what always holds."""

    def __init__(self) -> None:
        self.conditions: list[Any] = []
        self.axioms: list[Any] = []
        self.arguments: list[np.ndarray] = []
        self.functions: dict[str, Any] = {}
        self.roots: dict[Any, Any] = {}
        self.exponents: dict[Any, Any] = {}

    def function(self, name: str, *operands: Any) -> Any:
        """An uninterpreted function of terms."""
        if name not in self.functions:
            self.functions[name] = z3.Function(name, *[z3.RealSort()] * (len(operands) + 1))
        return self.functions[name](*(z3.simplify(o, som=True) for o in operands))

    def argument(self, number_of: int, kind: TensorType) -> np.ndarray:
        """Unknowns for the elements of an argument: booleans, whole numbers in the range of their type, reals."""
        if not kind.is_static or kind.elements > LARGEST:
            raise NoTermError("a size is free, or large")
        out = np.empty(kind.static_shape, object)
        for i, place in enumerate(np.ndindex(out.shape)):
            name = f"x{number_of}_{i}"
            if kind.dtype == "i1":
                out[place] = z3.Bool(name)
            elif is_float(kind.dtype):
                out[place] = z3.Real(name)
                self.axioms.append(out[place] >= LEAST)
            elif is_integer(kind.dtype):
                limits = np.iinfo(to_numpy(kind.dtype))
                out[place] = z3.ToReal(z3.Int(name)) if self.whole else z3.Real(name)
                self.axioms += [out[place] >= int(limits.min), out[place] <= int(limits.max)]
            else:
                raise NoTermError(f"{kind.dtype} is only stored")
        return out

    def returned(self, graph: Graph) -> list[np.ndarray]:
        """The terms of what a graph returns. Raises NoTermError."""
        if not self.arguments:
            self.whole = any(node.mnemonic in ROUNDING for node in graph.nodes())
        for kind in (argument.type for argument in graph.arguments()[len(self.arguments) :]):
            self.arguments.append(self.argument(len(self.arguments), kind))
        wraps = any(n.mnemonic in ("add", "sub", "mul", "neg") and is_integer(n.types[0].dtype) for n in graph.nodes())
        values: dict[Ref, np.ndarray] = {}
        given = iter(self.arguments)
        for place, entry in enumerate(graph.entries):
            if isinstance(entry, Argument):
                results = [next(given)]
            elif isinstance(entry, Constant):
                if entry.array.size > LARGEST:
                    raise NoTermError("a constant is large")
                results = [each(number, entry.array)]
            else:
                if any(not t.is_static or t.elements > LARGEST for t in entry.types):
                    raise NoTermError("a size is free, or large")
                results = [self.node(graph, entry, values, wraps=wraps)]
            values.update({Ref(place, n): array for n, array in enumerate(results)})
        return [values[ref] for ref in graph.outputs]

    def node(self, graph: Graph, node: Node, values: Mapping[Ref, np.ndarray], *, wraps: bool) -> np.ndarray:
        """The terms of an op's result."""
        name, cls = node.mnemonic, op_class(node.mnemonic)
        if len(node.types) != 1:
            raise NoTermError(f"{name} has several results")
        kinds = [graph.type(ref) for g in node.operands if g is not None for ref in (g if isinstance(g, list) else [g])]
        moves = cls.has_trait(MovesData) or name in ("concat", "pad")
        whole = is_integer(node.types[0].dtype) and any(is_integer(k.dtype) for k in kinds)
        if whole and not moves and name not in (*RING, *(() if wraps else ORDERED), *QUANTISED, "select"):
            raise NoTermError(f"{name} of integers wraps, or rounds")
        operands, self.kind = map_groups(values.__getitem__, node.operands), kinds[-1].dtype if kinds else None
        if moves:
            return moved(node, operands)
        if name in LINEAR:
            return linear(node, operands)
        if name in ("max_pool", "reduce_max", "reduce_min", "reduce_prod"):
            fold = {"reduce_min": lesser, "reduce_prod": lambda a, b: a * b}.get(name, greater)
            return covered(node, operands[0], fold)
        rule = getattr(self, f"op_{name}", None)
        if rule is not None:
            return np.asarray(rule(node, *operands))
        if name in UNINTERPRETED:
            said = "".join(f"_{v}" for v in node.attributes.values())
            return each(lambda *x: self.function(name + said, *x), *operands)
        raise NoTermError(f"there is no term for {name}")

    def op_add(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    def op_sub(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a - b

    def op_mul(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a * b

    def op_neg(self, _: Node, x: np.ndarray) -> np.ndarray:
        return -x

    def op_div(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(self.quotient, a, b)

    def quotient(self, a: Any, b: Any) -> Any:
        """A quotient, and that its divisor is not 0."""
        if z3.is_rational_value(b):
            if is_zero(b):
                raise NoTermError("it divides by 0")
            return a * number(1 / b.as_fraction())
        self.conditions.append(b != 0)
        return a / b

    def op_reciprocal(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(lambda v: self.quotient(z3.RealVal(1), v), x)

    def op_abs(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(lambda v: z3.If(v >= 0, v, -v), x)

    def op_relu(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(lambda v: z3.If(v >= 0, v, z3.RealVal(0)), x)

    def op_maximum(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(greater, a, b)

    def op_minimum(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(lesser, a, b)

    def op_clamp(self, node: Node, x: np.ndarray) -> np.ndarray:
        low, high = node.attributes["min"], node.attributes["max"]
        bounded = x if low == -np.inf else each(lambda v: greater(v, number(low)), x)
        return bounded if high == np.inf else each(lambda v: lesser(v, number(high)), bounded)

    def op_select(self, _: Node, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(z3.If, condition, a, b)

    def op_less(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(lambda x, y: x < y, a, b)

    def op_less_equal(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(lambda x, y: x <= y, a, b)

    def op_greater(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(lambda x, y: x > y, a, b)

    def op_greater_equal(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(lambda x, y: x >= y, a, b)

    def op_equal(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(lambda x, y: x == y, a, b)

    def op_not(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(z3.Not, x)

    def op_bitwise_not(self, node: Node, x: np.ndarray) -> np.ndarray:
        return (
            each(lambda v: -v - 1, x) if node.types[0].dtype.startswith("i") else each(lambda v: number(2 ** int(node.types[0].dtype[2:]) - 1) - v, x)
        )

    def op_and(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(z3.And, a, b)

    def op_or(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return each(z3.Or, a, b)

    def op_cast(self, node: Node, x: np.ndarray) -> np.ndarray:
        to = str(node.attributes["to"])
        if any(z3.is_bool(v) for v in x.reshape(-1)):
            return x if to == "i1" else each(zero_one, x)
        if is_float(to):
            return x
        if to == "i1":
            return each(lambda v: v != 0, x)
        if to not in INTEGERS:
            raise NoTermError(f"{to} is only stored")
        limits, whole = np.iinfo(to_numpy(to)), is_integer(self.kind or "")
        if whole and holds(str(self.kind), to):
            return x
        self.conditions += [z3.And(v >= int(limits.min), v <= int(limits.max)) for v in x.reshape(-1)]
        return x if whole else each(toward_zero, x)

    whole = False
    """Whether integers are whole numbers, and not any reals in their range, of which more is easier to prove."""
    kind: str | None = None
    """The element type of the last operand of the op at hand."""

    def op_sqrt(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(self.root, x)

    def root(self, x: Any) -> Any:
        """The root of what is not negative, as a number of which only the square is known; exact where it is a fraction."""
        plain = z3.simplify(x, som=True)
        if z3.is_rational_value(plain):
            value = plain.as_fraction()
            exact = Fraction(int(value.numerator**0.5 + 0.5), int(value.denominator**0.5 + 0.5)) if value >= 0 else None
            if exact is None or exact * exact != value:
                raise NoTermError("a root is no fraction")
            return z3.RealVal(f"{exact.numerator}/{exact.denominator}")
        if plain not in self.roots:
            self.roots[plain] = root = self.function("sqrt", plain)
            self.conditions.append(plain >= 0)
            self.axioms.append(z3.Implies(plain >= 0, z3.And(root >= 0, root * root == plain)))
        return self.roots[plain]

    def op_rsqrt(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(lambda v: self.quotient(z3.RealVal(1), self.root(v)), x)

    def op_exp(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(self.power_of_e, x)

    def power_of_e(self, x: Any) -> Any:
        """An exponential, which is above 0."""
        exponent = z3.simplify(x, som=True)
        if exponent not in self.exponents:
            made = self.exponents[exponent] = self.function("exp", exponent)
            self.axioms.append(made > 0)
        return self.exponents[exponent]

    def products_of_powers(self) -> list[Any]:
        """That the exponential of a sum is a product, for those exponentials that there are."""
        known = self.exponents.items() if len(self.exponents) <= EXPONENTIALS else ()
        pairs = itertools.combinations_with_replacement(known, 2)
        sums = [(z3.simplify(a + b, som=True), f * g) for (a, f), (b, g) in pairs]
        return [self.exponents[total] == product for total, product in sums if total in self.exponents]

    def op_sigmoid(self, _: Node, x: np.ndarray) -> np.ndarray:
        def one(v: Any) -> Any:
            made = self.function("sigmoid", v)
            self.axioms.append(made > 0)
            return made

        return each(one, x)

    def op_pow(self, _: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        def power(x: Any, y: Any) -> Any:
            plain = z3.simplify(y)
            exponent = plain.as_fraction() if z3.is_rational_value(plain) else None
            if exponent is not None and exponent.denominator == 1 and 0 < exponent <= 4:
                return prod([x] * (exponent.numerator - 1), start=x)
            if exponent == -1:
                return self.quotient(z3.RealVal(1), x)
            return self.root(x) if exponent == Fraction(1, 2) else self.function("pow", x, y)

        return each(power, a, b)

    def op_softmax(self, node: Node, x: np.ndarray) -> np.ndarray:
        powers = each(self.power_of_e, x)
        total = np.add.reduce(powers, axis=node.attributes["axis"], keepdims=True)
        return each(lambda a, b: a / b, powers, np.broadcast_to(total, powers.shape))

    def op_attention(self, node: Node, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        scores = np.matmul(q, k) * number(node.attributes["scale"])
        scores = scores if mask is None else scores + mask
        return np.asarray(np.matmul(self.op_softmax(Node("softmax", [], {"axis": scores.ndim - 1}), scores), v))

    def op_batch_norm(self, node: Node, x: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
        scale, bias, mean, var = (p.reshape(-1, *[1] * (x.ndim - 2)) for p in parameters)
        spread = each(lambda v: self.root(v + number(node.attributes["epsilon"])), var)
        return each(lambda v, m, d, s, b: self.quotient(v - m, d) * s + b, x, mean, spread, scale, bias)

    def op_dequantize(self, _: Node, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
        return each(lambda v, s, z: (v - z) * s, x, scale, zero)

    def op_quantize(self, node: Node, x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
        return self.saturated(each(self.quotient, x, scale), zero, node.types[0].dtype)

    def saturated(self, quotient: np.ndarray, zero: np.ndarray, dtype: str) -> np.ndarray:
        """Rounded numbers plus a zero point, within a type's bounds."""
        limits = np.iinfo(to_numpy(dtype))
        low, high = number(int(limits.min)), number(int(limits.max))
        return each(lambda v, z: lesser(greater(nearest(v) + z, low), high), quotient, np.broadcast_to(zero, quotient.shape))

    def op_fake_quantize(self, node: Node, x: np.ndarray, zero: np.ndarray) -> np.ndarray:
        return self.saturated(x, zero, self.kind or "i8") - zero

    def op_round(self, _: Node, x: np.ndarray) -> np.ndarray:
        return each(nearest, x)


UNINTERPRETED = (
    "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "softplus", "sign", "floor",
    "ceil", "leaky_relu", "elu", "mod",
)  # fmt: skip


def holds(source: str, to: str) -> bool:
    """Whether an integer type holds all of another one."""
    a, b = np.iinfo(to_numpy(source)), np.iinfo(to_numpy(to))
    return bool(b.min <= a.min and a.max <= b.max)


def plain(array: np.ndarray) -> np.ndarray | None:
    """The numbers of terms that are constants, in f64; None if one is not."""
    out = np.empty(array.shape)
    for place in np.ndindex(array.shape):
        term: Any = array[place]
        term = z3.simplify(term) if z3.is_expr(term) else term
        if not z3.is_rational_value(term):
            return None
        exact = term.as_fraction()
        out[place] = float(exact)
        if Fraction(float(exact)) != exact:
            return None
    return out


def reference(node: Node, operands: Sequence[Any], **changed: Any) -> np.ndarray:
    """What an op's reference gives."""
    with np.errstate(all="ignore"):
        try:
            return np.asarray(op_class(node.mnemonic).reference(*operands, **{**node.attributes, **changed}))
        except (ValueError, IndexError, StepwellError) as error:
            raise NoTermError(f"{node.mnemonic} has no meaning for these data") from error


def moved(node: Node, operands: Sequence[Any]) -> np.ndarray:
    """The terms of an op that only moves elements, whose places are asked of its reference."""
    parts = operands[0] if isinstance(operands[0], list) else [operands[0]]
    starts = np.cumsum([0, *(p.size for p in parts)])
    places: Any = [np.arange(p.size, dtype=np.int64).reshape(p.shape) + start for p, start in zip(parts, starts, strict=False)]
    others = []
    for operand in operands[1:]:
        known = plain(operand)
        if known is None:
            raise NoTermError(f"the indices of {node.mnemonic} are not known")
        others.append(known.astype(np.int64))
    elements = [term for p in parts for term in p.reshape(-1)]
    changed = {}
    if node.mnemonic == "pad":
        changed = {"value": -1.0}
        value = node.attributes["value"]
        elements.append(None if node.attributes["mode"] != "constant" else LEAST if value == -np.inf else number(value))
    found = reference(node, [places if isinstance(operands[0], list) else places[0], *others], **changed)
    out = np.empty(found.shape, object)
    for place in np.ndindex(found.shape):
        out[place] = elements[int(found[place])]
    return out


def linear(node: Node, operands: Sequence[Any]) -> np.ndarray:
    """The terms of an op that is linear in each of its operands, whose coefficients are asked of its reference, by units."""
    count = LINEAR[node.mnemonic]
    numbers = [plain(o) for o in operands]
    free = [n for n in range(count) if numbers[n] is None] or [0]
    if any(numbers[n] is None for n in range(count, len(operands))):
        raise NoTermError(f"an operand of {node.mnemonic} that it is not linear in is not known")
    if prod(operands[n].size for n in free) > UNITS:
        raise NoTermError(f"{node.mnemonic} has many elements")
    if reference(node, [np.zeros(o.shape) if n in free else numbers[n] for n, o in enumerate(operands)]).any():
        raise NoTermError(f"{node.mnemonic} adds a number here")
    total: np.ndarray | None = None
    units: list[Any] = list(numbers)
    for place in np.ndindex(*(operands[n].size for n in free)):
        for n, i in zip(free, place, strict=True):
            unit = np.zeros(operands[n].size)
            unit[i] = 1
            units[n] = unit.reshape(operands[n].shape)
        found = reference(node, units)
        if total is None:
            total = np.full(found.shape, None, object)
        term = prod((operands[n].reshape(-1)[i] for n, i in zip(free[1:], place[1:], strict=True)), start=operands[free[0]].reshape(-1)[place[0]])
        for at in np.argwhere(found):
            key = tuple(at)
            product = term * number(Fraction(float(found[key])).limit_denominator(10**9) if node.mnemonic == "avg_pool" else found[key])
            total[key] = product if total[key] is None else total[key] + product
    if total is None:
        raise NoTermError(f"{node.mnemonic} has no elements")
    return each(lambda v: z3.RealVal(0) if v is None else v, total)


def covered(node: Node, x: np.ndarray, fold: Callable[[Any, Any], Any]) -> np.ndarray:
    """The terms of an op that folds some elements for each of its results; which ones, its reference tells where one element differs."""
    sign = -1 if node.mnemonic == "reduce_min" else 1
    out: np.ndarray | None = None
    for i in range(x.size):
        unit = np.full(x.size, 1.0 if node.mnemonic == "reduce_prod" else -1.0 * sign)
        unit[i] = 2.0 * sign
        found = reference(node, [unit.reshape(x.shape)])
        if out is None:
            out = np.full(found.shape, None, object)
        for at in np.argwhere(found == 2.0 * sign):
            key = tuple(at)
            out[key] = x.reshape(-1)[i] if out[key] is None else fold(out[key], x.reshape(-1)[i])
    if out is None or any(v is None for v in out.reshape(-1)):
        raise NoTermError(f"{node.mnemonic} folds nothing")
    return out
