"""Random nets of matrix products, and what is fused with them."""

from math import prod

from op_random import Random
from random_models import layers
from random_models.bounded_net import BoundedNet, Value

MOST_SIZE = 130
WORK = 1 << 22  # multiplications and additions of one product
LAYERS = 5


def size(r: Random) -> int:
    """A size of a matrix, often one that is a multiple of a vector."""
    return r.integer(1, MOST_SIZE) if r.boolean() else r.choice([1, 8, 16, 32, 64, 128])


def operand(net: BoundedNet, *shape: int) -> Value:
    """A matrix that is known when it is compiled, or not."""
    scale = (shape[-1] if shape else 1) ** -0.5
    return net.constant(net.random(*shape, scale=scale)) if net.r.boolean() else net.input(*shape, scale=scale)


def product(net: BoundedNet) -> Value:
    """MatMul of matrices, of batches of them that broadcast, of vectors."""
    r = net.r
    m, k, n = size(r), size(r), size(r)
    a_batch, b_batch = r.broadcastable(least=1) if r.boolean() else ((), ())
    while prod(a_batch) * prod(b_batch) * m * k * n > WORK:
        m, n = -(-m // 2), -(-n // 2)
    a = (k,) if not a_batch and r.integer(0, 5) == 5 else (*a_batch, m, k)
    b = (k,) if not b_batch and r.integer(0, 5) == 5 else (*b_batch, k, n)
    x = net.input(*a)
    return multiplied(net, x, operand(net, *b)) if r.integer(0, 3) else multiplied(net, operand(net, *a), net.input(*b))


def multiplied(net: BoundedNet, a: Value, b: Value) -> Value:
    """MatMul with the shape that it has."""
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    return net.matmul(a, b, [*batch, *a.shape[-2:-1], *(b.shape[-1:] if len(b.shape) > 1 else ())])


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of two that broadcast."""
    rank = max(len(a), len(b))
    return tuple(m if n == 1 else n for m, n in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True))


def gemm(net: BoundedNet) -> Value:
    """Gemm with any of its attributes."""
    r = net.r
    m, k, n = size(r), size(r), size(r)
    trans_a, trans_b = r.boolean(), r.boolean()
    a = net.input(*((k, m) if trans_a else (m, k)))
    b = operand(net, *((n, k) if trans_b else (k, n)))
    c = operand(net, *r.choice([(n,), (m, n), (1, n), (m, 1), (1,), ()])) if r.boolean() else None
    return net.gemm(a, b, c, [m, n], r.choice([1.0, 0.5, -1.25]), r.choice([1.0, 2.0, -0.75]), transA=int(trans_a), transB=int(trans_b))


def another(net: BoundedNet, x: Value) -> Value | None:
    """A product of `x` and a matrix, on either side."""
    n = size(net.r)
    if prod(x.shape) * n > WORK or not x.shape:
        return None
    if len(x.shape) > 1 and net.r.integer(0, 3) == 3:
        return multiplied(net, operand(net, n, x.shape[-2]), x)
    return multiplied(net, x, operand(net, x.shape[-1], n))


def squared(net: BoundedNet, x: Value) -> Value | None:
    """A product of `x` and itself transposed."""
    if len(x.shape) < 2 or prod(x.shape) * x.shape[-2] > WORK:
        return None
    order = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
    other = net.moved("Transpose", x, [x.shape[i] for i in order], perm=order)
    scaled = net.multiply(x, layers.scalar(net, x.shape[-1] ** -0.5), x.shape)
    return multiplied(net, scaled, other)


FOLLOWING: list[layers.Layer] = [
    another, another, squared, layers.activation, layers.activation, layers.with_constant, layers.with_constant, layers.earlier, layers.softmax,
    layers.softmax, layers.transposed, layers.sliced, layers.beside,
]  # fmt: skip


def matmul_net(r: Random) -> BoundedNet:
    """A product and up to five layers that follow, in f32 or f64."""
    net = BoundedNet(r, r.choice(["f32", "f32", "f64"]))
    layers.chain(net, product(net) if r.integer(0, 2) else gemm(net), FOLLOWING, LAYERS)
    return net
