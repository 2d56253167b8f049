"""com.microsoft's attention against a numpy model and ONNX Runtime: every form of inputs, masks and past."""

from typing import Any

import numpy as np
import pytest
from every import every
from importing import context, floats, ints
from native_checks import natively_together
from onnx import NodeProto, helper
from other_domains import MICROSOFT, agree, check_native, model_of, of_runtime

import stepwell
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.onnx import import_model

B, S, N, H, V = 2, 5, 3, 4, 6  # sequences, tokens, heads, sizes of keys and of values
Arrays = dict[str, np.ndarray]


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    """A node; names are separated by blanks, and `-` leaves an input or output out."""
    names = [[n.replace("-", "") for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, name="heads", domain=MICROSOFT, **attributes)


def check(made: NodeProto, inputs: Arrays, want: Arrays, *, runtime: bool = True, terms: int = 256) -> None:
    expected = {name: np.asarray(array) for name, array in want.items()}
    if runtime:
        agree(expected, of_runtime(made, inputs, expected), terms=terms)
    check_native(made, inputs, expected, terms=terms)


def by_head(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def together(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, added: Any = 0, scale: float | None = None, softcap: float = 0, sink: Any = None
) -> np.ndarray:
    """By head, in f64; fewer heads of keys are repeated."""
    k, v = (np.repeat(x.astype(np.float64), q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = (softcap * np.tanh(scores / softcap) if softcap else scores) + added
    if sink is not None:
        scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], axis=-1)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return together((weights if sink is None else weights[..., :-1]) @ v).astype(np.float32)


def causal(queries: int, keys: int, window: int = 0) -> np.ndarray:
    """-inf for keys after a query, and for those that lie `window` and more before it."""
    apart = np.arange(queries)[:, np.newaxis] + keys - queries - np.arange(keys)
    return np.where((apart < 0) | ((apart >= window) if window else False), -np.inf, 0)


def kept(mask: np.ndarray, batch: int, keys: int) -> np.ndarray:
    """0 or -10000 for each key, as a mask says."""
    if mask.shape in ((batch,), (2 * batch,)):
        end, start = mask[:batch], mask[batch:] if mask.size > batch else np.zeros(batch)
        place = np.arange(keys)
        flags = (place < end[:, np.newaxis]) & (place >= start[:, np.newaxis])
        return np.where(flags, 0, -10000.0)[:, np.newaxis, np.newaxis]
    return np.where(mask > 0, 0, -10000.0)[:, np.newaxis] if mask.ndim == 3 else np.where(mask > 0, 0, -10000.0)[:, np.newaxis, np.newaxis]


def flags(*shape: int, seed: int = 0) -> np.ndarray:
    """0 and 1, the first key always kept."""
    out = (np.random.default_rng(seed).random(shape) < 0.6).astype(np.int32)
    out[..., 0] = 1
    return out


def masks(keys: int) -> list[np.ndarray | None]:
    return [None, ints(2, keys, dtype=np.int32), ints(2, keys, 0, 1, dtype=np.int32), flags(B, keys), flags(B, S, keys)]


@natively_together
@every("mask", range(5))
@every("unidirectional", [0, 1])
@every("past", [0, 3])
def test_attention(mask: int, unidirectional: int, past: int) -> None:
    """Projected from one input; values of another size where there is no past to keep them with."""
    value = H if past else V
    x, bias = floats(B, S, 7), floats(N * (2 * H + value), seed=1)
    weights, given, keys = floats(7, N * (2 * H + value), seed=2) / 3, masks(S + past)[mask], S + past
    inputs: Arrays = {"x": x, "w": weights, "b": bias}
    projected = x.astype(np.float64) @ weights + bias
    q, k, v = (by_head(part, N) for part in np.split(projected, [N * H, 2 * N * H], axis=2))
    if given is not None:
        inputs["m"] = given
    want: Arrays = {}
    if past:
        inputs["past"] = floats(2, B, N, past, H, seed=4)
        k, v = (np.concatenate([old, new], axis=2) for old, new in zip(inputs["past"], (k, v), strict=True))
        want["present"] = np.stack([k, v]).astype(np.float32)
    added = (0 if given is None else kept(given, B, keys)) + (causal(S, keys) if unidirectional else 0)
    want = {"y": attend(q, k, v, added, 0.4), **want}
    names = ["x", "w", "b", "-" if given is None else "m", "past" if past else "-"]
    sizes = [N * H, N * H, N * value]
    made = node("Attention", " ".join(names), " ".join(want), num_heads=N, unidirectional=unidirectional, scale=0.4, qkv_hidden_sizes=sizes)
    check(made, inputs, want)


@natively_together
def test_attention_with_a_bias_of_scores() -> None:
    x, weights, bias = floats(B, S, 7), floats(7, 3 * N * H, seed=2) / 3, floats(3 * N * H, seed=1)
    q, k, v = (by_head(part, N) for part in np.split(x.astype(np.float64) @ weights + bias, 3, axis=2))
    for shape in ((B, N, S, S), (1, N, S, S), (B, 1, S, S)):
        more = floats(*shape, seed=6)
        check(node("Attention", "x w b - - a", num_heads=N), {"x": x, "w": weights, "b": bias, "a": more}, {"y": attend(q, k, v, more)})
    plain = [by_head(part, N) for part in np.split(x.astype(np.float64) @ weights, 3, axis=2)]
    check(node("Attention", "x w", num_heads=N), {"x": x, "w": weights}, {"y": attend(*plain)}, runtime=False)


def parts(queries: int = S, keys: int = 7, value: int = V) -> Arrays:
    return {"q": floats(B, queries, N * H), "k": floats(B, keys, N * H, seed=1), "v": floats(B, keys, N * value, seed=2)}


@natively_together
@every("mask", [None, (B,), (B, 7), (B, S, 7)])
@every("unidirectional", [0, 1])
def test_multi_head_attention(mask: tuple[int, ...] | None, unidirectional: int) -> None:
    """Other numbers of keys than of queries, and values of another size; a bias of the inputs and one of the scores."""
    inputs = parts() if not unidirectional else parts(7)
    queries = inputs["q"].shape[1]
    shape = mask if mask is None or len(mask) < 3 else (B, queries, 7)
    given = None if shape is None else ints(4, 7, dtype=np.int32) if shape == (B,) else flags(*shape)
    for bias, more in ((None, None), (floats(N * (2 * H + V), seed=3), floats(1, N, queries, 7, seed=4))):
        named = {**inputs, **{n: a for n, a in (("b", bias), ("m", given), ("a", more)) if a is not None}}
        moved = list(inputs.values())
        if bias is not None:
            moved = [x + part for x, part in zip(moved, np.split(bias, [N * H, 2 * N * H]), strict=True)]
        added = (0 if given is None else kept(given, B, 7)) + (causal(queries, 7) if unidirectional else 0) + (0 if more is None else more)
        names = " ".join(n if n in named else "-" for n in ("q", "k", "v", "b", "m", "a"))
        made = node("MultiHeadAttention", names, num_heads=N, unidirectional=unidirectional)
        check(made, named, {"y": attend(*(by_head(p.astype(np.float64), N) for p in moved), added)})


@natively_together
def test_packed_inputs() -> None:
    """All three in one tensor, keys and values in one, and keys and values by head; the runtime's CPU kernels have not all of them."""
    q, k, v = parts(S, S, H).values()
    five = np.stack([x.reshape(B, S, N, H) for x in (q, k, v)], axis=3)
    want = {"y": attend(*(by_head(x, N) for x in (q, k, v)))}
    check(node("MultiHeadAttention", "p", num_heads=N), {"p": five}, want, runtime=False)
    check(node("MultiHeadAttention", "q p", num_heads=N), {"q": q, "p": np.ascontiguousarray(five[:, :, :, 1:])}, want, runtime=False)
    q, k, v = parts().values()
    inputs = {"q": q, "k": by_head(k, N), "v": by_head(v, N)}
    check(node("MultiHeadAttention", "q k v", num_heads=N), inputs, {"y": attend(by_head(q, N), inputs["k"], inputs["v"])}, runtime=False)


@natively_together
@every("queries", [1, 3])
def test_past_of_multi_head_attention(queries: int) -> None:
    inputs = {**parts(queries, queries, H), "pk": floats(B, N, 4, H, seed=5), "pv": floats(B, N, 4, H, seed=6)}
    k, v = (np.concatenate([inputs[f"p{n}"], by_head(inputs[n], N)], axis=2) for n in "kv")
    want = {"y": attend(by_head(inputs["q"], N), k, v, causal(queries, 4 + queries), 0.3), "nk": k, "nv": v}
    made = node("MultiHeadAttention", "q k v - - - pk pv", "y nk nv", num_heads=N, unidirectional=1, scale=0.3)
    check(made, inputs, want)


def test_it_becomes_one_op() -> None:
    """Scores never are a value of their own, with masks and a past too."""
    inputs = {**parts(3, 3, H), "m": flags(B, 7), "pk": floats(B, N, 4, H), "pv": floats(B, N, 4, H)}
    made = node("MultiHeadAttention", "q k v - m - pk pv", "y nk nv", num_heads=N, unidirectional=1)
    outputs = {"y": inputs["q"], "nk": inputs["pk"], "nv": inputs["pv"]}
    text = str(import_model(model_of(made, inputs, outputs), context()).module)
    assert text.count("graph.attention") == 1
    assert "graph.softmax" not in text
    assert "graph.matmul" not in text


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int) -> np.ndarray:
    """By head; angles (batch or 1, sequence, pairs)."""
    pairs, out = cos.shape[-1], x.astype(np.float64)
    places = [slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)] if interleaved else [slice(0, pairs), slice(pairs, 2 * pairs)]
    c, s = cos[:, np.newaxis], sin[:, np.newaxis]
    real, imaginary = (x[..., p] for p in places)
    out[..., places[0]], out[..., places[1]] = real * c - imaginary * s, imaginary * c + real * s
    return out


