"""Weights alone in 4 and 8 bits: what the integers stand for, and what engines compute of them."""

import itertools

import numpy as np
import onnx
import pytest
from every import every
from float_networks import FloatNet

import stepwell
from stepwell import InputError, UnsupportedError
from stepwell.analysis.compare import run_onnxruntime
from stepwell.quantizer import quantize_weights
from stepwell.quantizer.weights_only import BITS, BLOCKS, FORMS, Blocks, blocks_of

ROWS, COLUMNS, CLASSES = 70, 48, 33  # no multiples of a block


def network() -> onnx.ModelProto:
    """A MatMul, and two Gemm nodes of which one holds its matrix transposed."""
    net = FloatNet(0)
    h = net.op("Relu", net.op("MatMul", "x", net.weight(ROWS, COLUMNS)))
    h = net.op("Relu", net.op("Gemm", h, net.weight(COLUMNS, COLUMNS)))
    return net.model(net.op("Gemm", h, net.weight(CLASSES, COLUMNS), net.weight(CLASSES), transB=1), 3, ROWS)


def expected(model: onnx.ModelProto, x: np.ndarray, bits: int, block: int, zero_points: bool) -> np.ndarray:
    """The network's result by numpy, with the weights that the integers stand for."""
    w = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    first, second, third = (blocks_of(m, bits, block, zero_points=zero_points).floats() for m in (w["w0"], w["w1"], w["w2"].T))
    return np.maximum(np.maximum(x @ first, 0) @ second, 0) @ third + w["w3"]


@pytest.mark.parametrize("form", FORMS)
def test_engines_compute_with_what_the_integers_stand_for(form: str):
    """Sums have at most 70 terms, in f32."""
    model, x = network(), np.random.default_rng(1).standard_normal((3, ROWS)).astype(np.float32)
    for bits, (block, zero_points) in itertools.product(BITS, ((16, True), (32, False))):
        made = quantize_weights(model, bits=bits, block=block, zero_points=zero_points, form=form)
        onnx.checker.check_model(made)
        want = expected(model, x, bits, block, zero_points)
        for run in (lambda m: run_onnxruntime(m, {"x": x}), lambda m: stepwell.compile(m).run({"x": x})):
            [got] = run(made).values()
            assert np.abs(got - want).max() <= 500 * np.finfo(np.float32).eps * np.abs(want).max(), (bits, block, zero_points)


@every(("bits", "block", "zero_points"), list(itertools.product(BITS, BLOCKS, (False, True))))
def test_numbers_are_within_a_step_of_the_weights(bits: int, block: int, zero_points: bool):
    matrix = np.random.default_rng(block).normal(0.1, 1, (70, 5)).astype(np.float32)
    found = blocks_of(matrix, bits, block, zero_points=zero_points)
    assert found.scales.shape == (-(-70 // block), 5)
    assert found.numbers.max() < 1 << bits
    assert zero_points or (found.zeros == 1 << (bits - 1)).all()
    # The search may clip the ends of a block for finer steps in between.
    error = np.abs(found.floats() - matrix)
    steps = np.repeat(found.scales, block, axis=0)[:70]
    assert (error <= 0.5001 * steps).mean() > 0.9
    assert np.square(error).sum() <= np.square(plainly(matrix, bits, block, zero_points).floats() - matrix).sum() * (1 + 1e-6)


def plainly(matrix: np.ndarray, bits: int, block: int, zero_points: bool) -> Blocks:
    """By the range of each block, without a search."""
    padded = np.pad(matrix, ((0, -len(matrix) % block), (0, 0))).reshape(-1, block, matrix.shape[1])
    low, high, most = np.minimum(padded.min(1), 0), np.maximum(padded.max(1), 0), (1 << bits) - 1
    scales = (high - low) / most if zero_points else np.abs(padded).max(1) / (most // 2)
    zeros = np.rint(-low / scales) if zero_points else np.full(low.shape, 1 << (bits - 1))
    numbers = np.clip(np.rint(padded / scales[:, None]) + zeros[:, None], 0, most)
    return Blocks(numbers.astype(np.uint8), scales.astype(np.float32), zeros.astype(np.uint8), len(matrix))


def test_blocks_of_zeros():
    matrix = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    matrix[16:32] = 0
    for bits, zero_points in itertools.product(BITS, (False, True)):
        found = blocks_of(matrix, bits, 16, zero_points=zero_points)
        assert not found.floats()[16:32].any()
        assert np.isfinite(found.floats()).all()


def test_matrices_are_stored_small_and_some_are_left():
    model = network()
    made = quantize_weights(model, keep_float={"gemm2"})
    assert [node.op_type for node in made.graph.node] == ["MatMulNBits", "Relu", "Gemm", "Relu", "MatMulNBits", "Add"]
    stored = {tensor.name: tensor for tensor in made.graph.initializer}
    assert "w0" not in stored
    assert len(stored["w0_quantized"].raw_data) == COLUMNS * 3 * 16, "three blocks of 32 numbers, two in a byte"
    assert "w1" in stored


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bits": 3}, "bits: expected 4, 8, got 3"),
        ({"block": 48}, "block: expected 16, 32, 64, 128, got 48"),
        ({"form": "MatMul"}, "form: expected MatMulNBits, DequantizeLinear, got 'MatMul'"),
    ],
)  # fmt: skip
def test_options_that_are_none(given: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        quantize_weights(network(), **given)


def test_a_model_without_matrices():
    net = FloatNet(0)
    with pytest.raises(UnsupportedError, match="no weights to store in few bits"):
        quantize_weights(net.model(net.op("Conv", "x", net.weight(2, 3, 1, 1)), 1, 3, 4, 4))
