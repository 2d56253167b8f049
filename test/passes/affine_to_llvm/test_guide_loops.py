"""Large loops, dealt out in chunks: every iteration is run once, by whichever thread, and gives what it gives on one thread."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell import Pipeline

RANDOM = np.random.default_rng(29)
GUIDED = Pipeline.default().replace("guide-loops", "guide-loops{work=100000}")  # by default such small loops have equal shares


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def network(rows: int | str) -> onnx.ModelProto:
    """A product, of which no number of rows or panels is a multiple of another, and what lies behind it; rows may be free."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["t"]), helper.make_node("MatMul", ["t", "v"], ["y"])]
    value = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(array(301, 517), "w"), numpy_helper.from_array(array(517, 89), "v")]
    given, made = [value("x", TensorProto.FLOAT, [rows, 301])], [value("y", TensorProto.FLOAT, [rows, 89])]
    graph = helper.make_graph(nodes, "products", given, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolution(rows: int | str) -> onnx.ModelProto:
    """Dimensions of channels and rows are dealt out together; the number of images may be free."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    value = helper.make_tensor_value_info
    given, made = [value("x", TensorProto.FLOAT, [rows, 19, 61, 43])], [value("y", TensorProto.FLOAT, [rows, 56, 31, 22])]
    graph = helper.make_graph([node], "convolution", given, made, [numpy_helper.from_array(array(56, 19, 3, 3), "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("free", [False, True], ids=["known", "free"])
@pytest.mark.parametrize(("make", "shape", "terms"), [(network, (123, 301), 818), (convolution, (3, 19, 61, 43), 171)], ids=["product", "conv"])
def test_any_number_of_threads_gives_the_same(make, shape, terms, free):
    model = make("n" if free else shape[0])
    compiled = stepwell.compile(model, threads=1, pipeline=GUIDED)
    assert "schedule(guided" in compiled.ir("llvm")
    x = array(*shape)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (alone,) = compiled(x)
    np.testing.assert_allclose(alone, want, rtol=0, atol=terms * np.finfo(np.float32).eps * np.abs(want).max())
    for threads in (3,) if free else (2, 3):
        if free:  # a program for all sizes keeps the number that it was made for
            compiled = stepwell.compile(model, threads=threads, pipeline=GUIDED)
        else:
            compiled.threads = threads
        for _ in range(20):
            (got,) = compiled(x)
            np.testing.assert_array_equal(got, alone)


def test_small_loops_have_equal_shares():
    small = stepwell.compile(network(31), threads=2)
    assert "omp.wsloop" in small.ir("llvm")
    assert "guided" not in small.ir("llvm")


def test_it_can_be_switched_off():
    on, off = (stepwell.compile(network(1230), threads=2, disable=names).ir("llvm") for names in ([], ["guide-loops"]))
    assert "schedule(guided" in on
    assert "omp.wsloop" in off
    assert "guided" not in off
