"""A new dialect, `signal`: its ops are fused, laid out, outlined and lowered like those of `graph`.

    stepwell run model.onnx --load examples/plugins/own_dialect.py

`signal.mu_law` is element-wise and has a lowering. `signal.moving_average` has none: it stays in its kernel until a pass
of the dialect converts it, which could also combine several ops. docs/kernels.md defines kernels at each level.
"""

from math import log1p

import numpy as np

from stepwell.plugin import (
    FLOATS,
    Dialect,
    Elementwise,
    Fusion,
    GraphOp,
    ImportBuilder,
    InferenceError,
    InferredTypes,
    KeepsFinite,
    LinalgBuilder,
    NoMatch,
    Operand,
    Operands,
    PatternPass,
    Pure,
    Result,
    Rewriter,
    Scalars,
    TensorType,
    Value,
    dims,
    expect_dtype,
    expect_rank,
    holds,
    ir,
    lowering,
    math,
    onnx_rule,
    pattern,
    register_dialect,
    register_pass,
    widened,
)


@register_dialect
class Signal(Dialect, name="signal"):
    """Operations on sampled signals."""


class MuLawOp(GraphOp, name="mu_law", dialect=Signal, traits=[Pure, Elementwise, KeepsFinite]):
    """Companding by the mu-law (ITU-T G.711): `sign(x) * log(1 + mu * |x|) / log(1 + mu)`."""

    x: Operand
    mu: ir.FloatAttr
    result: Result

    @staticmethod
    def infer(x: TensorType, *, mu: float) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        if mu <= 0:
            raise InferenceError(f"attribute 'mu' must be above 0, got {mu}")
        return x

    @staticmethod
    @widened
    def reference(x: np.ndarray, *, mu: float) -> np.ndarray:
        return np.sign(x) * np.log(1 + x.dtype.type(mu) * np.abs(x)) / x.dtype.type(log1p(mu))


@onnx_rule("MuLaw", since=1, domain="com.example")
def mu_law(b: ImportBuilder, x: Value, *, mu: float = 255.0) -> Value:
    """The importer's rule. Ops of other dialects than `graph` are built by their class."""
    companded: Value = b.build(MuLawOp, x, mu=mu)
    return companded


@lowering(MuLawOp)
def lower_mu_law(op: MuLawOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One element-wise linalg.generic, which fuses with those around it."""
    (x_type,), mu = op.operand_types(), op.attribute_values()["mu"]
    s = Scalars(b, x_type.dtype)

    def body(x: ir.Value) -> ir.Value:
        size = s.div(s.call(math.LogOp, s.add(s.const(1), s.mul(s.const(mu), s.abs(x)))), s.const(log1p(mu)))
        return s.select(s.compare("lt", x, s.const(0)), s.neg(size), size)

    return b.elementwise(operands, x_type.dtype, b.sizes(operands[0]), body)


class MovingAverageOp(GraphOp, name="moving_average", dialect=Signal, traits=[Pure]):
    """Means of `window` neighbours in the last dimension, of (…, n) samples n - window + 1."""

    fusion = Fusion.COMPLEX  # element-wise ops after it become part of its kernel

    x: Operand
    window: ir.IntegerAttr
    result: Result

    @staticmethod
    def infer(x: TensorType, *, window: int) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_rank("x", x, 2)
        samples = x.shape[-1]
        if window < 1 or not holds(samples, ">=", window):  # a dynamic size is assumed to be large enough, and checked at run time
            raise InferenceError(f"attribute 'window' must be from 1 to the number of samples of {x}, got {window}")
        return x.with_shape((*x.shape[:-1], None if samples is None else samples - window + 1))

    @staticmethod
    @widened
    def reference(x: np.ndarray, *, window: int) -> np.ndarray:
        means: np.ndarray = np.lib.stride_tricks.sliding_window_view(x, window, axis=-1).mean(axis=-1, dtype=x.dtype)
        return means


@onnx_rule("MovingAverage", since=1, domain="com.example")
def moving_average(b: ImportBuilder, x: Value, *, window: int) -> Value:
    """The importer's rule."""
    means: Value = b.build(MovingAverageOp, x, window=window)
    return means


@pattern(MovingAverageOp)
def as_sum(op: MovingAverageOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: moving_average(x) -> (sum over t < window of x[…, i + t]) / window"""
    b, result, window = LinalgBuilder(rw.state), op.result_types()[0], op.attribute_values()["window"]
    rows, samples = b.sizes(op.x)
    sizes = [rows, b.sum_of_sizes(samples, 1 - window)]
    s = Scalars(b, result.dtype)
    row, sample, tap = dims(0, 1, 2)
    taps = b.empty(result.dtype, [window])  # gives the reduction loop its size; nothing reads it

    def add(v: ir.Value, _: ir.Value, total: ir.Value) -> ir.Value:
        return s.accumulate("add", b.widen(v), total)

    sums = b.filled(0, s.dtype, sizes)
    sums = b.generic([op.x, taps], sums, [[row, sample + tap], [tap], [row, sample]], 1, add)
    return b.elementwise([sums], result.dtype, sizes, lambda total: s.div(total, s.const(window)))


@register_pass("convert-signal-to-linalg", level="linalg", after="convert-graph-to-linalg", converts=[Signal])
class ConvertSignalToLinalg(PatternPass):
    """Convert those ops of `signal` that have no lowering, before element-wise ops are fused, so that these are fused too."""

    patterns = (as_sum,)


if __name__ == "__main__":
    import small_models

    import stepwell

    random = np.random.default_rng(0)

    x = random.standard_normal((3, 50)).astype(np.float32)
    y = np.maximum(np.lib.stride_tricks.sliding_window_view(np.sign(x) * np.log1p(15 * np.abs(x)) / log1p(15), 5, axis=1).mean(axis=2), 0)
    signal: list[small_models.Node] = [("com.example::MuLaw", ["@"], {"mu": 15.0}), ("com.example::MovingAverage", ["@"], {"window": 5})]
    small_models.check(small_models.chain([*signal, ("Relu", ["@"], {})], x, y), x, y, kernels=2)

    # Between two convolutions: it is computed with the first, and stays in their layout.
    x = random.standard_normal((1, 3, 9, 7)).astype(np.float32)
    v, w = (random.standard_normal(shape).astype(np.float32) for shape in ((20, 3, 1, 1), (24, 20, 1, 1)))
    image = np.einsum("nchw,fc->nfhw", x, v[:, :, 0, 0])
    y = np.einsum("nchw,fc->nfhw", np.sign(image) * np.log1p(255 * np.abs(image)) / log1p(255), w[:, :, 0, 0])
    model = small_models.chain([("Conv", ["x", "v"], {}), ("com.example::MuLaw", ["@"], {}), ("Conv", ["@", "w"], {})], x, y, v=v, w=w)
    small_models.check(model, x, y)
    assert stepwell.lower(model, "graph-opt").text().count('"graph.transpose"') == 1  # that of the result
