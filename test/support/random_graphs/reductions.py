"""What folds elements: reductions, normalisations, products of matrices, orders, running sums."""

import numpy as np
from random_graphs.compact import is_float
from random_graphs.movement import ints
from random_graphs.net import Declined, Net, Value
from random_graphs.operators import operator
from random_graphs.pointwise import operand

REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare",
)  # fmt: skip


@operator(*REDUCTIONS)
def reduction(net: Net, op_type: str) -> None:
    x = operand(net, op_type)
    if op_type == "ReduceProd" and is_float(x.dtype) and not np.isfinite(x.array.astype(np.float64)).all():
        raise Declined("products of tiny and infinite numbers depend on their order")
    if op_type == "ReduceMean" and not is_float(x.dtype) and x.array.size == 0:
        raise Declined("the mean of no integers: docs/numerics.md has 0, the evaluator what NaN is converted to")
    axes = [net.counted(a, x.rank) for a in net.r.permutation(x.rank) if net.r.boolean()]
    keep = net.r.choice([None, 0, 1])
    if net.opset >= (13 if op_type == "ReduceSum" else 18):
        net.node(op_type, x, ints(*axes) if axes else None, keepdims=keep, noop_with_empty_axes=1 if net.r.integer(0, 7) == 0 else None)
    else:
        net.node(op_type, x, axes=axes or None, keepdims=keep)


@operator("ArgMax", "ArgMin")
def place_of_extreme(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 0 and v.array.size > 0)
    last = net.r.choice([None, 1]) if net.opset >= 12 else None
    net.node(op_type, x, axis=net.axis(x.rank), keepdims=net.r.choice([None, 0]), select_last_index=last)


@operator("TopK")
def top_k(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 0 and 0 < v.array.size <= 600)
    axis = net.axis(x.rank)
    count = net.r.integer(0 if net.r.integer(0, 9) == 0 else 1, x.shape[axis])
    largest = net.r.choice([None, 0])
    if net.opset < 10:
        net.node(op_type, x, outputs=2, axis=axis, k=count)
    else:
        net.node(op_type, x, ints(count), outputs=2, axis=axis, largest=largest if net.opset >= 11 else None)


@operator("CumSum", "CumProd")
def running(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 0)
    axis = np.array(net.axis(x.rank), net.r.choice([np.int64, np.int32]))
    net.node(op_type, x, axis, exclusive=net.r.choice([None, 1]), reverse=net.r.choice([None, 1]))


@operator("MatMul")
def matmul(net: Net, op_type: str) -> None:
    a = net.pick(net.dtype(op_type), lambda v: v.rank > 0)
    k = a.shape[-1]

    def fits(v: Value) -> bool:
        if v.rank == 0 or v.shape[-2 if v.rank > 1 else 0] != k:
            return False
        try:
            np.broadcast_shapes(a.shape[:-2], v.shape[:-2])
        except ValueError:
            return False
        return True

    b = net.pick(a.dtype, fits, lambda: [*net.smaller(a.shape[:-2]), k, net.shape(1, 1)[0]] if net.r.integer(0, 5) else [k])
    net.node(op_type, a, b)


@operator("Det")
def determinant(net: Net, op_type: str) -> None:
    def fits(v: Value) -> bool:
        return v.rank >= 2 and v.shape[-1] == v.shape[-2] and 0 < v.array.size < 600

    def square() -> list[int]:
        return [*net.shape(0, 2), *[net.r.choice([1, 2, 3, 4, 5, 8])] * 2]

    net.node(op_type, net.pick(net.dtype(op_type), fits, square))


@operator("Gemm")
def gemm(net: Net, op_type: str) -> None:
    a = net.pick(net.dtype(op_type), lambda v: v.rank == 2, lambda: net.shape(2, 2))
    trans_a, trans_b = net.r.choice([None, 1]), net.r.choice([None, 1])
    m, k = a.shape[::-1] if trans_a else a.shape
    n = net.shape(1, 1)[0]
    b = net.pick(a.dtype, lambda v: v.rank == 2 and v.shape[1 if trans_b else 0] == k, lambda: (n, k) if trans_b else (k, n))
    n = b.shape[0 if trans_b else 1]
    c = net.broadcast_to(a.dtype, (m, n)) if net.r.boolean() else None
    alpha, beta = (None, None) if not is_float(a.dtype) else (net.r.choice([None, 0.5, -1.25]), net.r.choice([None, 2.0, -0.75]))
    net.node(op_type, a, b, c, alpha=alpha, beta=beta, transA=trans_a, transB=trans_b)


EQUATIONS = ["ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->i", "ij,ij->", "i,j->ij", "bij,kj->bki", "ii->i", "...ij->...ji", "ij,j->i", "bij,bij->bi"]


