"""Ranges by each method, and the scales and zero points of ranges."""

import numpy as np
import pytest

from stepwell import InputError
from stepwell.quantizer.histogram import Histogram
from stepwell.quantizer.options import METHODS, QuantizeOptions
from stepwell.quantizer.ranges import SMALLEST_SCALE, Parameters, Range, parameters, range_of

RNG = np.random.default_rng(0)


def histogram(values: np.ndarray) -> Histogram:
    found = Histogram()
    found.add(values.astype(np.float32))
    return found


def rounded(x: np.ndarray, used: Parameters) -> np.ndarray:
    info = np.iinfo(used.zero_point.dtype)
    numbers = np.clip(np.rint(x / used.scale) + int(used.zero_point), info.min, info.max)
    return (numbers - int(used.zero_point)) * used.scale


def error(x: np.ndarray, used: Range, symmetric: bool = False) -> float:
    return float(np.square(rounded(x, parameters(used, symmetric=symmetric)) - x).mean())


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bounds", [(-1.3, 2.7), (0.0, 6.0), (-5.0, 0.0), (-1e-3, 4e4)])
def test_0_is_exact_and_the_ends_are_within_half_a_step(bounds: tuple[float, float], symmetric: bool):
    used = parameters(Range(*bounds), symmetric=symmetric)
    assert used.zero_point.dtype == (np.int8 if symmetric else np.uint8)
    x = np.array([0.0, *bounds], np.float32)
    got = rounded(x, used)
    assert got[0] == 0
    assert np.abs(got - x).max() <= 0.5001 * used.scale
    assert used.scale <= np.float32(max(map(abs, bounds)) / 127 if symmetric else (bounds[1] - bounds[0]) / 255) * 1.0001


def test_a_range_of_0_alone_has_a_scale():
    used = parameters(Range(0.0, 0.0), symmetric=False)
    assert used.scale == SMALLEST_SCALE
    assert np.float32(used.scale) * np.float32(used.scale) >= np.finfo(np.float32).smallest_normal


@pytest.mark.parametrize("method", METHODS)
def test_ranges_lie_within_what_was_seen_and_have_0(method: str):
    options = QuantizeOptions(method=method)
    for x in (RNG.normal(3, 1, 5000), RNG.normal(-3, 0.1, 5000), RNG.laplace(size=5000), np.full(10, 2.0), np.zeros(10)):
        found = range_of(histogram(x), options)
        assert min(x.min(), 0) - 1e-6 <= found.low <= 0 <= found.high <= max(x.max(), 0) + 1e-6
    assert range_of(Histogram(), options) == Range(0.0, 0.0)


def test_minmax_has_all_of_it():
    x = RNG.normal(0, 2, 1000).astype(np.float32)
    assert range_of(histogram(x), QuantizeOptions(method="minmax")) == Range(float(x.min()), float(x.max()))


def test_percentile_is_numpys():
    x = RNG.normal(0, 2, 200_000).astype(np.float32)
    found = range_of(histogram(x), QuantizeOptions(method="percentile", percentile=99.5))
    width = histogram(x).width
    np.testing.assert_allclose([found.low, found.high], np.percentile(x, [0.5, 99.5]), atol=2 * width)


@pytest.mark.parametrize("symmetric", [False, True])
def test_mse_is_the_least_error_of_a_grid(symmetric: bool):
    x = RNG.normal(0.2, 1, 100_000).astype(np.float32)
    options = QuantizeOptions(method="mse", symmetric_activations=symmetric)
    found = error(x, range_of(histogram(x), options), symmetric)
    low, high = float(x.min()), float(x.max())
    parts = np.linspace(0.3, 1, 15)
    pairs = [(p, p) for p in parts] if symmetric else [(p, q) for p in parts for q in parts]
    assert found <= 1.01 * min(error(x, Range(low * p, high * q), symmetric) for p, q in pairs)
    assert found < 0.9 * error(x, Range(low, high), symmetric), "clipping a few pays for finer steps for the rest"


def test_entropy_gives_up_a_few_far_values():
    x = np.concatenate([RNG.normal(0, 1, 100_000), [50.0, -40.0]])
    found = range_of(histogram(x), QuantizeOptions(method="entropy"))
    assert 3 < found.high < 10
    assert -10 < found.low < -3
    even = RNG.uniform(-1, 1, 100_000)
    assert range_of(histogram(even), QuantizeOptions(method="entropy")).high > 0.95, "nothing to give up"


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_entropy_is_not_led_by_numbers_that_come_again_and_again(part: float):
    """Most of what a layer makes of images with a blank background: a few numbers, small ones. The others are what matters."""
    others = np.abs(RNG.normal(0, 2, 100_000))
    blank = RNG.choice([0.02, 0.11, 0.13, 0.3, 0.38], int(len(others) * part / (1 - part)))
    found = range_of(histogram(np.concatenate([others, blank])), QuantizeOptions(method="entropy"))
    assert found.high > 0.9 * range_of(histogram(others), QuantizeOptions(method="entropy")).high
    pixels = RNG.choice(np.arange(256) / 255, 100_000, p=np.arange(256, 0, -1) / np.arange(257).sum())
    assert range_of(histogram(pixels), QuantizeOptions(method="entropy")).high == 1.0, "few numbers, all of which fit"
    far = np.concatenate([np.full(50_000, 3.0), RNG.normal(0, 0.2, 50_000)])
    assert range_of(histogram(far), QuantizeOptions(method="entropy")).high > 2.9, "what is cut off counts, how often ever it comes"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "magic"}, "method: expected minmax, percentile, entropy, mse, got 'magic'"),
        ({"percentile": 40.0}, "percentile: expected a number above 50, up to 100, got 40.0"),
        ({"percentile": float("nan")}, "percentile: expected a number"),
        ({"per_channel": 1}, "per_channel: expected True or False, got 1"),
        ({"keep_float": "conv1"}, "keep_float: expected names, got 'conv1'"),
        ({"op_types": {"Softmax"}}, "op_types: expected some of Add, .*, got 'Softmax'"),
    ],
)  # fmt: skip
def test_options_that_are_none(given: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        QuantizeOptions(**given)
