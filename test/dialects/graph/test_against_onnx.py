"""The reference meanings of the ops against ONNX Runtime and ONNX's evaluator, on random data of every element type."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ops
import pytest
from every import every
from hypothesis import assume, given, settings
from op_cases import cases, legal_dtypes, with_cases
from op_random import Case, type_of_array

from stepwell.dialects.core.types import DTYPES, FLOATS, NUMERIC, is_float, to_numpy
from stepwell.dialects.graph import op_class, op_classes
from stepwell.dialects.graph.base import map_groups
from stepwell.dialects.graph.elementwise import FloatUnary
from stepwell.dialects.graph.resize import stretched

# Ops without a single ONNX op of that meaning; each has tests of its own.
BLOCKED = "no such layout in ONNX: test_conv.py in dialects/packed compares it with the plain op"
PANELS = "no such layout in ONNX: test_matmul.py in dialects/packed compares it with the plain op"
ALONE = {
    "constant": "a literal",
    "sizes": "what Shape becomes: compiler/frontends/test_symbols.py",
    "bit_cast": "no op of this opset: end_to_end/test_conversions.py compares it with ONNX's of a newer one",
    "rsqrt": "ONNX has Reciprocal and Sqrt",
    **{f"packed.{name}": BLOCKED for name in ("conv", "bordered_conv", "depthwise_conv", "lrn", "relayout", "masked", "winograd_conv")},
    "packed.integer_winograd_conv": "no such layout in ONNX: passes/packed/test_use_integer_winograd.py compares it with the plain op",
    **dict.fromkeys(("packed.matmul", "packed.low_bit_matmul"), PANELS),
    "pixel_shuffle": "ONNX's has neither offsets nor phases that differ by dimension: test_pixel_shuffle.py compares it where they meet",
    "cumprod": "newer than the opset here: end_to_end/test_run_time_operands.py compares it with ONNX's evaluator",
    "interpolate": "a part of DeformConv and GridSample, which end_to_end/test_sampled_operators.py compares with its definition",
    **dict.fromkeys(("det", "roi_align", "roi_max_pool", "count_ngrams"), "end_to_end/test_sampled_operators.py compares their operators"),
    **dict.fromkeys(("unique", "non_max_suppression"), "compiler/frontends/onnx/test_rule_selection.py compares their operators"),
    **dict.fromkeys(
        ("first", "non_zero_places", "order_rows", "kept_boxes"),
        "parts of NonZero, Unique and NonMaxSuppression, which end_to_end/test_data_sizes.py compares",
    ),
    "overwrite": "a part of models with a state, which end_to_end/test_bound_state.py compares with ONNX Runtime",
    "at_round": "a part of Scan, which end_to_end/test_compiled_control_flow.py compares with ONNX Runtime",
    "tree_ensemble": "compiler/frontends/onnx/test_rule_trees.py compares its operators, of ai.onnx.ml",
    "pairwise_coupling": "a part of SVMClassifier, which compiler/frontends/onnx/test_rule_linear_models.py compares with ONNX Runtime",
    "random_bits": "no such op in ONNX: end_to_end/test_random_values.py tests what is made of it by its statistics",
    "fake_quantize": "QuantizeLinear and DequantizeLinear: passes/graph/quantization/test_fake_quantize.py compares it with these",
    "quantized_lstm": "ONNX Runtime's own: compiler/frontends/onnx/test_rule_microsoft_quantized_layers.py compares its operator",
    "attention": "several ops in ONNX: passes/graph_to_linalg/test_attention.py compares it with these",
}
ONLY = {
    **dict.fromkeys(("conv", "conv_transpose"), (*FLOATS, "i32")),
    **dict.fromkeys(("col2im", "gru", "lstm", "rnn"), ("f32", "f16", "bf16")),
    "range": ("i16", "i32", "i64", "f32", "f64"), "resize": ("f32", "f64", "f16", "ui8"),
    **dict.fromkeys(("pad", "scatter_elements", "scatter_nd", "top_k"), NUMERIC),
}  # fmt: skip
"""The element types that the other side has, where they are fewer than ours."""
IN_F32 = ("erf", "resize", "conv_transpose", "col2im", "lrn", "max_pool", "avg_pool")  # which the other side has right in f32 only
NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def widened(value: Any) -> Any:
    """f16 and bf16 as the f32 that they are computed in; all else as it is."""
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype in NARROW else value


def in_f32(value: np.ndarray) -> np.ndarray:
    """Floats and small integers as f32; bytes as they are."""
    return value if value.dtype == np.uint8 else value.astype(np.float32)


def by_reference(mnemonic: str, operands: list[Any], attributes: dict[str, Any]) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        out = op_class(mnemonic).reference(*operands, **attributes)
    return tuple(map(np.asarray, out if isinstance(out, tuple) else (out,)))


def magnitude(mnemonic: str, case: Case, result: np.ndarray) -> tuple[np.ndarray, int]:
    """What rounding errors are measured by: the sum of the magnitudes that were added up, and how many roundings there were."""
    if mnemonic in ("conv", "conv_transpose", "matmul"):
        x, w = (widened(a).astype(np.float64) for a in case.operands)
        terms = w.shape[-2] if mnemonic == "matmul" else math.prod(w.shape[1:]) * (x.shape[1] if mnemonic == "conv_transpose" else 1)
        return by_reference(mnemonic, [np.abs(x), np.abs(w)], case.attributes)[0], terms
    if mnemonic in ("reduce_sum", "cumsum", "avg_pool", "col2im"):
        return by_reference(mnemonic, [np.abs(widened(case.operands[0]).astype(np.float64))], case.attributes)[0], case.operands[0].size
    if mnemonic in ("scatter_elements", "scatter_nd") and case.attributes["reduction"] in ("add", "mul"):
        return np.full(result.shape, np.abs(widened(result)).max(initial=8)), case.operands[2].size
    if mnemonic in ("resize", "batch_norm"):
        return np.full(result.shape, 8 * max(np.abs(widened(o)).max(initial=1) for o in case.operands)), 32
    if mnemonic in ("sin", "cos", "tan", "sigmoid", "tanh", "erf", "elu", "log_softmax"):  # near 0 the other side is only right to the scale of 1
        return np.abs(widened(result).astype(np.float64)) + 1, 4
    if mnemonic in ("gru", "lstm", "rnn"):  # errors grow from step to step
        return np.full(result.shape, np.abs(widened(result)).max(initial=1)), 8 * case.operands[0].shape[0] * (4 + case.operands[1].shape[3])
    if mnemonic == "range":
        return np.full(result.shape, 16.0), 4
    return np.abs(widened(result).astype(np.float64)), 8


def assert_close(mnemonic: str, case: Case, got: np.ndarray, want: np.ndarray) -> None:
    """Equal for integers and booleans; for floats within the roundings of the f32 or f64 that they are computed in, and one to the type."""
    assert got.shape == want.shape
    if mnemonic == "resize" and got.dtype == np.uint8 and case.attributes["mode"] != "nearest":
        # ONNX leaves open how integers are rounded; ONNX Runtime does it in fixed point.
        assert np.abs(got.astype(int) - want.astype(int)).max(initial=0) <= 1
        return
    if not is_float(type_of_array(got).dtype):
        np.testing.assert_array_equal(got, want)
        return
    exact_type = np.float64 if got.dtype == want.dtype == np.float64 and mnemonic not in IN_F32 else np.float32
    computed = np.finfo(exact_type).eps
    stored = ml_dtypes.finfo(got.dtype)
    size, terms = magnitude(mnemonic, case, want)
    exact = np.asarray(want, np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - exact)
        allowed = 2 * terms * computed * size + float(stored.eps) * np.abs(exact) + 2 * float(stored.smallest_subnormal)
        same = (error <= allowed) | (np.isnan(got) & np.isnan(exact)) | (got == exact)
        same |= (np.abs(exact) > float(stored.max)) & np.isinf(got.astype(np.float64))
    assert same.all(), f"got {got[~same][:4]}, expected {exact[~same][:4]}, off by {error[~same][:4]}, allowed {allowed[~same][:4]}"


def whole(case: Case) -> bool:
    """Whether a resized tensor is scaled to whole elements."""
    return all(float(stretched(d, s)).is_integer() for d, s in zip(case.operands[0].shape, case.attributes["scales"], strict=True))


@pytest.mark.parametrize("examples", [8, pytest.param(25, marks=pytest.mark.nightly)])
@every("mnemonic", sorted(set(with_cases()) - set(ALONE)))
def test_reference_against_onnx(mnemonic: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(cases(mnemonic, sorted(set(legal_dtypes(mnemonic)) & set(ONLY.get(mnemonic, DTYPES)))))
    def check(case: Case) -> None:
        assume(case.attributes.get("size", 1) % 2)  # LRN over an even number of channels: ONNX Runtime refuses it
        # ONNX Runtime mixes channels up where windows with gaps lie in other than two dimensions.
        assume(mnemonic != "col2im" or len(case.attributes["image"]) == 2 or max(case.attributes["dilations"]) == 1)
        # ONNX Runtime has cubic weights of integers in fixed point of few bits (antialias) or not at all.
        assume(mnemonic != "resize" or case.attributes["mode"] != "cubic" or is_float(type_of_array(case.operands[0]).dtype))
        # ONNX Runtime aligns corners with what it has cut to whole elements.
        assume(mnemonic != "resize" or case.attributes["coordinates"] != "align_corners" or whole(case))
        got = by_reference(mnemonic, case.operands, case.attributes)
        operands = map_groups(in_f32 if mnemonic in IN_F32 else widened, case.operands)
        expected = onnx_ops.results(*onnx_ops.NODES[mnemonic](*operands, **case.attributes), outputs=len(got))
        for ours, theirs in zip(got, expected, strict=True):
            assert_close(mnemonic, case, ours, np.asarray(theirs))

    check()


@pytest.mark.parametrize("dtype", FLOATS)
def test_rsqrt(dtype: str) -> None:
    x = np.random.default_rng(5).uniform(0.01, 50, (7, 11)).astype(to_numpy(dtype))
    (got,) = by_reference("rsqrt", [x], {})
    assert_close("rsqrt", Case([x], {}), got, 1 / np.sqrt(x.astype(np.float64)))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_lrn_of_any_number_of_channels(size: int) -> None:
    x = np.random.default_rng(size).normal(size=(2, 5, 3, 2)).astype(np.float32)
    (got,) = by_reference("lrn", [x], {"size": size, "alpha": 0.5, "beta": 0.75, "bias": 1.5})
    want = np.empty_like(x)
    for c in range(x.shape[1]):
        around = x[:, max(0, c - (size - 1) // 2) : c + math.ceil((size - 1) / 2) + 1]
        want[:, c] = x[:, c] / (1.5 + 0.5 / size * (around**2).sum(axis=1)) ** 0.75
    np.testing.assert_allclose(got, want, rtol=8 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("examples", [4, pytest.param(10, marks=pytest.mark.nightly)])
@every("mnemonic", sorted(m for m, cls in op_classes().items() if issubclass(cls, FloatUnary)))
@every("dtype", ["f16", "bf16", "f32"])
def test_accuracy_of_float_functions(mnemonic: str, dtype: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(cases(mnemonic))
    def check(case: Case) -> None:
        x = case.operands[0].astype(to_numpy(dtype))
        (got,), (exact,) = by_reference(mnemonic, [x], case.attributes), by_reference(mnemonic, [x.astype(np.float64)], case.attributes)
        half_unit = ml_dtypes.finfo(x.dtype).eps / 2 if dtype != "f32" else 0
        allowed = (float(half_unit) + 4 * np.finfo(np.float32).eps) * np.abs(exact) + float(ml_dtypes.finfo(x.dtype).smallest_subnormal)
        assert (np.abs(got.astype(np.float64) - exact) <= allowed).all()

    check()
