"""Rules for com.microsoft's attention of several heads and its rotary embedding: everything ends in graph.attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.importer.builder import ImportBuilder, Value, static_dims
from stepwell.importer.registry import onnx_rule
from stepwell.importer.rules.heads import attend, heads_apart, heads_together, lowest_of
from stepwell.importer.rules.microsoft import MICROSOFT
from stepwell.importer.rules.slicing import split_axis, with_new_axes


@dataclass(frozen=True)
class Masks:
    """What Attention and MultiHeadAttention forbid: keys by a mask, and with `unidirectional` those after a query."""

    mask: Value | None
    unidirectional: bool
    filter_value: float

    def added(self, b: ImportBuilder, batch: int, queries: int, keys: int, dtype: str) -> Value | None:
        """What is added to the scores (batch, heads, queries, keys), broadcast; None for nothing."""
        zero, total = b.literal(np.zeros((), to_numpy(dtype))), None
        if self.mask is not None:
            kept = self._kept(b, self.mask, batch, queries, keys)
            total = b.select(kept, zero, b.scalar(self.filter_value, like=zero))
        if not self.unidirectional or queries == 1:
            return total
        after = np.arange(keys) > np.arange(queries).reshape(-1, 1) + (keys - queries)
        lowest = b.literal(lowest_of(dtype))
        return b.select(b.literal(after.reshape(1, 1, queries, keys)), lowest, zero if total is None else total)

    @staticmethod
    def _kept(b: ImportBuilder, mask: Value, batch: int, queries: int, keys: int) -> Value:
        """Which keys a mask keeps, to broadcast over heads: it gives lengths, lengths and starts, or a flag for each key."""
        shape = static_dims(mask, "a mask")
        if shape in ((batch,), (2 * batch,)):
            ends, *starts = split_axis(b, b.convert(mask, "i64"), 0, [batch] * (shape[0] // batch))
            places = b.literal(np.arange(keys).reshape(1, 1, 1, keys))
            kept = b.less(places, b.reshape(ends, shape=(batch, 1, 1, 1)))
            return b.and_(kept, b.greater_equal(places, b.reshape(starts[0], shape=(batch, 1, 1, 1)))) if starts else kept
        known = {(batch, keys): (batch, 1, 1, keys), (batch, queries, keys): (batch, 1, queries, keys)}
        if shape not in known:
            raise UnsupportedError(
                f"a mask {type_of(mask)} is not supported; supported for {batch} sequences, {queries} queries and {keys} keys: "
                f"[{batch}], [{2 * batch}], [{batch}, {keys}], [{batch}, {queries}, {keys}]"
            )
        return b.greater(b.reshape(mask, shape=known[shape]), b.scalar(0, like=mask))


def refuse(**given: object) -> None:
    """Raise UnsupportedError for the first of the inputs or attributes that is there (not None, not 0)."""
    for name, value in given.items():
        if value is not None and not (isinstance(value, int) and value == 0):
            shown = f"{name}={value}" if isinstance(value, int) else f"the input {name}"
            raise UnsupportedError(f"{shown} is not supported; supported: to leave it out")


def check_heads(heads: int, *sizes: int) -> None:
    """Raise ModelError if some hidden size does not divide into so many heads."""
    for size in sizes:
        if heads < 1 or size % heads:
            raise ModelError(f"a hidden size of {size} does not divide into {heads} heads")


def with_bias(b: ImportBuilder, parts: Sequence[Value], bias: Value | None) -> list[Value]:
    """Query, key and value (batch, sequence, hidden) with their parts of one bias added."""
    if bias is None:
        return list(parts)
    sizes = [static_dims(p, "an input")[2] for p in parts]
    if type_of(bias).shape != (sum(sizes),):
        raise ModelError(f"the bias must have {' + '.join(map(str, sizes))} elements, got {type_of(bias)}")
    return [b.add(part, piece) for part, piece in zip(parts, split_axis(b, bias, 0, sizes), strict=True)]


def extended(b: ImportBuilder, past: Value | None, new: Value) -> Value:
    """Keys or values (batch, heads, sequence, size) behind those of before."""
    if past is None:
        return new
    old, kind = type_of(past), type_of(new)
    if old.rank != 4 or old.with_shape((*old.shape[:2], None, *old.shape[3:])) != kind.with_shape((*kind.shape[:2], None, *kind.shape[3:])):
        raise ModelError(f"a past of {old} does not fit {kind} (batch, heads, sequence, size)")
    return b.concat([past, new], axis=2)


@onnx_rule("Attention", since=1, domain=MICROSOFT)
def attention(
    b: ImportBuilder,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask_index: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    past_sequence_length: Value | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] = (),
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value, ...]:
    refuse(
        past_sequence_length=past_sequence_length, do_rotary=do_rotary, rotary_embedding_dim=rotary_embedding_dim,
        past_present_share_buffer=past_present_share_buffer,
    )  # fmt: skip
    dims, (_, columns) = static_dims(x, "its input"), static_dims(weights, "the weights")
    if len(dims) != 3:
        raise ModelError(f"its input must be (batch, sequence, hidden), got {type_of(x)}")
    sizes = list(qkv_hidden_sizes) or [columns // 3] * 3
    if len(sizes) != 3 or sum(sizes) != columns or sizes[0] != sizes[1]:
        raise ModelError(f"the weights {type_of(weights)} do not divide into queries, keys and values of sizes {sizes}")
    check_heads(num_heads, *sizes)
    projected = with_bias(b, split_axis(b, b.matmul(x, weights), 2, sizes), bias)
    q, k, v = (heads_apart(b, part, num_heads) for part in projected)
    present: tuple[Value, ...] = ()
    if past is not None:
        if type_of(past).rank != 5 or type_of(past).shape[0] != 2:
            raise ModelError(f"past must be (2, batch, heads, sequence, size), got {type_of(past)}")
        old = [b.reshape(part, shape=type_of(past).shape[1:]) for part in split_axis(b, past, 0, [1, 1])]
        k, v = extended(b, old[0], k), extended(b, old[1], v)
    if b.node.output_count > 1:
        present = (b.concat([with_new_axes(b, k, [0]), with_new_axes(b, v, [0])], axis=0),)
    mask = Masks(mask_index, bool(unidirectional), mask_filter_value).added(b, dims[0], dims[1], static_dims(k, "the keys")[2], type_of(q).dtype)
    return heads_together(b, attend(b, q, k, v, [mask, attention_bias], scale)), *present


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
    past_sequence_length: Value | None = None,
    cache_indirection: Value | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value, ...]:
    """Queries, keys and values apart, or packed in one or two tensors, or keys and values by head as another node left them."""
    refuse(past_sequence_length=past_sequence_length, cache_indirection=cache_indirection)
    if (past_key is None) != (past_value is None):
        raise ModelError("past_key and past_value must be given together")
    q, k, v = parts_by_head(b, query, key, value, bias, num_heads)
    k, v = extended(b, past_key, k), extended(b, past_value, v)
    batch, _, queries, _ = static_dims(q, "the queries")
    mask = Masks(key_padding_mask, bool(unidirectional), mask_filter_value).added(b, batch, queries, static_dims(k, "the keys")[2], type_of(q).dtype)
    return heads_together(b, attend(b, q, k, v, [mask, attention_bias], scale)), k, v


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
        check_heads(heads, static_dims(query, "the query")[2])
        return [heads_apart(b, query, heads), key, value]
    else:
        parts = [query, key, value]
    if any(type_of(p).rank != 3 for p in parts):
        raise ModelError(f"query, key and value must have rank 3, got {', '.join(str(type_of(p)) for p in parts)}")
    check_heads(heads, *(static_dims(p, "an input")[2] for p in parts))
    return [heads_apart(b, part, heads) for part in with_bias(b, parts, bias)]


def unpacked(b: ImportBuilder, x: Value, heads: int, count: int) -> list[Value]:
    """The parts, (batch, sequence, hidden), of a tensor (batch, sequence, heads, parts, size)."""
    batch, sequence, have, parts, size = static_dims(x, "a packed input")
    if have != heads or parts != count:
        raise ModelError(f"a packed input must be (batch, sequence, {heads}, {count}, size), got {type_of(x)}")
    return [b.reshape(part, shape=(batch, sequence, heads * size)) for part in split_axis(b, x, 3, [1] * count)]
