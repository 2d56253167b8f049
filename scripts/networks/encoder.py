"""A transformer encoder of BERT's shape (Devlin et al., 2018) for sentences of any length in batches of any size, padded ones masked."""

import numpy as np
import onnx
from onnx import TensorProto

from networks.layers import Layers
from networks.transformer import attention, axis_size, constant, embedding, heads, joined, layer_norm, linear

__all__ = ["encoder"]


def encoder(
    seed: int, *, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 30522, places: int = 512, name: str = "encoder"
) -> onnx.ModelProto:
    """Tokens `input_ids` and `attention_mask` (1 for what counts), [batch, sequence] both, to `hidden` [batch, sequence, width]."""
    net = Layers(name, seed)
    counted = net.op("Range", [constant(net, "zero", 0), axis_size(net, "input_ids", 1, "length"), constant(net, "one", 1)], "places")
    tokens, at = embedding(net, "input_ids", "tokens", vocabulary, width), embedding(net, counted, "positions", places, width)
    x = layer_norm(net, net.op("Add", [tokens, at], "embedded"), "norm", width)
    floats = net.op("Cast", ["attention_mask"], "mask.float", to=TensorProto.FLOAT)
    left_out = net.op("Sub", [constant(net, "unit", 1, np.float32), floats], "mask.left_out")
    far = net.op("Mul", [left_out, constant(net, "far_less", -1e9, np.float32)], "mask.far")
    mask = net.op("Unsqueeze", [far, constant(net, "at_1_and_2", [1, 2])], "mask")
    for number in range(layers):
        x = _layer(net, x, f"layer.{number}", (width, heads, width // heads), mask)
    net.named(x, "hidden")
    ids = (TensorProto.INT64, ["batch", "sequence"])
    return net.finished({"input_ids": ids, "attention_mask": ids}, {"hidden": (TensorProto.FLOAT, ["batch", "sequence", width])})


def _layer(net: Layers, x: str, name: str, sizes: tuple[int, int, int], mask: str) -> str:
    """Self-attention and a feed-forward network, each with a shortcut and normalised afterwards."""
    width, count, depth = sizes
    query, key, value = (
        heads(net, linear(net, x, f"{name}.{part}", (width, width)), f"{name}.{part}", count, depth) for part in ("query", "key", "value")
    )
    context = joined(net, attention(net, query, key, value, f"{name}.attention", depth, mask), f"{name}.attention", width)
    attended = net.op("Add", [x, linear(net, context, f"{name}.output", (width, width))], f"{name}.add1")
    x = layer_norm(net, attended, f"{name}.norm1", width)
    inner = net.op("Relu", [linear(net, x, f"{name}.up", (width, 4 * width))], f"{name}.relu")
    fed = net.op("Add", [x, linear(net, inner, f"{name}.down", (4 * width, width))], f"{name}.add2")
    return layer_norm(net, fed, f"{name}.norm2", width)
