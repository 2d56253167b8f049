"""What may follow a random convolution or product: layers that are fused with it, that meet its layout, or that end it."""

from collections.abc import Callable
from math import prod

import numpy as np
from random_models.bounded_net import BoundedNet, Value

# A layer adds to a net what it does to a value; None where the value does not fit it.
Layer = Callable[[BoundedNet, Value], Value | None]


def activation(net: BoundedNet, x: Value) -> Value:
    """One of the functions that follow convolutions and products."""
    # ONNX Runtime has the others in f32 only.
    single = ["LeakyRelu", "HardSwish", "GELU"] if net.dtype == np.float32 else []
    name = net.r.choice(["Relu", "Relu", "Clip", "Sigmoid", "Tanh", "SiLU", *single])
    if name == "Clip":
        low, high = net.r.choice([(0.0, 6.0), (-0.5, None), (None, 0.25), (-1.0, 0.5)])
        return net.function("Clip", x, *(None if bound is None else np.array(bound, net.dtype) for bound in (low, high)))
    if name == "SiLU":
        return net.multiply(x, net.function("Sigmoid", x), x.shape)
    if name == "GELU":
        erf = net.function("Erf", net.multiply(x, scalar(net, 0.70710678), x.shape))
        return net.multiply(net.multiply(x, scalar(net, 0.5), x.shape), net.add(erf, scalar(net, 1.0), x.shape), x.shape)
    return net.function(name, x, **({"alpha": 0.1} if name == "LeakyRelu" else {}))


def scalar(net: BoundedNet, value: float) -> Value:
    return net.constant(np.array(value, net.dtype))


def batch_norm(net: BoundedNet, x: Value) -> Value | None:
    return net.batch_norm(x) if len(x.shape) > 2 else None


def earlier(net: BoundedNet, x: Value) -> Value | None:
    """Add or multiply by something of the same shape made before, the operands in either order."""
    same = [v for v in net.values if v.shape == x.shape]
    if not same:
        return None
    other = net.r.choice(same)
    a, b = (other, x) if net.r.boolean() else (x, other)
    match net.r.integer(0, 3):
        case 0:
            return net.multiply(a, b, x.shape)
        case 1:
            return net.add(a, b, x.shape, subtract=True)
        case _:
            return net.add(a, b, x.shape)


def with_constant(net: BoundedNet, x: Value) -> Value:
    """Add or multiply by a constant of any shape that broadcasts to that of the value."""
    kept = x.shape[net.r.integer(0, len(x.shape)) :]
    constant = net.constant(net.random(*(1 if net.r.boolean() else n for n in kept)))
    return net.multiply(x, constant, x.shape) if net.r.boolean() else net.add(constant, x, x.shape)


def per_channel(net: BoundedNet, x: Value) -> Value | None:
    """Add or multiply by one number for each channel."""
    if len(x.shape) < 3:
        return None
    constant = net.constant(net.random(x.shape[1], *[1] * (len(x.shape) - 2)))
    return net.multiply(x, constant, x.shape) if net.r.boolean() else net.add(x, constant, x.shape)


def softmax(net: BoundedNet, x: Value) -> Value | None:
    if not x.shape:
        return None
    return net.softmax(x, net.r.integer(0, len(x.shape) - 1))


def transposed(net: BoundedNet, x: Value) -> Value | None:
    if not x.shape:
        return None
    order = net.r.permutation(len(x.shape))
    return net.moved("Transpose", x, [x.shape[i] for i in order], perm=order)


