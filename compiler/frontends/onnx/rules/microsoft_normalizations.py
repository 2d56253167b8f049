"""Rules for layer normalisations of com.microsoft, alone and fused with sums and embeddings."""

from collections.abc import Callable
from dataclasses import dataclass

from stepwell.dialects.core.types import compute_dtype, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import slice_axis
from stepwell.frontends.builder import Value, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.contractions import reaches
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT, row_vector
from stepwell.frontends.onnx.rules.normalizations import layer_normalization, moments
from stepwell.frontends.onnx.rules.reductions import reduce_mean, reduce_sum
from stepwell.frontends.onnx.tensors import our_dtype


def normalised_rows(
    b: ImportBuilder, x: Value, gamma: Value, beta: Value | None, epsilon: float, dtype: str, *, simplified: bool = False
) -> tuple[Value, Value | None, Value]:
    """`x`, in the type of its sums, normalised along its last dimension, as `dtype`; also the mean and the inverse deviation.

    `simplified` does not subtract the mean: the root of the mean square replaces the deviation (Zhang and Sennrich, 2019).
    """
    axes = (type_of(x).rank - 1,)
    mean, var = (None, reduce_mean(b, b.mul(x, x), axes, True)) if simplified else moments(b, x, axes)
    inverse = b.rsqrt(b.add(var, b.scalar(epsilon, like=var)))
    y = b.mul(b.mul(x if mean is None else b.sub(x, mean), inverse), b.convert(row_vector(x, gamma, "gamma"), type_of(x).dtype))
    y = y if beta is None else b.add(y, b.convert(row_vector(x, beta, "beta"), type_of(x).dtype))
    return b.convert(y, dtype), mean, inverse


def with_skip(b: ImportBuilder, x: Value, skip: Value, bias: Value | None) -> Value:
    """`x + skip + bias` in the type in which rows are summed. The skip may lack the batch dimension, or have 1 there."""
    wide = compute_dtype(type_of(x).dtype)
    total = b.add(b.convert(x, wide), b.convert(skip, wide))
    if type_of(x).rank not in (2, 3) or not reaches(type_of(total), type_of(x)):
        raise ModelError(f"its input must be (batch, sequence, hidden) or (tokens, hidden), its skip fit it; got {type_of(x)} and {type_of(skip)}")
    return total if bias is None else b.add(total, b.convert(row_vector(x, bias, "the bias"), wide))


@onnx_rule("SkipLayerNormalization", since=1, domain=MICROSOFT)
def skip_layer_normalization(
    b: ImportBuilder, x: Value, skip: Value, gamma: Value, beta: Value | None = None, bias: Value | None = None, *, epsilon: float = 1e-12
) -> tuple[Value, ...]:
    total, dtype = with_skip(b, x, skip, bias), type_of(x).dtype
    y, mean, inverse = normalised_rows(b, total, gamma, beta, epsilon, dtype)
    assert mean is not None
    return y, mean, inverse, b.convert(total, dtype)


@onnx_rule("SkipSimplifiedLayerNormalization", since=1, domain=MICROSOFT)
def skip_simplified_layer_normalization(
    b: ImportBuilder, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> tuple[Value, ...]:
    total, dtype = with_skip(b, x, skip, bias), type_of(x).dtype
    y, _, inverse = normalised_rows(b, total, gamma, None, epsilon, dtype, simplified=True)
    mean = reduce_mean(b, total, (type_of(total).rank - 1,), True)
    return y, mean, inverse, b.convert(total, dtype)


@onnx_rule("SimplifiedLayerNormalization", since=1, domain=MICROSOFT)
def simplified_layer_normalization(
    b: ImportBuilder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Value, Value]:
    axes = tuple(range(normalized_axis(axis, type_of(x).rank), type_of(x).rank))
    wide = b.convert(x, our_dtype(stash_type) if type_of(x).dtype != "f64" else "f64")
    square = reduce_mean(b, b.mul(wide, wide), axes, True)
    inverse = b.rsqrt(b.add(square, b.scalar(epsilon, like=square)))
    y = b.mul(b.mul(wide, inverse), b.convert(scale, type_of(wide).dtype))
    return b.convert(y, type_of(scale).dtype), inverse


onnx_rule("LayerNormalization", since=1, domain=MICROSOFT)(layer_normalization)


@onnx_rule("EmbedLayerNormalization", since=1, domain=MICROSOFT)
def embed_layer_normalization(
    b: ImportBuilder,
    input_ids: Value,
    segment_ids: Value | None = None,
    word_embedding: Value | None = None,
    position_embedding: Value | None = None,
    segment_embedding: Value | None = None,
    gamma: Value | None = None,
    beta: Value | None = None,
    mask: Value | None = None,
    position_ids: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Value, ...]:
    """The sum of the embeddings of words, positions and segments, normalised; the number of tokens that the mask keeps; the sum itself."""
    if word_embedding is None or position_embedding is None or gamma is None or beta is None:
        raise ModelError("word_embedding, position_embedding, gamma and beta must all be given")
    dtype = type_of(word_embedding).dtype

    def table(rows: Value) -> Table:
        return Table(rows, lambda found: b.convert(found, compute_dtype(dtype)))

    segments = None if segment_embedding is None else table(segment_embedding)
    tables = table(word_embedding), table(position_embedding), segments
    total, kept = embedded(b, input_ids, segment_ids, *tables, mask, position_ids, mask_index_type)
    return normalised_rows(b, total, gamma, beta, epsilon, dtype)[0], kept, b.convert(total, dtype)


@dataclass(frozen=True)
class Table:
    """A table of embeddings, one in each row."""

    rows: Value
    read: Callable[[Value], Value]
    """Maps rows to the terms of the sum."""


def embedded(
    b: ImportBuilder,
    input_ids: Value,
    segment_ids: Value | None,
    words: Table,
    positions: Table,
    segments: Table | None,
    mask: Value | None,
    position_ids: Value | None,
    mask_index_type: int,
) -> tuple[Value, Value]:
    """The sums of the embeddings of words, positions and segments; the number of tokens of each sequence that the mask keeps."""
    kind = type_of(input_ids)
    if kind.rank != 2:
        raise ModelError(f"input_ids must be (batch, sequence), got {kind}")
    if (segment_ids is None) != (segments is None):
        raise ModelError("segment_ids and segment_embedding must be given together")
    if mask_index_type not in (0, 1):
        raise UnsupportedError(f"mask_index_type={mask_index_type} is not supported; supported: 0, 1")
    total = words.read(b.gather(words.rows, input_ids, axis=0))
    if position_ids is not None:
        places = b.gather(positions.rows, position_ids, axis=0)
    else:
        length = kind.shape[1]
        if length is None:
            raise UnsupportedError("a sequence of unknown length without position_ids is not supported; supported: a static length")
        places = slice_axis(b, positions.rows, 0, 0, length)
    total = b.add(total, positions.read(places))
    if segment_ids is not None and segments is not None:
        total = b.add(total, segments.read(b.gather(segments.rows, segment_ids, axis=0)))
    kept = b.less(input_ids, input_ids) if mask is None else b.equal(mask, b.scalar(1, like=mask))  # none without a mask
    return total, reduce_sum(b, b.convert(kept, "i32"), (1,), False)
