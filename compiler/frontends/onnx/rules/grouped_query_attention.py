"""The rule for com.microsoft's GroupQueryAttention, which keeps keys and values in its own cache."""

from typing import Literal

import numpy as np

from stepwell.dialects.core.sizes import Size, maximum, same_sizes, sizes_text
from stepwell.dialects.core.types import compute_dtype, to_numpy, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.heads import attend, check_heads, merge_heads, rotated, split_heads
from stepwell.frontends.blocks.kv_cache import allowed_keys, cached
from stepwell.frontends.blocks.slicing import counting, size_scalar, split_axis, with_new_axes
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT
from stepwell.frontends.onnx.rules.microsoft_normalizations import normalised_rows

QUANTIZED_CACHE = {"k_quant_type": "NONE", "v_quant_type": "NONE", "kv_cache_bit_width": 0}


@onnx_rule("GroupQueryAttention", since=1, domain=MICROSOFT, fixed={**QUANTIZED_CACHE, "qk_output": 0, "sliding_window_cache": 0})
def group_query_attention(
    b: ImportBuilder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    seqlens_k: Value | None = None,
    total_sequence_length: Value | None = None,
    cos_cache: Value | None = None,
    sin_cache: Value | None = None,
    position_ids: Value | None = None,
    attention_bias: Value | None = None,
    head_sink: Value | None = None,
    k_scale: Value | None = None,
    v_scale: Value | None = None,
    q_norm_weight: Value | None = None,
    k_norm_weight: Value | None = None,
    *,
    causal: Literal[0, 1] = 1,
    do_rotary: int = 0,
    k_norm_epsilon: float | None = None,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: Literal[-1, 0, 1] = -1,
    softcap: float = 0.0,
) -> tuple[Value, Value, Value]:
    """Attention to the keys and values of a cache, to which the new ones are added first; query heads share those of keys.

    `seqlens_k` is, for each sequence, the number of past and new tokens, minus one. Without a past, all tokens are new, and shorter sequences are
    padded at the end: the results for their padding are meaningless, so its length does not matter.
    """
    if k_scale is not None or v_scale is not None:
        raise UnsupportedError("the inputs k_scale and v_scale are not supported; supported: to leave them out")
    if (past_key is None) != (past_value is None) or (key is None) != (value is None) or (cos_cache is None) != (sin_cache is None):
        raise ModelError("key and value, past_key and past_value, cos_cache and sin_cache must be given together")
    if seqlens_k is None or total_sequence_length is None:
        raise ModelError("seqlens_k and total_sequence_length must be given")
    q, k, v = new_heads(b, query, key, value, num_heads, kv_num_heads)
    if (q_norm_weight is None) != (k_norm_weight is None):
        raise ModelError("q_norm_weight and k_norm_weight must be given together")
    if q_norm_weight is not None and k_norm_weight is not None:
        q = normalised_heads(b, q, q_norm_weight, qk_norm_epsilon if q_norm_epsilon is None else q_norm_epsilon)
        k = normalised_heads(b, k, k_norm_weight, qk_norm_epsilon if k_norm_epsilon is None else k_norm_epsilon)
    batch, _, queries, _ = dims_of(q)
    if type_of(seqlens_k).rank not in (1, 2) or not same_sizes(dims_of(seqlens_k), (batch, 1)[: type_of(seqlens_k).rank]):
        raise ModelError(f"seqlens_k must be {sizes_text((batch,))}, got {type_of(seqlens_k)}")
    before = None  # the number of past tokens of each sequence: (batch, 1)
    if past_key is not None:  # a padded first prompt would give a negative number
        last = b.with_shape(b.convert(seqlens_k, "i64"), (batch, 1))
        before = b.relu(b.add(last, size_scalar(b, 1 - queries, last)))
    first = b.literal(np.zeros((1, 1), np.int64)) if before is None else before
    places = b.add(first, counting(b, queries, 1, 2))  # of the new tokens in their sequences
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise ModelError("do_rotary needs cos_cache and sin_cache")
        if position_ids is not None:
            places_of_tables = b.convert(position_ids, "i64")
            if not same_sizes(dims_of(places_of_tables), (batch, queries)):
                raise ModelError(f"position_ids must be {sizes_text((batch, queries))}, got {type_of(position_ids)}")
        else:
            places_of_tables = places
        cos, sin = (with_new_axes(b, b.gather(cache, places_of_tables, axis=0), [1]) for cache in (cos_cache, sin_cache))
        q, k = (rotated(b, x, cos, sin, bool(rotary_interleaved)) for x in (q, k))
    elif position_ids is not None:
        raise UnsupportedError("position_ids without do_rotary are not supported; supported: to leave them out")
    if past_key is not None and past_value is not None and before is not None:
        size = cache_size(b, past_key, total_sequence_length)
        k, v = (cached(b, past, new, before, size) for past, new in ((past_key, k), (past_value, v)))
    keys, dtype = dims_of(k)[2], type_of(q).dtype
    mask = allowed_keys(b, places, before, queries, keys, bool(causal), local_window_size, dtype)
    sink = head_sink
    if sink is None and smooth_softmax == 1:
        sink = b.literal(np.zeros(num_heads, to_numpy(dtype)))
    return merge_heads(b, attend(b, q, k, v, [mask, attention_bias], scale, softcap=softcap, sink=sink)), k, v


def new_heads(b: ImportBuilder, query: Value, key: Value | None, value: Value | None, heads: int, shared: int) -> list[Value]:
    """Queries, keys and values by head, from three tensors or from one that holds them side by side."""
    hidden = dims_of(query)[-1]
    if key is None or value is None:
        check_heads(heads + 2 * shared, hidden)
        size = hidden // (heads + 2 * shared)
        parts = split_axis(b, query, type_of(query).rank - 1, [heads * size, shared * size, shared * size])
    else:
        parts = [query, key, value]
    if any(type_of(p).rank != 3 for p in parts):
        raise ModelError(f"query, key and value must be (batch, sequence, hidden), got {', '.join(str(type_of(p)) for p in parts)}")
    for part, count in zip(parts, (heads, shared, shared), strict=True):
        check_heads(count, dims_of(part)[2])
    return [split_heads(b, part, count) for part, count in zip(parts, (heads, shared, shared), strict=True)]


def normalised_heads(b: ImportBuilder, x: Value, weight: Value, epsilon: float) -> Value:
    """Each head of each token divided by the root of its mean square, times the weights."""
    dtype = type_of(x).dtype
    wide = b.convert(x, compute_dtype(dtype))
    return normalised_rows(b, wide, weight, None, epsilon, dtype, simplified=True)[0]


def cache_size(b: ImportBuilder, past: Value, total: Value) -> int | Size:
    """The number of tokens in the cache afterwards: the declared one, or the larger one of the past's size and the total length."""
    declared = b.node.output_types[1] if len(b.node.output_types) > 1 else None
    if declared is not None and declared.rank == 4 and isinstance(size := declared.shape[2], int):
        return size
    return maximum(dims_of(past)[2], b.bound_sizes(total, "total_sequence_length")[0])