def sliced(net: BoundedNet, x: Value) -> Value | None:
    """A part of one dimension, mostly of the channels."""
    if not x.shape:
        return None
    axis = 1 if len(x.shape) > 1 and net.r.boolean() else net.r.integer(0, len(x.shape) - 1)
    start = net.r.integer(0, x.shape[axis] - 1)
    step = net.r.choice([1, 1, 2])
    end = net.r.integer(start + 1, x.shape[axis])
    shape = [*x.shape[:axis], -(-(end - start) // step), *x.shape[axis + 1 :]]
    return net.moved("Slice", x, shape, *(np.array([n]) for n in (start, end, axis, step)))


def halves(net: BoundedNet, x: Value) -> Value | None:
    """The channels in two parts, the second with a layer of its own, and put together again in either order."""
    if len(x.shape) < 2 or x.shape[1] < 2:
        return None
    cut = x.shape[1] // 2 if net.r.boolean() else net.r.integer(1, x.shape[1] - 1)
    axis = np.array([1])
    parts = [
        net.moved("Slice", x, [x.shape[0], end - start, *x.shape[2:]], np.array([start]), np.array([end]), axis)
        for start, end in ((0, cut), (cut, x.shape[1]))
    ]
    parts[1] = activation(net, parts[1])
    return concatenated(net, parts[::-1] if net.r.boolean() else parts)


def concatenated(net: BoundedNet, values: list[Value], axis: int = 1) -> Value:
    """The values side by side."""
    shape = list(values[0].shape)
    shape[axis] = sum(v.shape[axis] for v in values)
    error = net.bound("Concat", *(v.error for v in values), axis=axis)
    return Value(net.node("Concat", *(v.name for v in values), axis=axis), tuple(shape), error)


def beside(net: BoundedNet, x: Value) -> Value | None:
    """Side by side with something made before."""
    if not x.shape:
        return None
    axis = net.r.choice([1, 1, 1, 0, len(x.shape) - 1]) if len(x.shape) > 1 else 0
    others = [n for i, n in enumerate(x.shape) if i != axis]
    fits = [v for v in net.values if len(v.shape) == len(x.shape) and [n for i, n in enumerate(v.shape) if i != axis] == others]
    return concatenated(net, [net.r.choice(fits), x], axis) if fits else None


def padded(net: BoundedNet, x: Value) -> Value | None:
    """Zeros, or another number, around."""
    if len(x.shape) < 3:
        return None
    widths = [(0, 0), (0, net.r.choice([0, 0, 3])), *((net.r.integer(0, 2), net.r.integer(0, 2)) for _ in x.shape[2:])]
    amounts = np.array([low for low, _ in widths] + [high for _, high in widths])
    shape = tuple(low + n + high for n, (low, high) in zip(x.shape, widths, strict=True))
    value = np.array(net.r.choice([0.0, -0.5]), net.dtype)
    y = net.node("Pad", x.name, amounts, value)
    return Value(y, shape, net.bound("Pad", x.error, amounts))


def shuffled(net: BoundedNet, x: Value) -> Value | None:
    """Channels of several groups dealt out in turn."""
    groups = [g for g in range(2, 9) if len(x.shape) > 2 and x.shape[1] % g == 0]
    if not groups:
        return None
    group = net.r.choice(groups)
    rank = len(x.shape)
    split = [x.shape[0], group, x.shape[1] // group, *x.shape[2:]]
    apart = net.moved("Reshape", x, split, np.array(split))
    order = [0, 2, 1, *range(3, rank + 1)]
    dealt = net.moved("Transpose", apart, [split[i] for i in order], perm=order)
    return net.moved("Reshape", dealt, x.shape, np.array(x.shape))


def enlarged(net: BoundedNet, x: Value) -> Value | None:
    """Each element twice along each spatial dimension."""
    if len(x.shape) < 3 or prod(x.shape) > 20000:
        return None
    factors = [1, 1, *[2] * (len(x.shape) - 2)]
    shape = [n * f for n, f in zip(x.shape, factors, strict=True)]
    options = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return net.moved("Resize", x, shape, None, np.array(factors, np.float32), **options)


def chain(net: BoundedNet, x: Value, layers: list[Layer], most: int) -> Value:
    """Up to `most` layers one after another, mostly each on the result of the one before."""
    net.values.append(x)
    for _ in range(net.r.integer(0, most)):
        source = net.r.choice(net.values) if net.r.integer(0, 4) == 4 else x
        y = net.r.choice(layers)(net, source)
        if y is not None:
            x = y
            net.values.append(x)
    return x
