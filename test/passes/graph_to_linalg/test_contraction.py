"""Matrix products, convolutions, poolings and normalisations, compiled, against their references."""

from typing import Any

import numpy as np
import pytest
from covering import each, pairs
from every import every
from hypothesis import assume, given, settings, strategies as st
from one_op import check_op, ops_together, reference, run_kernel, run_op

from stepwell.dialects.core.types import FLOATS, TensorType, to_numpy
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.support.errors import PassError

RNG = np.random.default_rng(13)
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "ui8", "i32", "i64")


def values(dtype: str, *shape: int) -> np.ndarray:
    if dtype in FLOATS:
        return RNG.standard_normal(shape).astype(to_numpy(dtype))
    return RNG.integers(0 if dtype.startswith("u") else -9, 10, shape).astype(to_numpy(dtype))


def magnitude(mnemonic: str, x: np.ndarray, w: np.ndarray, **attributes: Any) -> np.ndarray:
    """How large the products are that each element of the result sums."""
    return reference(mnemonic, [np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64))], **attributes)[0]


@ops_together
@every("dtype", DTYPES)
def test_matmul(dtype: str) -> None:
    pairs = [((3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((7, 1, 4), (4, 5)), ((2, 3, 4), (1, 4, 1)), ((1, 3, 4), (2, 4, 2))]
    columns = [((3, 4), (4, 1)), ((3, 2, 4), (4, 1)), ((1, 4), (4, 1)), ((3, 4), (2, 4, 1)), ((2, 1, 3, 4), (3, 4, 1)), ((3, 1), (1, 1))]
    for a, b in [*pairs, *columns]:
        x, y = values(dtype, *a), values(dtype, *b)
        check_op("matmul", [x, y], terms=4, scale=magnitude("matmul", x, y))


@ops_together
def test_matmul_with_dynamic_dimensions() -> None:
    x, y = values("f32", 2, 3, 4), values("f32", 2, 4, 5)
    types = [TensorType("f32", (None, None, 4)), TensorType("f32", (None, None, None))]
    check_op("matmul", [x, y], types=types, terms=4, scale=magnitude("matmul", x, y))
    column, types = values("f32", 2, 4, 1), [TensorType("f32", (None, None, 4)), TensorType("f32", (None, None, 1))]
    check_op("matmul", [x, column], types=types, terms=4, scale=magnitude("matmul", x, column))


def test_narrow_floats_are_multiplied_and_summed_wide() -> None:
    x = np.concatenate([[2048.0], np.ones(512)]).astype(np.float16)[None]
    (product,) = run_op("matmul", [x, np.ones((513, 1), np.float16)])
    assert product[0, 0] == 2560


@st.composite
def convolutions(draw: Any) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))
    group = draw(st.integers(1, 4))
    channels, filters = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    image = [draw(st.integers(d * (k - 1) + 1, d * (k - 1) + 5)) for k, d in zip(kernel, dilations, strict=True)]
    strides = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    return {
        "x": (draw(st.integers(1, 2)), group * channels, *image), "kernel": tuple(kernel), "group": group, "filters": filters,
        "channels": channels, "strides": strides, "dilations": dilations,
    }  # fmt: skip


@ops_together
def test_convolutions() -> None:
    @settings(max_examples=40)
    @given(convolutions())
    def run(case: dict[str, Any]) -> None:
        x = values("f32", *case["x"])
        w = values("f32", case["group"] * case["filters"], case["channels"], *case["kernel"])
        attributes = {"strides": case["strides"], "dilations": case["dilations"], "group": case["group"], "pads": (0,) * (2 * len(case["kernel"]))}
        check_op("conv", [x, w], terms=w[0].size, scale=magnitude("conv", x, w, **attributes), **attributes)

    run()


@ops_together
def test_transposed_convolutions() -> None:
    @settings(max_examples=40)
    @given(convolutions(), st.data())
    def run(case: dict[str, Any], data: Any) -> None:
        rank = len(case["kernel"])
        x = values("f32", *case["x"])
        w = values("f32", case["x"][1], case["filters"], *case["kernel"])
        extra = tuple(data.draw(st.integers(0, 1)) for _ in range(rank))
        pads = tuple(data.draw(st.integers(0, 3)) for _ in range(2 * rank))
        attributes = {"strides": case["strides"], "dilations": case["dilations"], "group": case["group"], "pads": pads, "output_padding": extra}
        sizes = zip(case["strides"], case["x"][2:], case["dilations"], case["kernel"], strict=True)
        spans = [s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in sizes]
        assume(all(span + e > pads[i] + pads[rank + i] for i, (span, e) in enumerate(zip(spans, extra, strict=True))))
        check_op("conv_transpose", [x, w], terms=w.size, scale=magnitude("conv_transpose", x, w, **attributes), **attributes)

    run()


@ops_together
@every("dtype", DTYPES)
def test_convolution_dtypes(dtype: str) -> None:
    x, w = values(dtype, 2, 6, 5, 4), values(dtype, 4, 3, 3, 2)
    attributes = {"strides": (1, 2), "dilations": (1, 1), "group": 2, "pads": (0, 0, 0, 0)}
    check_op("conv", [x, w], terms=18, scale=magnitude("conv", x, w, **attributes), **attributes)


