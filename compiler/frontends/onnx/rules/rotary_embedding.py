"""Rules for rotary embeddings: tables of angles, by position, rotate pairs of elements of each head."""

from stepwell.dialects.core.sizes import holds, size_text, sizes_text
from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.heads import rotated_heads
from stepwell.frontends.blocks.slicing import counting
from stepwell.frontends.builder import Value, dims_of, static_dim
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT


@onnx_rule("RotaryEmbedding", since=23)
@rounded_once
def rotary_embedding(
    b: ImportBuilder,
    x: Value,
    cos_cache: Value,
    sin_cache: Value,
    position_ids: Value | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """The tables are by position, or by batch and token if no positions are given."""
    rank = type_of(x).rank
    if rank not in (3, 4) or (rank == 3 and not num_heads):
        raise ModelError(f"X must be (batch, heads, sequence, size), or (batch, sequence, hidden) with num_heads, got {type_of(x)}")
    expected = 3 if position_ids is None else 2
    if any(type_of(table).rank != expected for table in (cos_cache, sin_cache)):
        given = "without" if position_ids is None else "with"
        raise ModelError(f"caches must have rank {expected} {given} position_ids, got {type_of(cos_cache)} and {type_of(sin_cache)}")
    heads = num_heads if rank == 3 else 0
    size, pairs = dims_of(x)[rank - 1] // (heads or 1), dims_of(cos_cache)[expected - 1]
    turned_of = rotary_embedding_dim or size
    if not holds(turned_of, "==", 2 * pairs):
        wanted = f"{turned_of / 2:g}" if isinstance(turned_of, int) else size_text(turned_of // 2)
        raise ModelError(f"caches must have {wanted} columns, half of the elements to turn, got {size_text(pairs)}")
    if position_ids is not None:
        cos_cache, sin_cache = (b.gather(table, position_ids, axis=0) for table in (cos_cache, sin_cache))
    return rotated_heads(b, x, cos_cache, sin_cache, heads, bool(interleaved))


@onnx_rule("RotaryEmbedding", since=1, domain=MICROSOFT, fixed={"is_packed_batching": 0, "scale": 1.0})
@rounded_once
def microsoft_rotary_embedding(
    b: ImportBuilder,
    x: Value,
    position_ids: Value,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    dims, half = dims_of(x), static_dim(cos_cache, -1, "the cache")
    if rotary_embedding_dim and (rotary_embedding_dim != 2 * half or not num_heads):
        raise ModelError(f"rotary_embedding_dim={rotary_embedding_dim} needs num_heads and caches of {rotary_embedding_dim // 2} columns, got {half}")
    if len(dims) not in (3, 4):
        raise ModelError(f"its input must be (batch, sequence, hidden) or (batch, heads, sequence, size), got {type_of(x)}")
    heads = 0 if len(dims) == 4 else num_heads or static_dim(x, 2, "its input") // (2 * half)
    sequence, places = dims[-2], dims_of(position_ids)
    if places == (1,):  # of the first token
        position_ids = b.with_shape(b.add(position_ids, counting(b, sequence)), (1, sequence))
    elif len(places) != 2 or not (places[0] == 1 or holds(places[0], "==", dims[0])) or not holds(places[1], "==", sequence):
        raise ModelError(f"position_ids must be [1] or {sizes_text((dims[0], sequence))}, got {type_of(position_ids)}")
    cos, sin = (b.gather(cache, position_ids, axis=0) for cache in (cos_cache, sin_cache))
    return rotated_heads(b, x, cos, sin, heads, bool(interleaved))
