"""Rules for attention: two products with a mask and a softmax in between, in f32 or wider, which `fuse-attention` turns into one kernel."""

from stepwell.dialects.core.types import compute_dtype, is_float, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.attention import (
    Place,
    bias_of,
    grouped,
    groups_of,
    in_heads,
    rows_without_keys,
    scaled,
    ungrouped,
)
from stepwell.frontends.blocks.heads import capped, mask_of_groups, merge_heads
from stepwell.frontends.blocks.slicing import sizes_of
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.tensors import our_dtype

OUTPUT_MODES = ("the products", "after softcap", "after the mask", "after softmax")


@onnx_rule("Attention", since=23)
def attention(
    b: ImportBuilder,
    q: Value,
    k: Value,
    v: Value,
    attn_mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    nonpad_kv_seqlen: Value | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Value | None, ...]:
    """Y, the present keys and values, and the scores as `qk_matmul_output_mode` requests them.

    f16 and bf16 are computed in f32 from the inputs to the result, as in one kernel; no intermediate value is rounded.
    """
    if (past_key is None) != (past_value is None):
        raise ModelError("past_key and past_value must be given together")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise ModelError("past_key and nonpad_kv_seqlen must not be given together")
    if not 0 <= qk_matmul_output_mode < len(OUTPUT_MODES):
        raise ModelError(f"qk_matmul_output_mode must be from 0 to {len(OUTPUT_MODES) - 1}, got {qk_matmul_output_mode}")
    if not softcap >= 0:
        raise ModelError(f"softcap must be 0 or more, got {softcap}")
    if min(left_window_size, right_window_size) < -1:
        raise ModelError(f"the window sizes must be -1 or more, got {left_window_size} and {right_window_size}")

    narrow, flat = type_of(q).dtype, type_of(q).rank == 3
    queries = in_heads(b, q, q_num_heads, "Q", "q_num_heads")
    keys, values = (in_heads(b, one, kv_num_heads, name, "kv_num_heads") for one, name in ((k, "K"), (v, "V")))
    past = None
    if past_key is not None and past_value is not None:
        keys, values = b.concat([past_key, keys], axis=2), b.concat([past_value, values], axis=2)
        past = sizes_of(b, past_key, [2])
    place = Place(queries, keys, past, nonpad_kv_seqlen)
    groups = groups_of(queries, keys, values)
    bias = bias_of(b, place, attn_mask, bool(is_causal), left_window_size, right_window_size, compute_dtype(narrow))

    rows, columns, contents = (grouped(b, one, groups if one is queries else 1, groups > 1) for one in (queries, keys, values))
    rows, columns = (b.convert(one, compute_dtype(narrow)) for one in (rows, columns))
    rank = type_of(columns).rank
    products = b.matmul(rows, b.transposed(columns, (*range(rank - 2), rank - 1, rank - 2)))
    forms = [scaled(b, products, scale, dims_of(queries)[3])]
    forms.append(forms[-1] if softcap == 0 else capped(b, forms[-1], softcap))
    mask = None if bias is None else bias if groups == 1 else mask_of_groups(b, bias, groups, dims_of(queries)[1])
    forms.append(forms[-1] if mask is None else b.add(forms[-1], mask))
    weights = softmax_in(b, forms[-1], softmax_precision, narrow)
    empty = None if mask is None else rows_without_keys(b, mask, attn_mask is not None or nonpad_kv_seqlen is not None or left_window_size >= 0)
    forms.append(weights if empty is None else b.select(empty, b.scalar(0, like=weights), weights))

    wide = "f64" if "f64" in (type_of(values).dtype, narrow) else "f32"
    y = b.matmul(b.convert(weights, wide), b.convert(contents, wide))
    if empty is not None:  # its weights are NaN
        y = b.select(empty, b.scalar(0, like=y), y)
    y = b.convert(ungrouped(b, y, groups), narrow)
    if flat:
        y = merge_heads(b, y)
    if b.node.output_count < 4:
        return (y, keys, values)
    return y, keys, values, b.convert(ungrouped(b, forms[qk_matmul_output_mode], groups), narrow)


def softmax_in(b: ImportBuilder, scores: Value, precision: int | None, narrow: str) -> Value:
    """The softmax of rows, in another element type if `precision` requests one; that of the inputs is computed in the wide type."""
    axis, dtype = type_of(scores).rank - 1, type_of(scores).dtype
    asked = narrow if precision is None else our_dtype(precision)
    if not is_float(asked):
        raise ModelError(f"softmax_precision must be a float type, got {asked}")
    if asked == narrow:
        return b.softmax(scores, axis=axis)
    return b.convert(b.softmax(b.convert(scores, asked), axis=axis), dtype)
