"""What is quantised only to be dequantised, natively: the same bits as with each op on its own, for every byte."""

from typing import Any

import numpy as np
import pytest
from every import every
from native_checks import Arrays, check_model, natively_together
from quantized_networks import F, Net

import stepwell
from stepwell.dialects.core.mlir import func, ir, make_context
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder
from stepwell.passes.graph.quantization.few_values import few_values

CHANNELS = 24
FACTORS = np.array([[1], [-2], [0.5]], F)


def chain(net: Net) -> str:
    """A batch norm as ONNX Runtime's quantiser leaves it, each op with a quantisation of its own; one scale is twice another."""
    low = -128 if net.activations is np.int8 else 0
    x = net.quantised("x", 0.02, low + 100)
    factor, shift = net.rng.uniform(-2, 2, (1, CHANNELS, 1, 1)), net.rng.normal(0, 1, (1, CHANNELS, 1, 1))
    x = net.quantised(net.op("Mul", [x, net.weight(factor.astype(F))]), 0.037, low + 90)
    x = net.quantised(net.op("Add", [x, net.weight(shift.astype(F))]), 0.041, low + 131)
    x = net.quantised(net.op("Neg", [x]), 0.082, low + 77)
    return net.quantised(net.op("Relu", [x]), 0.0311, low)


@natively_together
@every("target", ["x86-64-v2", "x86-64-v3", "host"])
@every("activations", [np.uint8, np.int8])
def test_every_byte_gives_the_same_bits(activations: Any, target: str) -> None:
    net = Net(3, activations)
    made = net.model(chain(net), (1, CHANNELS, 16, 16))
    x = np.broadcast_to(((np.arange(256) - 100) * F(0.02)).reshape(1, 1, 16, 16), (1, CHANNELS, 16, 16)).astype(F)
    lowered = stepwell.lower(made, "graph-opt", target=target).text()
    assert lowered.count("graph.fake_quantize") == 5
    assert lowered.count("graph.div") == 2, "of the first, which may be of any float, and of that with ties"
    first: dict[str, np.ndarray] = {}

    def judge(got: Arrays) -> None:
        assert len(np.unique(got["y"])) > 50
        np.testing.assert_array_equal(got["y"], first.setdefault("y", got["y"]))

    check_model(made, {"x": x}, judge, threads=[1], target=target, disable=("use-fake-quantize",))
    check_model(made, {"x": x}, judge, threads=(1, 2), target=target)


def test_few_values_are_all_values() -> None:
    """What the analysis says of a value is what its op gives for each byte, channel by channel."""
    with make_context(), ir.Location.name("n"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            block = func.FuncOp("main", ir.FunctionType.get([TensorType("i8", (2, 3, 4)).to_mlir()], [])).add_entry_block()
            with ir.InsertionPoint(block):
                b, (x,) = GraphBuilder(WeightTable()), block.arguments
                scale, zero, factor = (b.weight(n, a) for n, a in (("s", np.array(0.3, F)), ("z", np.array(-5, np.int8)), ("f", FACTORS)))
                y = b.mul(b.dequantize(x, scale, zero), factor)
                whole = b.fake_quantize(b.exp(y), b.weight("u", np.array(9, np.uint8)))
                found, rounded, none = (few_values(v, b.weights) for v in (y, b.add(whole, factor), b.exp(y)))
    assert found is not None
    numbers = np.arange(-128, 128)
    np.testing.assert_array_equal(found[:, 0, :, 0], ((numbers + 5).astype(F) * F(0.3))[:, None] * FACTORS[:, 0])
    assert rounded is not None
    np.testing.assert_array_equal(rounded[:, 0, :, 0], (np.arange(256) - 9).astype(F)[:, None] + FACTORS[:, 0])
    assert none is None, "exponentials are not the same everywhere"


def test_few_values_of_two_bytes_are_those_of_all_pairs() -> None:
    """Also where the operands have different ranks."""
    with make_context(), ir.Location.name("n"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            inputs = [TensorType("i8", (2, 3)).to_mlir(), *[TensorType("ui8", (3,)).to_mlir()] * 2]
            block = func.FuncOp("main", ir.FunctionType.get(inputs, [])).add_entry_block()
            with ir.InsertionPoint(block):
                b, (x, y, z) = GraphBuilder(WeightTable()), block.arguments
                scale, zero, other = b.weight("s", np.array(0.3, F)), b.weight("z", np.array(-5, np.int8)), b.weight("u", np.array(9, np.uint8))
                long, short = b.dequantize(x, scale, zero), b.dequantize(y, scale, other)
                found = few_values(b.relu(b.sub(long, short)), b.weights)
                three = few_values(b.add(b.add(long, short), b.dequantize(z, scale, other)), b.weights)
    assert found is not None
    assert found.shape == (1 << 16, 1, 1)
    first, second = (np.arange(-128, 128) + 5).astype(F) * F(0.3), (np.arange(256) - 9).astype(F) * F(0.3)
    np.testing.assert_array_equal(found.reshape(256, 256), np.maximum(first[:, None] - second, 0))
    assert three is None, "there are too many"


@pytest.mark.parametrize("activations", [np.uint8, np.int8])
def test_sums_of_two_bytes_are_quantised_to_the_same_bits(activations: Any) -> None:
    """The end of a residual block: all pairs of bytes, natively, as with a quotient."""
    net = Net(8, activations)
    low = -128 if activations is np.int8 else 0
    other = net.op("Sub", [net.op("Transpose", ["x"]), net.weight(np.array(137, F))])
    first, second = net.quantised("x", 1, low + 3), net.quantised(other, 1, low + 140)
    added = net.op("Add", [net.op("Mul", [first, net.weight(F(0.0213))]), net.op("Mul", [second, net.weight(F(0.0371))])])
    made = net.model(net.quantised(net.op("Relu", [added]), 0.0173, low), (256, 1))
    x = (np.arange(256) - 3).astype(F).reshape(256, 1)
    assert stepwell.lower(made, "graph-opt").text().count("graph.div") == 0
    want = stepwell.compile(made, disable=["use-fake-quantize"], threads=1).run({"x": x})["y"]
    assert want.shape == (256, 256)
    assert len(np.unique(want)) > 100
    np.testing.assert_array_equal(stepwell.compile(made, threads=2).run({"x": x})["y"], want)
