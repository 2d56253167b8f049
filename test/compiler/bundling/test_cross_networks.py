"""Whole networks in bundles for other machines give the bits that this machine gives for the same schedules."""

from pathlib import Path

import crossing
import numpy as np
import onnx
import pytest
from bundle_models import Case
from covering import by_day
from small_networks import small_image, small_network

import networks

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
BY_DAY = {("squeezenet", "aarch64-neon"), ("mobilenetv2", "aarch64-neon"), ("digits", "riscv64-v"), ("squeezenet", "riscv64-v")}
EVERY = [
    *((name, "aarch64-neon") for name in (*networks.NETWORKS, "bert_layer")),
    *((name, target) for target in ("riscv64-v", "x86-64-v2", "x86-64-v3") for name in ("digits", "squeezenet")),
]  # fmt: skip


def case_of(name: str) -> Case:
    """A network with one set of inputs."""
    if name == "digits":
        image = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
        return Case(name, onnx.load(DIGITS), [{"image": image}], {"shapes": {"image": (1, 1, 8, 8)}})
    model = small_network(name)
    weights = {tensor.name for tensor in model.graph.initializer}
    return Case(name, model, [dict(data_of(value, name) for value in model.graph.input if value.name not in weights)])


def data_of(value: onnx.ValueInfoProto, name: str) -> tuple[str, np.ndarray]:
    """An input with its data."""
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    image = name in networks.NETWORKS
    return value.name, small_image(0) if image else np.random.default_rng(0).standard_normal(shape, np.float32)


@pytest.mark.zoo
@pytest.mark.parametrize(("name", "target"), by_day(EVERY, BY_DAY.__contains__))
def test_networks_on_another_machine(name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crossing.needed(target)
    monkeypatch.setenv("CFLAGS", crossing.FAST)
    case = case_of(name)
    got = crossing.outputs(crossing.program(crossing.made_bundle(case, target, tmp_path), case.name, target), target, case.feeds)
    crossing.assert_equal(got, crossing.expected(case, target))
    assert all(np.isfinite(array).all() and np.unique(array).size > 9 for array in got)
