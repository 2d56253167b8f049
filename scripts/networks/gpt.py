"""A decoder of GPT-2's shape (Radford et al., 2019), with a cache of keys and values that grows: what it is given, it gives back longer."""

import numpy as np
import onnx
from onnx import TensorProto

from networks.layers import Layers, Typed
from networks.transformer import attention, constant, embedding, heads, joined, layer_norm, linear, positions, visible

__all__ = ["gpt"]


def gpt(
    seed: int, *, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257, places: int = 1024, name: str = "gpt"
) -> onnx.ModelProto:
    """Tokens `input_ids` [batch, sequence] behind `past` others to `logits` of the next token at each place.

    Each layer's keys and values, [batch, heads, past, width / heads] each, come as `past_key_values.i.key` and `.value` and go, with the new ones
    behind them, as `present.i.key` and `.value`: as frameworks export it.
    """
    net = Layers(name, seed)
    depth = width // heads
    inputs: dict[str, Typed] = {"input_ids": (TensorProto.INT64, ["batch", "sequence"])}
    outputs: dict[str, Typed] = {"logits": (TensorProto.FLOAT, ["batch", "sequence", vocabulary])}
    at, every = positions(net, "input_ids", "past_key_values.0.key")
    hidden = net.op(
        "Add", [embedding(net, "input_ids", "tokens", vocabulary, width), embedding(net, at, "positions", places, width)], "embedded"
    )
    mask = visible(net, at, every)
    for layer in range(layers):
        for part in ("key", "value"):
            inputs[f"past_key_values.{layer}.{part}"] = (TensorProto.FLOAT, ["batch", heads, "past", depth])
            outputs[f"present.{layer}.{part}"] = (TensorProto.FLOAT, ["batch", heads, "past + sequence", depth])
        hidden = _block(net, hidden, layer, (width, heads, depth), mask)
    last = layer_norm(net, hidden, "norm", width)
    net.named(linear(net, last, "head", (width, vocabulary), bias=False), "logits")
    return net.finished(inputs, outputs)


def _block(net: Layers, x: str, number: int, sizes: tuple[int, int, int], mask: str) -> str:
    """Attention to what came before and a feed-forward network, each on normalised input and with a shortcut."""
    (width, count, depth), name = sizes, f"layer.{number}"
    whole = linear(net, layer_norm(net, x, f"{name}.norm1", width), f"{name}.qkv", (width, 3 * width))
    net.nodes.append(onnx.helper.make_node("Split", [whole], [f"{name}.{part}" for part in "qkv"], name=f"{name}.parts", axis=2))
    query, *new = (heads(net, f"{name}.{part}", f"{name}.{part}", count, depth) for part in "qkv")
    kept = []
    for part, value in zip(("key", "value"), new, strict=True):
        kept.append(net.op("Concat", [f"past_key_values.{number}.{part}", value], f"{name}.{part}.all", axis=2))
        net.named(kept[-1], f"present.{number}.{part}")
    context = joined(net, attention(net, query, kept[0], kept[1], f"{name}.attention", depth, mask), f"{name}.attention", width)
    x = net.op("Add", [x, linear(net, context, f"{name}.projection", (width, width))], f"{name}.add1")
    inner = linear(net, layer_norm(net, x, f"{name}.norm2", width), f"{name}.up", (width, 4 * width))
    return net.op("Add", [x, linear(net, gelu(net, inner, f"{name}.gelu"), f"{name}.down", (4 * width, width))], f"{name}.add2")


def gelu(net: Layers, x: str, name: str) -> str:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, spelled out."""
    cube = net.op("Pow", [x, constant(net, "three", 3, np.float32)], f"{name}.cube")
    bent = net.op("Mul", [cube, constant(net, "bend", 0.044715, np.float32)], f"{name}.bend")
    inside = net.op("Mul", [net.op("Add", [x, bent], f"{name}.sum"), constant(net, "slope", np.sqrt(2 / np.pi), np.float32)], f"{name}.slope")
    above = net.op("Add", [net.op("Tanh", [inside], f"{name}.tanh"), constant(net, "unit", 1, np.float32)], f"{name}.above")
    return net.op("Mul", [net.op("Mul", [x, above], f"{name}.mul"), constant(net, "half", 0.5, np.float32)], f"{name}.half")
