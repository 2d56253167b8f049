"""Convolutions whose windows reach far into the padding, compiled, against their definition."""

from dataclasses import dataclass, replace

import native_checks
import numpy as np
from covering import every_by_day
from every import running
from native_checks import Arrays, Check, natively_together
from onnx import helper, numpy_helper

import stepwell
from stepwell.dialects.graph import ConvOp

RANDOM = np.random.default_rng(37)


@dataclass(frozen=True)
class Layer:
    x: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...]
    pads: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    cut: bool = True
    """Whether taps are expected to be left out."""

    def window(self) -> dict[str, tuple[int, ...]]:
        ones = (1,) * len(self.kernel)
        return {"strides": self.strides or ones, "dilations": self.dilations or ones, "pads": self.pads}


LAYERS = {
    "dilated": Layer((1, 32, 15, 16), 48, (3, 3), (7, 7, 7, 7), dilations=(7, 7)),
    "only the middle ever reaches the image": Layer((2, 16, 7, 7), 16, (3, 3), (9, 9, 9, 9), dilations=(9, 9)),
    "a long window over a signal": Layer((1, 64, 12), 64, (40,), (20, 20), group=2),
    "by two, uneven": Layer((1, 16, 9, 5), 32, (13, 11), (9, 10, 12, 7), strides=(2, 1)),
    "three colours": Layer((1, 3, 8, 10), 16, (3, 3), (7, 7, 7, 7), dilations=(7, 7)),
    "volumes": Layer((1, 16, 8, 7, 9), 16, (3, 3, 3), (4, 4, 4, 4, 4, 4), dilations=(4, 4, 4)),
    "more padding than a window": Layer((1, 16, 3), 32, (2,), (5, 6)),
    "groups that share blocks": Layer((1, 32, 9, 9), 64, (3, 3), (5, 5, 5, 5), dilations=(5, 5), group=4),
    "channels that fill no block": Layer((1, 20, 9, 9), 40, (3, 3), (5, 5, 5, 5), dilations=(5, 5)),
    "a small border": Layer((1, 16, 16, 16), 16, (3, 3), (1, 1, 1, 1), strides=(2, 2), cut=False),
}


ONE, THREE = ([(name, images) for name in LAYERS] for images in (None, 3))


@natively_together
@every_by_day(("name", "images"), [*ONE, *THREE], [*ONE[::2], *THREE[1::2]])
def test_agrees_with_its_definition(name: str, images: int | None) -> None:
    """With the images that a layer has, and with three."""
    layer = LAYERS[name]
    check(layer if images is None else replace(layer, x=(images, *layer.x[1:])))


def check(layer: Layer) -> None:
    x = RANDOM.standard_normal(layer.x).astype(np.float32)
    w = RANDOM.standard_normal((layer.filters, layer.x[1] // layer.group, *layer.kernel)).astype(np.float32)
    bias = RANDOM.standard_normal(layer.filters).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["t"], group=layer.group, **layer.window()), helper.make_node("Relu", ["t"], ["y"])]
    per_filter = bias.reshape(-1, *[1] * len(layer.kernel)).astype(np.float64)
    want = np.maximum(ConvOp.reference(x.astype(np.float64), w.astype(np.float64), group=layer.group, **layer.window()) + per_filter, 0)
    scale = ConvOp.reference(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64), group=layer.group, **layer.window()) + np.abs(per_filter)
    value = helper.make_tensor_value_info
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")]
    net = helper.make_graph(nodes, "g", [value("x", 1, x.shape)], [value("y", 1, want.shape)], constants)
    proto = helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    limit = (w[0].size + 1) * np.finfo(np.float32).eps * scale
    assert ("packed.bordered_conv" in stepwell.lower(proto, "graph-opt").text()) == layer.cut

    def judge(got: Arrays) -> None:
        assert (np.abs(got["y"] - want) <= limit).all()

    native_checks.check(Check("-".join(running), proto, {"x": x}, judge, threads=(1, 2)))
