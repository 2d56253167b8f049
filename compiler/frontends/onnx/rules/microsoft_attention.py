"""Rules for com.microsoft's multi-head attention and its rotary embedding, all based on graph.attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.sizes import Size, holds, same_sizes, size_text, sizes_text, total
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.heads import attend, check_heads, extended, lowest_of, merge_heads, split_heads, unpacked
from stepwell.frontends.blocks.slicing import counting, size_scalar, split_axis, with_new_axes
from stepwell.frontends.builder import Value, dims_of, static_dim
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT

FIXED = {"do_rotary": 0, "past_present_share_buffer": 0}
"""Attributes of Attention and QAttention of which only these values are supported."""


@dataclass(frozen=True)
class AttentionAttributes(Group):
    """The attributes that Attention, MultiHeadAttention and QAttention share; with `unidirectional` keys after a query are masked."""

    num_heads: int
    mask_filter_value: float = -10000.0
    scale: float = 0.0
    unidirectional: int = 0

    def attend(self, b: ImportBuilder, q: Value, k: Value, v: Value, mask: Value | None, attention_bias: Value | None) -> Value:
        """The results (batch, sequence, hidden) from queries, keys and values by head, and a mask of keys."""
        return merge_heads(b, attend(b, q, k, v, [self._added(b, q, k, mask), attention_bias], self.scale))

    def _added(self, b: ImportBuilder, q: Value, k: Value, mask: Value | None) -> Value | None:
        """The term to add to the scores (batch, heads, queries, keys), broadcast; None for no term."""
        (batch, _, queries, _), keys, dtype = dims_of(q), dims_of(k)[2], type_of(q).dtype
        zero, masked = b.literal(np.zeros((), to_numpy(dtype))), None
        if mask is not None:
            kept = self._kept(b, mask, batch, queries, keys)
            masked = b.select(kept, zero, b.scalar(self.mask_filter_value, like=zero))
        if not self.unidirectional or queries == 1:
            return masked
        query = counting(b, queries, 2, 4)
        after = b.greater(counting(b, keys, 3, 4), b.add(query, size_scalar(b, keys - queries, query)))
        return b.select(after, b.literal(lowest_of(dtype)), zero if masked is None else masked)

    @staticmethod
    def _kept(b: ImportBuilder, mask: Value, batch: int | Size, queries: int | Size, keys: int | Size) -> Value:
        """The keys that a mask keeps, shaped to broadcast over heads: the mask has lengths, lengths and starts, or a flag for each key."""
        shape = dims_of(mask)
        both = shape == (2 * batch,)
        if both or same_sizes(shape, (batch,)):
            ends, *starts = split_axis(b, b.convert(mask, "i64"), 0, [batch] * (1 + both))
            places = counting(b, keys, 3, 4)
            kept = b.less(places, b.with_shape(ends, (batch, 1, 1, 1)))
            return b.and_(kept, b.greater_equal(places, b.with_shape(starts[0], (batch, 1, 1, 1)))) if starts else kept
        flags = [sizes for sizes in ((batch, keys), (batch, queries, keys)) if len(sizes) == len(shape)]
        if not flags or not same_sizes(shape, flags[0]):
            supported = ", ".join(map(sizes_text, ((batch,), (2 * batch,), (batch, keys), (batch, queries, keys))))
            what = f"{size_text(batch)} sequences, {size_text(queries)} queries and {size_text(keys)} keys"
            raise UnsupportedError(f"a mask {type_of(mask)} is not supported; supported for {what}: {supported}")
        return b.greater(b.with_shape(mask, (batch, 1, *flags[0][1:]) if len(shape) == 3 else (batch, 1, 1, keys)), b.scalar(0, like=mask))


def with_bias(b: ImportBuilder, parts: Sequence[Value], bias: Value | None) -> list[Value]:
    """Query, key and value (batch, sequence, hidden) with their parts of one bias added."""
    if bias is None:
        return list(parts)
    sizes = [dims_of(p)[2] for p in parts]
    if not same_sizes(dims_of(bias), (total(sizes),)):
        raise ModelError(f"the bias must have {' + '.join(map(size_text, sizes))} elements, got {type_of(bias)}")
    return [b.add(part, piece) for part, piece in zip(parts, split_axis(b, bias, 0, sizes), strict=True)]


def queries_keys_values(b: ImportBuilder, x: Value, weights: Value, bias: Value | None, sizes: Sequence[int]) -> list[Value]:
    """Query, key and value (batch, sequence, hidden) from one product with the weights of all three."""
    return with_bias(b, split_axis(b, b.matmul(x, weights), 2, sizes), bias)


@onnx_rule("Attention", since=1, domain=MICROSOFT, fixed={**FIXED, "rotary_embedding_dim": 0})
def attention(
    b: ImportBuilder,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask_index: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    *,
    attributes: AttentionAttributes,
    qkv_hidden_sizes: Sequence[int] = (),
) -> tuple[Value, ...]:
    sizes = divided(x, weights, attributes.num_heads, qkv_hidden_sizes)
    projected = rounded_once(queries_keys_values)(b, x, weights, bias, sizes)
    return attended(b, projected, attributes, mask_index, past, attention_bias)


def divided(x: Value, weights: Value, heads: int, given: Sequence[int] = ()) -> list[int]:
    """The columns of queries, keys and values in one matrix of weights for `x`: the given ones, or a third each.

    Raises ModelError if they do not fit.
    """
    if type_of(x).rank != 3 or type_of(weights).rank != 2:
        raise ModelError(f"its input must be (batch, sequence, hidden) and its weights a matrix, got {type_of(x)} and {type_of(weights)}")
    columns = static_dim(weights, 1, "the weights")
    sizes = list(given) or [columns // 3] * 3
    if len(sizes) != 3 or sum(sizes) != columns or sizes[0] != sizes[1]:
        raise ModelError(f"the weights {type_of(weights)} do not divide into queries, keys and values of sizes {sizes}")
    check_heads(heads, *sizes)
    return sizes


def attended(
    b: ImportBuilder, projected: Sequence[Value], attributes: AttentionAttributes, mask: Value | None, past: Value | None,
    attention_bias: Value | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """Attention of queries, keys and values (batch, sequence, hidden), with keys and values appended to the past; also returns these."""
    q, k, v = (split_heads(b, part, attributes.num_heads) for part in projected)
    present: tuple[Value, ...] = ()
    if past is not None:
        if type_of(past).rank != 5 or not holds(dims_of(past)[0], "==", 2):
            raise ModelError(f"past must be (2, batch, heads, sequence, size), got {type_of(past)}")
        old = [b.with_shape(part, dims_of(past)[1:]) for part in split_axis(b, past, 0, [1, 1])]
        k, v = extended(b, old[0], k), extended(b, old[1], v)
    if b.node.output_count > 1:
        present = (b.concat([with_new_axes(b, k, [0]), with_new_axes(b, v, [0])], axis=0),)
    return attributes.attend(b, q, k, v, mask, attention_bias), *present


@onnx_rule("MultiHeadAttention", since=1, domain=MICROSOFT)
def multi_head_attention(
    b: ImportBuilder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    key_padding_mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    *,
    attributes: AttentionAttributes,
) -> tuple[Value, ...]:
    """Queries, keys and values are separate, packed in one or two tensors, or (keys and values) already by head from another node."""
    if (past_key is None) != (past_value is None):
        raise ModelError("past_key and past_value must be given together")
    q, k, v = parts_by_head(b, query, key, value, bias, attributes.num_heads)
    k, v = extended(b, past_key, k), extended(b, past_value, v)
    return attributes.attend(b, q, k, v, key_padding_mask, attention_bias), k, v


def parts_by_head(b: ImportBuilder, query: Value, key: Value | None, value: Value | None, bias: Value | None, heads: int) -> list[Value]:
    """Query, key and value (batch, heads, sequence, size) of MultiHeadAttention, the bias added."""
    rank = type_of(query).rank
    if rank == 5 and key is None and value is None:
        parts = unpacked(b, query, heads, 3)
    elif rank != 3 or key is None:
        raise ModelError(f"the query must be (batch, sequence, hidden) with a key, or all packed in one of rank 5, got {type_of(query)}")
    elif type_of(key).rank == 5 and value is None:
        parts = [query, *unpacked(b, key, heads, 2)]
    elif value is None:
        raise ModelError(f"a key {type_of(key)} needs a value")
    elif type_of(key).rank == 4:
        if bias is not None:
            raise UnsupportedError("a bias with keys and values by head is not supported; supported: one with keys of rank 3")
        check_heads(heads, dims_of(query)[2])
        return [split_heads(b, query, heads), key, value]
    else:
        parts = [query, key, value]
    if any(type_of(p).rank != 3 for p in parts):
        raise ModelError(f"query, key and value must have rank 3, got {', '.join(str(type_of(p)) for p in parts)}")
    check_heads(heads, *(dims_of(p)[2] for p in parts))
    return [split_heads(b, part, heads) for part in with_bias(b, parts, bias)]
