"""Whole networks: the zoo against ONNX Runtime at one and two threads, the light models against the outputs they ship with."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from covering import by_day
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR
from onnx.backend.test.runner import Runner

import networks
import stepwell
from stepwell.analysis.memory import memory_plan

pytestmark = pytest.mark.optimised

TOLERANCE = 1e-4  # of the output's scale: the largest difference over the largest value
AT_NIGHT = (
    "alexnet", "densenet121", "inceptionv1", "inceptionv2", "mobilenetv2", "resnet50v1", "vgg19", "zfnet512",
    "light_densenet121", "light_inception_v1", "light_inception_v2", "light_resnet50", "light_shufflenet", "light_squeezenet", "light_vgg19",
    "light_zfnet512",
)  # fmt: skip
"""By day there is one network of each family, as itself or as a light model, but those of densenet and inception, whose concatenations squeezenet has
too, zfnet and vgg, which are like alexnet, and mobilenet, which has depthwise convolutions as shufflenet has."""
LIGHT = sorted(p.stem for p in (Path(DATA_DIR) / "light").glob("light_*.onnx"))


def scaled_error(got, want):
    return np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()


@pytest.mark.zoo
@pytest.mark.parametrize("name", by_day(networks.NETWORKS, lambda name: name not in AT_NIGHT))
def test_network(zoo, name):
    """It agrees with ONNX Runtime, and its workspace is near what lives at once."""
    path = zoo(name)
    lowered = stepwell.lower(path, "affine")
    plan = memory_plan(lowered.module.operation)
    assert plan.lower_bound <= plan.workspace_bytes <= 1.15 * plan.lower_bound

    session = onnxruntime.InferenceSession(path)
    (image,) = session.get_inputs()
    model = stepwell.build(lowered)
    for seed in range(3):
        x = networks.image(seed)
        want = session.run(None, {image.name: x})[0]
        results = []
        for threads in (1, 2):
            model.threads = threads
            (got,) = model.run({image.name: x}).values()
            assert scaled_error(got, want) < TOLERANCE
            assert got.argmax() == want.argmax()
            results.append(got)
        np.testing.assert_array_equal(*results, err_msg="results depend on the number of threads")


@pytest.mark.zoo
@pytest.mark.parametrize("name", by_day(LIGHT, lambda name: name not in AT_NIGHT))
def test_light_model_gives_its_shipped_output(name):
    folder = Path(DATA_DIR) / "light"
    proto = onnx.load(folder / f"{name}.onnx")
    given = {i.name for i in proto.graph.initializer}
    inputs = {i.name: Runner.generate_dummy_data(i) for i in proto.graph.input if i.name not in given}
    got = stepwell.compile(proto).run(inputs)
    for index, array in enumerate(got.values()):
        want = numpy_helper.to_array(onnx.load_tensor(folder / f"{name}_output_{index}.pb"))
        np.testing.assert_allclose(array, want, rtol=1e-3, atol=1e-7)


def test_node_names_reach_every_level_and_the_machine_code(zoo):
    path = zoo("squeezenet")
    model = stepwell.compile(path, threads=1)
    names = [n.name or f"{n.op_type}_{i}" for i, n in enumerate(onnx.load(path).graph.node) if n.op_type == "Conv"]
    for level in ("graph", "graph-opt", "linalg", "scheduled", "affine", "llvm"):
        text = model.ir(level)
        assert all(f'"{name}"' in text for name in names), level
    text = model.ir("asm")
    assert sum(name in text for name in names) >= 0.8 * len(names)  # kernels shared by several nodes bear the first one's name
