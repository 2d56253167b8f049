"""How far rounding may take the results of a graph: by running its meaning again and again with every rounding disturbed.

Each op that rounds gets operands that are off by a few units in the last place, more for the operands of a sum of many terms, and so do
its results: whatever an implementation does between an op's operands and its results (another order of a sum, fewer roundings, more of
them in a wider type) is, for the ops here, as if the operands had been off by so much. That is backward error analysis
(N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, ch. 1) done by Monte Carlo (D. S. Parker, 1997).
Where results jump (a comparison, a conversion to integers), the disturbed runs tell where they would.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import ml_dtypes
import numpy as np
from random_graphs.compact import is_float

from stepwell.dialects.core.dtypes import from_numpy as dtype_of, is_compact
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.control import FusedOp, IfOp, LoopOp
from stepwell.dialects.graph.logic import rounds_result
from stepwell.dialects.interpreter import functions_of
from stepwell.dialects.interpreter.evaluate import Evaluator

# Ops that round nothing: they move data, choose among it, look at it, or compute on integers.
EXACT = frozenset((
    "reshape", "dynamic_reshape", "transpose", "expand", "dynamic_expand", "tile", "concat", "pad", "slice", "dynamic_slice", "gather",
    "gather_elements", "gather_nd", "select", "neg", "abs", "relu", "maximum", "minimum", "clamp", "floor", "ceil", "round", "sign", "is_nan",
    "is_inf", "equal", "less", "less_equal", "greater", "greater_equal", "max_pool", "reduce_max", "reduce_min", "arg_max", "arg_min", "top_k",
    "cast", "constant", "parameter", "not", "and", "or", "xor", "shape_of", "non_zero", "zigzag", "bitwise_not", "bitwise_and", "bitwise_or",
    "bitwise_xor", "shift_left", "shift_right", "reverse_sequence", "bit_cast", "unique",
    "non_max_suppression", "count_ngrams", "random_bits", "roi_max_pool",
))  # fmt: skip
FUNCTIONS = frozenset((
    "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "softplus",
    "pow", "elu", "softmax", "log_softmax", "sqrt", "rsqrt", "lstm", "gru", "rnn",
))  # fmt: skip
# Ops that choose between zeros of both signs as they come: either is right (docs/numerics.md). So it is with sums, but not with these.
CHOOSING = frozenset(("relu", "maximum", "minimum", "clamp", "max_pool", "roi_max_pool", "reduce_max", "reduce_min"))
SIGNED = frozenset(("mul", "div", "reciprocal", "mod"))
# Sums of products, and products, that are computed in f32: where they overflow it in between, the order of terms decides what comes out.
GROWING = frozenset(("matmul", "conv", "conv_transpose", "reduce_prod", "cumprod"))
GREATEST = float(np.finfo(np.float32).max)
ULPS = 1  # by which each operand and result of an op that rounds is off, at most
FUNCTION_ULPS = 8  # by which a function may be off, in ours and in numpy
RUNS = 6
MORE_RUNS = 60  # before something is said to be wrong
FACTOR = 8  # how much more than the disturbed runs a right result may be off: they are few


class Disturbed(Evaluator):
    """Evaluates with every rounding disturbed; `scale` is how much more than in our own code."""

    def __init__(self, functions: Mapping[str, Any], weights: Any, seed: int, *, absolute: bool, winograd: bool) -> None:
        """`absolute` is for other implementations: functions are off by units of 1, sums by units of their largest results.

        `winograd` is whether convolutions may be computed by Winograd's method.
        """
        super().__init__(functions, weights)
        self.generator = np.random.default_rng(seed)
        self.overflows = seed % 2 == 1  # in half of the runs, what may overflow on the way does
        self.absolute = absolute
        self.winograd = winograd

    def results_of(self, operation: Any, given: list[Any], values: Any) -> Sequence[Any]:
        op, name = operation.opview, operation.name.removeprefix("graph.")
        if self.absolute and name in ("cast", "matmul"):  # from f64, in which we compute some nodes of narrower types
            return [self.off_by(y, 16 * float(np.abs(y.astype(np.float64)).max(initial=0))) for y in super().results_of(operation, given, values)]
        if name == "cast" and rounds_result(op.operation):  # what follows may read the wider number (widen-halves)
            return [self.off(y, ULPS) for y in super().results_of(operation, given, values)]
        if name in CHOOSING:
            return [self.either_zero(y) for y in super().results_of(operation, given, values)]
        if not isinstance(op, GraphOp) or isinstance(op, (FusedOp, IfOp, LoopOp)) or name in EXACT:
            return super().results_of(operation, given, values)
        if name.startswith("scatter") and ir.StringAttr(op.attributes["reduction"]).value in ("none", "max", "min"):
            return super().results_of(operation, given, values)
        operands = list(op.operation.operands)
        arrays = [values[v] for v in operands]
        ulps = ULPS * (1 + sqrt(terms(name, arrays, op)))
        inner = {v: self.off(a, ulps) for v, a in zip(operands, arrays, strict=True)}
        groups = map_groups(inner.__getitem__, op.operand_groups())
        results = op.evaluate(groups)
        if name in GROWING and self.overflows:
            results = tuple(self.overflown(op, name, inner, results))
        if self.winograd and name == "conv":
            results = tuple(self.off_by(y, 200 * ulps * float(np.abs(y.astype(np.float64)).max(initial=0))) for y in results)
        if self.absolute and name == "resize":  # others compute weights of places that are rounded to f32, the further along an image the more
            reach = max(arrays[0].shape) * float(np.abs(arrays[0].astype(np.float64)).max(initial=0))
            results = tuple(self.off_by(y, reach) for y in results)
        if name not in FUNCTIONS:
            results = tuple(self.off(y, ULPS) for y in results)
            return results if name in SIGNED else [self.either_zero(y) for y in results]
        functions = [self.off(y, FUNCTION_ULPS) for y in results]
        if name == "log_softmax":  # near 0 it is the logarithm of a sum near 1, of which each term rounds
            functions = [self.off_by(y, ulps) for y in functions]
        return [self.off_by(y, FUNCTION_ULPS) for y in functions] if self.absolute else functions

    def overflown(self, op: Any, name: str, operands: Mapping[ir.Value, np.ndarray], results: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an op of f32 or narrower floats, NaN where the sizes of its terms add up, or multiply, to more than f32 holds."""
        if any(not is_float(dtype_of(y.dtype)) or y.dtype == np.float64 for y in results):
            return results
        least = 1.0 if name in ("reduce_prod", "cumprod") else 0.0
        sizes = {v: np.maximum(np.abs(np.nan_to_num(a.astype(np.float64))), least) for v, a in operands.items()}
        made = type(op).reference(*map_groups(sizes.__getitem__, op.operand_groups()), **op.attribute_values())
        sums = made if isinstance(made, tuple) else (made,)
        return tuple(np.where(total <= GREATEST, y, np.asarray(np.nan, y.dtype)) for y, total in zip(results, sums, strict=True))

    def off(self, x: np.ndarray, ulps: float) -> np.ndarray:
        """Each element off by up to so many units in its last place."""
        if not is_float(dtype_of(x.dtype)):
            return x
        eps = limits_of(x.dtype)[0]
        return self._rounded(x.astype(np.float64) * (1 + ulps * eps * self.generator.uniform(-1, 1, x.shape)), x.dtype)

    def off_by(self, x: np.ndarray, size: float) -> np.ndarray:
        """Each element off by up to so many units in the last place of 1."""
        if not is_float(dtype_of(x.dtype)):
            return x
        eps = limits_of(x.dtype)[0]
        return self._rounded(x.astype(np.float64) + size * eps * self.generator.uniform(-1, 1, x.shape), x.dtype)

    def either_zero(self, x: np.ndarray) -> np.ndarray:
        """Zeros of either sign."""
        if not is_float(dtype_of(x.dtype)):
            return x
        return np.where(x == 0, np.where(self.generator.random(x.shape) < 0.5, -x, x), x)

    def _rounded(self, x: Any, dtype: np.dtype) -> np.ndarray:
        return np.asarray(x).astype(dtype)


