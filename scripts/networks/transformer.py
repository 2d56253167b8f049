"""What transformers are made of, each as frameworks export it: products, normalisations, heads, masks, positions from sizes."""

from collections.abc import Sequence

import numpy as np

from networks.layers import Layers

__all__ = [
    "attention", "axis_size", "constant", "embedding", "heads", "joined", "layer_norm", "linear", "positions", "repeated", "rms_norm", "visible",
]  # fmt: skip


def constant(net: Layers, name: str, value: object, dtype: type = np.int64) -> str:
    """A number or a list of numbers, made once for each name."""
    if all(tensor.name != name for tensor in net.initializers):
        net.parameter(name, np.array(value, dtype))
    return name


def linear(net: Layers, x: str, name: str, sizes: tuple[int, int], *, bias: bool = True) -> str:
    """x W + b, from so many columns to so many."""
    weight = net.parameter(f"{name}.weight", net.weights.kernel(f"{name}.weight", sizes, fan_in=sizes[0], gain=1.0))
    product = net.op("MatMul", [x, weight], f"{name}.matmul")
    if not bias:
        return product
    return net.op("Add", [product, net.parameter(f"{name}.bias", net.weights.bias(f"{name}.bias", sizes[1:]))], f"{name}.add")


def embedding(net: Layers, ids: str, name: str, rows: int, width: int) -> str:
    """The rows of a table that ids name."""
    table = net.parameter(f"{name}.weight", net.weights.uniform(f"{name}.weight", (rows, width), -1.0, 1.0))
    return net.op("Gather", [table, ids], name)


def layer_norm(net: Layers, x: str, name: str, width: int) -> str:
    """Layer normalisation over the last dimension (Ba et al., 2016)."""
    scale = net.parameter(f"{name}.scale", net.weights.scale(f"{name}.scale", (width,)))
    bias = net.parameter(f"{name}.bias", net.weights.bias(f"{name}.bias", (width,)))
    return net.op("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=1e-5)


def rms_norm(net: Layers, x: str, name: str, width: int) -> str:
    """x / sqrt(mean(x^2) + eps) times a scale (Zhang and Sennrich, 2019), spelled out."""
    square = net.op("Pow", [x, constant(net, "two", 2, np.float32)], f"{name}.square")
    mean = net.op("ReduceMean", [square], f"{name}.mean", axes=[-1], keepdims=1)
    root = net.op("Sqrt", [net.op("Add", [mean, constant(net, "epsilon", 1e-6, np.float32)], f"{name}.add")], f"{name}.sqrt")
    scale = net.parameter(f"{name}.scale", net.weights.scale(f"{name}.scale", (width,)))
    return net.op("Mul", [net.op("Div", [x, root], f"{name}.div"), scale], name)


def heads(net: Layers, x: str, name: str, count: int, depth: int) -> str:
    """[batch, sequence, count * depth] as [batch, count, sequence, depth]."""
    split = net.op("Reshape", [x, constant(net, f"split_{count}x{depth}", [0, 0, count, depth])], f"{name}.split")
    return net.op("Transpose", [split], f"{name}.transpose", perm=[0, 2, 1, 3])


def joined(net: Layers, x: str, name: str, width: int) -> str:
    """[batch, heads, sequence, depth] as [batch, sequence, width]."""
    back = net.op("Transpose", [x], f"{name}.transpose", perm=[0, 2, 1, 3])
    return net.op("Reshape", [back, constant(net, f"joined_{width}", [0, 0, width])], f"{name}.join")


def attention(net: Layers, query: str, key: str, value: str, name: str, depth: int, masked: str) -> str:
    """softmax(Q K^T / sqrt(depth), with `masked` added) V, for each head."""
    turned = net.op("Transpose", [key], f"{name}.key.transpose", perm=[0, 1, 3, 2])
    scores = net.op("MatMul", [query, turned], f"{name}.scores")
    scaled = net.op("Div", [scores, constant(net, f"root_{depth}", np.sqrt(depth), np.float32)], f"{name}.scale")
    weights = net.op("Softmax", [net.op("Add", [scaled, masked], f"{name}.mask")], f"{name}.softmax", axis=-1)
    return net.op("MatMul", [weights, value], f"{name}.context")


def axis_size(net: Layers, x: str, axis: int, name: str) -> str:
    """The size of a dimension, a scalar."""
    shape = net.op("Shape", [x], f"{name}.shape")
    return net.op("Gather", [shape, constant(net, f"axis_{axis}", axis)], name, axis=0)


def positions(net: Layers, ids: str, past: str) -> tuple[str, str]:
    """Behind a cache, of which `past` has a key of each head: the places of the tokens of `ids`, and of all tokens."""
    before, new = axis_size(net, past, 2, "past_length"), axis_size(net, ids, 1, "length")
    end = net.op("Add", [before, new], "total_length")
    one = constant(net, "one", 1)
    return net.op("Range", [before, end, one], "places"), net.op("Range", [constant(net, "zero", 0), end, one], "all_places")


def visible(net: Layers, places: str, every: str) -> str:
    """What is added to the scores of tokens at `places` with tokens at `every` place: nothing, or a lot less where these come later."""
    rows = net.op("Unsqueeze", [places, constant(net, "at_1", [1])], "mask.rows")
    later = net.op("Greater", [every, rows], "mask.later")
    numbers = [constant(net, "mask.far_less", -1e9, np.float32), constant(net, "mask.nothing", 0, np.float32)]
    return net.op("Where", [later, *numbers], "mask")


def repeated(net: Layers, x: str, name: str, times: int, sizes: Sequence[int]) -> str:
    """Each head of [batch, heads, sequence, depth] so many times in a row; `sizes` are heads and depth."""
    count, depth = sizes
    apart = net.op("Unsqueeze", [x, constant(net, "at_2", [2])], f"{name}.unsqueeze")
    spread = net.op("Expand", [apart, constant(net, f"times_{times}", [1, 1, times, 1, 1])], f"{name}.expand")
    return net.op("Reshape", [spread, constant(net, f"repeated_{count * times}x{depth}", [0, count * times, -1, depth])], f"{name}.repeat")
