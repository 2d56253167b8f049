"""Decoder layers of LLaMA's shape (Touvron et al., 2023): grouped queries, rotary embedding, RMS norm, SwiGLU; a cache as in `gpt`."""

import numpy as np
import onnx
from onnx import TensorProto

from networks.layers import Layers, Typed
from networks.transformer import attention, constant, heads, joined, linear, positions, repeated, rms_norm, visible

__all__ = ["llama"]

FAR = np.iinfo(np.int64).max


def llama(
    seed: int, *, layers: int = 1, width: int = 2048, heads: int = 32, groups: int = 8, inner: int = 5632, name: str = "llama"
) -> onnx.ModelProto:
    """`hidden` [batch, sequence, width] behind `past` other tokens to `output` of the same shape.

    `groups` is the number of heads of keys and values, each for `heads / groups` heads of queries. The cache has their names and sizes as in `gpt`.
    """
    net = Layers(name, seed)
    depth = width // heads
    inputs: dict[str, Typed] = {"hidden": (TensorProto.FLOAT, ["batch", "sequence", width])}
    outputs: dict[str, Typed] = {"output": (TensorProto.FLOAT, ["batch", "sequence", width])}
    at, every = positions(net, "hidden", "past_key_values.0.key")
    mask, turn = visible(net, at, every), _angles(net, at, depth)
    x = "hidden"
    for layer in range(layers):
        for part in ("key", "value"):
            inputs[f"past_key_values.{layer}.{part}"] = (TensorProto.FLOAT, ["batch", groups, "past", depth])
            outputs[f"present.{layer}.{part}"] = (TensorProto.FLOAT, ["batch", groups, "past + sequence", depth])
        x = _attended(net, x, layer, (width, heads, groups, depth), mask, turn)
        x = _fed_forward(net, x, f"layer.{layer}", width, inner)
    net.named(rms_norm(net, x, "norm", width), "output")
    return net.finished(inputs, outputs)


def _angles(net: Layers, places: str, depth: int) -> tuple[str, str]:
    """Cosines and sines of the angles by which pairs of numbers are turned at each place."""
    frequencies = net.parameter("frequencies", (10000.0 ** (-np.arange(0, depth, 2) / depth)).astype(np.float32)[None])
    column = net.op("Unsqueeze", [net.op("Cast", [places], "rotary.float", to=TensorProto.FLOAT), constant(net, "at_1", [1])], "rotary.places")
    half = net.op("MatMul", [column, frequencies], "rotary.half")
    angles = net.op("Concat", [half, half], "rotary.angles", axis=-1)
    return net.op("Cos", [angles], "rotary.cos"), net.op("Sin", [angles], "rotary.sin")


def _turned(net: Layers, x: str, name: str, turn: tuple[str, str], depth: int) -> str:
    """x cos + (-second half, first half) sin (Su et al., 2021)."""
    ends = [constant(net, "start", [0]), constant(net, f"middle_{depth}", [depth // 2]), constant(net, "far", [FAR]), constant(net, "last_axis", [3])]
    first = net.op("Slice", [x, ends[0], ends[1], ends[3]], f"{name}.first")
    second = net.op("Slice", [x, ends[1], ends[2], ends[3]], f"{name}.second")
    swapped = net.op("Concat", [net.op("Neg", [second], f"{name}.neg"), first], f"{name}.swapped", axis=-1)
    return net.op("Add", [net.op("Mul", [x, turn[0]], f"{name}.cos"), net.op("Mul", [swapped, turn[1]], f"{name}.sin")], f"{name}.turned")


def _attended(net: Layers, x: str, number: int, sizes: tuple[int, int, int, int], mask: str, turn: tuple[str, str]) -> str:
    """Attention to what came before, on normalised input and with a shortcut."""
    (width, count, groups, depth), name = sizes, f"layer.{number}"
    normed = rms_norm(net, x, f"{name}.norm1", width)
    query, key, value = (
        heads(net, linear(net, normed, f"{name}.{part}", (width, n * depth), bias=False), f"{name}.{part}", n, depth)
        for part, n in (("query", count), ("key", groups), ("value", groups))
    )
    query, key = (_turned(net, v, f"{name}.{part}", turn, depth) for part, v in (("query", query), ("key", key)))
    kept = []
    for part, new in (("key", key), ("value", value)):
        whole = net.op("Concat", [f"past_key_values.{number}.{part}", new], f"{name}.{part}.all", axis=2)
        net.named(whole, f"present.{number}.{part}")
        kept.append(repeated(net, whole, f"{name}.{part}", count // groups, (groups, depth)))
    context = joined(net, attention(net, query, kept[0], kept[1], f"{name}.attention", depth, mask), f"{name}.attention", width)
    return net.op("Add", [x, linear(net, context, f"{name}.projection", (width, width), bias=False)], f"{name}.add1")


def _fed_forward(net: Layers, x: str, name: str, width: int, inner: int) -> str:
    """(silu(x W1) * x W2) W3 (Shazeer, 2020), on normalised input and with a shortcut."""
    normed = rms_norm(net, x, f"{name}.norm2", width)
    gate, up = (linear(net, normed, f"{name}.{part}", (width, inner), bias=False) for part in ("gate", "up"))
    silu = net.op("Mul", [gate, net.op("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.silu")
    down = linear(net, net.op("Mul", [silu, up], f"{name}.mul"), f"{name}.down", (inner, width), bias=False)
    return net.op("Add", [x, down], f"{name}.add2")
