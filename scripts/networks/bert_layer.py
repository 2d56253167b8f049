"""Encoder layers of the shape of BERT (Devlin et al., 2018): one of BERT-base, and the six of a small encoder of sentences (MiniLM's)."""

from dataclasses import dataclass

import numpy as np
import onnx

from networks.layers import Layers

__all__ = ["bert_layer", "sentence_encoder"]


@dataclass(frozen=True)
class _Shape:
    tokens: int
    hidden: int
    heads: int
    feed_forward: int

    @property
    def depth(self) -> int:
        return self.hidden // self.heads


def bert_layer(seed: int) -> onnx.ModelProto:
    """One layer of BERT-base: 128 tokens, hidden size 768, 12 heads, feed-forward size 3072."""
    return _encoder("bert_layer", seed, _Shape(128, 768, 12, 3072), ("",))


def sentence_encoder(seed: int) -> onnx.ModelProto:
    """Six layers: 128 tokens, hidden size 384, 12 heads, feed-forward size 1536 (Wang et al., "MiniLM", 2020)."""
    return _encoder("sentence_encoder", seed, _Shape(128, 384, 12, 1536), tuple(f"layer.{number}." for number in range(6)))


def _encoder(name: str, seed: int, shape: _Shape, layers: tuple[str, ...]) -> onnx.ModelProto:
    """Layers by the beginning of their nodes' names: self-attention and a feed-forward network, each with a shortcut and a layer normalisation; as
    frameworks export it, no op of its own for it."""
    net = Layers(name, seed)
    for constant, value in {"sqrt_depth": np.sqrt(shape.depth), "sqrt_two": np.sqrt(2), "one": 1, "half": 0.5}.items():
        net.parameter(constant, np.array(value, np.float32))
    net.parameter("split", np.array([1, shape.tokens, shape.heads, shape.depth], np.int64))
    net.parameter("joined", np.array([1, shape.tokens, shape.hidden], np.int64))
    result = "hidden"
    for layer in layers:
        result = _layer(net, result, layer, shape)
    sizes = [1, shape.tokens, shape.hidden]
    return net.model(result, takes=("hidden", sizes), gives=sizes)


def _layer(net: Layers, hidden: str, of: str, shape: _Shape) -> str:
    context = attention(net, hidden, of, shape)
    attended = linear(net, context, f"{of}attention.output", shape.hidden, shape.hidden)
    x = norm(net, net.op("Add", [attended, hidden], f"{of}attention.add"), f"{of}attention.norm", shape.hidden)
    inner = gelu(net, linear(net, x, f"{of}feed_forward.in", shape.hidden, shape.feed_forward), of)
    y = linear(net, inner, f"{of}feed_forward.out", shape.feed_forward, shape.hidden)
    return norm(net, net.op("Add", [y, x], f"{of}feed_forward.add"), f"{of}feed_forward.norm", shape.hidden)


def linear(net: Layers, x: str, name: str, size_in: int, size_out: int) -> str:
    """x W + b."""
    weight = net.parameter(f"{name}.weight", net.weights.kernel(f"{name}.weight", (size_in, size_out), fan_in=size_in, gain=1.0))
    bias = net.parameter(f"{name}.bias", net.weights.bias(f"{name}.bias", (size_out,)))
    return net.op("Add", [net.op("MatMul", [x, weight], f"{name}.matmul"), bias], f"{name}.add")


def heads(net: Layers, x: str, name: str, perm: list[int], width: int) -> str:
    """The query, key or value of each head."""
    projected = linear(net, x, name, width, width)
    split = net.op("Reshape", [projected, "split"], f"{name}.split")
    return net.op("Transpose", [split], f"{name}.transpose", perm=perm)


def attention(net: Layers, x: str, of: str, shape: _Shape) -> str:
    """softmax(Q K^T / sqrt(depth)) V, the heads side by side."""
    perms = {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}
    query, key, value = (heads(net, x, f"{of}attention.{part}", perm, shape.hidden) for part, perm in perms.items())
    scores = net.op("Div", [net.op("MatMul", [query, key], f"{of}attention.scores"), "sqrt_depth"], f"{of}attention.scale")
    weighted = net.op("MatMul", [net.op("Softmax", [scores], f"{of}attention.softmax", axis=-1), value], f"{of}attention.context")
    back = net.op("Transpose", [weighted], f"{of}attention.context.transpose", perm=[0, 2, 1, 3])
    return net.op("Reshape", [back, "joined"], f"{of}attention.context.join")


def gelu(net: Layers, x: str, of: str) -> str:
    """x (1 + erf(x / sqrt 2)) / 2, spelled out."""
    erf = net.op("Erf", [net.op("Div", [x, "sqrt_two"], f"{of}gelu.div")], f"{of}gelu.erf")
    product = net.op("Mul", [x, net.op("Add", [erf, "one"], f"{of}gelu.add")], f"{of}gelu.mul")
    return net.op("Mul", [product, "half"], f"{of}gelu.half")


def norm(net: Layers, x: str, name: str, width: int) -> str:
    """Layer normalisation over the hidden size."""
    scale = net.parameter(f"{name}.scale", net.weights.scale(f"{name}.scale", (width,)))
    bias = net.parameter(f"{name}.bias", net.weights.bias(f"{name}.bias", (width,)))
    return net.op("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=1e-12)
