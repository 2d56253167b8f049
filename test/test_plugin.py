"""The example plugin: one file adds an operator, from import to native code."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import stepwell
from stepwell.plugins import load_file

PLUGIN = Path(__file__).resolve().parent.parent / "examples" / "soft_shrink" / "soft_shrink.py"


def model():
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"], name="double"),
        helper.make_node("SoftShrink", ["twice"], ["y"], name="shrink", domain="com.example", amount=0.75),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [3, 37])], [value("y", TensorProto.FLOAT, [3, 37])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)], ir_version=9)


def test_one_file_adds_an_operator():
    load_file(str(PLUGIN))
    compiled = stepwell.compile(model(), threads=1)
    x = np.random.default_rng(3).standard_normal((3, 37)).astype(np.float32)
    twice = 2 * x
    want = np.where(twice > 0.75, twice - np.float32(0.75), np.where(twice < -0.75, twice + np.float32(0.75), np.float32(0)))
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], want)
    assert compiled.kernels == 1, "the element-wise ops are fused"


def test_the_reference_says_the_same():
    load_file(str(PLUGIN))
    from stepwell.dialects.graph.evaluate import evaluate

    imported = stepwell.lower(onnx.load_from_string(model().SerializeToString()), "graph")
    x = np.random.default_rng(4).standard_normal((3, 37)).astype(np.float32)
    got = stepwell.compile(model(), threads=1).run({"x": x})["y"]
    np.testing.assert_array_equal(evaluate(imported.module, imported.weights, {"x": x})["y"], got)
