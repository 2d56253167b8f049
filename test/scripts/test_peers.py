"""MNN and ncnn in the benchmark, with stand-ins in their environment, as the real one is hundreds of megabytes. All else is real."""

import json
import shutil
import sys
from pathlib import Path

import bench
import environment
import numpy as np
import onnx
import pytest
from forked_engines import fork_engines
from onnx import TensorProto, helper, numpy_helper

from benchmark.jobs import Contestant, Failure, Feed, Job
from benchmark.models import Network
from benchmark.peers import Converter
from benchmark.process import EngineProcess
from benchmark.results import Comparison
from benchmark.session import Protocol, Session

RANDOM = np.random.default_rng(23)
STAND_INS = Path(__file__).resolve().parents[1] / "support" / "peers"
QUICK = ["--no-starts", "--threads", "1", "--rounds", "2", "--runs", "3", "--repeats", "0", "--pause", "0", "--spin", "off", "--warm-up", "1"]
SHAPE = (1, 3, 9, 7)


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_engines(monkeypatch)


def write(folder: Path, name: str, *sizes: int | str, kind: int = TensorProto.FLOAT) -> Path:
    """A convolution and a product, with names of values that the prepared file has for others; the graph has the name of the file."""
    weights = {"w": RANDOM.standard_normal((2, 3, 3, 3)), "f": RANDOM.standard_normal((2, 5))}
    nodes = [
        helper.make_node("Cast", ["image"], ["out0"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["out0", "w"], ["in0"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["in0"], ["p"]),
        helper.make_node("Flatten", ["p"], ["flat"]),
        helper.make_node("MatMul", ["flat", "f"], ["scores"]),
    ]
    value = helper.make_tensor_value_info
    values = [value("image", kind, sizes or SHAPE)], [value("scores", TensorProto.FLOAT, [sizes[0] if sizes else 1, 5])]
    graph = helper.make_graph(nodes, name, *values, [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()])
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8), path)
    return path


@pytest.fixture
def packages(tmp_path, monkeypatch) -> Path:
    """A list of no packages in the place of peers.txt, and an environment that has the stand-ins once it is made."""
    made = tmp_path / "peers.txt"
    made.write_text("# none\n")

    def create(venv: Path) -> None:
        shutil.rmtree(venv, ignore_errors=True)
        interpreter = venv / "bin" / "python"
        interpreter.parent.mkdir(parents=True)
        interpreter.write_text(f'#!/bin/sh\nPYTHONPATH="{STAND_INS}" exec "{sys.executable}" "$@"\n')
        interpreter.chmod(0o755)

    monkeypatch.setattr(environment, "PEERS", tmp_path / "venv")
    monkeypatch.setattr(environment, "PEERS_PACKAGES", made)
    monkeypatch.setattr(environment, "create", create)
    return made


@pytest.fixture
def log(tmp_path, packages, monkeypatch) -> Path:
    """The stand-ins can be used; gives what they converted, line by line."""
    environment.make_peers()
    noted = tmp_path / "log"
    noted.touch()
    monkeypatch.setenv("STAND_IN_LOG", str(noted))
    return noted


