"""Rules for layer normalisations of com.microsoft, alone and fused with sums and embeddings."""

from collections.abc import Callable
from dataclasses import dataclass

from stepwell.dialects.core.types import compute_dtype, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.slicing import slice_axis
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rules.contractions import reaches
from stepwell.frontends.onnx.rules.microsoft import MICROSOFT, row_vector
from stepwell.frontends.onnx.rules.normalizations import axes_from, layer_normalization, scaled_rows
from stepwell.frontends.onnx.rules.reductions import reduce_mean, reduce_sum
from stepwell.frontends.onnx.tensors import our_dtype


def normalised_rows(
    b: ImportBuilder, x: Value, gamma: Value, beta: Value | None, epsilon: float, dtype: str, *, simplified: bool = False
) -> tuple[Value, Value | None, Value]:
    """`x`, in the type of its sums, normalised along its last dimension, as `dtype`; also the mean, unless `simplified`, and 1 / deviation."""
    row_vector(x, gamma, "gamma")
    if beta is not None:
        row_vector(x, beta, "beta")
    y, mean, inverse = scaled_rows(b, x, (type_of(x).rank - 1,), gamma, beta, epsilon, centred=not simplified)
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
) -> tuple[Value | None, ...]:
    total, dtype = with_skip(b, x, skip, bias), type_of(x).dtype
    return *normalised_rows(b, total, gamma, beta, epsilon, dtype), b.convert(total, dtype)


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
    wide = b.convert(x, our_dtype(stash_type) if type_of(x).dtype != "f64" else "f64")
    y, _, inverse = scaled_rows(b, wide, axes_from(x, axis), scale, None, epsilon, centred=False)
    return b.convert(y, type_of(scale).dtype), inverse


onnx_rule("LayerNormalization", since=1, domain=MICROSOFT)(layer_normalization)


@dataclass(frozen=True)
class Embeddings(Group):
    """Tokens, the tables of their embeddings, one in each row, and the normalisation of the sums."""

    input_ids: Value
    segment_ids: Value | None = None
    words: Value | None = None
    positions: Value | None = None
    segments: Value | None = None
    gamma: Value | None = None
    beta: Value | None = None
    mask: Value | None = None

    @property
    def required(self) -> tuple[Value, Value, Value, Value]:
        """The tables of words and positions, gamma and beta."""
        words, positions, gamma, beta = self.words, self.positions, self.gamma, self.beta
        if words is None or positions is None or gamma is None or beta is None:
            raise ModelError("the embeddings of words and positions, gamma and beta must all be given")
        return words, positions, gamma, beta

    def summed(self, b: ImportBuilder, read: Callable[[str, Value], Value], position_ids: Value | None = None) -> tuple[Value, Value]:
        """The sums of the embeddings of words, positions and segments; the number of tokens of each sequence that the mask keeps.

        `read` maps rows of the table with that name to the terms of the sum.
        """
        ids, (words, positions, _, _) = self.input_ids, self.required
        if type_of(ids).rank != 2:
            raise ModelError(f"input_ids must be (batch, sequence), got {type_of(ids)}")
        if (self.segment_ids is None) != (self.segments is None):
            raise ModelError("segment_ids and segment_embedding must be given together")
        total = read("words", b.gather(words, ids, axis=0))
        of_tokens = slice_axis(b, positions, 0, 0, dims_of(ids)[1]) if position_ids is None else b.gather(positions, position_ids, axis=0)
        total = b.add(total, read("positions", of_tokens))
        if self.segment_ids is not None:
            total = b.add(total, read("segments", b.gather(self.segments, self.segment_ids, axis=0)))
        kept = b.less(ids, ids) if self.mask is None else b.equal(self.mask, b.scalar(1, like=self.mask))  # none without a mask
        return total, reduce_sum(b, b.convert(kept, "i32"), (1,), False)


@onnx_rule("EmbedLayerNormalization", since=1, domain=MICROSOFT, ignored={"mask_index_type": 0})  # tells ONNX Runtime about types
def embed_layer_normalization(
    b: ImportBuilder, embeddings: Embeddings, position_ids: Value | None = None, *, epsilon: float = 1e-12
) -> tuple[Value, Value, Value]:
    """The sum of the embeddings of words, positions and segments, normalised; the number of tokens that the mask keeps; the sum itself."""
    words, _, gamma, beta = embeddings.required
    dtype = type_of(words).dtype
    total, kept = embeddings.summed(b, lambda _, rows: b.convert(rows, compute_dtype(dtype)), position_ids)
    return normalised_rows(b, total, gamma, beta, epsilon, dtype)[0], kept, b.convert(total, dtype)
