"""Attention in its forms, and rotary embedding."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmark.operators.case import Case, constant, given, graph, integers, mask, op, uniform, weight

MICROSOFT = "com.microsoft"


def cases() -> Iterator[Case]:
    """As exported from tensors' arithmetic, as the standard has it, and as ONNX Runtime's optimiser writes it."""
    yield exported("BERT base", 1, 12, 128, 64)
    yield exported("BERT base, SQuAD", 1, 12, 384, 64)
    yield exported("ViT base, batch of 8", 8, 12, 197, 64)
    yield masked("GPT-2", 1, 12, 256, 64)
    yield from standard()
    yield from microsoft()
    yield from rotary()


def exported(origin: str, batch: int, heads: int, tokens: int, width: int) -> Case:
    """What PyTorch's exporter makes of scaled dot-product attention."""
    body = """
        t = Transpose <perm = [0, 1, 3, 2]> (k)
        p = MatMul(q, t)
        s = Mul(p, scale)
        a = Softmax <axis = -1> (s)
        y = MatMul(a, v)
    """
    q, k, v = (given(batch, heads, tokens, width) for _ in "qkv")
    return graph("MatMul/Softmax/MatMul", origin, body, q=q, k=k, v=v, scale=constant(width**-0.5, "float32"))


def masked(origin: str, batch: int, heads: int, tokens: int, width: int) -> Case:
    """The same with the mask of a decoder, a constant that is added."""
    body = """
        t = Transpose <perm = [0, 1, 3, 2]> (k)
        p = MatMul(q, t)
        s = Mul(p, scale)
        m = Add(s, causal)
        a = Softmax <axis = -1> (m)
        y = MatMul(a, v)
    """
    q, k, v = (given(batch, heads, tokens, width) for _ in "qkv")
    causal = constant(np.triu(np.full((1, 1, tokens, tokens), -1e9), 1), "float32")
    return graph("MatMul/Softmax/MatMul", origin, body, note="causal", q=q, k=k, v=v, scale=constant(width**-0.5, "float32"), causal=causal)


def standard() -> Iterator[Case]:
    """Attention of opsets 23 and 24."""

    def attention(origin: str, queries: tuple[int, ...], keys: tuple[int, ...], past: int = 0, opset: int = 23, **how: Any) -> Case:
        batch, heads, _, width = keys
        before = [given(batch, heads, past, width) for _ in range(2)] if past else []
        outputs = 3 if past else 1
        note = " ".join([f"past={past}"] * bool(past) + [f"{name}={value}" for name, value in how.items()] + [f"opset {opset}"])
        inputs = [given(*queries), given(*keys), given(*keys), *([None, *before] if past else [])]
        return op("Attention", origin, *inputs, outputs=outputs, note=note, opset=opset, **how)

    yield attention("ViT base", (1, 12, 197, 64), (1, 12, 197, 64))
    yield attention("Whisper small encoder, shortened", (1, 12, 500, 64), (1, 12, 500, 64))
    yield attention("GPT-2 prompt", (1, 12, 256, 64), (1, 12, 256, 64), is_causal=1)
    yield attention("GPT-2, one token", (1, 12, 1, 64), (1, 12, 1, 64), past=512)
    yield attention("Llama 3 8B, one token", (1, 32, 1, 128), (1, 8, 1, 128), past=512)
    yield attention("Llama 3 prompt", (1, 32, 64, 128), (1, 8, 64, 128), is_causal=1)
    yield attention("BERT base", (1, 12, 128, 64), (1, 12, 128, 64), opset=24)
    padded = mask(0.9)
    inputs = [given(4, 8, 64, 64), given(4, 8, 64, 64), given(4, 8, 64, 64), given(4, 1, 64, 64, dtype="bool", fill=padded)]
    yield op("Attention", "Transformer base, batch of 4, masked", *inputs, opset=23)
    yield op("Attention", "BERT base, heads packed", *(given(2, 128, 768) for _ in "qkv"), opset=23, q_num_heads=12, kv_num_heads=12)


def microsoft() -> Iterator[Case]:
    """The operators that ONNX Runtime's optimiser makes."""
    three = [given(1, 128, 768) for _ in "qkv"]
    yield op("MultiHeadAttention", "BERT base", *three, domain=MICROSOFT, num_heads=12)
    yield op("MultiHeadAttention", "BERT base, batch of 8", *(given(8, 128, 768) for _ in "qkv"), domain=MICROSOFT, num_heads=12)
    yield op("MultiHeadAttention", "Whisper base encoder, shortened", *(given(1, 500, 512) for _ in "qkv"), domain=MICROSOFT, num_heads=8)
    past = [given(1, 8, 448, 64) for _ in "kv"]
    one = [given(1, 1, 512) for _ in "qkv"]
    yield op(
        "MultiHeadAttention",
        "Whisper base decoder, one token",
        *one,
        None,
        None,
        None,
        *past,
        domain=MICROSOFT,
        num_heads=8,
        outputs=3,
    )
    yield op(
        "Attention",
        "BERT base, with its projections",
        given(1, 128, 768),
        weight(768, 2304),
        weight(2304),
        domain=MICROSOFT,
        num_heads=12,
        title="Attention (com.microsoft)",
    )
    lengths, total = constant([512], "int32"), constant(513, "int32")
    grouped = [given(1, 1, 4096), given(1, 1, 1024), given(1, 1, 1024), *(given(1, 8, 512, 128) for _ in "kv"), lengths, total]
    yield op("GroupQueryAttention", "Llama 3 8B, one token", *grouped, domain=MICROSOFT, num_heads=32, kv_num_heads=8, outputs=3)


def rotary() -> Iterator[Case]:
    """Rotary embedding of queries, with tables of 2048 positions."""
    tables = [weight(2048, 64, fill=uniform(-1, 1)) for _ in range(2)]
    positions = given(1, 128, dtype="int64", fill=integers(0, 2048))
    yield op("RotaryEmbedding", "Llama 3 8B prompt", given(1, 32, 128, 128), *tables, positions, opset=23)
    yield op("RotaryEmbedding", "GPT-NeoX, interleaved", given(1, 32, 128, 128), *tables, positions, opset=23, interleaved=1)
    yield op(
        "RotaryEmbedding",
        "Llama 2 7B prompt",
        given(1, 128, 4096),
        positions,
        *tables,
        domain=MICROSOFT,
        num_heads=32,
        title="RotaryEmbedding (com.microsoft)",
    )
    body = """
        a, b = Split <axis = -1, num_outputs = 2> (x)
        n = Neg(b)
        r = Concat <axis = -1> (n, a)
        c = Mul(x, cos)
        s = Mul(r, sin)
        y = Add(c, s)
    """
    cos, sin = (given(1, 1, 128, 128, fill=uniform(-1, 1)) for _ in range(2))
    yield graph("rotary embedding, as exported", "Llama 3 8B prompt", body, x=given(1, 32, 128, 128), cos=cos, sin=sin)