def test_they_take_part_and_are_converted_once(tmp_path, log, capsys):
    table, model = tmp_path / "run.json", write(tmp_path, "right", "n", *SHAPE[1:])
    options = ["--zoo", str(tmp_path / "zoo"), "--shape", "image=1x3x9x7", "--json", str(table), *QUICK]
    for engines in ("mnn,ncnn", "stepwell,mnn,ncnn"):
        assert bench.main([str(model), "--engines", engines, *options]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "no part" not in shown, shown[shown.index("no part") :]
    assert "to mnn to ncnn to the best" in shown
    assert log.read_text().splitlines() == ["mnnconvert right of opset 13", "pnnx right inputshape=[1,3,9,7]f32 fp16=0"]
    record = json.loads(table.read_text())
    assert record["settings"]["versions"] | {"stepwell": ""} == {"stepwell": "", "mnn": "3.stand-in", "ncnn": "1.stand-in"}
    cells = {cell["engine"]: cell for cell in record["cells"]}
    assert set(cells) == {"stepwell", "mnn", "ncnn"}
    for cell in cells.values():
        assert [len(turn) for turn in cell["rounds"]] == [3, 3]
        assert cell["error"] < 1e-5
    assert cells["mnn"]["settings"] == {"numThread": "1", "precision": "high", "network": "f32", "idle workers": "sleep"}


@pytest.mark.nightly  # by day what cannot be converted
def test_one_that_fails_takes_no_part_and_the_run_goes_on(tmp_path, log, capsys):
    table = tmp_path / "run.json"
    models = [str(write(tmp_path, name, *SHAPE)) for name in ("refused", "dies", "off")]
    options = ["--engines", "stepwell,mnn,ncnn", "--zoo", str(tmp_path / "zoo"), "--json", str(table), *QUICK]
    assert bench.main([*models, *options]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    reasons = {
        "refused, mnn": "it cannot be converted: status 1, having said: an operator is unknown / the tool wrote no model",
        "refused, ncnn": "it cannot be converted: status 1, having said: layer Unknown not exists or registered / ncnn cannot load what pnnx wrote",
        "dies, mnn": "it cannot be converted: status -6", "dies, ncnn": "the process ended in 'outputs' with status -6",
        "off, mnn": "its outputs differ by 0.001 of their scale", "off, ncnn": "its outputs differ by 0.001 of their scale",
    }  # fmt: skip
    for which, reason in reasons.items():
        assert f"no part: {which}, 1 thread: {reason}" in shown
    assert "failed" not in shown
    for cell in json.loads(table.read_text())["cells"]:
        assert bool(cell["lack"]) == (cell["engine"] != "stepwell")
        assert bool(cell["rounds"]) == (cell["engine"] == "stepwell")
        assert cell["failure"] is None
        assert cell["stepwell_is_faster_by"] is None
    assert json.loads(table.read_text())["means"] == []


def test_what_is_kept_depends_on_model_and_shape(tmp_path, log):
    folder, model = tmp_path / "kept", write(tmp_path, "right", "n", *SHAPE[1:])
    shapes = {"image": SHAPE}
    first = Converter(folder).converted("mnn", Network("right", model, shapes))
    assert Converter(folder).converted("mnn", Network("another name", model, shapes)) == first
    others = [Converter(folder).converted("mnn", Network("right", model, {"image": (2, *SHAPE[1:])}))]
    others.append(Converter(folder).converted("ncnn", Network("right", model, shapes)))
    write(tmp_path, "right", "n", *SHAPE[1:])  # with other weights
    others.append(Converter(folder).converted("mnn", Network("right", model, shapes)))
    assert len({first, *others}) == 4
    assert set(folder.iterdir()) == {first, *others}
    assert {file.name for file in others[1].iterdir()} == {"about.json", "model.ncnn.bin", "model.ncnn.param"}
    assert len(log.read_text().splitlines()) == 4


def test_what_cannot_be_converted_is_tried_once_and_leaves_nothing(tmp_path, log):
    converter, network = Converter(tmp_path / "kept"), Network("refused", write(tmp_path, "refused"))
    for _ in range(2):
        with pytest.raises(Failure, match="an operator is unknown / the tool wrote no model"):
            converter.converted("mnn", network)
    assert len(log.read_text().splitlines()) == 1
    assert list(converter.folder.iterdir()) == []
    with pytest.raises(Failure, match="'image' has free dimensions: give its shape with --shape"):
        converter.converted("ncnn", Network("right", write(tmp_path, "right", "n", *SHAPE[1:])))
    with pytest.raises(Failure, match="'image' is of int32; expected inputs of float32 alone"):
        converter.converted("ncnn", Network("right", write(tmp_path, "right", kind=TensorProto.INT32)))


def test_mnn_gets_the_largest_tiles_that_are_exact_enough(tmp_path, log):
    converter = Converter(tmp_path / "kept")
    for name, level in (("right", 3), ("right with small tiles", 2)):
        made = converter.converted("mnn", Network(name, write(tmp_path, name)))
        assert json.loads((made / "about.json").read_text())["winograd"] == level


def test_int8_of_mnn_is_its_own(tmp_path, log):
    network = Network("right", tmp_path / "quantised.onnx", floats=write(tmp_path, "right"))
    converter = Converter(tmp_path / "kept")
    made = converter.converted("mnn", network)
    assert log.read_text().splitlines() == ["mnnconvert right of opset 13", "mnnquant with 4 samples of 4"]
    assert made != converter.converted("mnn", Network("right", network.floats))
    with EngineProcess(Job(Contestant("mnn"), str(made), 1, True)) as process:
        loaded = process.load()
    assert loaded.settings["network"] == "int8 by its own quantiser"
    assert loaded.inputs[0].shape == SHAPE
    with pytest.raises(Failure, match="ncnn takes part with networks of floats alone"):
        converter.converted("ncnn", network)


def test_only_ours_and_the_reference_fail_the_run():
    names = ("stepwell", "onnxruntime", "openvino", "mnn", "ncnn")
    network, contestants = Network("net", Path("net.onnx")), [Contestant(name) for name in names]
    session = Session(contestants, [1], Protocol())
    right, wrong = [[np.ones(4)]], [[np.zeros(4)]]
    feed: Feed = {"x": np.ones(4, np.float32)}

    def checked(**outputs: list[list[np.ndarray]]) -> Comparison:
        made = Comparison(["net"], contestants, [1])
        session._check(made, network, [feed], {(name, 1): outputs.get(name, right) for name in names})
        return made

    made = checked(openvino=wrong, mnn=wrong, ncnn=[[np.ones(3)]])
    assert made.failures() == []
    assert [line.split(": ")[0] for line in made.lacks()] == [f"net, {name}, 1 thread" for name in names[2:]]
    assert "shape (3,)" in made.lacks()[-1]
    made = checked(stepwell=wrong)
    assert (made.failures(), made.lacks()) == (["net, stepwell, 1 thread: its outputs differ by 1 of their scale"], [])
    assert [name for name in names if session._must_run(name)] == ["stepwell", "onnxruntime"]


def test_they_take_part_only_where_they_are_named(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(environment, "make_peers", lambda: made.append("made"))
    nowhere = str(tmp_path / "nowhere.onnx")
    assert bench.make_parser().parse_args(["--engines", "mnn, ncnn,mnn"]).engines == ["mnn", "ncnn"]
    for options, count in (([], 0), (["--engines", "stepwell"], 0), (["--engines", "stepwell,mnn"], 1)):
        assert bench.main([nowhere, *options]) == 1
        assert len(made) == count
    with pytest.raises(SystemExit):
        bench.main([nowhere, "--engines", "mnn,tvm"])


def test_their_environment_is_made_when_its_list_changes(tmp_path, packages, capfd):
    """By pip, of a list that has nothing or cannot be installed: nothing is fetched."""
    python = environment.make_peers()
    assert python == environment.PEERS / "bin" / "python"
    mark = environment.PEERS / "mark"
    mark.touch()
    assert environment.make_peers() == python
    assert mark.exists()
    packages.write_text(f"nothing @ file://{tmp_path}/nothing.whl\n")
    with pytest.raises(SystemExit, match=r"peers.txt cannot be installed.*Leave mnn and ncnn out"):
        environment.make_peers()
    assert not mark.exists()
    assert not (environment.PEERS / environment.PEERS_STAMP).exists()
    assert "nothing.whl" in capfd.readouterr().err


def test_the_list_names_versions():
    """Of everything, as what a package asks for is not installed."""
    lines = [line.partition("#")[0].strip() for line in environment.PEERS_PACKAGES.read_text().splitlines()]
    names = [line.partition("==")[0] for line in lines if line]
    assert all("==" in line for line in lines if line)
    assert set(names) == {"MNN", "ncnn", "pnnx", "numpy"}
