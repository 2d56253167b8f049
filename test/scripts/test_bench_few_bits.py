"""The benchmark with networks of fewer bits: the same file for all engines, made of the network of floats, which Stepwell runs beside it."""

import importlib.util
import json
from pathlib import Path

import bench
import numpy as np
import onnx
import pytest
from forked_engines import fork_engines
from onnx import TensorProto, helper, numpy_helper

import networks
from benchmark.models import TOLERANCE_OF_ROUNDED, find, find_weights
from benchmark.quantised import Weights
from benchmark.results import TOLERANCE

ENGINES = [name for name in ("stepwell", "onnxruntime", "openvino") if importlib.util.find_spec(name)]
FLOATS = "stepwell with floats"
QUICK = ["--rounds", "2", "--runs", "3", "--repeats", "0", "--pause", "0", "--spin", "off", "--warm-up", "1", "--no-starts", "--threads", "1"]
QUICK += ["--engines", ",".join(ENGINES)]


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_engines(monkeypatch)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """Convolution, ReLU, pooling, fully connected."""
    random = np.random.default_rng(7)
    weights = {"w": random.standard_normal((64, 32, 3, 3)) / 17, "m": random.standard_normal((64, 96)) / 8}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["l"], name="flatten"),
        helper.make_node("MatMul", ["l", "m"], ["y"], name="last"),
    ]
    x, y = (helper.make_tensor_value_info(*value) for value in (("x", TensorProto.FLOAT, [1, 32, 9, 7]), ("y", TensorProto.FLOAT, [1, 96])))
    stored = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    path = tmp_path_factory.mktemp("few-bits") / "plain.onnx"
    graph = helper.make_graph(nodes, "plain", [x], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def record_of(tmp_path: Path, *arguments: str) -> dict:
    """What a run writes, and the ops of the one network of fewer bits that it made."""
    table = tmp_path / "run.json"
    assert bench.main([*arguments, "--zoo", str(tmp_path / "zoo"), "--json", str(table), *QUICK]) == 0
    [made] = (tmp_path / "zoo").rglob("plain.onnx")
    return {**json.loads(table.read_text()), "nodes": [node.op_type for node in onnx.load(made).graph.node]}


def test_bytes_end_to_end(plain, tmp_path, capsys):
    record = record_of(tmp_path, str(plain), "--int8")
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= set(record["nodes"])
    cells = {cell["engine"]: cell for cell in record["cells"]}
    assert set(cells) == {*ENGINES, FLOATS}
    assert all([len(turn) for turn in cell["rounds"]] == [3, 3] for cell in cells.values())
    assert cells["stepwell"]["error"] < 0.02, "a step of the results is 1/255 of their range"
    assert cells[FLOATS]["error"] is None, "it computes something else"
    bytes_, floats = (cells[name]["memory"] for name in ("stepwell", FLOATS))
    assert floats["arena"] >= 4 * (64 * 32 * 9 + 64 * 96)
    part = record["parts_of_floats"]["plain"]["arena"]
    assert part == bytes_["arena"] / floats["arena"]
    assert 0.1 < part < 0.35, "of floats some filters are transformed, and larger"
    shown = " ".join(capsys.readouterr().out.split())
    assert "memory of stepwell: the arena of weights" in shown
    assert f"{part:.3f}" in shown


@pytest.mark.parametrize(("bits", "most"), [("int8", 0.5), ("int4", 0.4)])
def test_weights_of_few_bits_end_to_end(tmp_path, monkeypatch, bits, most):
    """`most` is what blocks of 32 rows leave, with a scale and a zero point each."""
    monkeypatch.setitem(networks.EXTRAS, "gemv", lambda seed: networks.gemv(seed, matrices=2, size=128))
    table = tmp_path / "run.json"
    assert bench.main(["gemv", "--weights", bits, "--zero-points", "--zoo", str(tmp_path), "--json", str(table), *QUICK]) == 0
    record = json.loads(table.read_text())
    [made] = [path for path in tmp_path.rglob("gemv.onnx") if path.parent.name.startswith(bits)]
    assert [node.op_type for node in onnx.load(made).graph.node] == ["MatMulNBits"] * 2
    assert made.parent.name.startswith(f"{bits}-block32-zero_points-accuracy0-")
    cells = {cell["engine"]: cell for cell in record["cells"]}
    assert set(cells) == {*ENGINES, FLOATS}
    assert cells["stepwell"]["rounds"]
    assert cells["stepwell"]["error"] < 1e-5
    assert cells[FLOATS]["memory"]["arena"] == 2 * 128 * 128 * 4
    assert 4 / 32 < record["parts_of_floats"]["gemv"]["arena"] < most


def test_halves_end_to_end(plain, tmp_path):
    """The file's weights are f16, what goes in and out is f32; Stepwell computes it in f32."""
    record = record_of(tmp_path, str(plain), "--precision", "f16")
    assert record["nodes"].count("Cast") >= 2
    [made] = (tmp_path / "zoo").rglob("plain.onnx")
    assert {tensor.data_type for tensor in onnx.load(made).graph.initializer} == {TensorProto.FLOAT16}
    cells = {cell["engine"]: cell for cell in record["cells"]}
    assert set(cells) == {*ENGINES, FLOATS}
    assert all([len(turn) for turn in cell["rounds"]] == [3, 3] for cell in cells.values())
    assert 0 < cells["stepwell"]["error"] < 2e-3
    assert cells[FLOATS]["error"] is None


def test_floats_in_bf16_end_to_end(plain, tmp_path):
    """The file is that of floats. Without instructions for bf16 only weights that few rows meet are stored in it: those of the last op."""
    table = tmp_path / "run.json"
    assert bench.main([str(plain), "--precision", "bf16", "--zoo", str(tmp_path / "zoo"), "--json", str(table), *QUICK]) == 0
    assert list((tmp_path / "zoo").rglob("plain.onnx")) == []
    cells = {cell["engine"]: cell for cell in json.loads(table.read_text())["cells"]}
    assert set(cells) == {*ENGINES, FLOATS}
    assert cells["stepwell"]["settings"]["precision"] == "bf16"
    assert "precision" not in cells[FLOATS]["settings"]
    assert 1e-4 < cells["stepwell"]["error"] < 2e-2
    if "openvino" in cells:
        assert cells["openvino"]["settings"]["INFERENCE_PRECISION_HINT"] == "bf16"


def test_the_file_says_how_exact_an_engine_must_be(plain, tmp_path):
    for accuracy, allowed in ((0, TOLERANCE), (4, TOLERANCE_OF_ROUNDED)):
        [network] = find_weights([str(plain)], Weights(4, 16, accuracy=accuracy), tmp_path)
        assert network.floats == plain
        assert network.tolerance == allowed
        [node] = [node for node in onnx.load(network.path).graph.node if node.op_type == "MatMulNBits"]
        given = {attribute.name: attribute.i for attribute in node.attribute}
        assert given == {"K": 64, "N": 96, "bits": 4, "block_size": 16, **({"accuracy_level": 4} if accuracy else {})}
    assert len(list(tmp_path.rglob("plain.onnx"))) == 2


def test_networks_of_floats_are_left_as_they_are(plain):
    [network] = find([str(plain)], Path())
    assert (network.path, network.floats, network.tolerance) == (plain, None, TOLERANCE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--int8", "--weights", "int4"], "--int8 compares networks of fewer bits: it takes none of --weights, --precision, --operators"),
        (["--weights", "int4", "--ablate"], "--weights compares networks of fewer bits: it takes none of --int8, --precision, --operators"),
        (["--int8", "--profile", "squeezenet"], "--int8 compares networks of fewer bits"),
        (["--weights", "int8", "--engines", "stepwell,mnn"], "--weights: mnn, ncnn take no networks with weights of few bits or of halves"),
        (["--precision", "f16", "--engines", "stepwell,ncnn"], "--precision: mnn, ncnn take no networks with weights of few bits or of halves"),
        (["--precision", "f32"], "argument --precision: invalid choice: 'f32'"),
        (["--weights", "int3"], "argument --weights: invalid choice: 'int3'"),
    ],
)
def test_what_does_not_go_together_is_refused(capsys, arguments, said):
    with pytest.raises(SystemExit) as exit_:
        bench.main(arguments)
    assert exit_.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
