"""Winograd convolutions: what they mean, and how far their rounding takes them from it."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from covering import by_day, split_by_day
from native_checks import check_model, natively_together
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.packed import PackedConvOp, WinogradConvOp
from stepwell.dialects.packed.winograd import PARTS, POINTS, error_bound, growth, matrices, transformed_filters
from stepwell.passes.packed.use_winograd import ERRORS, UseWinograd
from stepwell.pipelines.pipeline import Pipeline

RNG = np.random.default_rng(17)


@pytest.mark.parametrize("tile", POINTS)
def test_the_matrices_filter_one_row(tile):
    a_t, g, b_t = matrices(tile)
    d, taps = RNG.standard_normal(tile + 2), RNG.standard_normal(3)
    want = [d[i : i + 3] @ taps for i in range(tile)]
    np.testing.assert_allclose(a_t @ ((g @ taps) * (b_t @ d)), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tile", POINTS)
def test_no_other_quarters_round_less(tile):
    quarters = [Fraction(n, 4) for n in range(1, 13)]
    others = [growth([Fraction(0), *(sign * p for p in pairs for sign in (1, -1))]) for pairs in combinations(quarters, tile // 2)]
    assert min(others) == growth(POINTS[tile])


def rounded_as_compiled(x, w, tile):
    """One-dimensional F(tile, 3) along both axes in f32 of data (channels, n, n, places) and filters (filters, channels, 3, 3)."""
    a_t, g, b_t = matrices(tile)
    f32 = np.float32
    u = np.einsum("ik,mckl,jl->ijmc", g, w.astype(np.float64), g).astype(f32)

    def transformed(matrix, data):
        out = np.zeros((len(matrix), *data.shape[1:]), f32)
        for i, k in zip(*np.nonzero(matrix), strict=True):
            out[i] += f32(matrix[i, k]) * data[k]
        return out

    def both(matrix, data):
        return transformed(matrix, transformed(matrix, data).swapaxes(0, 1)).swapaxes(0, 1)

    v = both(b_t, x.transpose(1, 2, 0, 3))
    total = np.zeros((*u.shape[:3], x.shape[-1]), f32)
    most = PARTS[tile]
    for start in range(0, len(x), most):
        part = np.zeros_like(total)
        for c in range(start, min(start + most, len(x))):
            part += u[:, :, :, c, None] * v[:, :, c, None]
        total += part
    return both(a_t, total)


@pytest.mark.parametrize("tile", POINTS)
@pytest.mark.parametrize("channels", [16, 128, 512])
def test_the_bound_holds_and_is_not_loose(tile, channels):
    x = RNG.standard_normal((channels, tile + 2, tile + 2, 64)).astype(np.float32)
    w = (RNG.standard_normal((8, channels, 3, 3)) / np.sqrt(9 * channels)).astype(np.float32)
    view = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(1, 2))
    want = np.einsum("cpqnkl,mckl->pqmn", view, w.astype(np.float64), optimize=True)
    error = np.abs(rounded_as_compiled(x, w, tile) - want).max() / np.abs(want).max()
    assert error_bound(tile) / 10 < error < error_bound(tile)


@pytest.mark.parametrize("tile", POINTS)
@pytest.mark.parametrize("more", [0, 8])
def test_longer_sums_than_the_bound_counts_on_have_parts(tile, more):
    pipeline = Pipeline.default("x86-64-v3").replace("use-winograd", f"use-winograd{{tile={tile} flops-per-byte=0 slack=0}}")
    x, w = np.zeros((1, PARTS[tile] + more, 12, 12), np.float32), np.ones((8, PARTS[tile] + more, 3, 3), np.float32)
    text = stepwell.lower(convolution(x, w, 1), "linalg", target="x86-64-v3", pipeline=pipeline).text()
    assert text.count("sched.part") == int(more > 0)
    assert not more or f"sched.part = {PARTS[tile]} : i64" in text


def test_what_the_pass_allows_is_what_is_stated():
    assert sorted(ERRORS) == sorted(POINTS)
    assert max(ERRORS.values()) <= UseWinograd.error < 2 * max(ERRORS.values())  # a method that rounds more than the worst of these is left out


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("tile", POINTS)
def test_it_is_the_direct_convolution(tile, group):
    x, w = RNG.standard_normal((2, 3, 14, 26, 4)), RNG.standard_normal((6, 3 // group, 3, 3, 4, 5))
    want = PackedConvOp.reference(x, w, strides=(1, 1), dilations=(1, 1), group=group)
    for filters, transformed in ((transformed_filters(w, tile), True), (w, False)):
        got = WinogradConvOp.reference(x, filters, tile=tile, group=group, transformed=transformed)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def convolution(x, w, group, pad=1):
    """A model of one convolution."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[pad] * 4, group=group)
    image = [size + 2 * pad - 2 for size in x.shape[2:]]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x.shape), ("y", (x.shape[0], w.shape[0], *image)))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def direct(x, w, group, pad=1):
    """The convolution in f64."""
    image = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    view = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))
    parts = zip(np.split(view, group, axis=1), np.split(w.astype(np.float64), group), strict=True)
    return np.concatenate([np.einsum("nchwyz,fcyz->nfhw", *part, optimize=True) for part in parts], axis=1)


