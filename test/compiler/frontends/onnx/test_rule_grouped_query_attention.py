"""com.microsoft's GroupQueryAttention against a numpy model and ONNX Runtime: prompts, caches, windows, rotation, sinks."""

from typing import Any

import numpy as np
import pytest
from every import every
from importing import floats, ints
from native_checks import natively_together
from onnx import NodeProto, helper
from other_domains import MICROSOFT, agree, check_native, model_of, of_runtime

import stepwell
from stepwell.dialects.support.errors import ModelError, UnsupportedError

B, N, KV, H, MOST = 2, 4, 2, 16, 12  # sequences, heads of queries and of keys, size, the longest sequence
Arrays = dict[str, np.ndarray]
NAMES = ["q", "k", "v", "pk", "pv", "len", "total", "cos", "sin", "pos", "bias", "sink", "ks", "vs", "qn", "kn"]


def node(inputs: Arrays, **attributes: Any) -> NodeProto:
    names = [name if name in inputs else "" for name in NAMES]
    while not names[-1]:
        names.pop()
    given = {"num_heads": N, "kv_num_heads": KV, **attributes}
    return helper.make_node("GroupQueryAttention", names, ["y", "nk", "nv"], name="grouped", domain=MICROSOFT, **given)


def by_head(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> np.ndarray:
    """One token of one head."""
    pairs, out = len(cos), x.astype(np.float64)
    for i in range(pairs):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + pairs)
        out[a], out[b] = x[a] * cos[i] - x[b] * sin[i], x[b] * cos[i] + x[a] * sin[i]
    return out


