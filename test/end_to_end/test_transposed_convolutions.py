"""Transposed convolutions, compiled by phases, against their definition: every kind of overlap of windows, cut edges, groups, layouts between."""

import itertools
from dataclasses import dataclass

import numpy as np
from covering import every_by_day
from every import running
from native_checks import Arrays, Check, check, natively_together
from onnx import helper, numpy_helper

import stepwell

RANDOM = np.random.default_rng(31)


@dataclass(frozen=True)
class Layer:
    x: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...] = ()
    group: int = 1
    extra: tuple[int, ...] = ()


def defined(x: np.ndarray, w: np.ndarray, layer: Layer) -> np.ndarray:
    """Each element adds a multiple of the filters where it stands, in f64."""
    spatial, each = len(layer.kernel), w.shape[1]
    dilations, extra = layer.dilations or (1,) * spatial, layer.extra or (0,) * spatial
    numbers = zip(x.shape[2:], layer.kernel, layer.strides, dilations, extra, strict=True)
    sizes = [s * (n - 1) + d * (k - 1) + 1 + e for n, k, s, d, e in numbers]
    full = np.zeros((x.shape[0], each * layer.group, *sizes))
    per_group = x.shape[1] // layer.group
    for place in itertools.product(*map(range, x.shape[2:])):
        for tap in itertools.product(*map(range, layer.kernel)):
            at = tuple(i * s + t * d for i, s, t, d in zip(place, layer.strides, tap, dilations, strict=True))
            for g in range(layer.group):
                mine = slice(g * per_group, (g + 1) * per_group)
                full[(slice(None), slice(g * each, (g + 1) * each), *at)] += x[(slice(None), mine, *place)] @ w[(mine, slice(None), *tap)].astype(
                    float
                )
    ends = zip(layer.pads[:spatial], layer.pads[spatial:], sizes, strict=True)
    return full[(slice(None), slice(None), *(slice(low, n - high) for low, high, n in ends))]


LAYERS = {
    "windows that touch": Layer((1, 24, 5, 4), 32, (2, 2), (2, 2), (0, 0, 0, 0)),
    "two taps a phase, cut at both ends": Layer((1, 16, 9), 16, (16,), (8,), (4, 4)),
    "a small image, phases apart": Layer((2, 16, 4, 3), 32, (4, 4), (2, 2), (1, 1, 1, 1)),
    "phases of one and of two taps": Layer((1, 20, 5, 6), 16, (3, 3), (2, 2), (1, 1, 1, 1), extra=(1, 1)),
    "several phases of each kind": Layer((1, 8, 11), 24, (8,), (5,), (2, 1)),
    "kinds in the inner dimension": Layer((1, 8, 6, 5), 16, (4, 3), (2, 2), (1, 0, 1, 1)),
    "one position": Layer((2, 12, 1, 1), 32, (4, 3), (1, 1), (0, 0, 0, 0)),
    "one position, cut, and zeros after": Layer((1, 12, 1), 16, (5,), (3,), (1, 0), extra=(2,)),
    "stride 1": Layer((1, 16, 7, 6), 16, (3, 3), (1, 1), (1, 0, 2, 1)),
    "dilated": Layer((1, 16, 7), 16, (3,), (2,), (1, 2), dilations=(3,)),
    "gaps": Layer((1, 8, 4), 16, (2,), (3,), (0, 1)),
    "dilated with gaps": Layer((1, 8, 5), 16, (3,), (2,), (1, 1), dilations=(2,)),
    "groups": Layer((1, 32, 6, 5), 32, (4, 4), (2, 2), (1, 1, 1, 1), group=2),
    "groups of several kinds": Layer((1, 32, 6), 32, (3,), (2,), (1, 1), group=2),
    "by channel": Layer((1, 16, 5, 4), 1, (4, 4), (2, 2), (1, 1, 1, 1), group=16),
    "by channel, stride 1": Layer((1, 16, 5, 4), 1, (3, 3), (1, 1), (1, 1, 1, 1), group=16),
    "three colours": Layer((1, 16, 6, 5), 3, (4, 4), (2, 2), (1, 1, 1, 1)),
    "no whole blocks": Layer((2, 7, 5, 4), 21, (4, 4), (2, 2), (0, 1, 1, 0)),
    "volumes": Layer((1, 8, 3, 2, 4), 16, (2, 3, 4), (2, 1, 2), (0, 1, 1, 0, 1, 1)),
    "cut along a dimension without a stride": Layer((1, 8, 6, 5), 16, (3, 4), (1, 2), (1, 2, 2, 1)),
    "more cut than a stride": Layer((1, 8, 9), 16, (12,), (4,), (5, 7)),
}


BY_PHASES = [(name, ()) for name in LAYERS]
SPREAD_OUT = [(name, ("use-sub-pixels",)) for name in LAYERS]
DAY = [*BY_PHASES, *SPREAD_OUT[:3], *(case for case in SPREAD_OUT if "kinds" in case[0] or "gaps" in case[0] or "stride 1" in case[0])]


@natively_together
@every_by_day(("name", "disable"), [*BY_PHASES, *SPREAD_OUT], DAY)
def test_agrees_with_its_definition(name: str, disable: tuple[str, ...]) -> None:
    layer = LAYERS[name]
    channels, each = layer.x[1], layer.filters // (layer.group if layer.filters > 1 else 1)
    x = RANDOM.standard_normal(layer.x).astype(np.float32)
    w = RANDOM.standard_normal((channels, each, *layer.kernel)).astype(np.float32)
    bias = RANDOM.standard_normal(each * layer.group).astype(np.float32)
    optional = {"dilations": layer.dilations, "output_padding": layer.extra}
    attributes = {"strides": layer.strides, "pads": layer.pads, "group": layer.group, **{k: v for k, v in optional.items() if v}}
    nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["t"], **attributes), helper.make_node("Relu", ["t"], ["y"])]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")]
    per_filter = bias.reshape(-1, *[1] * len(layer.kernel))
    want = np.maximum(defined(x, w, layer) + per_filter, 0)
    value = helper.make_tensor_value_info
    net = helper.make_graph(nodes, "g", [value("x", 1, x.shape)], [value("y", 1, want.shape)], constants)
    proto = helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    terms = channels // layer.group * int(np.prod(layer.kernel)) + 1
    limit = terms * np.finfo(np.float32).eps * (defined(np.abs(x), np.abs(w), layer) + np.abs(per_filter))

    def judge(got: Arrays) -> None:
        assert (np.abs(got["y"] - want) <= limit).all()

    check(Check("-".join(running), proto, {"x": x}, judge, (("disable", disable),), threads=(1, 2)))


def test_zeros_between_taps_are_not_multiplied() -> None:
    """An infinity reaches the positions whose windows hold it, and no other."""
    x = RANDOM.standard_normal((1, 16, 6, 5)).astype(np.float32)
    x[0, 3, 2, 2] = np.inf
    w = np.abs(RANDOM.standard_normal((16, 16, 3, 3))).astype(np.float32)
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])]
    value = helper.make_tensor_value_info
    net = helper.make_graph(nodes, "g", [value("x", 1, x.shape)], [value("y", 1, (1, 16, 12, 10))], [numpy_helper.from_array(w, "w")])
    model = stepwell.compile(helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    (got,) = model(x)
    reached = np.zeros((12, 10), bool)
    reached[3:6, 3:6] = True
    np.testing.assert_array_equal(np.isinf(got[0]), np.broadcast_to(reached, (16, 12, 10)))
    assert not np.isnan(got).any()