def limits_of(dtype: np.dtype) -> tuple[float, float]:
    """The distance from 1 to the next number of a type, and its least number above 0."""
    info = ml_dtypes.finfo(dtype)
    return float(info.eps), float(info.smallest_subnormal)


def terms(name: str, operands: Sequence[np.ndarray], op: Any) -> int:
    """How many terms a sum has that an op computes, at most."""
    if name == "matmul":
        return operands[0].shape[-1]
    if name in ("conv", "conv_transpose") and len(operands) > 1:
        return prod(operands[1].shape[1:]) * (1 if name == "conv" else operands[1].shape[0])
    if name in ("avg_pool", "resize", "lrn", "cumsum", "softmax", "log_softmax"):
        return 64
    most = max((o.size for o in operands), default=1)
    return max(1, most // max(1, prod(op.result_types()[0].static_shape)))


@dataclass
class Bounds:
    """What outputs are by their meaning, and how far an implementation may be off."""

    base: dict[str, np.ndarray]
    error: dict[str, np.ndarray]
    """Of floats; infinite where disturbed runs are not even of the same kind."""
    stable: dict[str, np.ndarray]
    """Where all disturbed runs agree, of integers and booleans."""

    def problem(self, name: str, got: np.ndarray) -> str:
        """What is wrong with an output; empty if nothing is."""
        base = self.base[name]
        if (got.shape, got.dtype) != (base.shape, base.dtype):
            return f"output {name} is {got.dtype}{list(got.shape)}, not {base.dtype}{list(base.shape)}"
        if not is_float(dtype_of(base.dtype)):
            wrong = (codes(got) != codes(base)) & self.stable[name]
        else:
            a, b = got.astype(np.float64), base.astype(np.float64)
            with np.errstate(invalid="ignore"):
                right = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= self.error[name]) | np.isinf(self.error[name])
            wrong = ~right
        if not wrong.any():
            return ""
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        said = f"output {name}: {list(map(int, place))} is {got[place]}, not {base[place]}"
        if is_float(dtype_of(base.dtype)):
            said += f", off by {abs(float(got[place]) - float(base[place])):.3g} where {self.error[name][place]:.3g} is allowed"
        return f"{said}; {int(wrong.sum())} of {wrong.size} elements are wrong"


