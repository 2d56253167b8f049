"""Backends: chosen by name, part of the key, each with its own pipeline, code and loader; what is said of a model's inputs is the same for all."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_server import started
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.backends.base import Backend
from stepwell.backends.registry import find_backend, register_backend
from stepwell.cli.main import main as command
from stepwell.dialects.core.mlir import ops_below
from stepwell.dialects.support.errors import IndexRangeError, InputError, PipelineError
from stepwell.options import CompileOptions
from stepwell.passes.framework import levels, registry
from stepwell.passes.framework.levels import LevelPath
from stepwell.passes.framework.registry import Pass, register_pass
from stepwell.pipelines import routes
from stepwell.plugin_files import load_file

PLUGIN = Path(__file__).resolve().parents[3] / "examples" / "plugins" / "numpy_backend.py"
RANDOM = np.random.default_rng(5)
X, W = RANDOM.standard_normal((2, 3, 9, 9), np.float32), RANDOM.standard_normal((8, 3, 3, 3), np.float32)


def network() -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["y"], name="pool", kernel_shape=[3, 3], strides=[3, 3]),
    ]
    sides = [value("x", TensorProto.FLOAT, ["n", 3, 9, 9])], [value("y", TensorProto.FLOAT, ["n", 8, 3, 3])]
    graph = helper.make_graph(nodes, "net", *sides, [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def product() -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    sides = [value("x", TensorProto.FLOAT, ["n", 64])], [value("y", TensorProto.FLOAT, ["n", 64])]
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], "net", *sides, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def gather() -> onnx.ModelProto:
    """Rows of a table of unsigned numbers: indices are looked at when a run is over."""
    value = helper.make_tensor_value_info
    table = numpy_helper.from_array(np.arange(250, 256, dtype=np.uint8).reshape(3, 2), "table")
    sides = [value("i", TensorProto.INT64, [4])], [value("y", TensorProto.UINT8, [4, 2])]
    graph = helper.make_graph([helper.make_node("Gather", ["table", "i"], ["y"], name="rows")], "net", *sides, [table])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(autouse=True)
def numpy_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    find_backend("llvm")  # registers itself, for the tests to come too
    monkeypatch.setattr(routes, "_REGISTERED", dict(routes._REGISTERED))
    load_file(PLUGIN)
    if "numpy" not in routes._REGISTERED:  # the file was loaded by the test before
        [cls] = [cls for cls in Backend.__subclasses__() if cls.__name__ == "NumpyBackend"]
        register_backend("numpy")(cls)


def test_one_model_by_both() -> None:
    for target in ("host", "aarch64-neon"):
        model = stepwell.compile(network(), shapes={"x": X.shape}, backend="numpy", target=target)
        native = stepwell.compile(network(), shapes={"x": X.shape}, threads=1)
        want, got = native.run({"x": X})["y"], model.run({"x": X})["y"]
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
        assert model.memory.weights_bytes > 0
        assert "sched" in model.ir("scheduled")
        assert list(model.timings) == ["graph", "graph-opt", "linalg", "scheduled", "obj"]


def test_errors_are_the_same() -> None:
    said = []
    for backend in ("llvm", "numpy"):
        model, rows = stepwell.compile(network(), backend=backend), stepwell.compile(gather(), backend=backend)
        np.testing.assert_array_equal(rows.run({"i": np.array([2, -3, 0, 1])})["y"], [[254, 255], [250, 251], [250, 251], [252, 253]])
        messages = []
        for wrong in ({"x": X.astype(np.float64)}, {"x": X[:, :2]}, {}, {"x": X, "z": X}, {"x": X.tolist()}):
            with pytest.raises(InputError) as error:
                model.run(wrong)
            messages.append(str(error.value))
        with pytest.raises(InputError) as error:
            rows.run({"i": np.arange(4)}, out={"y": np.zeros((4, 2), np.int8)})
        with pytest.raises(IndexRangeError) as index:
            rows.run({"i": np.array([0, 1, 2, 3])})
        said.append([*messages, str(error.value), str(index.value)])
    assert said[0] == said[1]


def test_levels_and_pipeline_end_where_code_is_made() -> None:
    pipeline = stepwell.Pipeline.default(backend="numpy")
    assert [stage.name for stage in pipeline.stages] == ["graph-opt", "linalg", "scheduled"]
    assert stepwell.Pipeline.default().for_backend("numpy") == pipeline
    longer = stepwell.Pipeline.default().remove("pack-matmul")
    assert CompileOptions(backend="numpy", pipeline=longer).passes() == longer.for_backend("numpy")
    with pytest.raises(PipelineError, match=r"it goes through .*, linalg, scheduled, and backend 'llvm' through graph, .*, affine, llvm$"):
        CompileOptions(pipeline=pipeline).passes()
    with pytest.raises(PipelineError, match=r"expected stages .*, got 'llvm\(cse\)'; the stages are: graph-opt, linalg, scheduled$"):
        CompileOptions(backend="numpy", pipeline="llvm(cse)")
    with pytest.raises(InputError, match="backend 'numpy' has no level 'affine'; it goes through graph, graph-opt, linalg, scheduled"):
        stepwell.lower(network(), "affine", shapes={"x": X.shape}, backend="numpy")
    model = stepwell.compile(network(), shapes={"x": X.shape}, backend="numpy")
    with pytest.raises(InputError, match=r"unknown level 'asm'; known: graph, graph-opt, linalg, scheduled$"):
        model.ir("asm")
    lowered = stepwell.lower(network(), "affine", shapes={"x": X.shape})
    with pytest.raises(InputError, match="backend 'numpy' has no level 'affine'; it goes through graph"):
        stepwell.compile_ir(lowered.text(), "affine", lowered.weights, backend="numpy")


@pytest.mark.usefixtures("cache_folder")
def test_the_cache_tells_backends_apart() -> None:
    """In processes of their own, as a user runs them."""
    levels = [run_in_process(backend) for backend in ("numpy", "llvm", "numpy", "llvm")]
    assert [level.split()[0] for level in levels] == ["graph", "graph", "cache", "cache"]
    assert len({level.split()[1] for level in levels[::2]}) == 1


def run_in_process(backend: str) -> str:
    text = (
        "import sys, numpy as np, stepwell; from stepwell.plugin_files import load_file; load_file(sys.argv[1])\n"
        f"model = stepwell.compile(sys.stdin.buffer.read(), backend={backend!r}, shapes={{'x': (1, 3, 9, 9)}})\n"
        "print(list(model.timings)[0], model.run({'x': np.ones((1, 3, 9, 9), np.float32)})['y'].sum(), model.kernels)"
    )
    ended = subprocess.run(started([sys.executable, "-c", text, PLUGIN]), input=network().SerializeToString(), capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def test_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown backend 'cuda'; known: llvm, numpy"):
        stepwell.compile(network(), backend="cuda")
    assert command(["pipeline", "--backend", "cuda"]) == 2
    assert "--backend: unknown backend 'cuda'; known: llvm" in capsys.readouterr().err
    assert CompileOptions().key() != CompileOptions(backend="numpy").key()
    onnx.save(network(), tmp_path / "net.onnx")
    assert command(["compile", str(tmp_path / "net.onnx"), "--shape", "x=1x3x9x9", "--backend", "numpy", "--emit", "llvm-ir"]) == 2
    assert "--emit llvm-ir: backend numpy knows graph, graph-opt, linalg, scheduled\n" in capsys.readouterr().err


def test_the_command_runs_and_shows_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    plugin = ["--load", str(PLUGIN), "--backend", "numpy"]
    assert command(["run", str(tmp_path / "net.onnx"), "--shape", "x=2x3x9x9", *plugin, "--check", "onnxruntime"]) == 0
    assert " ok" in capsys.readouterr().out
    assert command(["pipeline", *plugin]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[1] == "levels: graph, graph-opt, linalg, scheduled"
    assert shown.startswith("backend: numpy, code from scheduled: numpy, op by op: slow and exact; from ")
    assert str(PLUGIN) in shown.splitlines()[0]
    assert "to scheduled" in shown
    assert "to affine" not in shown
    ir = tmp_path / "net.mlir"
    assert command(["compile", str(tmp_path / "net.onnx"), "--shape", "x=2x3x9x9", "--emit", "linalg", "-o", str(ir)]) == 0
    assert command(["run", str(ir), "--from", "linalg", *plugin, "--check", f"onnxruntime:{tmp_path / 'net.onnx'}"]) == 0


def test_passes_that_have_a_place_on_another_path_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PASSES", registry.passes())
    for name, after in (("there", "assign-schedules"), ("beside", "there"), ("here", "pack-weights")):
        register_pass(name, level="linalg", after=after)(type("Own", (Pass,), {"__qualname__": name}))
    register_backend("part")(Part)
    assert [name for name in ("there", "beside", "here") if name in stepwell.Pipeline.default().text] == ["there", "beside", "here"]
    assert [name for name in ("there", "beside", "here") if name in stepwell.Pipeline.default(backend="part").text] == ["here"]


def test_a_backend_must_lead_to_each_of_its_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_REGISTERED", dict(levels._REGISTERED))
    levels.register_level(levels.Level("own", outlined=True, arena=True))
    register_backend("own")(type("Own", (Backend,), {"path": LevelPath("graph", "graph-opt", "linalg", "own")}))
    text = "default pipeline: backend 'own' goes through graph, graph-opt, linalg, own, and there is no stage for own"
    with pytest.raises(PipelineError, match=text):
        stepwell.Pipeline.default(backend="own")


@pytest.mark.parametrize("backend", ["llvm", "part"])
def test_who_has_no_phase_of_layouts_sees_no_op_of_the_dialect_packed(backend: str) -> None:
    register_backend("part")(Part)
    for made in (network(), product()):
        lowered = stepwell.lower(made, "linalg", backend=backend, specialise="never")
        packed = [level for level, op in lowered.snapshots.items() if any(o.name.startswith("packed.") for o in ops_below(op))]
        assert packed == (["graph-opt"] if backend == "llvm" else [])


class Part(Backend):
    path = LevelPath("graph", "graph-opt", "linalg")

    def check_target(self, target: object) -> None:
        if target != "host":
            raise InputError(f"target '{target}': this backend makes code for the host")


def test_registering() -> None:
    with pytest.raises(InputError, match="backend 'llvm' is already there"):
        register_backend("llvm")(Part)
    register_backend("part")(Part)
    with pytest.raises(InputError, match="backend 'llvm' is already there"):
        register_backend("llvm")(Part)
    assert Part.name == "part", "a refusal renames nothing"
    with pytest.raises(InputError, match="backend 'part' is already there"):
        register_backend("part")(type("Other", (Part,), {}))
    assert Part.code_levels == ("linalg",)
    path = LevelPath("graph", "graph-opt", "linalg", "scheduled")
    for given in (("graph-opt", "scheduled"), ("scheduled", "linalg"), ("linalg",), ("asm",)):
        with pytest.raises(InputError, match=r"expected code_levels among .* with an arena \(linalg, scheduled\), down to the last, highest first"):
            register_backend("wrong")(type("Wrong", (Backend,), {"path": path, "code_levels": given}))
    with pytest.raises(InputError, match=r"expected code_levels among .* with an arena \(none\), down to the last, highest first; got graph-opt"):
        register_backend("wrong")(type("Wrong", (Backend,), {"path": LevelPath("graph", "graph-opt")}))
    for wrong in ({}, {"path": ("graph", "graph-opt", "linalg")}):
        with pytest.raises(InputError, match="backend 'wrong': expected a LevelPath as path, got "):
            register_backend("wrong")(type("Wrong", (Backend,), wrong))
    with pytest.raises(InputError, match="this backend makes code for the host"):
        CompileOptions(backend="part", target="x86-64-v2")