@pytest.mark.parametrize(("channels", "filters"), [(4, 2), (1, 3), (2, 1), (1, 1)])
def test_what_follows_a_grouped_convolution(channels: int, filters: int) -> None:
    group = 3
    shape = (2, group * channels, 5, 4)
    arrays = [values("f32", *s) for s in (shape, (group * filters, channels, 2, 1), (group * filters, 1, 1), (4,), (2, group * filters, 4, 4))]
    attributes = {"strides": (1, 1), "dilations": (1, 1), "group": group, "pads": (0, 0, 0, 0)}

    def body(b: GraphBuilder, x: Any, w: Any, bias: Any, columns: Any, other: Any) -> Any:
        y = b.relu(b.add(b.conv(x, w, **attributes), bias))
        return b.sub(other, b.mul(y, columns))

    x, w, bias, columns, other = arrays
    product = reference("conv", [x, w], **attributes)[0]
    size = magnitude("conv", x, w, **attributes) + np.abs(bias)
    (actual,) = run_kernel(body, arrays)
    expected = other - np.maximum(product + bias, 0) * columns
    limit = (w[0].size + 4) * np.finfo(np.float32).eps * (size * np.abs(columns) + np.abs(other))
    assert (np.abs(actual - expected) <= limit).all()


def test_convolution_of_any_number_of_images() -> None:
    x, w = values("f32", 3, 4, 5, 4), values("f32", 4, 2, 3, 2)
    attributes = {"strides": (1, 2), "dilations": (1, 1), "group": 2, "pads": (0, 0, 0, 0)}
    types = [TensorType("f32", (None, 4, 5, 4)), TensorType("f32", w.shape)]
    check_op("conv", [x, w], types=types, terms=12, scale=magnitude("conv", x, w, **attributes), **attributes)


def test_padding_of_convolutions_must_be_explicit() -> None:
    x, w = values("f32", 1, 2, 5, 4), values("f32", 2, 2, 3, 2)
    with pytest.raises(PassError, match=r"pads \[0, 1, 0, 0\] are not zero; run make-padding-explicit"):
        run_op("conv", [x, w], strides=(1, 1), dilations=(1, 1), group=1, pads=(0, 1, 0, 0))


POOLS = (
    {"kernel": (3, 2), "strides": (2, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": False},
    {"kernel": (3, 2), "strides": (2, 3), "pads": (1, 0, 2, 1), "dilations": (1, 2), "ceil_mode": True},
    {"kernel": (2, 4), "strides": (3, 2), "pads": (1, 1, 0, 1), "dilations": (3, 1), "ceil_mode": True},
)


@ops_together
@every("dtype", [*DTYPES, "ui64"])
@every("attributes", POOLS)
def test_max_pool(attributes: dict[str, Any], dtype: str) -> None:
    x = values(dtype, 2, 3, 8, 9)
    check_op("max_pool", [x if dtype in FLOATS or dtype.startswith("u") else x - 12], terms=0, ulps=0, **attributes)


@ops_together
@pairs({"count_include_pad": [True, False], "dtype": FLOATS, "attributes": POOLS})
def test_avg_pool(attributes: dict[str, Any], dtype: str, count_include_pad: bool) -> None:
    x = values(dtype, 2, 3, 8, 9)
    size = reference("avg_pool", [np.abs(x.astype(np.float64))], **attributes, count_include_pad=count_include_pad)[0]
    check_op("avg_pool", [x], terms=9, ulps=2, scale=size, **attributes, count_include_pad=count_include_pad)


def test_pooling_of_nan_and_infinity() -> None:
    x = values("f32", 1, 1, 8, 9)
    x[0, 0, 2, 3], x[0, 0, 6, 6], x[0, 0, 0, 0] = np.nan, np.inf, -np.inf
    check_op("max_pool", [x], terms=0, ulps=0, **POOLS[1])


@ops_together
@every("dtype", FLOATS)
def test_batch_norm(dtype: str) -> None:
    for shape in [(2, 5, 3, 4), (3, 5), (2, 5, 4)]:
        x, scale, bias, mean = values(dtype, *shape), values(dtype, 5), values(dtype, 5), values(dtype, 5)
        variance = RNG.uniform(0.5, 2, 5).astype(x.dtype)
        per_channel = [np.abs(v.astype(np.float64)).reshape(-1, *[1] * (len(shape) - 2)) for v in (scale, bias, mean)]
        size = (np.abs(x.astype(np.float64)) + per_channel[2]) * per_channel[0] * 2 + per_channel[1]
        check_op("batch_norm", [x, scale, bias, mean, variance], epsilon=1e-3, terms=6, scale=size)


@ops_together
@each({"dtype": FLOATS, "beta": [0.5, 0.75, 1.0, 0.6]})
def test_lrn(beta: float, dtype: str) -> None:
    x = values(dtype, 2, 7, 3, 2)
    for size in (1, 4, 5):
        check_op("lrn", [x], size=size, alpha=0.3, beta=beta, bias=1.5, terms=size, ulps=4)


@ops_together
@each({"dtype": FLOATS, "size": [1, 4, 5, 23]})
def test_packed_lrn(size: int, dtype: str) -> None:
    """The first and the last channels have fewer neighbours, others have them in two or three blocks; what fills the last block counts not."""
    for places, block, channels in [((3, 2), 4, 11), ((5,), 8, 24), ((2, 3), 16, 20), ((1, 1), 2, 3)]:
        x = values(dtype, 2, -(-channels // block), *places, block)
        x[:, -1, ..., (channels - 1) % block + 1 :] = np.inf
        check_op("packed.lrn", [x], channels=channels, size=size, alpha=0.3, beta=0.75, bias=0.0, terms=size, ulps=4)