def bounds(module: ir.Module, weights: Any, inputs: Mapping[str, np.ndarray], runs: int, *, absolute: bool, winograd: bool) -> Bounds:
    """The outputs of a module at level graph, and how far they may be off, from so many disturbed runs."""
    base = outputs_of(module, Evaluator(functions_of(module), weights), inputs)
    samples = []
    for seed in range(runs):
        machine = Disturbed(functions_of(module), weights, seed, absolute=absolute, winograd=winograd)
        samples.append(outputs_of(module, machine, inputs))
    made = Bounds(base, {}, {})
    for name, array in base.items():
        if not is_float(dtype_of(array.dtype)):
            made.stable[name] = np.logical_and.reduce([codes(s[name]) == codes(array) for s in samples])
            continue
        wide, (eps, tiny) = array.astype(np.float64), limits_of(array.dtype)
        error = np.zeros(array.shape)
        for sample in samples:
            other = sample[name].astype(np.float64)
            with np.errstate(invalid="ignore"):
                away = np.where(other == wide, 0.0, np.abs(other - wide))
            error = np.maximum(error, np.where(np.isnan(other) & np.isnan(wide), 0.0, np.where(np.isnan(away), np.inf, away)))
        with np.errstate(invalid="ignore"):
            last = np.where(np.isfinite(wide), np.abs(wide), 0) * eps
        if absolute:  # a result that rounding alone makes another may well be NaN elsewhere
            error = np.where(FACTOR * error > np.nanmax(np.abs(wide[np.isfinite(wide)]), initial=0.0), np.inf, error)
        # Exact where nothing moved: data that were only carried along have to be the same. Of what is computed, numbers near 0 cannot move by less
        # than their last place.
        computed = (error > 0) | (error.any() & (np.abs(wide) < tiny / eps))
        made.error[name] = np.where(computed, FACTOR * error + last + 4 * tiny, 0.0)
    return made


def codes(array: np.ndarray) -> np.ndarray:
    """What tells elements apart that are not floats: themselves; the bits of those that are only stored, of which some are NaN."""
    return array.view(np.uint8) if is_compact(dtype_of(array.dtype)) else array


def outputs_of(module: Any, machine: Evaluator, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What `@main` gives, run by an evaluator."""
    from stepwell.dialects.core.module_info import ValueInfo

    main = machine.functions["main"]
    names = ValueInfo.names(ValueInfo.arguments(main), "input")
    with np.errstate(all="ignore"):
        results = machine.call("main", [inputs[name] for name in names])
    return dict(zip(ValueInfo.names(ValueInfo.results(main), "output"), results, strict=True))
