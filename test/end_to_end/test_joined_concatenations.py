"""Concatenations behind a free batch: of one image they are written in place by what makes their operands, of several they are copied."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from covering import by_day
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stepwell

BATCHES = (1, 3, 1, 2, 0, 1)


def network(seed: int) -> onnx.ModelProto:
    """Up to 14 random ops on images of 4x4 positions: convolutions, poolings, element-wise ops, softmax, and concatenations of whatever there is;
    what nobody reads, and now and then something else, is an output."""
    random = np.random.default_rng(seed)
    nodes: list[Any] = []
    weights: list[Any] = []
    channels: dict[str, int] = {"x": 8}

    def add(kind: str, inputs: Sequence[str], count: int, **attributes: Any) -> None:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        channels[name] = count

    def pick() -> str:
        names = list(channels)
        return names[-1 - min(len(names) - 1, int(random.exponential(1.5)))]

    for _ in range(int(random.integers(5, 15))):
        x = pick()
        match random.integers(8):
            case 0 | 1:
                count, w = int(8 * random.integers(1, 4)), f"w{len(weights)}"
                filters = random.standard_normal((count, channels[x], 1, 1)) / channels[x] ** 0.5
                weights.append(numpy_helper.from_array(filters.astype(np.float32), w))
                add("Conv", [x, w], count)
            case 2:
                add("MaxPool", [x], channels[x], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            case 3:
                add("Relu" if random.integers(2) else "Sigmoid", [x], channels[x])
            case 4:
                add("Softmax", [x], channels[x], axis=-1)
            case 5:
                alike = [name for name, count in channels.items() if count == channels[x]]
                add("Add", [x, alike[int(random.integers(len(alike)))]], channels[x])
            case _:
                others = [pick() for _ in range(int(random.integers(1, 3)))]
                add("Concat", [x, *others], sum(channels[name] for name in (x, *others)), axis=1)
    read = {name for node in nodes for name in node.input}
    results = [name for name in list(channels)[1:] if name not in read or random.integers(8) == 0]
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", count, 4, 4]) for name, count in channels.items()}
    graph = helper.make_graph(nodes, "g", [infos["x"]], [infos[name] for name in results], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


WITH_SOME = [1, 3, 25, 32]
"""Networks in which something is joined."""


DAY = [0, 2, 4, 10, 18, *WITH_SOME]
"""Together they take every path through the compiler that any of the 40 takes."""


@pytest.mark.parametrize("seed", by_day(range(40), DAY))
def test_random_networks(seed: int) -> None:
    source = network(seed)
    general, right = stepwell.compile(source, specialise="never", threads=1), ReferenceEvaluator(source)
    for turn, count in enumerate(BATCHES):
        x = np.random.default_rng([seed, turn]).standard_normal((count, 8, 4, 4)).astype(np.float32)
        for name, expected, found in zip(general.outputs, right.run(None, {"x": x}), general(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(initial=1.0), err_msg=f"{name}, {count} images")


def joined(source: onnx.ModelProto) -> int:
    """How many buffers lie inside others in runs with one image."""
    return stepwell.lower(source, "affine", specialise="never").state.statistics["joined buffers"]


def test_random_networks_have_some() -> None:
    assert all(joined(network(seed)) for seed in WITH_SOME)


def chain(*nodes: str) -> onnx.ModelProto:
    """A network of such nodes from an input `x` of 16 channels to an output `y`."""
    text = f"g (float[n, 16, 6, 6] x) => (float[n, c, 6, 6] y) {{ {' '.join(nodes)} }}"
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')


POOL, JOIN = "MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]>", "Concat <axis = 1>"


def test_what_is_joined() -> None:
    a, b = f"a = {POOL} (x)", f"b = {POOL} (a)"
    assert joined(chain(a, b, f"c = {JOIN} (a, b)", f"y = {POOL} (c)")) == 2
    # The result of the first is an operand of the second.
    assert joined(chain(a, b, f"c = {JOIN} (a, b)", f"d = {POOL} (c)", f"e = {JOIN} (c, d)", f"y = {POOL} (e)")) == 4


def test_what_is_not() -> None:
    a, b = f"a = {POOL} (x)", f"b = {POOL} (a)"
    assert not joined(chain(a, b, f"y = {JOIN} (a, b)"))  # the caller's memory
    assert not joined(chain(a, f"c = {JOIN} (x, a)", f"y = {POOL} (c)"))
    # One buffer cannot be part of two: the second is copied.
    assert joined(chain(a, b, f"c = {JOIN} (a, b)", f"d = {JOIN} (b, a)", f"e = {POOL} (c)", f"f = {POOL} (d)", f"y = {JOIN} (e, f)")) == 2