@natively_together
@every("interleaved", [0, 1])
@every("pairs", [4, 2])
def test_rotary_embedding(interleaved: int, pairs: int) -> None:
    """Tokens in a row and by head; positions of each token and of the first; heads that are turned in part."""
    angles = floats(11, pairs, seed=1)
    cos, sin = np.cos(angles), np.sin(angles)
    x = floats(B, S, N * 8)
    part = {"num_heads": N, "rotary_embedding_dim": 2 * pairs} if pairs < 4 else {}
    for positions in (np.array([[0, 4, 2, 10, 1], [3, 3, 8, 9, 5]]), np.array([4])):
        places = positions if positions.ndim == 2 else positions + np.arange(S)[np.newaxis]
        want = turned(by_head(x, N), cos[places], sin[places], interleaved).astype(np.float32)
        made = node("RotaryEmbedding", "x p c s", interleaved=interleaved, **part)
        check(made, {"x": x, "p": positions, "c": cos, "s": sin}, {"y": together(want)})
        check(made, {"x": by_head(x, N).copy(), "p": positions, "c": cos, "s": sin}, {"y": want})


PLAIN = parts()
SHORT = {"x": floats(B, S, 7), "w": floats(7, 3 * N * H)}


@pytest.mark.parametrize(
    ("made", "inputs", "kind", "message"),
    [
        (node("Attention", "x w", num_heads=5), SHORT, ModelError, "does not divide into 5 heads"),
        (node("Attention", "x w", num_heads=N, do_rotary=1), SHORT, UnsupportedError, "do_rotary=1"),
        (node("Attention", "x w - m", num_heads=N), {**SHORT, "m": flags(B, 4)}, UnsupportedError, "a mask"),
        (node("Attention", "x w", num_heads=N, flavour=1), SHORT, UnsupportedError, "flavour=1"),
        (node("MultiHeadAttention", "q", num_heads=N), PLAIN, ModelError, "with a key, or all packed"),
        (node("MultiHeadAttention", "q k v b", num_heads=N), {**PLAIN, "b": floats(5)}, ModelError, "the bias must have"),
        (node("MultiHeadAttention", "q k v", "y nk nv qk", num_heads=N), PLAIN, UnsupportedError, "output number 3"),
        (node("MultiHeadAttention", "q k v - - a", num_heads=N), {**PLAIN, "a": floats(1, N, S, 3)}, ModelError, "does not broadcast"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(made: NodeProto, inputs: Arrays, kind: Any, message: str) -> None:
    taken = {name: array for name, array in inputs.items() if name in made.input}
    outputs = {name: floats(1, 1, 1) if name == "y" else floats(1, 1, 1, 1) for name in made.output}
    with pytest.raises(kind, match=message):
        stepwell.compile(model_of(made, taken, outputs))
