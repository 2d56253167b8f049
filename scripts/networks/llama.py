"""Decoder layers of LLaMA's shape (Touvron et al., 2023): grouped queries, rotary embedding, RMS norm, SwiGLU; a cache as in `gpt`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper

from networks.layers import Layers, Typed
from networks.transformer import attention, axis_size, constant, heads, joined, linear, positions, repeated, rms_norm, visible

__all__ = ["llama"]

FAR = np.iinfo(np.int64).max
PLACES = 4096  # how far the tables of the fused form reach
Sizes: TypeAlias = tuple[int, int, int, int]
"""The width, how many heads of queries, and of keys and values, there are, and the size of one."""


def llama(
    seed: int, *, layers: int = 1, width: int = 2048, heads: int = 32, groups: int = 8, inner: int = 5632, fused: bool = False, name: str = "llama"
) -> onnx.ModelProto:
    """`hidden` [batch, sequence, width] behind `past` other tokens to `output` of the same shape.

    `groups` is the number of heads of keys and values, each for `heads / groups` heads of queries. The cache has their names and sizes as in `gpt`.
    If `fused`, attention is one operator, com.microsoft's GroupQueryAttention, as the exporters of language models for ONNX Runtime write it; how
    many of the `total` tokens a sequence has is then the sum of its row of one more input, `attention_mask`.
    """
    net = Layers(name, seed)
    depth = width // heads
    inputs: dict[str, Typed] = {"hidden": (TensorProto.FLOAT, ["batch", "sequence", width])}
    outputs: dict[str, Typed] = {"output": (TensorProto.FLOAT, ["batch", "sequence", width])}
    if fused:
        inputs["attention_mask"] = (TensorProto.INT64, ["batch", "total"])
        attend = partial(_grouped_query_attention, told=(*_lengths(net), *_tables(net, depth)))
    else:
        at, every = positions(net, "hidden", "past_key_values.0.key")
        attend = partial(_attention, mask=visible(net, at, every), turn=_angles(net, at, depth))
    x = "hidden"
    for layer in range(layers):
        for part in ("key", "value"):
            inputs[f"past_key_values.{layer}.{part}"] = (TensorProto.FLOAT, ["batch", groups, "past", depth])
            outputs[f"present.{layer}.{part}"] = (TensorProto.FLOAT, ["batch", groups, "total" if fused else "past + sequence", depth])
        x = _attended(net, x, layer, (width, heads, groups, depth), attend)
        x = _fed_forward(net, x, f"layer.{layer}", width, inner)
    net.named(rms_norm(net, x, "norm", width), "output")
    return net.finished(inputs, outputs)


def _frequencies(depth: int) -> np.ndarray:
    """By which angle each pair of numbers of a head is turned from place to place."""
    return (10000.0 ** (-np.arange(0, depth, 2) / depth)).astype(np.float32)


def _lengths(net: Layers) -> tuple[str, str]:
    """How many tokens each sequence has, less one, and how many the longest may have."""
    counts = net.op("ReduceSum", ["attention_mask", constant(net, "at_1", [1])], "lengths.sum", keepdims=0)
    last = net.op("Cast", [net.op("Sub", [counts, constant(net, "one", 1)], "lengths.last")], "lengths", to=TensorProto.INT32)
    return last, net.op("Cast", [axis_size(net, "attention_mask", 1, "total")], "total.cast", to=TensorProto.INT32)


def _tables(net: Layers, depth: int) -> tuple[str, str]:
    """Cosines and sines of the angles of all places."""
    angles = np.arange(PLACES, dtype=np.float32)[:, None] * _frequencies(depth)
    return net.parameter("cosines", np.cos(angles)), net.parameter("sines", np.sin(angles))


def _angles(net: Layers, places: str, depth: int) -> tuple[str, str]:
    """Cosines and sines of the angles by which pairs of numbers are turned at each place."""
    frequencies = net.parameter("frequencies", _frequencies(depth)[None])
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


def _attended(net: Layers, x: str, number: int, sizes: Sizes, attend: Callable[..., str]) -> str:
    """Attention to what came before, on normalised input and with a shortcut."""
    (width, count, groups, depth), name = sizes, f"layer.{number}"
    normed = rms_norm(net, x, f"{name}.norm1", width)
    parts = [
        linear(net, normed, f"{name}.{part}", (width, n * depth), bias=False) for part, n in (("query", count), ("key", groups), ("value", groups))
    ]
    context = attend(net, parts, number, sizes)
    return net.op("Add", [x, linear(net, context, f"{name}.projection", (width, width), bias=False)], f"{name}.add1")


def _attention(net: Layers, parts: Sequence[str], number: int, sizes: Sizes, *, mask: str, turn: tuple[str, str]) -> str:
    """Attention of queries to keys and values, each [batch, sequence, heads * depth], and to the cache, spelled out."""
    (width, count, groups, depth), name = sizes, f"layer.{number}"
    query, key, value = (
        heads(net, x, f"{name}.{part}", n, depth) for x, part, n in zip(parts, ("query", "key", "value"), (count, groups, groups), strict=True)
    )
    query, key = (_turned(net, v, f"{name}.{part}", turn, depth) for part, v in (("query", query), ("key", key)))
    kept = []
    for part, new in (("key", key), ("value", value)):
        whole = net.op("Concat", [f"past_key_values.{number}.{part}", new], f"{name}.{part}.all", axis=2)
        net.named(whole, f"present.{number}.{part}")
        kept.append(repeated(net, whole, f"{name}.{part}", count // groups, (groups, depth)))
    return joined(net, attention(net, query, kept[0], kept[1], f"{name}.attention", depth, mask), f"{name}.attention", width)


def _grouped_query_attention(net: Layers, parts: Sequence[str], number: int, sizes: Sizes, *, told: Sequence[str]) -> str:
    """The same by one operator, which is `told` lengths and tables of angles."""
    (_, count, groups, _), name = sizes, f"layer.{number}.attention"
    cache = [[f"{side}.{number}.{part}" for part in ("key", "value")] for side in ("past_key_values", "present")]
    inputs, outputs = [*parts, *cache[0], *told], [f"{name}.out", *cache[1]]
    attributes: dict[str, Any] = {"num_heads": count, "kv_num_heads": groups, "do_rotary": 1}
    net.nodes.append(helper.make_node("GroupQueryAttention", inputs, outputs, name, domain="com.microsoft", **attributes))
    return outputs[0]


def _fed_forward(net: Layers, x: str, name: str, width: int, inner: int) -> str:
    """(silu(x W1) * x W2) W3 (Shazeer, 2020), on normalised input and with a shortcut."""
    normed = rms_norm(net, x, f"{name}.norm2", width)
    gate, up = (linear(net, normed, f"{name}.{part}", (width, inner), bias=False) for part in ("gate", "up"))
    silu = net.op("Mul", [gate, net.op("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.silu")
    down = linear(net, net.op("Mul", [silu, up], f"{name}.mul"), f"{name}.down", (inner, width), bias=False)
    return net.op("Add", [x, down], f"{name}.add2")
