"""The comparison of a quantised network with its original: each number against one that numpy makes of ONNX Runtime's values."""

import numpy as np
import onnx
import pytest
from float_networks import run_plainly

from stepwell.dialects.support.errors import InputError
from stepwell.quantizer import Quantized
from stepwell.quantizer.layers import SWITCHES, layer_pairs, switched
from stepwell.quantizer.quality import Quality, compare

OUTPUT = "add16.y"
CLOSE = 0.1  # dB: a number halfway between two integers is rounded another way now and then


@pytest.fixture(scope="module")
def samples(images: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Some that reach further than those which the ranges are from."""
    return [{"x": 1.3 * image} for image in images[:3]]


@pytest.fixture(scope="module")
def quality(network: Quantized, samples: list[dict[str, np.ndarray]]) -> Quality:
    return compare(network.floats, network.model, samples, blamed=2)


def decibels(want: np.ndarray, got: np.ndarray) -> float:
    exact = want.astype(np.float64)
    return float(10 * np.log10(np.square(exact).sum() / np.square(got - exact).sum()))


def test_ratios_and_clipping(network: Quantized, samples: list[dict[str, np.ndarray]], quality: Quality):
    pairs = layer_pairs(network.floats, network.model)
    both, alone = switched(network.floats, network.model, pairs)
    off = {SWITCHES: np.zeros(len(pairs), bool)}
    runs = [
        {
            **run_plainly(network.floats, feed, [OUTPUT, *(pair.float_result for pair in pairs)]),
            **{f"{name} together": a for name, a in run_plainly(network.model, feed, [OUTPUT, *(pair.result for pair in pairs)]).items()},
            **run_plainly(both, {**feed, **off}, alone),
        }
        for feed in samples
    ]
    values = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    assert [layer.name for layer in quality.layers] == [pair.name for pair in pairs]
    for pair, name, layer in zip(pairs, alone, quality.layers, strict=True):
        want = values[pair.float_result]
        assert layer.ratio == pytest.approx(decibels(want, values[f"{pair.result} together"]), abs=CLOSE), layer.name
        assert layer.ratio_alone == pytest.approx(decibels(want, values[name]), abs=CLOSE), layer.name
        assert layer.seen.total == want.size
        assert layer.seen.high == pytest.approx(want.max(), rel=1e-5)
        if pair.parameters is not None:
            used = pair.parameters
            unclipped = np.rint(want / used.scale) + int(used.zero_point)
            assert layer.clipped == pytest.approx(np.mean((unclipped < 0) | (unclipped > 255)), abs=2 / want.size), layer.name
    assert any(layer.clipped > 0 for layer in quality.layers)
    assert quality.outputs == {OUTPUT: pytest.approx(decibels(values[OUTPUT], values[f"{OUTPUT} together"]), abs=CLOSE)}
    assert (quality.batches, quality.blamed) == (3, 2)


def test_shares(network: Quantized, samples: list[dict[str, np.ndarray]], quality: Quality):
    """The error of the output that each layer makes alone, from the first two batches."""
    pairs = layer_pairs(network.floats, network.model)
    both, _ = switched(network.floats, network.model, pairs)

    def error(switches: np.ndarray) -> float:
        errors = [
            np.square(run_plainly(both, {**feed, SWITCHES: switches})[OUTPUT] - run_plainly(network.floats, feed)[OUTPUT]).sum()
            for feed in samples[:2]
        ]
        return float(sum(errors))

    whole = error(np.ones(len(pairs), bool))
    for row, layer in zip(np.eye(len(pairs), dtype=bool), quality.layers, strict=True):
        assert layer.share == pytest.approx(error(row) / whole, rel=0.05, abs=1e-4), layer.name
    shares = [layer.share for layer in quality.worst_first()]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1] > 0


def test_what_cannot_be_compared(network: Quantized, samples: list[dict[str, np.ndarray]]):
    with pytest.raises(InputError, match="expected a network with quantised layers, got one with none"):
        compare(network.floats, network.floats, samples)
    other = onnx.ModelProto()
    other.CopyFrom(network.model)
    other.graph.output[0].name = other.graph.node[-2].output[0]
    with pytest.raises(InputError, match=rf"expected a network with the outputs {OUTPUT}, got matmul15\.y"):
        compare(network.floats, other, samples)
    with pytest.raises(InputError, match="samples: there are none"):
        compare(network.floats, network.model, [])
