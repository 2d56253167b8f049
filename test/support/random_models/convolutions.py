"""Random nets of convolutions, and what is fused with them or meets their layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from op_random import Random
from random_models import layers
from random_models.bounded_net import BoundedNet, Value

MOST_CHANNELS = 130
MOST_SIZE = 40
MOST_KERNEL = 7
WORK = 1 << 23  # multiplications and additions of one convolution
LAYERS = 6


@dataclass(frozen=True)
class Axis:
    """A window along one spatial dimension."""

    kernel: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def span(self) -> int:
        """The elements it reaches over."""
        return (self.kernel - 1) * self.dilation + 1

    def positions(self, size: int, reaching: bool = False) -> int:
        """How many there are in a dimension of this size; with those `reaching` over its end that begin before it or in its low padding."""
        room = size + self.low + self.high - self.span
        if not reaching:
            return room // self.stride + 1
        count = -(-room // self.stride) + 1
        return count - ((count - 1) * self.stride >= size + self.low)


COMMON = Axis(3, 1, 1, 1, 1)


def axis_for(r: Random, size: int) -> Axis:
    """A window that fits into a dimension of this size."""
    low, high, dilation = r.integer(0, 3), r.integer(0, 3), r.integer(1, 2)
    kernel = r.integer(1, min(MOST_KERNEL, (size + low + high - 1) // dilation + 1))
    return Axis(kernel, r.integer(1, 3), dilation, low, high)


def channels(r: Random, most: int = MOST_CHANNELS) -> int:
    """A number of channels, often a multiple of a block."""
    return r.integer(1, most) if most < 8 or r.boolean() else 8 * r.integer(1, most // 8)


def grouping(r: Random, given: int | None, most: int) -> tuple[int, int, int]:
    """Channels (those `given`, if any), filters up to `most` and groups of a convolution: dense, by channel, in groups."""
    kind = r.choice(["dense", "dense", "dense", "by channel", "multiplied", "groups"])
    if kind == "dense":
        return given or channels(r), channels(r, most), 1
    if kind == "groups":
        group = r.choice([g for g in range(1, 9) if (given or 0) % g == 0])
        return given or group * r.integer(1, MOST_CHANNELS // group), group * r.integer(1, max(1, most // group)), group
    group = given or channels(r, MOST_CHANNELS if kind == "by channel" else MOST_CHANNELS // 2)
    return group, group * (r.integer(2, max(2, most // group)) if kind == "multiplied" else 1), group


def first(net: BoundedNet) -> Value:
    """A convolution of a new input."""
    r = net.r
    rank = r.choice([2, 2, 2, 2, 1, 3])
    window = [COMMON] * rank if r.boolean() else [axis_for(r, MOST_SIZE) for _ in range(rank)]
    count, filters, group = grouping(r, None, MOST_CHANNELS)
    batch = r.integer(1, 2)
    positions = max(1, WORK // (batch * filters * (count // group) * prod(a.kernel for a in window)))
    sizes = []
    for axis in window:
        least = max(1, axis.span - axis.low - axis.high)
        largest = (positions - 1) * axis.stride + axis.span - axis.low - axis.high
        sizes.append(r.integer(least, max(least, min(largest, MOST_SIZE))))
        positions = max(1, positions // axis.positions(sizes[-1]))
    return convolution(net, net.input(batch, count, *sizes), window, filters, group)


def convolution(net: BoundedNet, x: Value, window: Sequence[Axis], filters: int, group: int) -> Value:
    """A convolution of `x` with random filters, known when it is compiled or not, and perhaps a bias."""
    r = net.r
    depth = x.shape[1] // group
    kernel = tuple(a.kernel for a in window)
    array = net.random(filters, depth, *kernel, scale=(depth * prod(kernel)) ** -0.5)
    w = net.input(*array.shape, scale=(depth * prod(kernel)) ** -0.5) if r.integer(0, 9) == 9 else net.constant(array)
    bias = net.random(filters) if r.boolean() else None
    attributes: dict[str, Any] = {"strides": [a.stride for a in window], "dilations": [a.dilation for a in window], "group": group}
    if r.boolean():
        attributes["kernel_shape"] = kernel
    padding = r.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if padding == "VALID" and any(a.span > n for a, n in zip(window, x.shape[2:], strict=True)):
        padding = "NOTSET"
    if padding.startswith("SAME") and any(a.dilation > 1 for a in window):
        padding = "NOTSET"  # ONNX Runtime has no such convolutions
    if padding == "NOTSET":
        attributes["pads"] = [a.low for a in window] + [a.high for a in window]
        sizes = [a.positions(n) for a, n in zip(window, x.shape[2:], strict=True)]
    else:
        attributes["auto_pad"] = padding
        last = [a.span if padding == "VALID" else 1 for a in window]
        sizes = [(n - m) // a.stride + 1 for a, n, m in zip(window, x.shape[2:], last, strict=True)]
    return net.conv(x, w, bias, [x.shape[0], filters, *sizes], **attributes)


def another(net: BoundedNet, x: Value) -> Value | None:
    """A further convolution."""
    if len(x.shape) < 3:
        return None
    r = net.r
    window = [COMMON if r.boolean() else axis_for(r, n) for n in x.shape[2:]]
    return bounded(net, x, window)


def bounded(net: BoundedNet, x: Value, window: Sequence[Axis], filters: int | None = None) -> Value | None:
    """A convolution of `x`, with as many filters as are asked for or as the work allows; None if it allows none."""
    taps = x.shape[0] * prod(n + a.low + a.high for a, n in zip(window, x.shape[2:], strict=True)) * prod(a.kernel for a in window)
    most = WORK // (taps * x.shape[1])
    if x.shape[1] > 2 * MOST_CHANNELS or most < (filters or 1):
        return None
    if filters is not None:
        return convolution(net, x, window, filters, 1)
    _, count, group = grouping(net.r, x.shape[1], min(most, MOST_CHANNELS))
    return convolution(net, x, window, count, group)


def pointwise(net: BoundedNet, x: Value) -> Value | None:
    """A convolution of single positions."""
    return bounded(net, x, [Axis(1, 1, 1, 0, 0)] * (len(x.shape) - 2)) if len(x.shape) > 2 else None


def residual(net: BoundedNet, x: Value) -> Value | None:
    """A convolution of `x` added to it, in either order."""
    same = bounded(net, x, [COMMON] * (len(x.shape) - 2), x.shape[1]) if len(x.shape) > 2 else None
    if same is None or same.shape != x.shape:
        return None
    return net.add(same, x, x.shape) if net.r.boolean() else net.add(x, same, x.shape)


def branches(net: BoundedNet, x: Value) -> Value | None:
    """Two or three convolutions of `x` side by side, perhaps with `x` itself."""
    if len(x.shape) < 3:
        return None
    count = net.r.integer(2, 3)
    made = [bounded(net, x, [Axis(k, 1, 1, k // 2, k // 2)] * (len(x.shape) - 2)) for k in net.r.integers(count, 0, 2) for k in [2 * k + 1]]
    fitting = [v for v in made if v is not None and v.shape[2:] == x.shape[2:]]
    if net.r.boolean():
        fitting.append(x)
    return layers.concatenated(net, fitting) if len(fitting) > 1 else None


def gate(net: BoundedNet, x: Value) -> Value | None:
    """Squeeze and excitation: each channel times what a small net makes of the means of all."""
    means = global_average(net, x)
    scores = bounded(net, means, [Axis(1, 1, 1, 0, 0)] * (len(x.shape) - 2), x.shape[1]) if means is not None else None
    return net.multiply(x, net.function("Sigmoid", scores), x.shape) if scores is not None else None


def pool_window(net: BoundedNet, x: Value) -> tuple[list[int], dict[str, Any]] | None:
    """Sizes and attributes of a pooling whose padding is smaller than its window; in ceil mode it may reach over the end."""
    r = net.r
    axes = []
    for size in x.shape[2:]:
        kernel = r.integer(1, min(4, size + 2))
        low, high = (r.integer(0, min(2, kernel - 1)) for _ in range(2))
        if size + low + high < kernel:
            return None
        axes.append(Axis(kernel, r.integer(1, 3), 1, low, high))
    if not axes:
        return None
    reaching = r.integer(0, 3) == 3
    attributes = {
        "kernel_shape": [a.kernel for a in axes], "strides": [a.stride for a in axes], "pads": [a.low for a in axes] + [a.high for a in axes],
        "ceil_mode": int(reaching),
    }  # fmt: skip
    return [a.positions(n, reaching) for a, n in zip(axes, x.shape[2:], strict=True)], attributes


def max_pool(net: BoundedNet, x: Value) -> Value | None:
    found = pool_window(net, x)
    return None if found is None else net.moved("MaxPool", x, [*x.shape[:2], *found[0]], **found[1])


def average_pool(net: BoundedNet, x: Value) -> Value | None:
    found = pool_window(net, x)
    if found is None:
        return None
    sizes, attributes = found
    terms = prod(attributes["kernel_shape"])
    return net.averaged("AveragePool", x, [*x.shape[:2], *sizes], terms, count_include_pad=net.r.integer(0, 1), **attributes)


def global_average(net: BoundedNet, x: Value) -> Value | None:
    if len(x.shape) < 3:
        return None
    return net.averaged("GlobalAveragePool", x, [*x.shape[:2], *[1] * (len(x.shape) - 2)], prod(x.shape[2:]))


def classified(net: BoundedNet, x: Value) -> Value | None:
    """All elements of an image as a row, and a product with a matrix."""
    depth = prod(x.shape[1:])
    if len(x.shape) < 3 or depth > 5000:
        return None
    flat = net.moved("Flatten", x, [x.shape[0], depth])
    filters = net.r.integer(1, 60)
    w, c = net.constant(net.random(filters, depth, scale=depth**-0.5)), net.constant(net.random(filters))
    return net.gemm(flat, w, c, [x.shape[0], filters], 1.0, 1.0, transB=1)


FOLLOWING: list[layers.Layer] = [
    another, another, pointwise, layers.activation, layers.activation, layers.batch_norm, residual, residual, layers.earlier, branches, branches,
    layers.beside, max_pool, average_pool, layers.per_channel, layers.with_constant, layers.padded, layers.halves, layers.sliced, layers.shuffled,
    gate, global_average, layers.enlarged, classified, layers.transposed, layers.softmax,
]  # fmt: skip


def convolution_net(r: Random) -> BoundedNet:
    """A convolution, perhaps of something normalised or activated first, and up to six layers that follow."""
    net = BoundedNet(r)
    layers.chain(net, first(net), FOLLOWING, LAYERS)
    return net