def expected(
    inputs: Arrays,
    size: int,
    *,
    window: int = -1,
    interleaved: bool = False,
    softcap: float = 0,
    scale: float = H**-0.5,
    epsilon: float = 1e-6,
    smooth: bool = False,
) -> Arrays:
    """Token by token, as the operator's documentation says."""
    q, k, v = inputs["q"], inputs.get("k"), inputs.get("v")
    if k is None or v is None:
        q, k, v = np.split(q, [N * H, (N + KV) * H], axis=2)
    queries = q.shape[1]
    heads_q, heads_k, heads_v = by_head(q, N), by_head(k, KV), by_head(v, KV)
    if "qn" in inputs:
        heads_q, heads_k = (
            x * inputs[n] / np.sqrt((x.astype(np.float64) ** 2).mean(axis=-1, keepdims=True) + epsilon) for x, n in ((heads_q, "qn"), (heads_k, "kn"))
        )
    y, nk, nv = np.zeros((B, queries, N * H)), np.zeros((B, KV, size, H)), np.zeros((B, KV, size, H))
    for s in range(B):
        before = max(int(inputs["len"][s]) + 1 - queries, 0) if "pk" in inputs else 0
        places = inputs["pos"][s] if "pos" in inputs else before + np.arange(queries)
        for h in range(KV):
            if "pk" in inputs:
                count = inputs["pk"].shape[2]
                nk[s, h, :count], nv[s, h, :count] = inputs["pk"][s, h], inputs["pv"][s, h]
            for t in range(queries):
                new = heads_k[s, h, t]
                if "cos" in inputs:
                    new = turned(new, inputs["cos"][places[t]], inputs["sin"][places[t]], interleaved)
                nk[s, h, before + t], nv[s, h, before + t] = new, heads_v[s, h, t]
        for h in range(N):
            for t in range(queries):
                one = heads_q[s, h, t].astype(np.float64)
                if "cos" in inputs:
                    one = turned(one, inputs["cos"][places[t]], inputs["sin"][places[t]], interleaved)
                at = before + t
                first = max(0, at - window + 1) if window > 0 else 0
                scores = nk[s, h * KV // N, first : at + 1] @ one * scale
                scores = softcap * np.tanh(scores / softcap) if softcap else scores
                if "bias" in inputs:
                    scores = scores + np.broadcast_to(inputs["bias"], (B, N, *inputs["bias"].shape[2:]))[s, h, t, first : at + 1]
                sink = [inputs["sink"][h]] if "sink" in inputs else [0.0] if smooth else []
                powers = np.exp(np.concatenate([scores, sink]) - max(scores.max(), *sink, -1e30))
                weights = (powers / powers.sum())[: len(scores)]
                y[s, t, h * H : (h + 1) * H] = weights @ nv[s, h * KV // N, first : at + 1]
    return {name: array.astype(np.float32) for name, array in (("y", y), ("nk", nk), ("nv", nv))}


def new_tokens(count: int) -> Arrays:
    return {"q": floats(B, count, N * H), "k": floats(B, count, KV * H, seed=1), "v": floats(B, count, KV * H, seed=2)}


def lengths(*each: int, total: int) -> Arrays:
    return {"len": ints(*(n - 1 for n in each), dtype=np.int32), "total": np.array([total], np.int32)}


def angles() -> Arrays:
    table = floats(MOST, H // 2, seed=9)
    return {"cos": np.cos(table), "sin": np.sin(table)}


def check(inputs: Arrays, size: int, *, runtime: bool = True, **attributes: Any) -> None:
    """With the total length known at compile time, which says how large the cache is; the lengths of the sequences are not."""
    means = {"window": attributes.get("local_window_size", -1), "interleaved": bool(attributes.get("rotary_interleaved"))}
    means |= {"softcap": attributes.get("softcap", 0), "scale": attributes.get("scale", H**-0.5), "smooth": attributes.get("smooth_softmax", 0) == 1}
    means["epsilon"] = attributes.get("qk_norm_epsilon", 1e-6)
    want, made = expected(inputs, size, **means), node(inputs, **attributes)
    if runtime:
        agree(want, of_runtime(made, inputs, want), terms=256)
    weights = {"total": inputs["total"]}
    check_native(made, {n: a for n, a in inputs.items() if n not in weights}, want, weights, terms=256)


@natively_together
@every("rotary", [0, 1])
@every("packed", [False, True])
def test_prompts(packed: bool, rotary: int) -> None:
    inputs = new_tokens(5)
    if packed:
        inputs = {"q": np.concatenate(list(inputs.values()), axis=2)}
    inputs |= {**lengths(5, 5, total=5), **(angles() if rotary else {})}
    check(inputs, 5, do_rotary=rotary)


@natively_together
@every("interleaved", [0, 1])
@every("count", [1, 3])
def test_next_tokens(count: int, interleaved: int) -> None:
    """A past of exactly the tokens so far, to which the new ones are added."""
    past = {"pk": floats(B, KV, 6, H, seed=3), "pv": floats(B, KV, 6, H, seed=4)}
    inputs = {**new_tokens(count), **past, **lengths(6 + count, 6 + count, total=6 + count), **angles()}
    runtime = count == 1  # of more tokens it takes one sequence only
    check(inputs, 6 + count, do_rotary=1, rotary_interleaved=interleaved, runtime=runtime)


@natively_together
def test_a_cache_with_room_and_sequences_of_different_lengths() -> None:
    """The cache is as long as the longest sequence will be; each sequence goes on where it ends."""
    past = {"pk": floats(B, KV, MOST, H, seed=3), "pv": floats(B, KV, MOST, H, seed=4)}
    inputs = {**new_tokens(1), **past, **lengths(4, 9, total=9), **angles()}
    check(inputs, MOST, do_rotary=1, runtime=False)  # the runtime wants past and present in one buffer for this
    inputs = {**new_tokens(4), **past, **lengths(4, 2, total=4)}  # a first prompt, the second sequence padded
    check(inputs, MOST, runtime=False)


def test_a_total_beyond_all_tokens() -> None:
    """The cache is as long as it says; what is behind the tokens is not defined, and 0 here."""
    past = {"pk": floats(B, KV, 6, H, seed=3), "pv": floats(B, KV, 6, H, seed=4)}
    check({**new_tokens(1), **past, **lengths(7, 7, total=9), **angles()}, 9, do_rotary=1, runtime=False)


VARIANTS = [{"local_window_size": 3}, {"softcap": 0.7}, {"smooth_softmax": 1}, {"scale": 0.4}, {"local_window_size": 2, "softcap": 1.5}]


@natively_together
@every("attributes", VARIANTS, ids=str)
@every("past", [False, True])
def test_variants(past: bool, attributes: dict[str, Any]) -> None:
    before = {"pk": floats(B, KV, 6, H, seed=3), "pv": floats(B, KV, 6, H, seed=4)} if past else {}
    count = 1 if past else 5
    total = count + (6 if past else 0)
    check({**new_tokens(count), **before, **lengths(total, total, total=total)}, total, **attributes)


@natively_together
def test_bias_sink_and_positions() -> None:
    more = {"bias": floats(1, N, 5, 5, seed=5), **lengths(5, 5, total=5)}
    check({**new_tokens(5), **more}, 5)
    check({**new_tokens(5), **more}, 5, softcap=0.9)
    check({**new_tokens(5), **lengths(5, 5, total=5), "sink": floats(N, seed=6)}, 5)
    places = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    check({**new_tokens(5), **lengths(5, 5, total=5), **angles(), "pos": places}, 5, do_rotary=1, runtime=False)


def test_normalised_heads() -> None:
    """Before they are turned."""
    inputs = {**new_tokens(5), **lengths(5, 5, total=5), **angles(), "qn": floats(H, seed=7), "kn": floats(H, seed=8)}
    check(inputs, 5, do_rotary=1, qk_norm_epsilon=0.25, runtime=False)  # which has no CPU kernel for it


def test_without_causality() -> None:
    inputs = {**new_tokens(5), **lengths(5, 5, total=5)}
    q, k, v = (by_head(inputs[n].astype(np.float64), h) for n, h in (("q", N), ("k", KV), ("v", KV)))
    scores = np.exp(q @ np.repeat(k, N // KV, axis=1).swapaxes(-1, -2) / np.sqrt(H))
    y = (scores / scores.sum(axis=-1, keepdims=True) @ np.repeat(v, N // KV, axis=1)).transpose(0, 2, 1, 3).reshape(B, 5, -1)
    want = {name: a.astype(np.float32) for name, a in (("y", y), ("nk", k), ("nv", v))}
    check_native(node(inputs, causal=0), inputs, want, terms=256)


@pytest.mark.parametrize(
    ("drop", "attributes", "kind", "message"),
    [
        ((), {"qk_output": 1}, UnsupportedError, "qk_output=1"),
        ((), {"k_quant_type": "PER_TENSOR"}, UnsupportedError, "k_quant_type='PER_TENSOR'"),
        ((), {"kv_num_heads": 3}, ModelError, "does not divide into 3 heads"),
        (("v",), {}, ModelError, "must be given together"),
        (("len",), {}, ModelError, "seqlens_k and total_sequence_length"),
        ((), {"do_rotary": 1}, ModelError, "needs cos_cache"),
        ((), {"flavour": 1}, UnsupportedError, "flavour=1"),
    ],
)
def test_what_is_wrong_is_said(drop: tuple[str, ...], attributes: dict[str, Any], kind: Any, message: str) -> None:
    inputs = {n: a for n, a in {**new_tokens(5), **lengths(5, 5, total=5)}.items() if n not in drop}
    outputs = {"y": floats(1, 1, 1), "nk": floats(1, 1, 1, 1), "nv": floats(1, 1, 1, 1)}
    with pytest.raises(kind, match=message):
        stepwell.compile(model_of(node(inputs, **attributes), inputs, outputs))
