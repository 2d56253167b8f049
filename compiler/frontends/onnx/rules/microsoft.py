"""Rules for operators of com.microsoft that ONNX Runtime's optimiser and exporters write: fused products, convolutions and activations."""

from collections.abc import Sequence

from stepwell.dialects.core.sizes import holds, same_sizes
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import flattened, reshaped_like
from stepwell.frontends.builder import Value, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import find_rule, onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.activations import gelu
from stepwell.frontends.onnx.rules.contractions import gemm, matmul
from stepwell.frontends.onnx.rules.convolutions import ConvolutionAttributes, conv

MICROSOFT = "com.microsoft"
# The possible values of `activation`: operators of opset 6, and their attributes that the parameters set.
ACTIVATIONS = {"Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",), "Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta")}


def activated(b: ImportBuilder, x: Value, activation: str, parameters: Sequence[float]) -> Value:
    """`x` after an activation fused with an operator; unchanged if the name is empty.

    Raises UnsupportedError for one that ONNX Runtime does not fuse, ModelError for a wrong number of parameters.
    """
    if not activation:
        return x
    if activation not in ACTIVATIONS:
        raise UnsupportedError(f"activation={activation!r} is not supported; supported: {', '.join(ACTIVATIONS)}")
    names, rule = ACTIVATIONS[activation], find_rule("", activation, 6)
    if len(parameters) not in (0, len(names)):
        raise ModelError(f"activation {activation} takes {len(names)} parameters, got {len(parameters)}")
    assert rule is not None
    return rule.function(b, x, **dict(zip(names, parameters, strict=False)))


@onnx_rule("FusedMatMul", since=1, domain=MICROSOFT)
@rounded_once
def fused_matmul(
    b: ImportBuilder,
    lhs: Value,
    rhs: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    product = matmul(b, turned(b, lhs, transA, transBatchA), turned(b, rhs, transB, transBatchB))
    return product if alpha == 1.0 else b.mul(product, b.scalar(alpha, like=product))


def turned(b: ImportBuilder, x: Value, rows: int, batch: int) -> Value:
    """An operand with its first dimension moved behind the batch dimensions (`batch`), then with the last two exchanged (`rows`)."""
    rank = type_of(x).rank
    if rank < 2:
        return x
    order = list(range(rank))
    if batch:
        order = [*order[1:-1], 0, order[-1]]
    return b.transposed(x, [*order[:-2], order[-1], order[-2]] if rows else order)


@onnx_rule("FusedGemm", since=1, domain=MICROSOFT, fixed={"activation_gamma": None})
@rounded_once
def fused_gemm(
    b: ImportBuilder,
    lhs: Value,
    rhs: Value,
    bias: Value | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    given = [p for p in (activation_alpha, activation_beta) if p is not None]
    product = gemm(b, lhs, rhs, bias, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(b, product, activation, given[: len(ACTIVATIONS.get(activation, ()))])


@onnx_rule("FusedConv", since=1, domain=MICROSOFT)
@rounded_once
def fused_conv(
    b: ImportBuilder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    added: Value | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    attributes: ConvolutionAttributes,
) -> Value:
    """`activation(conv(x, w) + bias + added)`."""
    y = conv(b, x, w, bias, attributes=attributes)
    return activated(b, y if added is None else b.add(y, added), activation, activation_params)


@onnx_rule("Gelu", since=1, domain=MICROSOFT)
@rounded_once
def exact_gelu(b: ImportBuilder, x: Value) -> Value:
    return gelu(b, x)


@onnx_rule("BiasGelu", since=1, domain=MICROSOFT)
@rounded_once
def bias_gelu(b: ImportBuilder, x: Value, bias: Value) -> Value:
    return gelu(b, b.add(x, row_vector(x, bias, "its second input")))


@onnx_rule("FastGelu", since=1, domain=MICROSOFT)
@rounded_once
def fast_gelu(b: ImportBuilder, x: Value, bias: Value | None = None) -> Value:
    return gelu(b, x if bias is None else b.add(x, row_vector(x, bias, "the bias")), approximate="tanh")


@onnx_rule("QuickGelu", since=1, domain=MICROSOFT)
@rounded_once
def quick_gelu(b: ImportBuilder, x: Value, *, alpha: float = 1.702) -> Value:
    return b.mul(x, b.sigmoid(b.mul(x, b.scalar(alpha, like=x))))


def row_vector(x: Value, vector: Value, what: str) -> Value:
    """A vector with an entry for each element of the last dimension of `x`. Raises ModelError for anything else."""
    kind, last = type_of(vector), type_of(x).shape[-1:]
    if kind.rank != 1 or not last or not holds(last[0], "==", kind.shape[0]):
        raise ModelError(f"{what} must be a vector for the last dimension of {type_of(x)}, got {kind}")
    return vector


@onnx_rule("BiasSoftmax", since=1, domain=MICROSOFT)
@rounded_once
def bias_softmax(b: ImportBuilder, x: Value, bias: Value, *, axis: int = 1, is_inner_broadcast: int) -> Value:
    """The softmax of `x + bias` over all dimensions from `axis` on together. The bias is repeated along inner or along outer dimensions."""
    kind, given = type_of(x), type_of(bias)
    total = b.add(x, bias)
    if (is_inner_broadcast and given.rank != kind.rank) or not same_sizes(type_of(total).shape, kind.shape):
        raise ModelError(f"its bias {given} does not broadcast to {kind} (is_inner_broadcast={is_inner_broadcast})")
    axis = normalized_axis(axis, kind.rank)
    if axis == kind.rank - 1:
        return b.softmax(total, axis=axis)
    return reshaped_like(b, b.softmax(flattened(b, total, axis), axis=1), total)
