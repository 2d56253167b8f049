"""One encoder layer of the shape of BERT-base (Devlin et al., 2018): 128 tokens, hidden size 768, 12 heads, feed-forward size 3072."""

import numpy as np
import onnx

from networks.layers import Layers

__all__ = ["bert_layer"]

TOKENS, HIDDEN, HEADS, FEED_FORWARD = 128, 768, 12, 3072
DEPTH = HIDDEN // HEADS


def bert_layer(seed: int) -> onnx.ModelProto:
    """Self-attention and a feed-forward network, each with a shortcut and a layer normalisation; as frameworks export it, no op of its own for it."""
    net = Layers("bert_layer", seed)
    for name, value in {"sqrt_depth": np.sqrt(DEPTH), "sqrt_two": np.sqrt(2), "one": 1, "half": 0.5}.items():
        net.parameter(name, np.array(value, np.float32))
    net.parameter("split", np.array([1, TOKENS, HEADS, DEPTH], np.int64))
    net.parameter("joined", np.array([1, TOKENS, HIDDEN], np.int64))
    attended = linear(net, attention(net, "hidden"), "attention.output", HIDDEN, HIDDEN)
    x = norm(net, net.op("Add", [attended, "hidden"], "attention.add"), "attention.norm")
    inner = gelu(net, linear(net, x, "feed_forward.in", HIDDEN, FEED_FORWARD))
    y = linear(net, inner, "feed_forward.out", FEED_FORWARD, HIDDEN)
    output = norm(net, net.op("Add", [y, x], "feed_forward.add"), "feed_forward.norm")
    return net.model(output, takes=("hidden", [1, TOKENS, HIDDEN]), gives=[1, TOKENS, HIDDEN])


def linear(net: Layers, x: str, name: str, size_in: int, size_out: int) -> str:
    """x W + b."""
    weight = net.parameter(f"{name}.weight", net.weights.kernel(f"{name}.weight", (size_in, size_out), fan_in=size_in, gain=1.0))
    bias = net.parameter(f"{name}.bias", net.weights.bias(f"{name}.bias", (size_out,)))
    return net.op("Add", [net.op("MatMul", [x, weight], f"{name}.matmul"), bias], f"{name}.add")


def heads(net: Layers, x: str, part: str, perm: list[int]) -> str:
    """The query, key or value of each head."""
    projected = linear(net, x, f"attention.{part}", HIDDEN, HIDDEN)
    split = net.op("Reshape", [projected, "split"], f"attention.{part}.split")
    return net.op("Transpose", [split], f"attention.{part}.transpose", perm=perm)


def attention(net: Layers, x: str) -> str:
    """softmax(Q K^T / sqrt(depth)) V, the heads side by side."""
    query = heads(net, x, "query", [0, 2, 1, 3])
    key = heads(net, x, "key", [0, 2, 3, 1])
    value = heads(net, x, "value", [0, 2, 1, 3])
    scores = net.op("Div", [net.op("MatMul", [query, key], "attention.scores"), "sqrt_depth"], "attention.scale")
    weighted = net.op("MatMul", [net.op("Softmax", [scores], "attention.softmax", axis=-1), value], "attention.context")
    back = net.op("Transpose", [weighted], "attention.context.transpose", perm=[0, 2, 1, 3])
    return net.op("Reshape", [back, "joined"], "attention.context.join")


def gelu(net: Layers, x: str) -> str:
    """x (1 + erf(x / sqrt 2)) / 2, spelled out."""
    erf = net.op("Erf", [net.op("Div", [x, "sqrt_two"], "gelu.div")], "gelu.erf")
    product = net.op("Mul", [x, net.op("Add", [erf, "one"], "gelu.add")], "gelu.mul")
    return net.op("Mul", [product, "half"], "gelu.half")


def norm(net: Layers, x: str, name: str) -> str:
    """Layer normalisation over the hidden size."""
    scale = net.parameter(f"{name}.scale", net.weights.scale(f"{name}.scale", (HIDDEN,)))
    bias = net.parameter(f"{name}.bias", net.weights.bias(f"{name}.bias", (HIDDEN,)))
    return net.op("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=1e-12)
