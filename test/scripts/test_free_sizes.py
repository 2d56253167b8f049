"""scripts/free_sizes.py compares code for all sizes with code made for each."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import free_sizes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import networks


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution, a mean, and a reshape of one image to a row."""
    weights = {"w": np.random.default_rng(0).standard_normal((16, 2, 3, 3), np.float32), "row": np.array([1, 16], np.int64)}
    ops = (("Conv", ["x", "w"], "c"), ("GlobalAveragePool", ["c"], "m"), ("Reshape", ["m", "row"], "y"))
    nodes = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in ops]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 2, 8, 6]), ("y", [1, 16])))
    graph = helper.make_graph(nodes, "tiny", [x], [y], [numpy_helper.from_array(array, name) for name, array in weights.items()])
    path = tmp_path_factory.mktemp("networks") / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_networks_of_any_size_have_usual_sizes() -> None:
    assert free_sizes.USUAL.keys() == networks.FREE.keys()


@pytest.mark.parametrize(
    ("name", "sizes"),
    [pytest.param("llama", "batch=2/sequence=3/past=5", marks=pytest.mark.nightly), ("translator", "batch=1/source_length=9/target_length=4")],
)
def test_networks_of_any_size(name: str, sizes: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Small ones here, by the names of all their free sizes."""
    made = networks.FREE[name]
    monkeypatch.setitem(networks.FREE, name, replace(made, build=partial(made.build, **made.small)))
    assert free_sizes.main([name, "--sizes", sizes, "--rounds", "2", "--cpu"]) == 0
    title, _, line = capsys.readouterr().out.splitlines()
    assert title == f"{name}, free any, 1 thread"
    assert line.split()[0] == sizes
    assert float(line.split()[-1]) < 1e-3


CASES = (("batch", "1,3", ("1x2x8x6", "3x2x8x6")), ("image", "9,5x7", ("1x2x9x9", "1x2x5x7")), ("both", "2x5x4", ("2x2x5x4",)))


@pytest.mark.parametrize(("free", "sizes", "shown"), CASES)
def test_a_line_for_each_size(free: str, sizes: str, shown: tuple[str, ...], network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert free_sizes.main([str(network), "--free", free, "--sizes", sizes, "--rounds", "2", "--cpu", "--fresh"]) == 0
    title, _, *lines, took = capsys.readouterr().out.splitlines()
    assert title == f"{network}, free {free}, 1 thread"
    assert re.fullmatch(r"compiling took [\d.]+ s for all sizes, [\d.]+ s for one \(median\): [\d.]+ times as long", took)
    assert tuple(line.split()[0] for line in lines) == shown
    assert all(float(line.split()[-1]) < 1e-3 for line in lines)


def test_sequences_of_any_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the network reshapes a sequence of its length, it reshapes one of each length."""
    shape = numpy_helper.from_array(np.array([1, 12, 2, 4], np.int64), "heads")
    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 8), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Reshape", ["p", "heads"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in (("x", [1, 12, 8]), ("y", [1, 12, 2, 4])))
    graph = helper.make_graph(nodes, "tiny", [x], [y], [shape, weights])
    path = tmp_path / "sequence.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    assert free_sizes.main([str(path), "--free", "sequence", "--sizes", "12,5,31", "--rounds", "2", "--cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["1x12x8", "1x5x8", "1x31x8"]


@pytest.mark.parametrize("name", sorted(free_sizes.OPERATORS))
def test_operators_by_themselves(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert free_sizes.main([name, "--free", "sequence", "--sizes", "3,20", "--rounds", "2", "--cpu"]) == 0
    width = {"layer_norm": 128, "matmul": 2048, "softmax": 128}[name]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == [f"1x3x{width}", f"1x20x{width}"]
