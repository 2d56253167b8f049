"""Winograd's method in integers, natively: the bits of the direct convolution, for the largest data and filters too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from covering import each, pairs, split_by_day
from every import every
from integer_convolutions import convolved, draw, model
from native_checks import Arrays, check_model, natively_together
from quantized_networks import Net

import stepwell
from stepwell.dialects.packed import IntegerWinogradConvOp, PackedConvOp
from stepwell.dialects.packed.integer_winograd import INTEGER_POINTS, MOST, integer_matrices, transformed_integers, transformed_range, with_depth
from stepwell.passes.packed.use_integer_winograd import is_exact
from stepwell.pipelines.pipeline import Pipeline

RNG = np.random.default_rng(41)
BYTES = {np.uint8: (0, 255), np.int8: (-128, 127)}


def direct(x: np.ndarray, w: np.ndarray, group: int = 1) -> np.ndarray:
    """The convolution of blocked integers as its definition says."""
    return PackedConvOp.reference(x.astype(np.int32), w.astype(np.int32), strides=(1, 1), dilations=(1, 1), group=group)


def by_tiles(x: np.ndarray, w: np.ndarray, tile: int, group: int = 1, transformed: bool = True) -> np.ndarray:
    u = transformed_integers(w, tile) if transformed else w
    return IntegerWinogradConvOp.reference(x, u, tile=tile, group=group, transformed=transformed)


@pytest.mark.parametrize("tile", INTEGER_POINTS)
def test_the_matrices_are_exact(tile: int) -> None:
    a_t, g, b_t, divisor = matrices = integer_matrices(tile)
    d, taps = RNG.integers(-1000, 1000, tile + 2), RNG.integers(-1000, 1000, 3)
    np.testing.assert_array_equal(a_t @ ((g @ taps) * (b_t @ d)), [divisor * (d[i : i + 3] @ taps) for i in range(tile)])
    assert (divisor**2 >> matrices.shift) * matrices.inverse % 2**32 == 1
    assert np.abs(g).sum(axis=1).max() <= MOST
    assert MOST**2 * 128 < 2**15


@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("tile", INTEGER_POINTS)
def test_the_range_of_transformed_data_is_reached_and_not_left(tile: int, kind: Any) -> None:
    _, _, b_t, _ = integer_matrices(tile)
    low, high = transformed_range(tile, BYTES[kind])
    factors = [np.outer(i, j).ravel() for i in b_t for j in b_t]
    found = [int(np.where(s * f > 0, *BYTES[kind]) @ f) for f in factors for s in (1, -1)]
    assert low <= min(found)
    assert max(found) <= high
    assert max(map(abs, found)) >= 0.6 * max(-low, high)
    assert -(2**15) <= low <= high < 2**15


@pairs({"transformed": [True, False], "group": [1, 3], "kind": BYTES, "tile": INTEGER_POINTS})
def test_it_is_the_direct_convolution(tile: int, kind: Any, group: int, transformed: bool) -> None:
    x, w = draw(kind, 2, 3, 14, 22, 8), draw(np.int8, 6, 3 // group, 3, 3, 2, 5, 4)
    np.testing.assert_array_equal(by_tiles(x, with_depth(w, 2), tile, group, transformed), direct(x, w, group))


@pytest.mark.parametrize("tile", INTEGER_POINTS)
def test_what_is_said_to_be_exact_is_so_and_what_is_not_may_wrap_around(tile: int) -> None:
    """All weights and data are as large as can be, so that the bound is met by one channel and missed with one more pair."""

    def filters(pairs: int) -> np.ndarray:
        return np.full((1, pairs, 3, 3, 1, 1, 2), 127, np.int8)

    pairs = next(n for n in range(1, 2000) if not is_exact(tile, (0, 255), filters(n))) - 1
    for count, same in ((pairs, True), (pairs + 1, False)):
        x = np.full((1, count, tile + 2, tile + 2, 2), 255, np.uint8)
        assert np.array_equal(by_tiles(x, filters(count), tile), direct(x, filters(count))) == same
    wide = np.full((1, 1, 3, 3, 1, 1, 2), 4000, np.int16)
    assert not is_exact(tile, (0, 1), wide), "filters of more than bytes"
    assert not is_exact(tile, (-(2**15), 2**15 - 1), filters(1)), "data of more than nine bits"
    assert is_exact(tile, (-255, 255), filters(1))


CASES = [
    ((1, 32, 16, 18), (40, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 48, 13, 10), (33, 48, 3, 3), {"pads": [1, 0, 2, 1]}),
    ((1, 64, 7, 9), (48, 32, 3, 3), {"group": 2}),
    ((1, 300, 9, 7), (24, 300, 3, 3), {}),
]


KINDS = [(np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)]


@natively_together
@each({("tile", "activations", "weights"): [(tile, *kinds) for kinds in KINDS for tile in INTEGER_POINTS], ("shape", "filters", "attributes"): CASES})
def test_natively(shape: tuple[int, ...], filters: tuple[int, ...], attributes: dict[str, Any], tile: int, activations: Any, weights: Any) -> None:
    x, w = draw(activations, *shape), draw(weights, *filters)
    zeros = {"a": draw(activations), "b": np.asarray(weights(127 if weights is np.uint8 else 0))}
    want = convolved(x.astype(np.float64) - zeros["a"], w.astype(np.float64) - zeros["b"], attributes)
    made = model({"x": x}, {"w": w, **zeros}, ["x", "w", "a", "b"], attributes)
    for target in ("host", "x86-64-v3"):
        pipeline = Pipeline.default(target).replace("use-integer-winograd", f"use-integer-winograd{{tile={tile} gain=0.01}}")
        found = _convolution(stepwell.lower(made, "graph-opt", target=target, pipeline=pipeline).text())
        assert f"tile = {tile} : i64" in found
        if target != "host":  # the caches of which may hold more
            assert f"transformed = {'true' if 'group' in attributes else 'false'}" in found
        check_model(made, {"x": x}, equal_to(want), threads=[2], target=target, pipeline=pipeline)


@natively_together
@every("sign", [1, -1])
@every("channels", [64, 128, 512])
def test_the_largest_numbers_natively(channels: int, sign: int) -> None:
    """Sums of 64 channels leave F(4, 3) just room enough; those of 128 leave it to F(2, 3)."""
    x, w = np.full((1, channels, 14, 14), 255, np.uint8), np.full((64, channels, 3, 3), sign * 127, np.int8)
    x[:, :, ::3, ::2] = 0
    made = model({"x": x}, {"w": w, "a": np.uint8(0), "b": np.int8(0)}, ["x", "w", "a", "b"], {})
    assert f"tile = {4 if channels == 64 else 2}" in _convolution(stepwell.lower(made, "graph-opt", target="x86-64-v3").text())
    want = convolved(x.astype(np.float64), w.astype(np.float64), {})
    check_model(made, {"x": x}, equal_to(want), threads=[1])


def equal_to(want: np.ndarray) -> Callable[[Arrays], None]:
    """Judges that a model's result is this one."""
    return lambda got: np.testing.assert_array_equal(got["y"], want)


