"""The `stepwell` command: run, compile, inspect."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import DIGITS, Commands, process
from onnx import TensorProto, helper

import stepwell
from stepwell.cli.main import main as stepwell_command
from stepwell.dialects.core.weights import WeightTable
from stepwell.pipelines.routes import CPU_PATH

SHAPE = ("--shape", "image=1x1x8x8")


def save_model(path: Path, nodes: list[onnx.NodeProto], shapes: dict[str, list[Any]], weights: dict[str, np.ndarray] | None = None) -> Path:
    """A model from x to y."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items() if name != "y"],
        [value("y", TensorProto.FLOAT, shapes["y"])],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def conv(tmp_path: Path) -> Path:
    """A convolution and a ReLU: x[1,3,8,8] -> y[1,4,8,8]."""
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="the_conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], name="the_relu"),
    ]
    return save_model(tmp_path / "conv.onnx", nodes, {"x": [1, 3, 8, 8], "y": [1, 4, 8, 8]}, {"w": weight})


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What the digits give in one run, from the model to the result."""
    file = tmp_path_factory.mktemp("direct") / "direct.npz"
    assert stepwell_command(["run", str(DIGITS), *SHAPE, "--save", str(file)]) == 0
    return np.load(file)["probability"]


class TestRun:
    def test_outputs_checks_and_times(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        ended = commands.stepwell("run", conv, "--check", "onnxruntime", "--repeat", "3", "--threads", "1", "--save", tmp_path / "out.npz")
        assert (ended.status, ended.err) == (0, "")
        assert re.search(r"compiled in .*: graph .*, graph-opt .*, linalg .*, scheduled .*, affine .*, llvm .*, obj ", ended.out)
        assert re.search(r"\n\d+ distinct kernels?, weights .*, workspace ", ended.out)
        assert re.search(r"y +float32\[1x4x8x8\]", ended.out)
        assert re.search(r"\n3 runs: median .*, least .*, mean ", ended.out)
        assert re.search(r"against onnxruntime.*\n.*\ny .* ok", ended.out)
        assert np.load(tmp_path / "out.npz")["y"].shape == (1, 4, 8, 8)

    def test_against_the_reference(self, commands: Commands, conv: Path) -> None:
        ended = commands.stepwell("run", conv, "--check", "reference", "--input", "x=random:9")
        assert ended.status == 0
        assert re.search(r"against reference.*\n.*\ny .* ok", ended.out)

    def test_against_another_run(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        saved, other = tmp_path / "before.npz", tmp_path / "other.npz"
        assert commands.stepwell("run", conv, "--save", saved).status == 0
        ended = commands.stepwell("run", conv, "--disable", "simplify-algebra", "--check", saved)
        assert ended.status == 0
        assert re.search(r"against .*before\.npz.*\n.*\ny .* ok", ended.out)
        commands.stepwell("run", conv, "--input", "x=random:9", "--check", saved).refused(1, "1 of 1 outputs differ from", "y")
        np.savez(other, z=np.zeros(3))
        commands.stepwell("run", conv, "--check", other).refused(1, "expected outputs y, it has z")
        commands.stepwell("run", conv, "--check", tmp_path / "none.npz").refused(1, "there is no such file")

    def test_data_from_files_and_to_files(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        x = np.random.default_rng(2).standard_normal((1, 3, 8, 8)).astype(np.float32)
        np.save(tmp_path / "x.npy", x)
        assert commands.stepwell("run", conv, "--input", f"x={tmp_path / 'x.npy'}", "--save", tmp_path / "outputs").status == 0
        np.testing.assert_array_equal(np.load(tmp_path / "outputs" / "y.npy"), stepwell.compile(conv).run({"x": x})["y"])

    def test_free_dimensions_take_the_datas_or_the_given_shape(self, commands: Commands, tmp_path: Path) -> None:
        nodes = [helper.make_node("Relu", ["image"], ["r"]), helper.make_node("ReduceMax", ["r"], ["y"], axes=[2, 3], keepdims=0)]
        model = save_model(tmp_path / "maxima.onnx", nodes, {"image": ["n", 1, 8, 8], "y": ["n", 1]})
        np.save(tmp_path / "image.npy", np.random.default_rng(3).random((5, 1, 8, 8), np.float32))
        for arguments in (["--input", tmp_path / "image.npy"], ["--shape", "image=5x1x8x8"]):
            ended = commands.stepwell("run", model, *arguments)
            assert ended.status == 0, ended.err
            assert "float32[5x1]" in ended.out
        commands.stepwell("run", model).refused(2, "'image'", "free dimensions", "--shape image=1x1x8x8")

    def test_an_image(self, commands: Commands, tmp_path: Path) -> None:
        from PIL import Image

        Image.fromarray(np.random.default_rng(4).integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / "digit.png")
        assert commands.stepwell("run", DIGITS, "--input", f"image={tmp_path / 'digit.png'}", "--check", "onnxruntime").status == 0

    def test_what_watches_the_passes(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        ended = commands.stepwell("run", conv, "--print-ir-after-all", "--time-passes", "--dump-ir", tmp_path / "dump")
        assert ended.status == 0
        assert "IR Dump After fuse-operators (graph-opt)" in ended.err
        assert re.search(r"\d%  fuse-operators \(graph-opt\)\n", ended.err)
        files = sorted(path.name for path in (tmp_path / "dump").glob("*.mlir"))
        assert files[0] == "000_input.mlir"
        assert files[1].startswith("001_")
        assert any(re.fullmatch(r"\d{3}_outline-kernels\.mlir", name) for name in files)
        assert "the_conv" in (tmp_path / "dump" / files[-1]).read_text()

    def test_passes_can_be_switched_off(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        ended = commands.stepwell("run", conv, "--disable", "simplify-algebra", "--time-passes", "--check", "reference")
        assert ended.status == 0
        assert "outline-kernels" in ended.err
        assert "simplify-algebra" not in ended.err

    def test_a_process_of_its_own_prints_no_control_codes(self, conv: Path) -> None:
        ended = process("main", "run", conv, is_fork=False)
        assert (ended.status, ended.err) == (0, "")
        assert "\x1b" not in ended.out


class TestLevels:
    @pytest.mark.parametrize("level", CPU_PATH)
    def test_going_on_from_a_level_gives_the_same_numbers(self, commands: Commands, direct: np.ndarray, tmp_path: Path, level: str) -> None:
        file = tmp_path / "digits.mlir"
        ended = commands.stepwell("compile", DIGITS, *SHAPE, "--emit", level, "-o", file)
        assert (ended.status, ended.out) == (0, "")
        assert f"{level} in " in ended.err
        assert file.with_suffix(".safetensors").exists()
        assert "conv1" in file.read_text()  # the ONNX nodes' names
        ended = commands.stepwell("run", "--from", level, file, "--check", f"onnxruntime:{DIGITS}", "--save", tmp_path / "from.npz")
        assert ended.status == 0, ended.err
        np.testing.assert_array_equal(np.load(tmp_path / "from.npz")["probability"], direct)

    def test_from_one_level_to_a_lower_one(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        commands.stepwell("compile", conv, "--emit", "graph-opt", "-o", tmp_path / "high.mlir")
        low = tmp_path / "low.mlir"
        assert commands.stepwell("compile", "--from", "graph-opt", tmp_path / "high.mlir", "--emit", "affine", "-o", low).status == 0
        text = low.read_text()
        assert "affine.for" in text or "affine.parallel" in text
        assert "graph." not in re.sub(r"stepwell\.\w+ = .*", "", text)
        assert dict(WeightTable.load(tmp_path / "low.safetensors"))
        refused = commands.stepwell("compile", "--from", "affine", tmp_path / "low.mlir", "--emit", "graph-opt")
        refused.refused(2, "--emit graph-opt lies above --from affine")

    def test_edited_ir_is_what_runs(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        file = tmp_path / "edited.mlir"
        commands.stepwell("compile", conv, "--emit", "graph", "-o", file)
        file.write_text(file.read_text().replace('"graph.relu"', '"graph.neg"'))
        ended = commands.stepwell("run", "--from", "graph", file, "--check", "reference", "--save", tmp_path / "out.npz")
        assert ended.status == 0  # as the edited IR means it
        assert np.load(tmp_path / "out.npz")["y"].min() < 0
        commands.stepwell("run", "--from", "graph", file, "--check", f"onnxruntime:{conv}").refused(1, "1 of 1 outputs differ", "y")

    def test_ir_to_standard_output(self, commands: Commands, conv: Path) -> None:
        ended = commands.stepwell("compile", conv, "--emit", "graph")
        assert '"graph.conv"' in ended.out
        assert "weights are written only with -o" in ended.err

    def test_llvm_ir_assembly_and_object(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        assert "define" in commands.stepwell("compile", conv, "--emit", "llvm-ir").out
        assert re.search(r"# node \d+: the_conv", commands.stepwell("compile", conv, "--emit", "asm").out)
        assert commands.stepwell("compile", conv, "--emit", "obj", "-o", tmp_path / "conv.o").status == 0
        assert (tmp_path / "conv.o").read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")
        commands.stepwell("compile", conv, "--emit", "obj").refused(2, "--emit obj needs -o FILE")


class TestInspect:
    def test_arithmetic_and_weights_by_hand(self, commands: Commands, conv: Path) -> None:
        ended = commands.stepwell("inspect", conv)
        assert (ended.status, ended.err) == (0, "")
        assert re.search(r"Conv +ai\.onnx +17 +1\n", ended.out)
        assert re.search(r"conv +f32 +1 +13\.8 kFLOP", ended.out)  # 2 * 4*8*8 outputs * 3*3*3 taps
        assert re.search(r"relu +f32 +1 +256 FLOP", ended.out)
        assert "weights: 432 B in 1 array, 108 elements" in ended.out
        assert re.search(r"input +x +tensor<1x3x8x8xf32>", ended.out)
        assert re.search(r"output +y +tensor<1x4x8x8xf32>", ended.out)

    def test_free_dimensions(self, commands: Commands) -> None:
        assert "of unknown sizes" in commands.stepwell("inspect", DIGITS).out
        ended = commands.stepwell("inspect", DIGITS, "--shape", "image=2x1x8x8")
        assert "unknown sizes" not in ended.out
        assert "tensor<2x1x8x8xf32>" in ended.out

    def test_the_plan_of_memory(self, commands: Commands, conv: Path) -> None:
        ended = commands.stepwell("inspect", conv, "--memory", "--target", "x86-64-v3")
        assert (ended.status, ended.err) == (0, "")
        assert re.search(r"\n *0 +768 +0 +1x3x8x8xf32 +input 'x'", ended.out)
        assert re.search(r" 1024 +\d+ +1x1x4x8x8xf32 .* the_relu +output 'y'", ended.out)
        held = [tuple(map(int, row)) for row in re.findall(r"\n *\d+ +(\d+) +(\d+) +[\d–]+ ", ended.out)]
        workspace, ratio, live = re.search(r"workspace: (\d+) bytes, ([\d.]+) times the (\d+) that live", ended.out).groups()
        assert max(offset + size for offset, size in held) <= int(workspace)
        assert float(ratio) == round(int(workspace) / int(live), 3)
        assert "inputs: 768 B in the caller's arrays" in ended.out
        assert "█" in ended.out
        assert re.search(r"\n +offset +bytes +launches +type ", ended.out)
        assert re.search(r"workspace over \d+ launches .* launches to the right\n", ended.out)
        assert re.search(r" that live at the busiest launch \(launch \d+, \w+\)\n", ended.out)

    def test_the_plan_takes_shapes_and_a_target(self, commands: Commands) -> None:
        assert "inputs: 512 B" in commands.stepwell("inspect", DIGITS, "--memory", "--shape", "image=2x1x8x8").out
        commands.stepwell("inspect", DIGITS, "--memory").refused(1, "image", "free dimensions")
        commands.stepwell("inspect", DIGITS, "--target", "x86-64-v3").refused(2, "--memory")
        commands.stepwell("inspect", DIGITS, "--memory", "--shape", "image=2x1x8x8", "--target", "abacus").refused(2, "unknown target 'abacus'")

    def test_every_unsupported_node_is_listed(self, commands: Commands, tmp_path: Path) -> None:
        names = [f"size_{i}" for i in range(45)]
        nodes = [helper.make_node("Relu", ["x"], ["y"], name="fine")]
        nodes += [helper.make_node("Cast", ["x"], ["text"], to=TensorProto.STRING)]
        nodes += [helper.make_node("Size", ["text"], [name], name=name) for name in names]
        ended = commands.stepwell("inspect", save_model(tmp_path / "strings.onnx", nodes, {"x": [2], "y": [2]}))
        assert ended.status == 1
        assert "not supported (45):" in ended.out
        for name in names:
            assert f'Size "{name}" (opset 17)' in ended.out
        assert re.search(r"Size +ai\.onnx +17 +45\n", ended.out)
        run = commands.stepwell("run", tmp_path / "strings.onnx")
        run.refused(1, "SW002", "45 parts of the model")


class TestErrors:
    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["walk"],
            ["run"],
            ["run", "MODEL", "--threads", "0"],
            ["run", "MODEL", "--repeat", "some"],
            ["run", "MODEL", "--check", "eyes"],
            ["run", "MODEL", "--shape", "x=1xbx3"],
            ["run", "MODEL", "--size-hint", "n=0"],
            ["run", "MODEL", "--size-hint", "n"],
            ["run", "MODEL", "--size-hint", "n=3", "--size-hint", "n=4"],
            ["run", "MODEL", "--shape", "1x3x8x8"],
            ["run", "MODEL", "--shape", "x=1", "--shape", "x=1"],
            ["run", "MODEL", "--input", "nobody=random"],
            ["run", "MODEL", "--weights", "w.safetensors"],
            ["run", "--from", "cellar", "MODEL"],
            ["run", "MODEL", "--disable", "gravity"],
            ["run", "ir.mlir"],
            ["run", "--from", "graph", "ir.mlir", "--shape", "x=1x3x8x8"],
            ["run", "--from", "affine", "ir.mlir", "--check", "reference"],
            ["run", "--from", "affine", "ir.mlir", "--check", "levels"],
            ["run", "MODEL", "--check", "levels:MODEL"],
            ["run", "--from", "graph", "ir.mlir", "--check", "onnxruntime"],
            ["compile", "MODEL"],
            ["compile", "MODEL", "--emit", "cellar"],
            ["inspect", "MODEL", "--emit", "graph"],
        ],
    )
    def test_usage_is_2(self, commands: Commands, conv: Path, arguments: list[str]) -> None:
        commands.stepwell(*(str(conv) if a == "MODEL" else a for a in arguments)).refused(2)

    @pytest.mark.parametrize(
        ("damage", "part"),
        [
            (lambda data: data[: len(data) // 2], "SW001"),
            (lambda data: b"", "empty"),
            (lambda data: json.dumps({"not": "onnx"}).encode(), "SW001"),
            (lambda data: bytes(256), "SW001"),
        ],
    )
    @pytest.mark.parametrize("command", ["run", "inspect"])
    def test_damaged_models_are_1(self, commands: Commands, conv: Path, command: str, damage: Callable[[bytes], bytes], part: str) -> None:
        conv.write_bytes(damage(conv.read_bytes()))
        commands.stepwell(command, conv).refused(1, part)

    def test_data_that_does_not_fit_is_1(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        for array in (np.zeros((1, 8, 8, 3), np.float32), np.zeros((1, 3, 8, 8), np.float64)):
            np.save(tmp_path / "x.npy", array)
            commands.stepwell("run", conv, "--input", f"x={tmp_path / 'x.npy'}").refused(1, "SW003", "'x'", "float32[1x3x8x8]")
        commands.stepwell("run", conv, "--shape", "x=1x3x9x9").refused(1, "SW003", "'x'")
        commands.stepwell("run", conv, "--shape", "z=1x3x8x8").refused(1, "SW003", "'z'")

    def test_missing_files_are_1(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        commands.stepwell("run", "nowhere.onnx").refused(1, "nowhere.onnx")
        commands.stepwell("compile", conv, "--emit", "graph", "-o", tmp_path / "no" / "x.mlir").refused(1, "folder does not exist")
        commands.stepwell("run", conv, "--save", tmp_path / "no" / "x.npz").refused(1, "folder does not exist")

    def test_ir_without_its_weights_is_1(self, commands: Commands, conv: Path, tmp_path: Path) -> None:
        file = tmp_path / "x.mlir"
        commands.stepwell("compile", conv, "--emit", "linalg", "-o", file)
        file.with_suffix(".safetensors").rename(tmp_path / "elsewhere.safetensors")
        commands.stepwell("run", "--from", "linalg", file).refused(1, "SW001", "x.safetensors", "1 of the weights")
        assert commands.stepwell("run", "--from", "linalg", file, "--weights", tmp_path / "elsewhere.safetensors").status == 0
        WeightTable({"other": np.ones(3, np.float32)}).save(tmp_path / "wrong.safetensors")
        commands.stepwell("run", "--from", "linalg", file, "--weights", tmp_path / "wrong.safetensors").refused(1, "wrong.safetensors lacks")

    def test_ir_that_makes_no_sense_is_1(self, commands: Commands, tmp_path: Path) -> None:
        file = tmp_path / "x.mlir"
        for text in ("nonsense", "func.func private @other()", 'func.func @main() { "graph.relu"() : () -> ()\n return }'):
            file.write_text(text)
            ended = commands.stepwell("compile", "--from", "graph", file, "--emit", "llvm")
            assert ended.status == 1
            assert "Traceback" not in ended.err
            assert ended.err.startswith("stepwell compile: error: SW00")

    def test_our_own_mistakes_are_one_line_too(self, commands: Commands, conv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ours: dict[str, Any] = {"__name__": "stepwell.cli.inputs"}
        exec("def broken(*_, **__):\n    raise KeyError('axis')\n", ours)
        monkeypatch.setattr("stepwell.cli.execute.gather", ours["broken"])
        commands.stepwell("run", conv).refused(1, "internal error: KeyError: 'axis'", "STEPWELL_TRACEBACK=1")
        assert "Traceback" in commands.stepwell("run", conv, "--traceback").err
        monkeypatch.setenv("STEPWELL_TRACEBACK", "1")
        assert "Traceback" in commands.stepwell("run", conv).err

        def callers(*_: object, **__: object) -> None:  # a plugin's, or a script's: its file and line are named
            raise KeyError("axis")

        monkeypatch.delenv("STEPWELL_TRACEBACK")
        monkeypatch.setattr("stepwell.cli.execute.gather", callers)
        commands.stepwell("run", conv).refused(1, f"error: KeyError: 'axis' ({__file__}, line ")
