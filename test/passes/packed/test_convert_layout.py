"""Chains of grouped convolutions and shuffles stay blocked, and mean what they meant."""

from collections.abc import Callable

import numpy as np
import pytest

import stepwell.passes.graph  # noqa: F401  (registers the passes)
from stepwell.dialects.core.mlir import func, ir, make_context, ops_below
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner

PLAIN = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
Build = Callable[["Net", ir.Value], ir.Value]


class Net:
    """Builds convolutions with random filters."""

    def __init__(self, b: GraphBuilder) -> None:
        self.b, self.rng = b, np.random.default_rng(3)

    def conv(self, x: ir.Value, filters: int, kernel: int = 1, group: int = 1, stride: int = 1) -> ir.Value:
        w = self.rng.standard_normal((filters, x.type.shape[1] // group, kernel, kernel))
        return self.b.conv(x, self.b.weight("w", w), group=group, **{**PLAIN, "strides": (stride, stride)})

    def shuffle(self, x: ir.Value, group: int) -> ir.Value:
        n, c, h, w = x.type.shape
        parts = self.b.reshape(x, shape=(n, group, c // group, h, w))
        return self.b.reshape(self.b.transpose(parts, perm=(0, 2, 1, 3, 4)), shape=(n, c, h, w))

    def around(self, x: ir.Value) -> ir.Value:
        return self.b.pad(x, low=(0, 0, 1, 1), high=(0, 0, 1, 1), mode="constant", value=0.0)

    def unit(self, x: ir.Value, filters: int, group: int, stride: int = 1) -> ir.Value:
        """ShuffleNet's: the second convolution's groups read from all groups of the first."""
        y = self.shuffle(self.b.relu(self.conv(x, filters, group=group)), group)
        return self.conv(self.conv(self.around(y), filters, 3, group=filters, stride=stride), filters, group=group)


def shufflenet(net: Net, x: ir.Value) -> ir.Value:
    b = net.b

    def halved(x):
        return b.avg_pool(net.around(x), kernel=(3, 3), **{**PLAIN, "strides": (2, 2)}, ceil_mode=False, count_include_pad=True)

    x = net.conv(x, 12)
    x = b.relu(b.concat([net.unit(x, 30, 3, stride=2), halved(x)], axis=1))
    x = b.relu(b.add(net.unit(x, 42, 3), x))
    x = b.relu(b.concat([net.unit(x, 42, 3, stride=2), halved(x)], axis=1))
    return b.relu(b.add(x, net.unit(x, 84, 3)))


def groups_of_several_blocks(net: Net, x: ir.Value) -> ir.Value:
    return net.conv(net.b.relu(net.conv(net.conv(x, 32, 3), 64, 3, group=2)), 32, group=4)


def shuffle_between_plain_convolutions(net: Net, x: ir.Value) -> ir.Value:
    return net.conv(net.shuffle(net.b.relu(net.conv(x, 24)), 4), 16)


def dense_before_groups(net: Net, x: ir.Value) -> ir.Value:
    return net.conv(net.shuffle(net.conv(x, 64), 4), 64, group=4)


def normalised(net: Net, x: ir.Value) -> ir.Value:
    def lrn(x: ir.Value, size: int) -> ir.Value:
        return net.b.lrn(x, size=size, alpha=2.0, beta=0.75, bias=0.5)

    x = net.b.max_pool(lrn(net.conv(x, 32), 5), kernel=(2, 2), **PLAIN, ceil_mode=False)
    return net.conv(lrn(net.conv(x, 26, group=2), 4), 16)


BUILDS = [shufflenet, groups_of_several_blocks, shuffle_between_plain_convolutions, dense_before_groups, normalised]


@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("build", BUILDS)
def test_chains_stay_blocked(build, block):
    argument = TensorType("f64", (2, 3, 8, 10))
    weights = WeightTable()
    with make_context(), ir.Location.name("test"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get([argument.to_mlir()], []))
            entry = main.add_entry_block()
        with ir.InsertionPoint(entry):
            result = build(Net(GraphBuilder(weights)), entry.arguments[0])
            func.ReturnOp([result])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([argument.to_mlir()], [result.type]))
        inputs = {"input0": np.random.default_rng(4).standard_normal(argument.shape)}
        (want,) = evaluate(module, weights, inputs).values()
        PassRunner(PassState(weights=weights)).run(module, f"convert-layout{{block={block}}},canonicalize")
        (got,) = evaluate(module, weights, inputs).values()
        names = [op.name for op in ops_below(module.operation)]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-11 * np.abs(want).max())
    assert "graph.conv" not in names
    assert names.count("graph.transpose") == 1  # the result's
    # Channels move where 30 and 12 become 3 groups of 14, and where twice 3 groups of 14 become 3 of 28.
    # Channels in 2 groups of 13, of one block each, are brought into one row for the normalisation.
    assert names.count("packed.relayout") == 2 * (build is shufflenet) + (build is normalised)