def _convolution(text: str) -> str:
    return next(line for line in text.splitlines() if '"packed.integer_winograd_conv"' in line)


def residual(net: Net, size: Any) -> Any:
    """Two convolutions, a residual addition and a pooling: what is before, beside and behind such a convolution in networks."""
    x = net.quantised("x", 0.02, 100)
    y = net.quantised(net.op("Relu", [net.conv(x, 0.02, 32, 24, 3, 3, pads=[1, 1, 1, 1])]), 0.9, 0)
    z = net.quantised(net.conv(y, 0.9, 32, 32, 3, 3, pads=[1, 1, 1, 1]), 4.0, 128)
    z = net.quantised(net.op("Add", [z, y]), 4.0, 120)
    return net.model(net.op("MaxPool", [z], kernel_shape=[2, 2], strides=[2, 2]), (1, 24, size, size))


@split_by_day(("size", "strict"), [(19, False), (16, True)], [(16, False), (30, False), (19, True), (30, True)])
def test_networks_get_the_bits_of_the_direct_method(size: int, strict: bool) -> None:
    """Strict code has it too: nothing is rounded."""
    made = residual(Net(5), size)
    x = RNG.standard_normal((1, 24, size, size)).astype(np.float32)
    want = stepwell.compile(made, strict=strict, disable=["use-integer-winograd"], threads=1).run({"x": x})["y"]
    assert len(np.unique(want)) > 20
    assert stepwell.lower(made, "graph-opt", target="x86-64-v3", strict=strict).text().count('"packed.integer_winograd_conv"') == 2
    compiled = stepwell.compile(made, strict=strict)
    for threads in (1, 2):
        compiled.threads = threads
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], want)


def test_one_program_for_all_sizes() -> None:
    made = residual(Net(5), "h")
    assert '"packed.integer_winograd_conv"' in stepwell.lower(made, "graph-opt", target="x86-64-v3", specialise="never").text()
    free, direct = (stepwell.compile(made, specialise="never", threads=2, disable=d) for d in ([], ["use-integer-winograd"]))
    for size in (5, 16, 23, 40):
        x = RNG.standard_normal((1, 24, size, size)).astype(np.float32)
        np.testing.assert_array_equal(free.run({"x": x})["y"], direct.run({"x": x})["y"])
