"""The zoo's networks are what their names say, have no constant weights, and give scores that a comparison can use."""

from collections import Counter
from functools import cache
from math import prod

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import networks
from networks.light import LIGHT_NAMES, light_model

# Vgg19, alexnet and zfnet512 have hundreds of megabytes of weights: their structure is the light model's, and the networks' own tests run them.
CHEAP = ["densenet121", "shufflenet", "squeezenet", "inceptionv1", "inceptionv2", "mobilenetv2", "resnet50v2"]


build = cache(networks.build)
"""A network, made once for all tests that only look at it."""


def weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT}


def test_there_are_eleven():
    names = "vgg19 alexnet densenet121 shufflenet squeezenet resnet50v1 inceptionv1 inceptionv2 zfnet512 resnet50v2 mobilenetv2"
    assert set(networks.NETWORKS) == set(names.split())


@pytest.mark.parametrize("name", CHEAP)
def test_weights_are_random_and_of_the_right_size(name):
    for tensor, array in weights(build(name)).items():
        if array.ndim == 0:  # the bounds of a Clip
            continue
        assert np.isfinite(array).all(), tensor
        assert np.unique(array).size > 0.9 * min(array.size, 1 << 20), tensor
        if array.size > 10_000:
            # He: the deviation is sqrt(2 / fan-in), up to the gains of branch ends and classifiers.
            fan_in = array.shape[-1] if "classifier" in tensor else prod(array.shape[1:])
            assert 0.1 < array.std() / np.sqrt(2 / fan_in) < 1.5, tensor


@pytest.mark.parametrize("name", CHEAP)
def test_variances_are_positive(name):
    model = build(name)
    values = weights(model)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            variance = values[node.input[4]]
            assert variance.min() >= 0.5
            assert variance.max() <= 1.5


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "mobilenetv2"])
def test_bytes_depend_on_the_seed_only(name):
    first = networks.build(name, seed=3).SerializeToString(deterministic=True)
    assert first == networks.build(name, seed=3).SerializeToString(deterministic=True)
    assert first != networks.build(name, seed=4).SerializeToString(deterministic=True)


@pytest.mark.parametrize("name", ["densenet121", "shufflenet", "squeezenet", "inceptionv1", "inceptionv2"])
def test_light_networks_keep_their_structure(name):
    assert name in LIGHT_NAMES
    expected = Counter(node.op_type for node in light_model(name).graph.node)
    del expected["ConstantOfShape"]
    model = build(name)
    assert Counter(node.op_type for node in model.graph.node) == expected
    assert [i.name for i in model.graph.input if "data" in i.name] == [i.name for i in model.graph.input]
    assert len(model.graph.input) == 1


def test_resnet50v2_is_preactivated_and_has_53_convolutions():
    model = build("resnet50v2")
    count = Counter(node.op_type for node in model.graph.node)
    assert (count["Conv"], count["Add"], count["Relu"], count["BatchNormalization"], count["Gemm"]) == (53, 16, 50, 51, 1)
    producer = {node.output[0]: node for node in model.graph.node}
    for node in model.graph.node:
        if node.op_type == "Conv" and node.name.startswith("stage"):
            assert producer[node.input[0]].op_type == "Relu"
            assert producer[producer[node.input[0]].input[0]].op_type == "BatchNormalization"
        if node.op_type == "Add":
            assert producer[node.input[0]].op_type == "Conv"
    assert sum(array.size for array in weights(model).values()) == pytest.approx(25.6e6, rel=0.01)


def test_mobilenetv2_has_17_depthwise_convolutions():
    model = build("mobilenetv2")
    values = weights(model)
    groups = [next(a.i for a in node.attribute if a.name == "group") for node in model.graph.node if node.op_type == "Conv"]
    assert len(groups) == 52
    assert sum(group > 1 for group in groups) == 17
    assert sum(node.op_type == "Add" for node in model.graph.node) == 10
    assert sum(array.size for array in values.values()) == pytest.approx(3.5e6, rel=0.02)


@pytest.mark.parametrize("name", CHEAP)
def test_scores_can_be_compared(zoo, name):
    """Spread, not saturated, and different for different images by much more than the 1e-4 that results are compared to."""
    session = onnxruntime.InferenceSession(str(zoo(name)), providers=["CPUExecutionProvider"])
    first, second = (session.run(None, {session.get_inputs()[0].name: networks.image(seed)})[0].ravel() for seed in (0, 1))
    assert first.shape == (1000,)
    assert np.isfinite(first).all()
    scale = np.abs(first).max()
    assert np.abs(first - second).max() > 0.01 * scale
    assert first.std() > 0.01 * scale
    if first.min() >= 0:  # a softmax
        assert 0.01 < first.max() < 0.5
    best = np.sort(first)[-2:]
    assert best[1] - best[0] > 2e-4 * scale