@operator("Einsum")
def einsum(net: Net, op_type: str) -> None:
    equation = str(net.r.choice(EQUATIONS))
    dtype, sizes = net.dtype(op_type), {letter: max(1, net.shape(1, 1)[0]) for letter in "bijk"}
    operands = []
    for term in equation.split("->")[0].split(","):
        shape = tuple(sizes[c] for c in term.replace(".", ""))
        if "..." in term:
            shape = (*net.shape(0, 2), *shape)
        operands.append(shaped(net, dtype, shape))
    net.node(op_type, *operands, equation=equation)


def shaped(net: Net, dtype: str, shape: tuple[int, ...]) -> Value:
    """A value of this shape."""
    return net.pick(dtype, lambda v: v.shape == shape, lambda: shape)


def channels(net: Net, op_type: str, least: int = 2) -> Value:
    """Data with channels in its second dimension."""
    return net.pick(net.dtype(op_type), lambda v: v.rank >= least and v.array.size > 0, lambda: net.shape(least, 4))


def per_channel(net: Net, x: Value, low: float = -1.5, high: float = 1.5) -> Value:
    return net.fresh(x.dtype, (x.shape[1],), low, high, tame=True)


@operator("BatchNormalization")
def batch_norm(net: Net, op_type: str) -> None:
    x = channels(net, op_type)
    variance = net.fresh(x.dtype, (x.shape[1],), 0.3, 2, tame=True)
    net.node(op_type, x, *(per_channel(net, x) for _ in range(3)), variance, epsilon=net.r.choice([None, 0.01]))


@operator("InstanceNormalization")
def instance_norm(net: Net, op_type: str) -> None:
    x = channels(net, op_type, 3)
    net.node(op_type, x, per_channel(net, x), per_channel(net, x), epsilon=0.1)


@operator("GroupNormalization")
def group_norm(net: Net, op_type: str) -> None:
    x = channels(net, op_type, 3)
    groups = net.r.choice([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    size = x.shape[1] if net.opset >= 21 else groups
    scale, bias = (net.fresh(x.dtype, (size,), -1.5, 1.5, tame=True) for _ in range(2))
    net.node(op_type, x, scale, bias, num_groups=groups, epsilon=0.1)


@operator("LayerNormalization", "RMSNormalization")
def layer_norm(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 0 and v.array.size > 0)
    axis = net.axis(x.rank)
    scale = net.fresh(x.dtype, x.shape[axis:], -1.5, 1.5, tame=True)
    bias = [net.fresh(x.dtype, x.shape[axis:], tame=True)] if op_type == "LayerNormalization" and net.r.boolean() else []
    net.node(op_type, x, scale, *bias, axis=axis, epsilon=0.1)


@operator("MeanVarianceNormalization")
def mean_variance(net: Net, op_type: str) -> None:
    x = net.fresh(net.dtype(op_type), (2, 3, 4, 5), constant=False)
    net.node(op_type, x, axes=net.r.choice([None, [0, 2, 3], [1, 2, 3]]))


@operator("LRN")
def lrn(net: Net, op_type: str) -> None:
    net.node(op_type, channels(net, op_type, 3), size=net.r.choice([1, 3, 5, 4]), alpha=net.r.choice([None, 0.3]), bias=net.r.choice([None, 2.0]))


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(net: Net, op_type: str) -> None:
    x = channels(net, op_type)
    shape = (x.shape[0], *x.shape[2:])
    labels = net.fresh("i64", shape, 0, x.shape[1] - 1, tame=True)
    weight = net.fresh(x.dtype, (x.shape[1],), 0.3, 2, tame=True) if net.r.boolean() else None
    net.node(op_type, x, labels, weight, reduction=net.r.choice([None, "sum", "none"]), ignore_index=net.r.choice([None, 0]))


@operator("Attention")
def attention(net: Net, op_type: str) -> None:
    if net.opset < 23:
        raise Declined("not in this opset")
    dtype = net.one_of(["f32", "f32", "f16", "f64"])
    batch, heads, q, k, size, out = net.r.integers(6, 1, 5)
    operands = [net.fresh(dtype, s) for s in ((batch, heads, q, size), (batch, heads, k, size), (batch, heads, k, out))]
    mask = net.fresh(net.r.choice([dtype, "i1"]), net.smaller((batch, heads, q, k)) or (q, k)) if net.r.boolean() else None
    if mask is not None and (mask.rank < 2 or (mask.dtype == "i1" and not mask.array.all(-1).any(-1).all())):
        mask = None
    net.node(op_type, *operands, mask, is_causal=net.r.choice([None, 1]) if mask is None else None, scale=net.r.choice([None, 0.5]))


@operator("RotaryEmbedding")
def rotary(net: Net, op_type: str) -> None:
    dtype = net.dtype(op_type)
    batch, heads, length, half = net.r.integers(4, 1, 4)
    tables = [net.fresh(dtype, (batch, length, half), -1, 1, tame=True) for _ in range(2)]
    net.node(op_type, net.fresh(dtype, (batch, heads, length, 2 * half)), *tables, interleaved=net.r.choice([None, 1]))