ROWS = [(1, 64, 32, 19, 28, 1, 4), (1, 512, 64, 6, 6, 1, 2), (1, 96, 144, 30, 19, 3, 4), (1, 768, 256, 6, 6, 2, 2), (2, 304, 512, 17, 28, 1, 4)]
MORE = [(1, 256, 64, 28, 28, 1, 4), (1, 160, 320, 7, 7, 1, 2), (2, 192, 96, 13, 13, 2, 4), (1, 512, 256, 28, 24, 1, 4)]
STORED_PLAIN = 512 * 256  # filters times channels, from which on filters are transformed when the kernel runs


BORDERS = [(1, 64, 24, 13, 20, 1, 1), (2, 144, 32, 7, 6, 0, 1), (1, 96, 48, 24, 11, 0, 3)]
FURTHER = [(1, 320, 40, 17, 9, 1, 1), (3, 64, 64, 8, 8, 0, 1)]  # sums in parts, which rows above have too, and tiles without borders


@natively_together
@split_by_day(
    ("tile", "images", "channels", "filters", "height", "width", "pad", "group"),
    *([(tile, *border) for tile in POINTS for border in borders] for borders in (BORDERS, FURTHER)),
)
def test_borders_of_each_tile(tile, images, channels, filters, height, width, pad, group):
    x = RNG.standard_normal((images, channels, height, width)).astype(np.float32)
    w = (RNG.standard_normal((filters, channels // group, 3, 3)) / np.sqrt(9 * channels // group)).astype(np.float32)
    pipeline = Pipeline.default().replace("use-winograd", f"use-winograd{{tile={tile} flops-per-byte=0 slack=0}}")
    made, want = convolution(x, w, group, pad), direct(x, w, group, pad)
    assert f"tile = {tile} : i64" in stepwell.lower(made, "graph-opt", pipeline=pipeline).text()

    def judge(got):
        assert np.abs(got["y"] - want).max() / np.abs(want).max() < ERRORS[tile]

    check_model(made, {"x": x}, judge, threads=[1], pipeline=pipeline)


@pytest.mark.parametrize(
    ("images", "channels", "filters", "height", "width", "group", "tile"), by_day([*ROWS, *MORE], ROWS)
)
def test_compiled_error_stays_within_the_stated_bound(images, channels, filters, height, width, group, tile):
    x = RNG.standard_normal((images, channels, height, width)).astype(np.float32)
    w = (RNG.standard_normal((filters, channels // group, 3, 3)) / np.sqrt(9 * channels // group)).astype(np.float32)
    model = stepwell.compile(convolution(x, w, group), threads=2)
    transformed = "false" if filters * channels // group >= STORED_PLAIN and group == 1 else "true"
    assert f"group = {group} : i64, tile = {tile} : i64, transformed = {transformed}" in model.ir("graph-opt")
    got = model.run({"x": x})["y"]
    model.threads = 1
    assert np.array_equal(got, model.run({"x": x})["y"])
    want = direct(x, w, group)
    assert np.abs(got - want).max() / np.abs(want).max() < ERRORS[tile]
