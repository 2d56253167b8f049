"""Passes that can be switched off: what the pipelines become, and that the code stays right."""

from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
from kept_kernels import kept_kernels
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.support.errors import InputError
from stepwell.passes.framework import registry
from stepwell.passes.framework.registry import Pass, register_pass
from stepwell.pipelines.pipeline import Pipeline

SWITCHES = Pipeline.default().switches()
RANDOM = np.random.default_rng(3)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def network():
    """Convolution, batch normalisation, ReLU, a sum: something for each switch."""
    weights = {"w": array(6, 3, 3, 3), "s": array(6), "b": array(6), "m": array(6), "v": np.abs(array(6)) + 0.5, "y": array(1, 6, 7, 5)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Add", ["r", "y"], ["z"]),
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, [1, 3, 7, 5])], [value("z", TensorProto.FLOAT, [1, 6, 7, 5])]
    graph = helper.make_graph(nodes, "some", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def kernels_cache(tmp_path_factory):
    """Most switches leave kernels of the network as they are: each is compiled once."""
    with kept_kernels(tmp_path_factory.mktemp("cache")):
        yield


@pytest.mark.usefixtures("kernels_cache")
@pytest.mark.parametrize("disable", [*([name] for name in SWITCHES), list(SWITCHES)], ids="+".join)
def test_the_code_is_right_without(network, disable):
    x = array(1, 3, 7, 5)
    (want,) = onnxruntime.InferenceSession(network.SerializeToString()).run(None, {"x": x})
    (got,) = stepwell.compile(network, threads=1, disable=disable)(x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_folding_and_fusion_are_off(network):
    def kernels(*disable):
        return stepwell.lower(network, "graph-opt", disable=disable).text().count("func.func private")

    assert '"graph.batch_norm"' not in stepwell.lower(network, "graph-opt").text()
    assert '"graph.batch_norm"' in stepwell.lower(network, "graph-opt", disable=["fold-batch-norm"]).text()
    assert kernels("fuse-operators") > kernels()


def test_what_can_be_switched_off_and_what_strict_code_does_without():
    assert SWITCHES == {
        "simplify-algebra": "simplify-algebra", "fold-batch-norm": "fold-batch-norm",
        "use-recurrences": "use-recurrences", "hoist-from-loops": "hoist-from-loops", "check-indices": "check-indices",
        "use-sub-pixels": "use-sub-pixels", "use-products": "use-products", "convert-layout": "convert-layout", "unmasked-lanes": "convert-layout",
        "fuse-attention": "fuse-attention", "use-winograd": "use-winograd", "use-integer-winograd": "use-integer-winograd",
        "skip-padding": "skip-padding", "pack-matmul": "pack-matmul", "slice-floats": "pack-matmul",
        "narrow-products": "narrow-products", "pack-integer-products": "pack-integer-products",
        "separate-zero-points": "separate-zero-points", "use-integers": "use-integers", "widen-halves": "widen-halves",
        "use-fake-quantize": "use-fake-quantize",
        "fuse-operators": "fuse-operators", "fuse-producers": "fuse-operators",
        "fill-borders": "fill-borders", "collapse-dimensions": "collapse-dimensions",
        "version-winograd": "version-winograd", "version-few-rows": "version-few-rows", "version-kernels": "version-kernels",
        "fuse-loops": "fuse-loops", "version-tiles": "version-tiles",
        "expand-math": "expand-math", "select-bounds": "select-bounds", "guide-loops": "guide-loops", "limit-unrolling": "limit-unrolling",
        "round-in-conversion": "round-in-conversion", "hide-indices": "hide-indices",
    }  # fmt: skip
    assert Pipeline.default().relaxed() == ("unmasked-lanes", "use-winograd", "slice-floats")


def test_without_leaves_passes_out_and_changes_options(monkeypatch):
    monkeypatch.setattr(registry, "_PASSES", registry.passes())

    @register_pass("one", level="graph", optional=True)
    @dataclass
    class One(Pass):
        pass

    @register_pass("two", level="graph", switches={"fast": "speed=0", "small": "size={1 2}"})
    @dataclass
    class Two(Pass):
        speed: int = 9
        size: tuple[str, ...] = ()

    def graph_opt(pipeline: Pipeline) -> str:
        return pipeline.stage("graph-opt").text

    pipeline = Pipeline.parse("graph-opt(one,func.func(one,func.func(one)),two{speed=3},cse)", base=Pipeline.default())
    assert list(pipeline.switches().items())[:3] == [("one", "one"), ("fast", "two"), ("small", "two")]
    assert pipeline.without(()) == pipeline
    assert graph_opt(pipeline.without(["one"])) == "two{speed=3},cse"
    assert graph_opt(pipeline.without(["fast"])) == "one,func.func(one),func.func(func.func(one)),two{speed=0},cse"
    assert graph_opt(pipeline.without(["small", "one"])) == "two{speed=3 size={1 2}},cse"


@pytest.mark.parametrize(
    ("disable", "message"),
    [(["fold-batchnorm"], "did you mean 'fold-batch-norm'"), (["outline-kernels"], "cannot be switched off"), ("fuse-operators", "got a string")],
)
def test_what_cannot_be_switched_off_is_said(network, disable, message):
    with pytest.raises(InputError, match=message):
        stepwell.compile(network, disable=disable)


def test_free_dimensions_keep_what_is_off(network):
    free = type(network)()
    free.CopyFrom(network)
    for value in (free.graph.input[0], free.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    model = stepwell.compile(free, disable=["fold-batch-norm"])
    compiled = model.specialise({"x": (2, 3, 7, 5)})
    assert '"graph.batch_norm"' in compiled.ir("graph-opt")
